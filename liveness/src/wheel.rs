//! Deadlines of very many entries, cheaply.
//!
//! A hashed timing wheel: a slab of entries, linked through themselves into one ring of buckets per tick
//! of 10 ms. Inserting, removing and rescheduling take constant time. A deadline beyond the ring parks at
//! its far end (82 s) and is parked again when its bucket comes up. Deadlines round up to the next tick:
//! nothing expires early, and at most one tick late when asked in time.

mod slab;

use std::time::Duration;

use crate::moment::Moment;
use slab::{NIL, Slab};

pub use slab::Slot;

const TICK_NANOS: u64 = 10_000_000;

/// Resolution of the wheel.
pub const TICK: Duration = Duration::from_nanos(TICK_NANOS);

const BUCKETS: u64 = 8192;

#[derive(Debug, Clone, Copy)]
struct Bucket {
    head: u32,
    tail: u32,
}

/// Entries with a deadline each. An entry that expired stays registered without a deadline: reschedule
/// it, or remove it.
#[derive(Debug, Clone)]
pub struct Wheel<K> {
    slab: Slab<K>,
    buckets: Box<[Bucket]>,
    /// The tick whose bucket is looked at next. Every armed entry lies in one of the BUCKETS ticks from
    /// here on, never after its own.
    cursor: u64,
}

impl<K: Copy> Wheel<K> {
    /// An empty wheel at the clock's origin.
    #[must_use]
    pub fn new() -> Self {
        let empty = Bucket {
            head: NIL,
            tail: NIL,
        };
        let buckets = (0..BUCKETS).map(|_| empty).collect();
        Self {
            slab: Slab::new(),
            buckets,
            cursor: 0,
        }
    }

    /// Registers a key; the same key may be registered several times.
    pub fn insert(&mut self, key: K, deadline: Moment) -> Slot {
        let slot = self.slab.insert(key, deadline);
        self.arm(slot.index(), deadline);
        slot
    }

    /// Gives an entry another deadline, also when it expired. `false` when the slot is stale.
    pub fn reschedule(&mut self, slot: Slot, deadline: Moment) -> bool {
        if !self.slab.holds(slot) {
            return false;
        }
        self.disarm(slot.index());
        self.arm(slot.index(), deadline);
        true
    }

    /// Forgets an entry and returns its key; `None` when the slot is stale.
    pub fn remove(&mut self, slot: Slot) -> Option<K> {
        if !self.slab.holds(slot) {
            return None;
        }
        self.disarm(slot.index());
        Some(self.slab.remove(slot.index()))
    }

    /// Key of an entry; `None` when the slot is stale.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<K> {
        self.slab
            .holds(slot)
            .then(|| self.slab.entry(slot.index()).key)
    }

    /// Appends entries whose deadline passed to `out`, in the order of their ticks, and takes their
    /// deadlines away. Looks at up to `limit` entries (at least one), those parked again included, so
    /// that one call takes a bounded time; returns `true` when there are more to look at.
    pub fn expire(&mut self, now: Moment, limit: usize, out: &mut Vec<(Slot, K)>) -> bool {
        let now_tick = now.as_nanos() / TICK_NANOS;
        // After a jump beyond the ring each bucket is due, and one round looks at all of them.
        self.cursor = self.cursor.max(now_tick.saturating_sub(BUCKETS - 1));
        let mut left = limit.max(1);
        while self.cursor <= now_tick {
            while let Some(index) = self.head() {
                if left == 0 {
                    return true;
                }
                left -= 1;
                self.disarm(index);
                let deadline = self.slab.entry(index).deadline;
                if tick(deadline) > now_tick {
                    self.arm(index, deadline);
                } else {
                    out.push((self.slab.slot(index), self.slab.entry(index).key));
                }
            }
            if self.cursor == now_tick {
                return false;
            }
            self.cursor += 1;
        }
        false
    }

    /// When [`Wheel::expire`] next has something to do: nothing expires before. `None` when no entry has
    /// a deadline.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        (self.cursor..self.cursor + BUCKETS)
            .find(|tick| self.buckets[place(*tick)].head != NIL)
            .map(|tick| Moment::from_nanos(tick.saturating_mul(TICK_NANOS)))
    }

    /// Registered entries, with and without a deadline.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn head(&self) -> Option<u32> {
        let head = self.buckets[place(self.cursor)].head;
        (head != NIL).then_some(head)
    }

    /// Appends the entry to the bucket of its deadline, of the cursor when that passed, or of the end of
    /// the ring when it is farther. An entry that is looked at and parked again never returns to the
    /// bucket at the cursor, so a pass ends.
    fn arm(&mut self, index: u32, deadline: Moment) {
        let at = tick(deadline).clamp(self.cursor, self.cursor + BUCKETS - 1);
        let bucket = &mut self.buckets[place(at)];
        let entry = self.slab.entry_mut(index);
        entry.deadline = deadline;
        entry.tick = Some(at);
        entry.prev = bucket.tail;
        entry.next = NIL;
        let before = std::mem::replace(&mut bucket.tail, index);
        if before == NIL {
            bucket.head = index;
        } else {
            self.slab.entry_mut(before).next = index;
        }
    }

    /// Takes the entry out of its bucket, if it is in one.
    fn disarm(&mut self, index: u32) {
        let entry = self.slab.entry_mut(index);
        let Some(at) = entry.tick.take() else { return };
        let (prev, next) = (entry.prev, entry.next);
        let bucket = &mut self.buckets[place(at)];
        if prev == NIL {
            bucket.head = next;
        } else {
            self.slab.entry_mut(prev).next = next;
        }
        if next == NIL {
            bucket.tail = prev;
        } else {
            self.slab.entry_mut(next).prev = prev;
        }
    }
}

impl<K: Copy> Default for Wheel<K> {
    fn default() -> Self {
        Self::new()
    }
}

/// The first tick at which the deadline passed.
fn tick(deadline: Moment) -> u64 {
    deadline.as_nanos().div_ceil(TICK_NANOS)
}

fn place(tick: u64) -> usize {
    usize::try_from(tick % BUCKETS).unwrap_or_default()
}
