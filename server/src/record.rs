//! The recorder: what happened, from the registry into Postgres.
//!
//! Four times a second it harvests what changed into a numbered batch; a writer applies the batches
//! in order, each by the transaction that claims its number. Nothing here is waited for by a lane or
//! by the judge. What the recorder has not taken waits in places whose size does not grow with time:
//! transitions in their agent's journal, beats in counters that only grow. So when Postgres is away
//! and the queue of batches is full, harvesting pauses, and what is lost is resolution.

mod beats;
mod bucket;
mod draft;
mod groups;
mod harvest;
mod prepare;
mod queue;
mod status;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::registry::Registry;
use crate::store::Store;
use crate::store::runs::Run;

use harvest::Harvester;
use queue::Queue;
use status::Board;
use writer::Writer;

pub use prepare::Remembered;
pub use queue::Room;
pub use status::{State, Status};

/// What the recorder works with.
#[derive(Debug)]
pub struct Parts {
    pub registry: Arc<Registry>,
    pub store: Store,
    pub run: Run,
    /// How much may wait in memory.
    pub room: Room,
}

/// A running recorder.
#[derive(Debug)]
pub struct Recorder {
    board: Arc<Board>,
    queue: Arc<Queue>,
    finish: CancellationToken,
    give_up: CancellationToken,
    written: oneshot::Receiver<()>,
}

impl Recorder {
    /// Starts harvesting and writing on the current runtime; `tracker` owns the tasks.
    ///
    /// Postgres need not be there yet. Once it is, the schema is brought up to date, this run takes
    /// over from earlier ones, and what Postgres remembers of the fleet comes out of the receiver.
    #[must_use]
    pub fn start(parts: Parts, tracker: &TaskTracker) -> (Self, oneshot::Receiver<Remembered>) {
        let clock = parts.registry.clock();
        let (finish, give_up) = (CancellationToken::new(), CancellationToken::new());
        let queue = Arc::new(Queue::new(parts.room));
        let board = Arc::new(Board::new(clock));
        let (remember, remembered) = oneshot::channel();
        let (done, written) = oneshot::channel();
        let harvester = Harvester::new(
            Arc::clone(&parts.registry),
            parts.run.clone(),
            Arc::clone(&queue),
            Arc::clone(&board),
        );
        tracker.spawn(harvester.run(finish.clone()));
        let writer = Writer {
            clock,
            store: parts.store,
            run: parts.run,
            queue: Arc::clone(&queue),
            board: Arc::clone(&board),
        };
        let leave = give_up.clone();
        tracker.spawn(async move {
            tokio::select! {
                () = writer.run(remember) => {}
                () = leave.cancelled() => {}
            }
            // Whoever stops the recorder may have given up waiting.
            let _ = done.send(());
        });
        let recorder = Self {
            board,
            queue,
            finish,
            give_up,
            written,
        };
        (recorder, remembered)
    }

    /// Reads how recording stands, without waiting.
    #[must_use]
    pub fn status(&self) -> Status {
        self.board.status(&self.queue)
    }

    /// A reader of [`Self::status`] for pages and metrics.
    pub fn reader(&self) -> impl Fn() -> Status + Clone + Send + Sync + use<> {
        let (board, queue) = (Arc::clone(&self.board), Arc::clone(&self.queue));
        move || board.status(&queue)
    }

    /// Harvests once more, writes what waits for at most `patience`, and ends. Call it after the
    /// lanes have let go of their sessions, so that every end is recorded.
    pub async fn stop(self, patience: Duration) {
        self.finish.cancel();
        let in_time = tokio::time::timeout(patience, self.written).await.is_ok();
        self.give_up.cancel();
        let status = self.board.status(&self.queue);
        if !in_time && status.backlog_rows > 0 {
            tracing::error!(
                recorder.backlog_rows = status.backlog_rows,
                reason = status.detail,
                "Stopping with records that Postgres has not taken"
            );
        }
    }
}
