//! Where the wheel's entries live: one vector, with the free places linked through themselves.

use crate::moment::Moment;

/// No entry.
pub(super) const NIL: u32 = u32::MAX;

/// Names one registered entry. It goes stale when the entry is removed, also when its place is used
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slot {
    index: u32,
    generation: u32,
}

impl Slot {
    pub(super) fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug, Clone)]
pub(super) struct Entry<K> {
    pub(super) key: K,
    pub(super) deadline: Moment,
    /// Tick of the bucket that holds it; `None` without a deadline.
    pub(super) tick: Option<u64>,
    pub(super) prev: u32,
    /// Also links free places.
    pub(super) next: u32,
    /// Odd while the place is taken.
    generation: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Slab<K> {
    entries: Vec<Entry<K>>,
    free: u32,
    len: usize,
}

impl<K: Copy> Slab<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NIL,
            len: 0,
        }
    }

    /// Panics beyond four billion entries.
    pub(super) fn insert(&mut self, key: K, deadline: Moment) -> Slot {
        self.len += 1;
        if self.free == NIL {
            let index = u32::try_from(self.entries.len()).unwrap_or(NIL);
            assert!(index != NIL, "a wheel holds at most four billion entries");
            let generation = 1;
            self.entries.push(Entry {
                key,
                deadline,
                tick: None,
                prev: NIL,
                next: NIL,
                generation,
            });
            return Slot { index, generation };
        }
        let index = self.free;
        let entry = &mut self.entries[index as usize];
        self.free = entry.next;
        entry.key = key;
        entry.generation = entry.generation.wrapping_add(1);
        Slot {
            index,
            generation: entry.generation,
        }
    }

    /// Returns the key. The entry must not be linked.
    pub(super) fn remove(&mut self, index: u32) -> K {
        self.len -= 1;
        let entry = &mut self.entries[index as usize];
        entry.generation = entry.generation.wrapping_add(1);
        entry.next = self.free;
        self.free = index;
        entry.key
    }

    pub(super) fn holds(&self, slot: Slot) -> bool {
        self.entries
            .get(slot.index as usize)
            .is_some_and(|entry| entry.generation == slot.generation)
    }

    pub(super) fn slot(&self, index: u32) -> Slot {
        Slot {
            index,
            generation: self.entries[index as usize].generation,
        }
    }

    pub(super) fn entry(&self, index: u32) -> &Entry<K> {
        &self.entries[index as usize]
    }

    pub(super) fn entry_mut(&mut self, index: u32) -> &mut Entry<K> {
        &mut self.entries[index as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A4: an agent that comes and goes takes one place, not one each time.
    #[test]
    fn the_place_of_a_removed_entry_is_used_again() {
        let mut slab = Slab::new();
        for key in 0..1_000 {
            let slot = slab.insert(key, Moment::ZERO);
            assert_eq!(slab.remove(slot.index()), key);
        }
        assert_eq!((slab.entries.len(), slab.len()), (1, 0));
    }
}
