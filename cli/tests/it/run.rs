//! Runs the binary away from the environment and the home of whoever runs the tests.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::fleet::{Fleet, TOKEN};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_fleetbeat");

/// What a run left behind.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) exit: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(
            self.out.lines().count(),
            1,
            "one object on one line: {self:?}"
        );
        serde_json::from_str(&self.out).unwrap()
    }

    pub(crate) fn must_exit(self, exit: i32) -> Self {
        assert_eq!(self.exit, exit, "{self:?}");
        self
    }
}

/// Runs with the address and the token of `fleet`.
pub(crate) fn fleetbeat<A: AsRef<OsStr>>(fleet: &Fleet, args: &[A]) -> Run {
    let environment = [
        ("FLEETBEAT_SERVER", fleet.url()),
        ("FLEETBEAT_TOKEN", TOKEN.to_owned()),
    ];
    bare(args, &environment)
}

/// Runs with nothing but `environment`.
pub(crate) fn bare<A: AsRef<OsStr>>(args: &[A], environment: &[(&str, String)]) -> Run {
    let output = assert_cmd::Command::new(BINARY)
        .args(args)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .timeout(Duration::from_mins(1))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Run {
        exit: output.status.code().expect("ended by itself"),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The command for tests that talk with it while it runs.
pub(crate) fn running(fleet: &Fleet, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(args)
        .env_clear()
        .env("FLEETBEAT_SERVER", fleet.url())
        .env("FLEETBEAT_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Keys of an object, sorted.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<_> = value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    keys.sort_unstable();
    keys
}

pub(crate) fn write(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}
