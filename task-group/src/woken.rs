//! Whether somebody has to be woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Wake, Waker};

use futures::task::AtomicWaker;

/// Nobody looks: the task has to be woken.
const RESTING: u8 = 0;

/// The task runs, and will look whether it was woken meanwhile.
const RUNNING: u8 = 1;

/// It was woken, or is on its way.
const WOKEN: u8 = 2;

/// Wakes the task, unless it runs and looks for itself.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Woken {
    /// Who is to be woken from now on.
    pub(crate) fn register(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Whoever wakes from now on is heard.
    pub(crate) fn begin(&self) {
        self.state.store(RUNNING, Ordering::SeqCst);
    }

    /// False if somebody has woken the task since it began.
    pub(crate) fn rest(&self) -> bool {
        self.state.compare_exchange(RUNNING, RESTING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Leaves off in the middle. The next turn looks after all there is, so the task alone is woken.
    pub(crate) fn leave(&self) {
        self.state.store(WOKEN, Ordering::SeqCst);
        self.task.wake();
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == RESTING {
            self.task.wake();
        }
    }
}
