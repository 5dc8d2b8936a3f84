//! The program as it is typed: what it prints where, and how it ends.

use assert_cmd::Command;

fn server(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fleetbeat-server"));
    command.env_clear().args(args);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn what_was_asked_for_is_on_standard_output_and_ends_well() {
    for (args, said) in [
        (
            &["check-config", "--config", "/dev/null"][..],
            "lane.listen = \"127.0.0.1:7601\"  # default",
        ),
        (&["example-config"], "#listen = \"127.0.0.1:7601\""),
        (&["--help"], "--lane-listen"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let output = server(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(
            text(&output.stdout).contains(said),
            "{args:?}: {}",
            text(&output.stdout)
        );
        assert_eq!(text(&output.stderr), "", "{args:?}");
    }
}

#[test]
fn wrong_usage_is_on_standard_error_and_ends_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.toml");
    std::fs::write(&file, "[lane]\nlisten = \"127.0.0.1:1\"\ncuont = 2\n").unwrap();
    let file = file.to_string_lossy();
    for (args, said) in [
        (
            &["--config", &file][..],
            "server.toml:3:1: unknown key `lane.cuont`; did you mean `lane.count`?",
        ),
        (
            &["--config", "/dev/null", "--lane-listen", "0.0.0.0:7601"],
            "without TLS",
        ),
        (&["--nonsense"], "--help"),
    ] {
        let output = server(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            text(&output.stderr).contains(said),
            "{args:?}: {}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stdout), "", "{args:?}");
    }
}

#[test]
fn start_that_fails_ends_with_1_and_says_why() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--config",
        "/dev/null",
        "--operator-listen",
        &taken,
        "--lane-listen",
        "127.0.0.1:0",
    ];
    let output = server(&args)
        .arg("--data-dir")
        .arg(dir.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!("error: listen for operators on {taken}")),
        "{said}"
    );
}
