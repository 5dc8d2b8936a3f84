use fleetbeat_liveness::fence::Fence;
use fleetbeat_liveness::grounds::{Grounds, Heard, Silence, Trigger};
use fleetbeat_liveness::path::{Evidence, Kernel, Path};
use fleetbeat_liveness::rtt;

use crate::given::{millis, secs};

const FENCE: Fence = Fence {
    incarnation: 4,
    connection: 2,
};

fn silence() -> Silence {
    Silence {
        last: Heard::Ping(4_211),
        age: millis(62_004),
        missed: 3,
        owed: 4_215,
        beats: 4_211,
        rtt: rtt::Summary::default(),
        agent_lag: secs(0),
        agent_queue: 0,
        evidence: None,
    }
}

fn grounds(trigger: Trigger, silence: Option<Silence>) -> Grounds {
    Grounds {
        trigger,
        silence,
        lane_lag: millis(2),
        held: secs(0),
    }
}

/// Hard case A14, requirement S2.
#[test]
fn a_conviction_reads_as_a_sentence_with_everything_that_led_to_it() {
    let evidence = Evidence {
        kernel: Kernel {
            ack_age: secs(61),
            unacked: 1,
            retransmits: 6,
        },
        path: Path::Gone,
    };
    let silence = Silence {
        evidence: Some(evidence),
        ..silence()
    };
    let told = grounds(Trigger::Silent { limit: secs(62) }, Some(silence));
    assert_eq!(
        told.to_string(),
        "last message (PING 4211) 62.0 s before, deadline 62.0 s; 3 heartbeats expected, none \
         arrived; the kernel saw no acknowledgement for 61.0 s, so the path or the host is gone; \
         server lag 4 ms"
    );
}

/// Requirement S30: the agent's own lag, the server's, and what verdicts were held back for.
#[test]
fn lag_on_either_end_and_a_hold_are_part_of_the_sentence() {
    let mut told = grounds(
        Trigger::Silent { limit: secs(62) },
        Some(Silence {
            age: secs(90),
            missed: 1,
            agent_lag: millis(1_500),
            agent_queue: 3,
            ..silence()
        }),
    );
    told.held = secs(28);
    told.lane_lag = millis(180);
    assert_eq!(told.judged_late(), Some(secs(0)));
    assert_eq!(
        told.to_string(),
        "last message (PING 4211) 90.0 s before, deadline 62.0 s; 1 heartbeat expected, none arrived; \
         it had told a lag of 1.5 s itself; 3 messages waited inside it; the verdict was held back \
         for 28.0 s; server lag 180 ms"
    );
}

/// Requirements S3, S26.
#[test]
fn every_other_change_says_what_made_it() {
    let how = || "transport_error, the connection broke".to_owned();
    for (trigger, sentence) in [
        (
            Trigger::HeardAgain { after: secs(24) },
            "heard again: PING 4211 after 24.0 s of silence",
        ),
        (
            Trigger::Ended {
                fence: FENCE,
                how: how(),
            },
            "session 4.2 ended: transport_error, the connection broke; last message (PING 4211) \
             62.0 s before",
        ),
        (
            Trigger::NotBack {
                limit: secs(62),
                how: how(),
            },
            "did not come back; last message (PING 4211) 62.0 s before, deadline 62.0 s; 3 heartbeats \
             expected, none arrived; its session had ended: transport_error, the connection broke; \
             server lag 4 ms",
        ),
        (
            Trigger::ServerDeaf {
                stall: secs(20),
                how: how(),
            },
            "the server had been deaf for 20.0 s; transport_error, the connection broke; last message \
             (PING 4211) 62.0 s before",
        ),
        (
            Trigger::LaneDeaf { lane: 1 },
            "lane 1 of the server does not read its sockets; last message (PING 4211) 62.0 s before",
        ),
        (
            Trigger::Left {
                how: "an update".to_owned(),
                back_within: Some(secs(30)),
            },
            "said goodbye: an update, means to be back within 30.0 s",
        ),
        (
            Trigger::Overdue {
                how: "an update".to_owned(),
                within: secs(30),
            },
            "overdue: said goodbye (an update), meant to be back within 30.0 s, and is not",
        ),
        (
            Trigger::StayedAway {
                doubt: "nearly nobody was heard".to_owned(),
            },
            "did not come back although it had time to; before: nearly nobody was heard; \
             last message (PING 4211) 62.0 s before",
        ),
        (
            Trigger::Doubt {
                because: "nearly nobody is heard".to_owned(),
            },
            "nearly nobody is heard; last message (PING 4211) 62.0 s before",
        ),
    ] {
        let word = trigger.as_str();
        assert_eq!(
            grounds(trigger, Some(silence())).to_string(),
            sentence,
            "{word}"
        );
    }
    for (trigger, sentence) in [
        (Trigger::Opened { fence: FENCE }, "session 4.2 opened"),
        (
            Trigger::ServerAway,
            "the server was away and has not heard of it since",
        ),
        (
            Trigger::AwayTooLong,
            "did not come back after the server had been away",
        ),
    ] {
        assert_eq!(Grounds::bare(trigger).to_string(), sentence);
    }
}

#[test]
fn who_stays_away_is_told_to_have_outlasted_what_had_kept_the_verdict_back() {
    let doubt = |doubt: &str| Trigger::StayedAway {
        doubt: doubt.to_owned(),
    };
    let because = "was told to come back".to_owned();
    let sent_away = Trigger::Doubt { because };
    assert_eq!(sent_away.outlasted(), doubt("was told to come back"));
    let deaf = Trigger::ServerDeaf {
        stall: secs(35),
        how: String::new(),
    };
    assert_eq!(
        deaf.outlasted(),
        doubt("the server had been deaf for 35.0 s")
    );
    assert_eq!(Trigger::ServerAway.outlasted(), Trigger::AwayTooLong);
}
