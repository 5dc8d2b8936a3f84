//! Numbered batches between the harvest and Postgres.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fleetbeat_liveness::moment::Moment;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::store::batch::Batch;

/// How much may wait. When there is no room, nothing is harvested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    pub batches: usize,
    pub rows: usize,
}

impl Default for Room {
    /// Half a million rows are about 150 MB.
    fn default() -> Self {
        Self {
            batches: 5_000,
            rows: 500_000,
        }
    }
}

/// Written batches are kept that long: a fail-over may lead to a standby that never had them.
const KEEP: Duration = Duration::from_mins(10);
/// And no more rows of them than that.
const KEEP_ROWS: usize = 100_000;

/// A batch with its number; the first is 1.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    pub number: u64,
    pub batch: Arc<Batch>,
    pub made: Moment,
}

/// What waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub batches: u64,
    pub rows: u64,
    pub oldest: Option<Moment>,
}

/// One side makes batches, the other writes them; both share this.
#[derive(Debug)]
pub(super) struct Queue {
    room: Room,
    inner: Mutex<Inner>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    last_number: u64,
    /// Oldest first. The front is being written.
    waiting: VecDeque<Numbered>,
    waiting_rows: usize,
    /// Written, oldest first, with the moment of their being so.
    written: VecDeque<(Numbered, Moment)>,
    written_rows: usize,
    closed: bool,
}

/// What to do when Postgres has applied another number than expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// The front was applied already: its commit's answer was lost.
    Applied,
    /// Batches that were written before wait again.
    Replay,
    /// Some are gone: go on after this number. So many are lost.
    Skip { to: u64, lost: u64 },
}

impl Queue {
    pub(super) fn new(room: Room) -> Self {
        Self {
            room,
            inner: Mutex::default(),
            filled: Notify::new(),
        }
    }

    /// Whether another harvest may begin. One harvest may go beyond the room, none begins there.
    pub(super) fn has_room(&self) -> bool {
        let inner = self.inner.lock();
        inner.waiting.len() < self.room.batches && inner.waiting_rows < self.room.rows
    }

    pub(super) fn push(&self, batch: Batch, made: Moment) {
        let mut inner = self.inner.lock();
        inner.last_number += 1;
        inner.waiting_rows += batch.rows();
        let numbered = Numbered {
            number: inner.last_number,
            batch: Arc::new(batch),
            made,
        };
        inner.waiting.push_back(numbered);
        drop(inner);
        self.filled.notify_one();
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.inner.lock().closed = true;
        self.filled.notify_one();
    }

    /// The oldest batch that waits, as soon as there is one; `None` when nothing more will come. It
    /// stays at the front until [`Self::applied`].
    pub(super) async fn front(&self) -> Option<Numbered> {
        loop {
            {
                let inner = self.inner.lock();
                if let Some(front) = inner.waiting.front() {
                    return Some(front.clone());
                }
                if inner.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// The front was written.
    pub(super) fn applied(&self, now: Moment) {
        let mut inner = self.inner.lock();
        let Some(front) = inner.waiting.pop_front() else {
            return;
        };
        let rows = front.batch.rows();
        inner.waiting_rows -= rows;
        inner.written_rows += rows;
        inner.written.push_back((front, now));
        while let Some((oldest, at)) = inner.written.front() {
            let rows = oldest.batch.rows();
            if now.since(*at) < KEEP && inner.written_rows <= KEEP_ROWS {
                break;
            }
            inner.written.pop_front();
            inner.written_rows -= rows;
        }
    }

    /// Postgres says that it has applied up to `applied`, where the front wants to be next.
    pub(super) fn resume(&self, applied: u64) -> Resume {
        let mut inner = self.inner.lock();
        let front = inner.waiting.front().map_or(applied, |front| front.number);
        if applied >= front {
            return Resume::Applied;
        }
        while let Some((newest, _)) = inner.written.back() {
            if newest.number <= applied {
                break;
            }
            let Some((again, _)) = inner.written.pop_back() else {
                break;
            };
            let rows = again.batch.rows();
            inner.written_rows -= rows;
            inner.waiting_rows += rows;
            inner.waiting.push_front(again);
        }
        let next = inner.waiting.front().map_or(front, |next| next.number);
        let lost = next - applied - 1;
        if lost == 0 {
            Resume::Replay
        } else {
            Resume::Skip { to: next - 1, lost }
        }
    }

    pub(super) fn waiting(&self) -> Waiting {
        let inner = self.inner.lock();
        Waiting {
            batches: inner.waiting.len() as u64,
            rows: inner.waiting_rows as u64,
            oldest: inner.waiting.front().map(|front| front.made),
        }
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;
    use crate::store::sessions::Closed;

    fn batch(rows: usize) -> Batch {
        let row = Closed {
            session_id: Uuid::nil(),
            at: OffsetDateTime::UNIX_EPOCH,
            reason: fleetbeat_proto::v1::CloseReason::Goodbye,
            detail: String::new(),
            beats: 0,
        };
        Batch {
            closed: vec![row; rows],
            ..Batch::default()
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    fn filled(batches: u64) -> Queue {
        let queue = Queue::new(Room::default());
        for _ in 0..batches {
            queue.push(batch(1), at(0));
        }
        queue
    }

    async fn front(queue: &Queue) -> Option<u64> {
        queue.front().await.map(|front| front.number)
    }

    #[tokio::test]
    async fn batches_come_in_the_order_of_their_numbers_and_stay_until_they_are_written() {
        let queue = filled(2);
        queue.close();
        assert_eq!(front(&queue).await, Some(1));
        assert_eq!(front(&queue).await, Some(1));
        queue.applied(at(1));
        assert_eq!(front(&queue).await, Some(2));
        queue.applied(at(1));
        assert_eq!(front(&queue).await, None);
    }

    #[test]
    fn there_is_room_below_both_bounds() {
        let room = Room {
            batches: 3,
            rows: 10,
        };
        let queue = Queue::new(room);
        queue.push(batch(9), at(0));
        assert!(queue.has_room());
        queue.push(batch(1), at(0));
        assert!(!queue.has_room());
        queue.applied(at(1));
        assert!(queue.has_room());
        queue.push(batch(0), at(0));
        queue.push(batch(0), at(0));
        assert!(!queue.has_room());
        assert_eq!(
            queue.waiting(),
            Waiting {
                batches: 3,
                rows: 1,
                oldest: Some(at(0))
            }
        );
    }

    #[tokio::test]
    async fn a_lost_answer_is_told_from_a_lost_batch() {
        let queue = filled(3);
        queue.applied(at(1));
        queue.applied(at(1));
        assert_eq!(queue.resume(3), Resume::Applied);
        assert_eq!(queue.resume(1), Resume::Replay);
        assert_eq!(front(&queue).await, Some(2));
        queue.applied(at(2));
        assert_eq!(queue.resume(0), Resume::Replay);
        assert_eq!(front(&queue).await, Some(1));
    }

    #[tokio::test]
    async fn what_is_kept_no_longer_is_skipped_and_counted() {
        let queue = filled(4);
        queue.applied(at(1));
        queue.applied(at(2));
        queue.applied(at(602));
        assert_eq!(queue.resume(0), Resume::Skip { to: 2, lost: 2 });
        assert_eq!(front(&queue).await, Some(3));
    }

    #[tokio::test]
    async fn a_waiting_writer_learns_of_a_batch() {
        let queue = Arc::new(filled(0));
        let waiting = {
            let queue = Arc::clone(&queue);
            let mut tasks = tokio::task::JoinSet::new();
            tasks.spawn(async move { front(&queue).await });
            tasks
        };
        tokio::task::yield_now().await;
        queue.push(batch(1), at(0));
        assert_eq!(waiting.join_all().await, [Some(1)]);
    }
}
