//! Makes tuning survive a restart without holding up a heartbeat.

use std::future::pending;
use std::io;

use fleetbeat_liveness::Revised;
use tokio::task::JoinHandle;

use crate::state::TuningFile;

/// Writes one tuning at a time on another thread; of those that come meanwhile the newest.
#[derive(Debug)]
pub(crate) struct Keeper {
    file: TuningFile,
    writing: Option<JoinHandle<Kept>>,
    next: Option<Revised>,
}

/// A tuning that was to be kept and how that went.
#[derive(Debug)]
pub(crate) struct Kept {
    pub revised: Revised,
    pub result: io::Result<()>,
}

impl Keeper {
    pub(crate) fn new(file: TuningFile) -> Self {
        Self {
            file,
            writing: None,
            next: None,
        }
    }

    pub(crate) fn keep(&mut self, revised: Revised) {
        if self.writing.is_some() {
            self.next = Some(revised);
        } else {
            self.write(revised);
        }
    }

    /// Waits until a tuning is kept; for ever while there is none. Loses nothing when dropped.
    pub(crate) async fn kept(&mut self) -> Kept {
        let Some(writing) = &mut self.writing else {
            return pending().await;
        };
        let kept = writing.await;
        self.writing = None;
        if let Some(next) = self.next.take() {
            self.write(next);
        }
        match kept {
            Ok(kept) => kept,
            Err(failed) => std::panic::resume_unwind(failed.into_panic()),
        }
    }

    fn write(&mut self, revised: Revised) {
        let file = self.file.clone();
        let write = move || Kept {
            revised,
            result: file.write(&revised),
        };
        self.writing = Some(tokio::task::spawn_blocking(write));
    }
}

#[cfg(test)]
mod tests {
    use fleetbeat_liveness::{Revised, Tuning};

    use super::Keeper;
    use crate::state::State;

    fn revised(revision: u64) -> Revised {
        Revised {
            revision,
            tuning: Tuning::default(),
        }
    }

    #[tokio::test]
    async fn of_many_tunings_the_first_and_the_newest_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::new(State::open(dir.path()).unwrap().tuning_file());
        for revision in 1..=9 {
            keeper.keep(revised(revision));
        }
        for expected in [1, 9] {
            let kept = keeper.kept().await;
            kept.result.unwrap();
            assert_eq!(kept.revised, revised(expected));
        }
        assert_eq!(State::open(dir.path()).unwrap().tuning(), Some(revised(9)));
    }
}
