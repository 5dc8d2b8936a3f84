use std::process::Command;

use serde_json::Value;

#[test]
fn the_demonstration_ends_by_itself_with_nothing_unexpected() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.json");
    let demo = Command::new(env!("CARGO_BIN_EXE_fleetbeat-drill"))
        .args([
            "demo",
            "--seconds",
            "1",
            "--agents",
            "4",
            "--simulated",
            "100",
            "--report",
        ])
        .arg(&report)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&demo.stdout);
    assert!(
        demo.status.success(),
        "{told}\n{}",
        String::from_utf8_lossy(&demo.stderr)
    );
    let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    assert_eq!(report["unexpected"], Value::Array(vec![]));
    assert_eq!(report["agents"]["connected"], 104);
    // Beats under way at the moment of an ending may be recorded or not.
    let beats = &report["beats"];
    assert!(
        beats["recorded"].as_u64() >= beats["sent"].as_u64(),
        "{beats}"
    );
    assert!(beats["sent"].as_u64() > Some(0), "{beats}");
    assert!(
        report["rows"]["sessions"].as_u64() > Some(104),
        "{}",
        report["rows"]
    );
}
