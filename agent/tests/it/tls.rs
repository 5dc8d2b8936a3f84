use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Identity, ServerTlsConfig};

use crate::fake::{Fake, revised};
use crate::faketime::Wall;
use crate::host::Host;

pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub(crate) fn identity(authority: &CertifiedIssuer<'static, KeyPair>) -> ServerTlsConfig {
    valid(authority, 1975, 4096)
}

/// Valid from and until the first day of these years.
fn valid(authority: &CertifiedIssuer<'static, KeyPair>, from: i32, until: i32) -> ServerTlsConfig {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let certificate = params.signed_by(&key, authority).unwrap();
    let identity = Identity::from_pem(certificate.pem(), key.serialize_pem());
    ServerTlsConfig::new().identity(identity)
}

/// Field report F03.
#[tokio::test]
async fn the_authorities_are_read_again_at_every_connection() {
    let (right, wrong) = (authority(), authority());
    let mut fake = Fake::start_tls(identity(&right)).await;
    let host = Host::new();
    let ca = host.file("ca.pem");
    std::fs::write(&ca, wrong.pem()).unwrap();
    let url = format!("https://localhost:{}", fake.address.port());
    let agent = host.run_with(&url, Some(&ca));
    std::fs::write(&ca, right.pem()).unwrap();
    let (mut peer, _) = fake.welcome(revised(0, 5_000, 3, 1_000)).await;
    peer.ping().await;
    agent.stop().await;
}

/// Field report B14.
#[tokio::test]
async fn a_certificate_out_of_its_dates_names_both_times() {
    let right = authority();
    let host = Host::new();
    let ca = host.file("ca.pem");
    std::fs::write(&ca, right.pem()).unwrap();
    for (from, until, named) in [(2090, 2100, "2090-01-01T"), (2001, 2002, "2002-01-01T")] {
        let fake = Fake::start_tls(valid(&right, from, until)).await;
        let url = format!("https://localhost:{}", fake.address.port());
        let agent = host.spawn_logged(&["--server", &url, "--ca", ca.to_str().unwrap()], &[]);
        let line = agent.says("No session", Duration::from_secs(10)).await;
        assert!(line.contains("the clock of this host says 20"), "{line}");
        assert!(line.contains(named), "{line}");
    }
}

/// Field report B14: the clock of a host is days behind and set right later, without a restart.
#[tokio::test]
async fn an_agent_whose_clock_is_behind_the_certificate_recovers_when_it_is_set_right() {
    let host = Host::new();
    let Some(wall) = Wall::at(host.file("wall"), "-20y") else {
        return;
    };
    let right = authority();
    let mut fake = Fake::start_tls(valid(&right, 2020, 4096)).await;
    let ca = host.file("ca.pem");
    std::fs::write(&ca, right.pem()).unwrap();
    let url = format!("https://localhost:{}", fake.address.port());
    let mut command = host.command(&["--server", &url, "--ca", ca.to_str().unwrap()]);
    wall.put_on(&mut command);
    let agent = host.logged(command);
    let line = agent.says("No session", Duration::from_secs(10)).await;
    assert!(line.contains("most likely the clock"), "{line}");
    wall.shift("+0");
    let (mut peer, _) = fake.welcome(revised(0, 5_000, 3, 1_000)).await;
    peer.ping().await;
}
