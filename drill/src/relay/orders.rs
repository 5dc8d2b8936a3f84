use tokio::sync::watch;

use super::faults::{Cut, Faults, Plan};

/// What one flow is told.
pub(super) struct Orders {
    number: u64,
    plan: watch::Receiver<Plan>,
    pub(super) faults: Faults,
    /// Cuts up to this number are no matter of this flow any more.
    cuts: u64,
}

impl Orders {
    /// For the flow that was accepted as that one.
    pub(super) fn new(number: u64, mut plan: watch::Receiver<Plan>) -> Self {
        let told = plan.borrow_and_update();
        let (faults, cuts) = (told.of(number).clone(), told.cuts);
        drop(told);
        Self {
            number,
            plan,
            faults,
            cuts,
        }
    }

    /// Waits for other faults; yields how the flow is cut when that was told.
    pub(super) async fn changed(&mut self) -> Option<Cut> {
        if self.plan.changed().await.is_err() {
            // The relay is gone, and ends this flow in a moment.
            std::future::pending::<()>().await;
        }
        self.take()
    }

    /// The same for what was told already: whatever is read after an order falls under it.
    pub(super) fn told(&mut self) -> Option<Cut> {
        // Without a relay nothing is told any more.
        let changed = self.plan.has_changed().unwrap_or(false);
        changed.then(|| self.take()).flatten()
    }

    fn take(&mut self) -> Option<Cut> {
        let told = self.plan.borrow_and_update();
        self.faults = told.of(self.number).clone();
        let seen = std::mem::replace(&mut self.cuts, told.cuts);
        let (cut, how) = self.faults.cut?;
        (cut > seen).then_some(how)
    }
}
