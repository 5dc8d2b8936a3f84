//! One wake-up per beat.
//!
//! A connection and the streams it carries live in one task. Each part is polled through a waker of
//! its own, a [`Bell`]. While the task runs anyway, a ringing bell only leaves a mark that the task
//! finds before it goes to sleep; only otherwise does it wake the task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use futures_util::task::AtomicWaker;

/// The task that all bells of one connection ring for.
#[derive(Debug, Default)]
pub(super) struct Tower {
    task: AtomicWaker,
    awake: AtomicBool,
}

/// Waker of one part of the task.
#[derive(Debug)]
pub(super) struct Bell {
    tower: Arc<Tower>,
    rung: AtomicBool,
}

impl Tower {
    /// The task runs; bells need not wake it.
    pub(super) fn rise(&self, task: &Waker) {
        self.task.register(task);
        self.awake.store(true, Ordering::SeqCst);
    }

    /// The task is about to sleep. It has to look at its bells once more afterwards: one that rang
    /// before this call woke nobody.
    pub(super) fn rest(&self) {
        self.awake.store(false, Ordering::SeqCst);
    }
}

impl Bell {
    /// A bell that rings already, so that its part is polled first.
    pub(super) fn ringing(tower: &Arc<Tower>) -> Arc<Self> {
        Arc::new(Self {
            tower: Arc::clone(tower),
            rung: AtomicBool::new(true),
        })
    }

    /// Whether it rang since the last call.
    pub(super) fn take(&self) -> bool {
        self.rung.load(Ordering::SeqCst) && self.rung.swap(false, Ordering::SeqCst)
    }

    pub(super) fn rings(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    pub(super) fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) && !self.tower.awake.load(Ordering::SeqCst) {
            self.tower.task.wake();
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn bells_wake_a_sleeping_task_once_and_a_running_one_never() {
        let (task, tower) = (Arc::new(Task::default()), Arc::new(Tower::default()));
        let (first, second) = (Bell::ringing(&tower), Bell::ringing(&tower));
        tower.rise(&Waker::from(Arc::clone(&task)));
        assert!(first.take() && second.take());
        Waker::from(Arc::clone(&first)).wake();
        assert_eq!(
            task.0.load(Ordering::SeqCst),
            0,
            "the task finds the mark itself"
        );
        tower.rest();
        assert!(first.take() && !second.take());
        Waker::from(Arc::clone(&first)).wake_by_ref();
        Waker::from(Arc::clone(&second)).wake_by_ref();
        Waker::from(first).wake();
        assert_eq!(
            task.0.load(Ordering::SeqCst),
            1,
            "the task is woken already"
        );
    }
}
