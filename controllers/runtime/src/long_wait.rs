//! Long waits of a pass for a server outside of this process. The pass gives its slot of the loop back.

use std::time::Duration;

use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static SLOT: HeldSlot;
}

/// Time after which a wait is long. Most servers answer sooner.
const LONG: Duration = Duration::from_secs(1);

/// Slot of the pass that runs in this task.
pub(crate) struct HeldSlot(Box<dyn Fn() + Send + Sync>);

impl HeldSlot {
    /// Creates a slot that this function gives back. It may be called several times.
    pub(crate) fn new(give_back: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(give_back))
    }

    /// Runs a pass that holds this slot.
    pub(crate) fn around<F: Future>(self, pass: F) -> TaskLocalFuture<Self, F> {
        SLOT.scope(self, pass)
    }

    fn give_back(&self) {
        (self.0)();
    }
}

/// Waits for a server outside of this process, which may be slow or silent. After a second, the pass that waits gives its slot
/// back. So passes over other objects begin, and the rest of this pass has no slot. Outside of a pass, this only waits.
pub async fn without_slot<T>(wait: impl Future<Output = T>) -> T {
    let mut wait = std::pin::pin!(wait);
    tokio::select! {
        biased;
        ended = &mut wait => return ended,
        () = tokio::time::sleep(LONG) => {}
    }
    // No loop has made a slot for what runs outside of a pass.
    let _ = SLOT.try_with(HeldSlot::give_back);
    wait.await
}
