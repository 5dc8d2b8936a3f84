//! A host with an agent on it: its state directory, and the agent as a task or as a real process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use fleetbeat_agent::Vitals;
use fleetbeat_agent::config::{self, Options};
use fleetbeat_agent::state::State;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::{soon, within};

pub(crate) struct Host {
    dir: TempDir,
}

/// The agent as a task of the test.
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    task: JoinSet<()>,
}

/// The agent as a process; killed when dropped.
pub(crate) struct Process(Child);

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read_state(&self, name: &str) -> String {
        std::fs::read_to_string(self.state_dir().join(name)).unwrap()
    }

    pub(crate) fn run(&self, url: &str) -> Running {
        self.run_with(url, None)
    }

    pub(crate) fn run_with(&self, url: &str, ca: Option<&Path>) -> Running {
        let options = Options {
            server: vec![url.to_owned()],
            name: Some("web-01".to_owned()),
            group: Some("web".to_owned()),
            label: vec!["zone=a".to_owned()],
            state_dir: Some(self.state_dir()),
            ca: ca.map(Path::to_owned),
            ..Options::default()
        };
        let settings = config::load(options).unwrap();
        let state = State::open(&settings.state_dir).unwrap();
        let (stop, stopped) = watch::channel(false);
        let mut task = JoinSet::new();
        task.spawn(fleetbeat_agent::run(
            settings,
            state,
            Vitals::default(),
            stopped,
        ));
        Running { stop, task }
    }

    /// A real process with `arguments` after the state directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fleetbeat-agent"));
        command
            .env_clear()
            .arg("--state-dir")
            .arg(self.state_dir())
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(arguments);
        Process(
            command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }

    /// Runs a process that is expected to end by itself.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }
}

/// A process whose log can be read.
pub(crate) struct Logged {
    log: PathBuf,
    _process: Process,
}

impl Host {
    /// A process with these variables beside its arguments; its log is kept.
    pub(crate) fn spawn_logged(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Logged {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        self.logged(command)
    }

    /// Starts `command` with its log kept.
    pub(crate) fn logged(&self, mut command: Command) -> Logged {
        let log = self.file("log");
        command
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap());
        let process = Process(command.spawn().unwrap());
        Logged {
            log,
            _process: process,
        }
    }
}

impl Logged {
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for a line with `text`, and returns it.
    pub(crate) async fn says(&self, text: &str, limit: Duration) -> String {
        let said = async {
            loop {
                if let Some(line) = self.log().lines().find(|line| line.contains(text)) {
                    return line.to_owned();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let said = tokio::time::timeout(limit, said).await;
        said.unwrap_or_else(|_| panic!("not within {limit:?}: {text:?} in\n{}", self.log()))
    }
}

impl Running {
    /// Stops the agent and waits for it.
    pub(crate) async fn stop(mut self) {
        self.stop.send_replace(true);
        soon("the agent stops", self.task.join_next())
            .await
            .unwrap()
            .unwrap();
    }

    pub(crate) fn tell_to_stop(&self) {
        self.stop.send_replace(true);
    }
}

impl Process {
    pub(crate) fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).unwrap())
    }

    pub(crate) fn new(child: Child) -> Self {
        Self(child)
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(self.pid(), signal).unwrap();
    }

    pub(crate) async fn has_threads(&self, count: usize) {
        let tasks = format!("/proc/{}/task", self.0.id());
        while std::fs::read_dir(&tasks).unwrap().count() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn exit(&mut self, limit: Duration) -> ExitStatus {
        let ended = async {
            loop {
                if let Some(status) = self.0.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(limit, "the process exits", ended).await
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
