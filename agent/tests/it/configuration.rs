use std::fs;
use std::process::Output;

use crate::host::Host;

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_good_configuration_is_printed_and_nothing_is_started() {
    let host = Host::new();
    let file = host.file("agent.toml");
    fs::write(
        &file,
        "server = \"http://127.0.0.1:7601\"\ngroup = \"web\"\n",
    )
    .unwrap();
    let output = host.output(&["check-config", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("server http://127.0.0.1:7601"),
        "{printed}"
    );
    assert!(printed.contains("group web"), "{printed}");
    assert!(!host.state_dir().exists());
}

#[test]
fn a_wrong_configuration_ends_with_2_and_names_file_line_and_what_was_meant() {
    let host = Host::new();
    let file = host.file("agent.toml");
    fs::write(&file, "group = \"web\"\nservers = []\n").unwrap();
    for arguments in [&["check-config", "--config"][..], &["--config"][..]] {
        let mut arguments = arguments.to_vec();
        arguments.push(file.to_str().unwrap());
        let output = host.output(&arguments);
        assert_eq!(output.status.code(), Some(2));
        let message = stderr(&output);
        assert!(message.contains("agent.toml:2"), "{message}");
        assert!(message.contains("`server`"), "{message}");
    }
}

/// Unit files write "not set" like that.
#[test]
fn a_variable_that_is_empty_counts_as_not_set() {
    let host = Host::new();
    let file = host.file("agent.toml");
    fs::write(
        &file,
        "server = \"http://127.0.0.1:7601\"\nname = \"web-01\"\ngroup = \"web\"\n",
    )
    .unwrap();
    let check = |arguments: &[&str]| {
        let mut command = host.command(arguments);
        for name in [
            "CONFIG",
            "SERVER",
            "NAME",
            "GROUP",
            "LABELS",
            "STATE_DIR",
            "CA",
            "ALLOW_PLAINTEXT",
            "PROXY",
            "KEEPALIVE",
            "LOG_FORMAT",
            "LOG_LEVEL",
        ] {
            command.env(format!("FLEETBEAT_AGENT_{name}"), "");
        }
        command.output().unwrap()
    };
    let output = check(&["check-config", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("name web-01"), "{printed}");
    assert!(printed.contains("group web"), "{printed}");
    let output = check(&["check-config", "--server", "http://127.0.0.1:7601"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn wrong_usage_ends_with_2() {
    let host = Host::new();
    for arguments in [
        &["--no-such-flag"][..],
        &[],
        &["--server", "http://192.0.2.1:7601"],
        &["--server", "http://127.0.0.1:7601", "--name", ""],
    ] {
        assert_eq!(
            host.output(arguments).status.code(),
            Some(2),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_damaged_state_directory_ends_with_3_and_the_way_out() {
    let host = Host::new();
    fs::create_dir(host.state_dir()).unwrap();
    let identity = host.state_dir().join("identity.json");
    fs::write(&identity, "{\"format\":1").unwrap();
    let output = host.output(&["--server", "http://127.0.0.1:9"]);
    assert_eq!(output.status.code(), Some(3));
    let message = stderr(&output);
    assert!(message.contains(identity.to_str().unwrap()), "{message}");
    assert!(
        message.contains("delete it") && message.contains("new identity"),
        "{message}"
    );
    assert_eq!(fs::read_to_string(&identity).unwrap(), "{\"format\":1");
}
