use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Spreads the lists so that lanes rarely meet.
const LISTS: usize = 16;

/// What changed since the last harvest: each item at most once, however often it is marked.
///
/// Memory is bounded by the number of items, not by the number of changes.
#[derive(Debug)]
pub struct Dirty<T> {
    lists: [Mutex<Vec<Arc<T>>>; LISTS],
}

/// An item's own mark; it belongs to one [`Dirty`].
#[derive(Debug, Default)]
pub(super) struct Mark(AtomicBool);

impl<T> Default for Dirty<T> {
    fn default() -> Self {
        Self {
            lists: std::array::from_fn(|_| Mutex::new(Vec::new())),
        }
    }
}

impl<T> Dirty<T> {
    /// Adds `item` unless it waits already. `spread` chooses the list.
    pub(super) fn mark(&self, item: &Arc<T>, mark: &Mark, spread: usize) {
        if !mark.0.swap(true, Ordering::AcqRel) {
            self.lists[spread % LISTS].lock().push(Arc::clone(item));
        }
    }

    /// Appends everything marked to `out`. A change after this call marks its item again, because
    /// `mark_of` is cleared before the item is handed over.
    pub(super) fn take(&self, out: &mut Vec<Arc<T>>, mark_of: impl Fn(&T) -> &Mark) {
        for list in &self.lists {
            let taken = std::mem::take(&mut *list.lock());
            for item in &taken {
                mark_of(item).0.store(false, Ordering::Release);
            }
            out.extend(taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_waits_once_until_it_is_taken() {
        #[derive(Debug, Default)]
        struct Item(Mark);
        let dirty = Dirty::default();
        let item = Arc::new(Item::default());
        let mut out = Vec::new();
        dirty.mark(&item, &item.0, 3);
        dirty.mark(&item, &item.0, 3);
        dirty.take(&mut out, |i| &i.0);
        assert_eq!(out.len(), 1);
        dirty.mark(&item, &item.0, 3);
        dirty.take(&mut out, |i| &i.0);
        assert_eq!(out.len(), 2);
        dirty.take(&mut out, |i| &i.0);
        assert_eq!(out.len(), 2);
    }
}
