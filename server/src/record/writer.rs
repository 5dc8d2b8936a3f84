//! Applies batches to Postgres, in order, for as long as it takes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until};

use super::prepare::{self, Remembered};
use super::queue::{Numbered, Queue, Resume};
use super::status::Board;
use crate::clock::Clock;
use crate::store::batch::{Applied, Care};
use crate::store::runs::Run;
use crate::store::{Class, Error, Store};

const BACKOFF_LEAST: Duration = Duration::from_millis(50);
const BACKOFF_MOST: Duration = Duration::from_secs(2);
const PARTITIONS_EVERY: Duration = Duration::from_hours(1);

pub(super) struct Writer {
    pub clock: Clock,
    pub store: Store,
    pub run: Run,
    pub queue: Arc<Queue>,
    pub board: Arc<Board>,
}

/// A host that vanished without a word answers never; the number of a batch makes a second attempt
/// harmless.
const ANSWER_WITHIN: Duration = Duration::from_mins(2);

async fn answered<T>(
    doing: &'static str,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(ANSWER_WITHIN, work).await {
        Ok(result) => result,
        Err(_) => Err(Error::no_answer(doing)),
    }
}

/// What is known of the front batch from earlier attempts.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    care: Care,
    backoff: Duration,
}

impl Attempts {
    const FIRST: Self = Self {
        care: Care::Whole,
        backoff: BACKOFF_LEAST,
    };
}

impl Writer {
    /// Until nothing more will come.
    pub(super) async fn run(self, remember: oneshot::Sender<Remembered>) {
        let remembered = self.prepare().await;
        // A server that is stopping already does not want to know.
        let _ = remember.send(remembered);
        let mut next_partitions = Instant::now() + PARTITIONS_EVERY;
        loop {
            let front = tokio::select! {
                front = self.queue.front() => front,
                () = sleep_until(next_partitions) => {
                    next_partitions = Instant::now() + PARTITIONS_EVERY;
                    self.make_partitions().await;
                    continue;
                }
            };
            let Some(front) = front else { break };
            self.write(&front).await;
        }
        self.leave().await;
    }

    async fn prepare(&self) -> Remembered {
        let mut attempts = Attempts::FIRST;
        loop {
            let prepared = async {
                let left = prepare::prepare(&self.store, &self.run, self.clock).await?;
                prepare::remember(&self.store, left).await
            };
            match answered("prepare recording", prepared).await {
                Ok(remembered) => {
                    self.board.writing();
                    return remembered;
                }
                Err(error) => self.wait(&error, &mut attempts).await,
            }
        }
    }

    /// Returns when the batch at the front is written, or another is at the front.
    async fn write(&self, front: &Numbered) {
        let mut attempts = Attempts::FIRST;
        loop {
            let wall = self.clock.wall();
            let Numbered { number, batch, .. } = front;
            let applied = self
                .store
                .apply(&self.run, *number, batch, attempts.care, wall);
            match answered("record a batch", applied).await {
                Ok(Applied::Written { rejected }) => {
                    self.board.writing();
                    self.board.written(batch.rows() as u64 - rejected, rejected);
                    self.queue.applied(self.clock.now());
                    return;
                }
                Ok(Applied::Elsewhere { applied }) => {
                    match answered("resume recording", self.resume(front, applied)).await {
                        Ok(()) => return,
                        Err(error) => self.wait(&error, &mut attempts).await,
                    }
                }
                Err(error) if error.class() == Class::BadRow && attempts.care == Care::Whole => {
                    attempts.care = Care::RowByRow;
                    tracing::warn!(
                        error = error.sentence(),
                        "Postgres refused a row of a batch"
                    );
                    if error.is_missing_partition()
                        && let Err(error) = prepare::around(&self.store, batch.span(), wall).await
                    {
                        self.wait(&error, &mut attempts).await;
                    }
                }
                Err(error) => self.wait(&error, &mut attempts).await,
            }
        }
    }

    /// Postgres has another number than the one before the front.
    async fn resume(&self, front: &Numbered, applied: Option<u64>) -> Result<(), Error> {
        let applied = if let Some(applied) = applied {
            applied
        } else {
            tracing::warn!("Postgres knows nothing of this run; registering it again");
            prepare::prepare(&self.store, &self.run, self.clock).await?;
            0
        };
        match self.queue.resume(applied) {
            Resume::Applied => {
                tracing::info!(
                    batch = front.number,
                    "A batch whose answer was lost had been written"
                );
                self.board.written(front.batch.rows() as u64, 0);
                self.queue.applied(self.clock.now());
            }
            Resume::Replay => {
                tracing::warn!(
                    batch.applied = applied,
                    "Postgres lost batches; writing them again"
                );
            }
            Resume::Skip { to, lost } => {
                tracing::error!(
                    batches = lost,
                    "Postgres lost batches that are not kept any more"
                );
                self.store.skip_batches(&self.run, to).await?;
                self.board.lost(lost);
            }
        }
        Ok(())
    }

    /// Notes why nothing is written, and waits before the next attempt.
    async fn wait(&self, error: &Error, attempts: &mut Attempts) {
        if error.class() != Class::Conflict {
            self.board.waiting(error.sentence());
        }
        sleep(attempts.backoff).await;
        attempts.backoff = (attempts.backoff * 2).min(BACKOFF_MOST);
    }

    async fn make_partitions(&self) {
        if let Err(error) = prepare::ahead(&self.store, self.clock.wall()).await {
            tracing::warn!(
                error = error.sentence(),
                "Could not make the partitions ahead"
            );
        }
    }

    async fn leave(&self) {
        if let Err(error) = self.store.deregister(&self.run, self.clock.wall()).await {
            tracing::warn!(
                error = error.sentence(),
                "Could not note that this run ends"
            );
        }
    }
}
