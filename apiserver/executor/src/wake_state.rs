//! Whether somebody has to be woken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
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

/// Wakes the group for a part of it, and knows of it.
#[derive(Debug)]
pub(crate) struct Part {
    is_woken: AtomicBool,
    group: Arc<Woken>,
}

impl Part {
    pub(crate) fn new(group: &Arc<Woken>) -> Self {
        Self { is_woken: AtomicBool::default(), group: Arc::clone(group) }
    }

    /// Whether it was woken since this was last asked.
    pub(crate) fn take(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Part {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.group.wake_by_ref();
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
