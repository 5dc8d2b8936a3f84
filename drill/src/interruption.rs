use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM.
pub(crate) struct Interruption {
    interrupted: Signal,
    terminated: Signal,
}

impl Interruption {
    pub(crate) fn new() -> Result<Self> {
        let interrupted = signal(SignalKind::interrupt())?;
        Ok(Self {
            interrupted,
            terminated: signal(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn came(&mut self) {
        tokio::select! {
            _ = self.interrupted.recv() => {}
            _ = self.terminated.recv() => {}
        }
    }
}
