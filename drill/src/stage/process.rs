use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::wait::{LOOK_EVERY, until};
use crate::clock;

/// How much of a log's end is shown when something failed.
const TAIL_BYTES: i64 = 3_000;

/// A process of the stage, with its output in a file. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command` with its output appended to `<logs>/<name>.log`.
    pub fn start(name: &str, command: &mut Command, logs: &Path) -> Result<Self> {
        let log = logs.join(format!("{name}.log"));
        let output = OpenOptions::new().create(true).append(true).open(&log);
        let output = output.with_context(|| format!("cannot write {}", log.display()))?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log,
        })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// File that holds its output.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Sends a signal to the process, which must still run.
    pub fn signal(&mut self, signal: Signal) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended with {status} before {signal}", self.name);
        }
        kill(as_pid(self.child.id()), signal)
            .with_context(|| format!("cannot send {signal} to {}", self.name))
    }

    /// Its exit status, once it has ended.
    pub fn status(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits for its end.
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus> {
        let what = format!("the end of {}", self.name);
        until(&what, within, async || Ok(self.child.try_wait()?)).await
    }

    /// SIGTERM, then its exit status.
    pub async fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.ended(within).await
    }

    /// Sends a signal and gives the process a moment to end by it, for destructors.
    pub(super) fn end_by(&mut self, signal: Signal, within: Duration) {
        if self.signal(signal).is_err() {
            return;
        }
        let deadline = clock::now() + within;
        while clock::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Kills it as `kill -9` does and reaps it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            tracing::warn!(process.name = self.name, %error, "Process could not be killed");
        }
    }
}

/// End of a log, for people.
pub(super) fn tail(log: &Path) -> Result<String> {
    let mut file = File::open(log)?;
    let length = i64::try_from(file.metadata()?.len())?;
    file.seek(SeekFrom::End(-length.min(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn as_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}
