use std::process::Command;

use fleetbeat_drill::benchmark::Report;

const AGENTS: u64 = 200;

/// The accounts, and no time: how long it takes says as much about the machine.
#[test]
fn benchmark_of_a_retune_accounts_for_every_agent_and_loses_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let run = Command::new(env!("CARGO_BIN_EXE_fleetbeat-drill"))
        .args(["retune", "--agents", "200", "--processes", "2"])
        .args(["--calm", "2", "--report"])
        .arg(&file)
        .output()
        .unwrap();
    let (told, steps) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(run.status.success(), "{told}\n{steps}");
    let report: Report = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let accounts = report.rounds.iter().map(|round| {
        assert_eq!(
            round.acked + round.refused + round.lost,
            round.targets,
            "{round:?}"
        );
        (round.name.as_str(), round.targets, round.acked, round.lost)
    });
    assert_eq!(
        accounts.collect::<Vec<_>>(),
        [
            ("up", AGENTS, AGENTS, 0),
            ("down", AGENTS, AGENTS, 0),
            ("group", AGENTS / 10, AGENTS / 10, 0),
        ]
    );
    assert_eq!((report.sessions_lost, report.clients.endings), (0, 0));
    assert_eq!(
        (report.clients.sessions, report.clients.connections),
        (AGENTS, 4)
    );
    // The tuning of the Welcome, two rounds for everybody, and one for a tenth.
    assert_eq!(report.clients.acks, 3 * AGENTS + AGENTS / 10);
    for round in &report.rounds {
        assert_eq!(round.push.count, round.targets, "{round:?}");
        assert!(round.round_trips.before.count > 0, "{round:?}");
    }
    assert!(told.contains("0 sessions lost"), "{told}");
}
