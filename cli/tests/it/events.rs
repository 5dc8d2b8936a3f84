use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use fleetbeat_proto::v1;

use crate::fleet::{AT, Fleet, State};
use crate::run::{fleetbeat, keys, running};

fn event(event_id: u64) -> v1::Event {
    v1::Event {
        event_id,
        at_unix_us: AT,
        agent_id: "0198".to_owned(),
        agent_name: "web-1".to_owned(),
        group: "edge".to_owned(),
        kind: "session_closed".to_owned(),
        session_id: Some("s".to_owned()),
        close_reason: v1::CloseReason::Goodbye.into(),
        detail: format!("event number {event_id}"),
        ..v1::Event::default()
    }
}

fn recorded(ids: std::ops::RangeInclusive<u64>) -> State {
    State {
        events: ids.map(event).collect(),
        ..State::default()
    }
}

#[test]
fn events_are_a_line_each() {
    let fleet = Fleet::start(recorded(1..=2));
    let run = fleetbeat(&fleet, &["events", "--agent", "web-1", "-n", "7"]).must_exit(0);
    let line = "2026-11-30 15:42:35.123Z  session_closed   web-1             edge          goodbye: \
                event number";
    assert_eq!(run.out, format!("{line} 1\n{line} 2\n"));
    let request = fleet.state().watches[0].clone();
    assert_eq!(
        (request.agent.as_str(), request.recent, request.follow),
        ("web-1", 7, false)
    );
}

#[test]
fn events_as_json_are_an_object_per_line() {
    let fleet = Fleet::start(recorded(1..=2));
    let run = fleetbeat(&fleet, &["events", "-o", "json"]).must_exit(0);
    let events: Vec<serde_json::Value> = run
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 2);
    assert_eq!(
        keys(&events[0]),
        [
            "agent_id",
            "agent_name",
            "at",
            "cause",
            "close_reason",
            "condition",
            "detail",
            "event_id",
            "grounds",
            "group",
            "kind",
            "revision",
            "session_id",
            "verdict",
        ]
    );
    assert_eq!(events[0]["close_reason"], "goodbye");
    assert_eq!(events[0]["at"], "2026-11-30T15:42:35.123456Z");
    assert!(events[0]["verdict"].is_null());
}

/// A child that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of a pipe as they come.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(1_000);
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn next(lines: &Receiver<String>) -> String {
    lines
        .recv_timeout(Duration::from_secs(30))
        .expect("a line in time")
}

#[test]
fn following_resumes_after_the_last_event_when_the_server_returns() {
    let fleet = Fleet::start(recorded(1..=2));
    let address = fleet.address;
    let mut child = Running(running(&fleet, &["events", "--follow"]).spawn().unwrap());
    let out = lines(child.0.stdout.take().unwrap());
    let err = lines(child.0.stderr.take().unwrap());
    assert!(next(&out).ends_with("event number 1"));
    assert!(next(&out).ends_with("event number 2"));

    drop(fleet);
    let lost = next(&err);
    assert!(
        lost.starts_with(&format!("lost the events of http://{address}: ")),
        "{lost}"
    );
    assert!(lost.ends_with("; waiting for it"), "{lost}");

    let fleet = Fleet::start_at(address, recorded(1..=3), None);
    assert!(next(&out).ends_with("event number 3"));
    assert_eq!(
        next(&err),
        format!("http://{address} is back, resuming after event 2")
    );
    assert_eq!(fleet.state().watches[0].after_event_id, Some(2));
}

#[test]
fn following_a_server_that_was_never_there_fails_at_once() {
    let gone = {
        let fleet = Fleet::start(State::default());
        fleet.url()
    };
    let environment = [
        ("FLEETBEAT_SERVER", gone),
        ("FLEETBEAT_TOKEN", "t".to_owned()),
    ];
    crate::run::bare(&["events", "--follow"], &environment).must_exit(3);
}

#[test]
fn following_ends_when_the_token_is_refused() {
    let fleet = Fleet::start(recorded(1..=1));
    let address = fleet.address;
    let mut child = Running(running(&fleet, &["events", "--follow"]).spawn().unwrap());
    let out = lines(child.0.stdout.take().unwrap());
    assert!(next(&out).ends_with("event number 1"));
    drop(fleet);
    let failure = Some(tonic::Status::permission_denied("the token was revoked"));
    let _refusing = Fleet::start_at(
        address,
        State {
            failure,
            ..State::default()
        },
        None,
    );
    assert_eq!(child.0.wait().unwrap().code(), Some(4));
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let fleet = Fleet::start(recorded(1..=10_000));
    let mut command = running(&fleet, &["events", "-n", "10000"]);
    let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut first = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    assert!(first.ends_with("event number 1\n"), "{first}");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let mut err = String::new();
    child
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(err, "");
}
