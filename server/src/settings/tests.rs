//! Tables: what is typed, set and written, and what comes of it.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{Asked, LogFormat, Refusal, Settings, declaration, example, read};

struct Given<'a> {
    args: &'a [&'a str],
    env: &'a [(&'a str, &'a str)],
    file: Option<&'a str>,
}

impl Given<'_> {
    fn read(&self) -> Result<Asked, Refusal> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("server.toml");
        std::fs::write(&path, self.file.unwrap_or_default()).unwrap();
        let config = ["--config".to_owned(), path.to_string_lossy().into_owned()];
        let args = ["fleetbeat-server"]
            .iter()
            .chain(self.args)
            .map(OsString::from);
        let env = |name: &str| {
            self.env
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        };
        read(args.chain(config.map(OsString::from)), env)
    }

    fn run(&self) -> Settings {
        match self.read() {
            Ok(Asked::Run(settings)) => *settings,
            other => panic!("expected settings, got {other:?}"),
        }
    }

    fn print(&self) -> String {
        match self.read() {
            Ok(Asked::Print(text)) => text,
            other => panic!("expected a text, got {other:?}"),
        }
    }

    fn refusal(&self) -> String {
        match self.read() {
            Err(refusal) => {
                assert_eq!(refusal.status, 2, "{}", refusal.text);
                refusal.text
            }
            Ok(asked) => panic!("expected a refusal, got {asked:?}"),
        }
    }
}

fn file(text: &str) -> Given<'_> {
    Given {
        args: &[],
        env: &[],
        file: Some(text),
    }
}

fn args<'a>(args: &'a [&'a str]) -> Given<'a> {
    Given {
        args,
        env: &[],
        file: None,
    }
}

#[test]
fn declaration_is_consistent() {
    declaration::command().debug_assert();
    for setting in declaration::settings() {
        assert!(
            !setting.doc.is_empty(),
            "{} has no documentation",
            setting.key
        );
        assert!(
            setting.default.is_some() != setting.example.is_some(),
            "{} needs a default or else an example",
            setting.key
        );
    }
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let all = Given {
        args: &["--lane-listen", "127.0.0.1:1"],
        env: &[
            ("FLEETBEAT_LANE_LISTEN", "127.0.0.1:2"),
            ("FLEETBEAT_OPERATOR_LISTEN", "127.0.0.1:3"),
        ],
        file: Some(
            "drain_time = \"4s\"\nlane.listen = \"127.0.0.1:4\"\n[operator]\nlisten = \"127.0.0.1:5\"\n",
        ),
    };
    let settings = all.run();
    assert_eq!(settings.lane.listen.port(), 1);
    assert_eq!(settings.operator.listen.port(), 3);
    assert_eq!(settings.drain_time, Duration::from_secs(4));
    assert_eq!(settings.log.format, LogFormat::Text);
}

#[test]
fn empty_environment_variable_is_unset() {
    let empty = Given {
        args: &[],
        env: &[("FLEETBEAT_DATABASE_URL", "")],
        file: None,
    };
    assert!(empty.run().database.url.is_none());
}

#[test]
fn flags_may_stand_before_or_after_the_command() {
    for given in [
        args(&["--lane-count", "7", "check-config"]),
        args(&["check-config", "--lane-count", "7"]),
    ] {
        assert!(
            given.print().contains("lane.count = 7  # --lane-count"),
            "{}",
            given.print()
        );
    }
}

#[test]
fn wrong_keys_name_line_column_and_the_closest_key() {
    for (text, place, hint) in [
        (
            "[lane]\nlisten = \"127.0.0.1:1\"\n  lisen = 1\n",
            ":3:3:",
            "`lane.listen`",
        ),
        ("listen = \"127.0.0.1:1\"", ":1:1:", "listen`?"),
        ("[database]\n\nuri = \"x\"", ":3:1:", "`database.url`"),
        (
            "[lain]\nlisten = \"127.0.0.1:1\"",
            ":1:2:",
            "unknown key `lain`",
        ),
        ("data-dir = \"/x\"", ":1:1:", "`data_dir`"),
        ("zzzzzz = 1", ":1:1:", "example-config"),
    ] {
        let said = file(text).refusal();
        assert!(
            said.contains(place) && said.contains(hint),
            "{text}: {said}"
        );
    }
}

#[test]
fn all_wrong_keys_are_told_at_once() {
    let said = file("a = 1\nb = 2\n").refusal();
    assert!(
        said.contains(":1:1: unknown key `a`") && said.contains(":2:1: unknown key `b`"),
        "{said}"
    );
}

#[test]
fn wrong_values_name_where_they_came_from() {
    let env = Given {
        args: &[],
        env: &[("FLEETBEAT_LANE_COUNT", "many")],
        file: None,
    };
    let flag = args(&["--lane-count", "300"]);
    for (given, origin) in [
        (
            file("\n\nlane.count = 257\n"),
            "server.toml:3:6: wrong value `257` for `lane.count`",
        ),
        (
            file("[log]\nformat = \"xml\""),
            "server.toml:2:1: wrong value `xml` for `log.format`: expected text or json",
        ),
        (
            file("lane.listen = 7601"),
            ":1:6: wrong value `7601` for `lane.listen`: expected an IP address",
        ),
        (file("lane.listen = [1]"), ":1:6: `lane.listen` takes one"),
        (file("lane = 1"), ":1:1: `lane` is a table"),
        (file("drain_time = 1 1"), "server.toml:1:"),
        (
            env,
            "FLEETBEAT_LANE_COUNT: wrong value `many` for `lane.count`",
        ),
        (flag, "--lane-count: wrong value `300` for `lane.count`"),
        (args(&["--drain-time", "2h"]), "at most 1h"),
        (
            args(&["--log-filter", "a=b=c"]),
            "wrong value `a=b=c` for `log.filter`",
        ),
        (
            args(&["--otlp-endpoint", "collector:4317"]),
            "expected http://host:port",
        ),
        (
            args(&["--lane-count", "--config"]),
            "--lane-count: wrong value for `lane.count`: a value is required",
        ),
        (
            file("data_dir = ''"),
            "server.toml:1:1: wrong value for `data_dir`: a value is required",
        ),
        (args(&["--nonsense"]), "unexpected argument '--nonsense'"),
    ] {
        let said = given.refusal();
        assert!(said.contains(origin), "wanted {origin}, got {said}");
    }
}

#[test]
fn flag_hides_a_wrong_value_of_the_file() {
    let given = Given {
        args: &["--lane-count", "3"],
        env: &[],
        file: Some("lane.count = -1"),
    };
    assert_eq!(given.run().lane.count, 3);
}

#[test]
fn ports_beyond_loopback_are_refused_without_tls() {
    for address in ["0.0.0.0:7601", "[::]:7601", "10.0.0.1:7601"] {
        for flag in ["--lane-listen", "--operator-listen"] {
            let said = args(&[flag, address]).refusal();
            assert!(
                said.contains(flag) && said.contains("without TLS"),
                "{said}"
            );
            assert!(
                said.contains(".tls.cert") && said.contains("listen on 127.0.0.1:7601"),
                "{said}"
            );
        }
    }
    for address in [
        "127.0.0.1:7611",
        "127.8.0.1:7611",
        "[::1]:7611",
        "[::ffff:127.0.0.1]:7611",
    ] {
        args(&["--lane-listen", address]).run();
    }
}

#[test]
fn certificate_and_key_go_together_and_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(path("crt"), pair.cert.pem()).unwrap();
    std::fs::write(path("key"), pair.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("other"), other.signing_key.serialize_pem()).unwrap();
    std::fs::write(path("empty"), "").unwrap();
    let with = |cert: &str, key: &str| {
        let (cert, key) = (path(cert), path(key));
        let args = [
            "--lane-listen",
            "0.0.0.0:7601",
            "--lane-tls-cert",
            &cert,
            "--lane-tls-key",
            &key,
        ];
        Given {
            args: &args,
            env: &[],
            file: None,
        }
        .read()
        .map(|_| ())
        .map_err(|r| r.text)
    };
    assert_eq!(with("crt", "key"), Ok(()));
    for (cert, key, said) in [
        ("crt", "other", "do not work together"),
        ("crt", "empty", "cannot read a private key"),
        ("empty", "key", "holds no certificate"),
        ("absent", "key", "cannot read a certificate chain"),
    ] {
        let error = with(cert, key).unwrap_err();
        assert!(error.contains(said), "wanted {said}, got {error}");
    }
    let half = args(&["--operator-tls-key", "/k"]).refusal();
    assert!(half.contains("`operator.tls.cert` is missing"), "{half}");
}

#[test]
fn password_is_never_shown() {
    let url = "postgres://fleet:s3cr@t?@db:5432/beats?sslmode=require&password=s3cr";
    let report = Given {
        args: &["check-config"],
        env: &[("FLEETBEAT_DATABASE_URL", url)],
        file: None,
    };
    let text = report.print();
    assert!(!text.contains("s3cr"), "{text}");
    assert!(text.contains(
        "database.url = \"postgres://fleet:***@db:5432/beats\"  # FLEETBEAT_DATABASE_URL"
    ));
    let settings = Given {
        args: &[],
        env: &[("FLEETBEAT_DATABASE_URL", url)],
        file: None,
    }
    .run();
    assert!(!format!("{settings:?}").contains("s3cr"));
    assert_eq!(settings.database.url.unwrap().expose(), url);
    for wrong in [
        args(&["--database-url", "mysql://u:s3cr@h"]),
        file("database.url = \"s3cr\""),
    ] {
        let said = wrong.refusal();
        assert!(
            said.contains("`database.url`") && !said.contains("s3cr"),
            "{said}"
        );
    }
}

#[test]
fn missing_file_says_which() {
    let args = ["fleetbeat-server", "--config", "/nowhere/server.toml"].map(OsString::from);
    let said = read(args, |_| None).unwrap_err();
    assert!(
        said.text.contains("/nowhere/server.toml") && said.text.contains("--config"),
        "{}",
        said.text
    );
    assert_eq!(said.status, 2);
}

#[test]
fn help_shows_every_form_of_a_setting() {
    let help = args(&["--help"]).read().unwrap_err();
    assert_eq!(help.status, 0);
    for part in [
        "--lane-listen",
        "FLEETBEAT_LANE_LISTEN",
        "file: lane.listen",
        "Examples:",
        "127.0.0.1:7601",
    ] {
        assert!(
            help.text.contains(part),
            "{part} is missing in {}",
            help.text
        );
    }
}

#[test]
fn example_file_in_the_repository_is_what_the_program_prints() {
    let printed = args(&["example-config"]).print();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/fleetbeat-server.example.toml");
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        kept == printed,
        "write it anew: cargo run -p fleetbeat-server -- example-config > deploy/fleetbeat-server.example.toml"
    );
}

#[test]
fn example_file_is_valid_and_its_defaults_are_the_defaults() {
    let settings = declaration::settings();
    let text = example::render(&settings);
    let used: String = text
        .lines()
        .filter_map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => Some(format!("{rest}\n")),
            Some(_) => None,
            None => Some(format!("{line}\n")),
        })
        .filter(|line| !line.contains(".crt") && !line.contains(".key"))
        .collect();
    let from_file = file(&used).run();
    let bare = args(&[]).run();
    assert_eq!(from_file.lane.listen, bare.lane.listen);
    assert_eq!(from_file.log.filter, bare.log.filter);
    assert_eq!(from_file.drain_time, bare.drain_time);
    assert_eq!(from_file.name.as_deref(), Some("beat-1"));
}
