use std::io::ErrorKind;
use std::net::TcpListener;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tonic::Status;
use tonic::transport::Identity;

use crate::fleet::{Fleet, State, TOKEN};
use crate::run::{Run, bare, fleetbeat, write};

/// Runs against a port that notices whether anybody came.
fn unanswered(args: &[&str]) -> Run {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let run = bare(
        args,
        &[
            ("FLEETBEAT_SERVER", url),
            ("FLEETBEAT_TOKEN", "t".to_owned()),
        ],
    );
    let came = listener.accept();
    assert_eq!(
        came.unwrap_err().kind(),
        ErrorKind::WouldBlock,
        "{args:?} contacted the server"
    );
    run
}

#[test]
fn what_is_out_of_bounds_is_refused_without_contacting_the_server() {
    let cases: [(&[&str], &str); 10] = [
        (
            &["-i", "0s"],
            "interval 0ns is too short, raise it to at least 200ms",
        ),
        (
            &["-i", "2h"],
            "interval 7200s is too long, lower it to at most 3600s",
        ),
        (
            &["-i", "1s", "-t", "2s"],
            "timeout 2s is longer than interval 1s",
        ),
        (
            &["-m", "0"],
            "misses 0 is too small, raise it to at least 1",
        ),
        (&["-m", "21"], "misses 21 is too large"),
        (&["-t", "100ms"], "timeout 100ms is too short"),
        (
            &["-m", "1", "-t", "500ms"],
            "timeout 500ms is too short when misses is 1",
        ),
        (&["-i", "20"], "like 500ms, 20s or 1m30s"),
        (&["-i", "soon"], "like 500ms, 20s or 1m30s"),
        (&["-i", "5s", "--wait", "2h"], "between 1s and 1h"),
    ];
    for (parts, reason) in cases {
        let args = [&["tune", "set", "-g", "edge", "-r", "why"], parts].concat();
        let run = unanswered(&args).must_exit(2);
        assert!(run.err.contains(reason), "{parts:?}: {run:?}");
        assert_eq!(run.out, "");
    }
}

#[test]
fn half_a_request_is_refused_without_contacting_the_server() {
    let cases: [&[&str]; 10] = [
        &["tune", "set", "-i", "5s", "-r", "why"],
        &[
            "tune", "set", "-g", "edge", "--fleet", "-i", "5s", "-r", "why",
        ],
        &["tune", "set", "-g", "edge", "-r", "why"],
        &["tune", "set", "-g", "edge", "-i", "5s"],
        &["tune", "set", "-g", "edge", "-i", "5s", "-r", " "],
        &["tune", "set", "-g", "", "-i", "5s", "-r", "why"],
        &["tune", "unset", "-r", "why"],
        &["events", "-n", "10001"],
        &["events", "--agent", "web-1", "--group", "edge"],
        &["agents", "list", "--verdict", "dead"],
    ];
    for args in cases {
        unanswered(args).must_exit(2);
    }
}

#[test]
fn plaintext_to_another_machine_is_refused() {
    let environment = [("FLEETBEAT_TOKEN", "t".to_owned())];
    let args = ["status", "--server", "http://192.0.2.1:7602"];
    let run = bare(&args, &environment).must_exit(2);
    assert!(run.err.contains("--allow-plaintext"), "{run:?}");
}

#[test]
fn without_a_server_it_says_where_it_looked() {
    let gone = {
        let fleet = Fleet::start(State::default());
        fleet.url()
    };
    let environment = [
        ("FLEETBEAT_TOKEN", "t".to_owned()),
        ("FLEETBEAT_SERVER", gone.clone()),
    ];
    let run = bare(&["status"], &environment).must_exit(3);
    assert!(
        run.err.contains(&gone) && run.err.contains("--server URL"),
        "{run:?}"
    );
}

#[test]
fn without_a_token_it_says_where_one_is() {
    let run = bare(&["status"], &[]).must_exit(4);
    assert!(run.err.contains("<data-dir>/operator.token"), "{run:?}");
}

#[test]
fn a_wrong_token_is_denied_with_the_way_to_a_right_one() {
    let fleet = Fleet::start(State::default());
    let run = fleetbeat(&fleet, &["status", "--token", "wrong"]).must_exit(4);
    assert!(
        run.err
            .starts_with("error: unknown token\n  next: pass --token-file"),
        "{run:?}"
    );
}

#[test]
fn an_error_of_the_server_has_its_exit_code() {
    let cases = [
        (Status::unavailable("Postgres cannot be reached"), 1),
        (Status::invalid_argument("reason is too long"), 1),
        (Status::internal("bug"), 1),
        (Status::permission_denied("viewers cannot tune"), 4),
    ];
    for (failure, exit) in cases {
        let message = failure.message().to_owned();
        let fleet = Fleet::start(State {
            failure: Some(failure),
            ..State::default()
        });
        let run = fleetbeat(&fleet, &["status"]).must_exit(exit);
        assert!(
            run.err.contains(&message) && run.err.contains("  next: "),
            "{run:?}"
        );
    }
}

#[test]
fn the_config_file_serves_where_nothing_else_is_said() {
    let fleet = Fleet::start(State::default());
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("fleetbeat");
    std::fs::create_dir(&directory).unwrap();
    write(&directory.join("operator.token"), &format!("{TOKEN}\n"));
    let text = format!(
        "server = \"{}\"\ntoken_file = \"operator.token\"\noutput = \"json\"\n",
        fleet.url()
    );
    write(&directory.join("config.toml"), &text);
    let xdg = home.path().to_str().unwrap().to_owned();
    let run = bare(&["status"], &[("XDG_CONFIG_HOME", xdg)]).must_exit(0);
    assert_eq!(run.json()["server"], fleet.url());
}

#[test]
fn a_wrong_key_in_the_config_file_is_shown_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = write(
        &directory.path().join("c.toml"),
        "output = \"json\"\ntokenfile = \"x\"\n",
    );
    let run = bare(&["status", "--config", &path], &[]).must_exit(2);
    assert!(
        run.err.contains("line 2") && run.err.contains("tokenfile"),
        "{run:?}"
    );
}

#[test]
fn a_named_config_file_must_exist() {
    let run = bare(&["status", "--config", "/nowhere/c.toml"], &[]).must_exit(2);
    assert!(run.err.contains("/nowhere/c.toml"), "{run:?}");
}

#[test]
fn https_trusts_the_named_authority_and_no_other() {
    let (authority, identity) = certificates();
    let fleet = Fleet::start_at(
        "127.0.0.1:0".parse().unwrap(),
        State::default(),
        Some(identity),
    );
    let url = format!("https://localhost:{}", fleet.address.port());
    let directory = tempfile::tempdir().unwrap();
    let right = write(&directory.path().join("right.pem"), &authority);
    let wrong = write(&directory.path().join("wrong.pem"), &certificates().0);
    let empty = write(&directory.path().join("empty.pem"), "");
    let with = |ca: &str| {
        let environment = [("FLEETBEAT_TOKEN", TOKEN.to_owned())];
        bare(&["status", "--server", &url, "--ca", ca], &environment)
    };
    with(&right).must_exit(0);
    let run = with(&wrong).must_exit(3);
    assert!(
        run.err.contains("certificate") && run.err.contains("--ca FILE"),
        "{run:?}"
    );
    with(&empty).must_exit(2);
}

#[test]
fn a_port_that_accepts_and_says_nothing_is_no_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let directory = tempfile::tempdir().unwrap();
    let ca = write(&directory.path().join("ca.pem"), &certificates().0);
    let environment = [("FLEETBEAT_TOKEN", TOKEN.to_owned())];
    let run = bare(&["status", "--server", &url, "--ca", &ca], &environment).must_exit(3);
    assert!(run.err.contains("no answer within 10s"), "{run:?}");
}

#[test]
fn http_and_https_mixed_up_are_told_apart() {
    let (authority, identity) = certificates();
    let any = || "127.0.0.1:0".parse().unwrap();
    let secure = Fleet::start_at(any(), State::default(), Some(identity));
    let plain = Fleet::start(State::default());
    let directory = tempfile::tempdir().unwrap();
    let ca = write(&directory.path().join("ca.pem"), &authority);
    let environment = [("FLEETBEAT_TOKEN", TOKEN.to_owned())];
    let status = |scheme: &str, fleet: &Fleet| {
        let url = format!("{scheme}://localhost:{}", fleet.address.port());
        let args = ["status", "--server", &url, "--ca", &ca];
        bare(&args, &environment).must_exit(3)
    };
    let run = status("http", &secure);
    assert!(run.err.contains("write https://"), "{run:?}");
    let run = status("https", &plain);
    assert!(
        run.err.contains("does not speak TLS: write http://"),
        "{run:?}"
    );
}

/// An authority, and a server named `localhost` for which it vouches.
fn certificates() -> (String, Identity) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    (
        authority.pem(),
        Identity::from_pem(certificate.pem(), key.serialize_pem()),
    )
}

#[test]
fn completions_are_there_without_a_server_or_a_token() {
    for shell in ["bash", "zsh", "fish"] {
        let run = bare(&["completions", shell], &[]).must_exit(0);
        assert!(
            run.out.contains("fleetbeat") && run.out.contains("rollback"),
            "{shell}"
        );
    }
}

#[test]
fn the_version_is_told() {
    let run = bare(&["--version"], &[]).must_exit(0);
    assert_eq!(
        run.out,
        concat!("fleetbeat ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn help_documents_the_exit_codes() {
    let run = bare(&["--help"], &[]).must_exit(0);
    assert!(run.out.contains("Exit codes:\n  0  done\n"), "{run:?}");
}
