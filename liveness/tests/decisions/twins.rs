use std::net::IpAddr;

use fleetbeat_liveness::fence::InstanceId;
use fleetbeat_liveness::twins::{REMAINS, Twins};

use crate::given::at;

const A: InstanceId = InstanceId([1; 16]);
const B: InstanceId = InstanceId([2; 16]);
const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

/// Hard case D1, field report C07: two copies of one state directory.
#[test]
fn an_instance_that_speaks_after_another_replaced_it_proves_two() {
    let mut twins = Twins::default();
    twins.seated(A, HERE, false, at(0));
    assert!(!twins.returns(A), "a reconnect");
    twins.seated(B, THERE, true, at(60));
    assert!(!twins.returns(B));
    assert!(twins.returns(A));
}

#[test]
fn a_process_that_is_restarted_for_ever_is_no_twin_and_costs_bounded_memory() {
    let mut twins = Twins::default();
    for run in 0..200_u8 {
        let instance = InstanceId([run; 16]);
        assert!(!twins.returns(instance));
        twins.seated(instance, HERE, run % 2 == 0, at(u64::from(run)));
        assert!(!twins.proved(at(u64::from(run))));
    }
    assert!(twins.returns(InstanceId([195; 16])));
    assert!(!twins.returns(InstanceId([0; 16])), "forgotten");
}

/// Hard case D1, the backstop: clones of a machine's memory share even the instance.
#[test]
fn one_instance_that_alternates_between_two_live_addresses_is_two() {
    let mut twins = Twins::default();
    twins.seated(A, HERE, false, at(0));
    for (minute, address, proved) in [(5, THERE, false), (10, HERE, false), (15, THERE, true)] {
        twins.seated(A, address, true, at(minute * 60));
        assert_eq!(twins.proved(at(minute * 60)), proved, "minute {minute}");
    }
    assert!(twins.proved(at(15 * 60) + REMAINS / 2));
    assert!(!twins.proved(at(15 * 60) + REMAINS));
}

/// Field report A27: a host that moves is one host.
#[test]
fn a_host_that_moves_between_networks_is_no_twin() {
    let mut twins = Twins::default();
    twins.seated(A, HERE, false, at(0));
    for (place, address) in [THERE, ELSEWHERE, HERE, THERE, ELSEWHERE]
        .iter()
        .enumerate()
    {
        twins.seated(A, *address, true, at(place as u64 * 60));
    }
    for turn in 0..20 {
        let address = if turn % 2 == 0 { HERE } else { THERE };
        twins.seated(A, address, false, at(600 + turn));
        twins.seated(A, address, true, at(600 + turn));
    }
    for turn in 0..20 {
        let address = if turn % 2 == 0 { HERE } else { THERE };
        twins.seated(A, address, true, at(10_000 + turn * 1_000));
    }
    assert!(!twins.proved(at(30_000)));
}
