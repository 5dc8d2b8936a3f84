use fleetbeat_liveness::path::{Evidence, Kernel, Path};

use crate::given::{millis, secs};

/// Hard case A14: on one TCP connection an unanswered question proves nothing, its acknowledgement does.
#[test]
fn acknowledgements_tell_the_path_from_the_process() {
    for (name, ack_ms, unacked, retransmits, asked_ms, path) in [
        ("a stopped process", 39_990, 0, 0, Some(40_000), Path::Works),
        ("the clock's tick", 40_004, 0, 0, Some(40_000), Path::Works),
        ("a cut path", 61_800, 1, 6, Some(40_000), Path::Gone),
        (
            "a path cut on the way back",
            61_800,
            2,
            0,
            Some(40_000),
            Path::Gone,
        ),
        (
            "a proxy that took a part",
            10_000,
            1,
            0,
            Some(40_000),
            Path::Works,
        ),
        (
            "a PONG that nobody acknowledged",
            80_000,
            1,
            3,
            None,
            Path::Gone,
        ),
        ("a PONG under way", 80_000, 1, 0, None, Path::Untried),
        ("nothing under way", 61_000, 0, 0, None, Path::Untried),
        (
            "acknowledged before it was asked",
            61_000,
            0,
            0,
            Some(40_000),
            Path::Untried,
        ),
    ] {
        let kernel = Kernel {
            ack_age: millis(ack_ms),
            unacked,
            retransmits,
        };
        assert_eq!(kernel.path(asked_ms.map(millis)), path, "{name}");
    }
}

#[test]
fn evidence_is_a_clause_that_names_the_guilty() {
    let kernel = Kernel {
        ack_age: secs(61),
        unacked: 2,
        retransmits: 5,
    };
    let path = Path::Gone;
    assert_eq!(
        Evidence { kernel, path }.to_string(),
        "the kernel saw no acknowledgement for 61.0 s, so the path or the host is gone"
    );
    let path = Path::Works;
    assert!(
        Evidence { kernel, path }
            .to_string()
            .ends_with("the process is silent")
    );
}
