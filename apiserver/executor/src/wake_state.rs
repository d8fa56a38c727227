//! Wake state of a task: avoids wake-ups of a task that is running.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Wake, Waker};

use futures::task::AtomicWaker;

/// The task is pending: a wake-up must reach the runtime.
const PENDING: u8 = 0;

/// The task is running, and looks for wake-ups itself.
const RUNNING: u8 = 1;

/// The task was woken.
const WOKEN: u8 = 2;

/// Waker of the task, which does nothing while the task runs.
#[derive(Debug, Default)]
pub(crate) struct WakeState {
    state: AtomicU8,
    task: AtomicWaker,
}

impl WakeState {
    /// Registers the task that later wake-ups reach.
    pub(crate) fn register(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Starts a poll: later wake-ups are recorded and not passed on.
    pub(crate) fn begin(&self) {
        self.state.store(RUNNING, Ordering::SeqCst);
    }

    /// Ends a poll. Returns false if a wake-up was recorded since it started.
    pub(crate) fn finish(&self) -> bool {
        self.state.compare_exchange(RUNNING, PENDING, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Ends a poll in the middle and wakes the task. The next poll looks at all children, so that no other wake-up is
    /// needed.
    pub(crate) fn interrupt(&self) {
        self.state.store(WOKEN, Ordering::SeqCst);
        self.task.wake();
    }
}

/// Waker of one part of an executor, children or driver, with a flag of its own.
#[derive(Debug)]
pub(crate) struct PartWaker {
    is_woken: AtomicBool,
    state: Arc<WakeState>,
}

impl PartWaker {
    pub(crate) fn new(state: &Arc<WakeState>) -> Self {
        Self { is_woken: AtomicBool::default(), state: Arc::clone(state) }
    }

    /// Takes the flag: returns true if the part was woken since the last call.
    pub(crate) fn take(&self) -> bool {
        self.is_woken.swap(false, Ordering::SeqCst)
    }
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.state.wake_by_ref();
    }
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::SeqCst) == PENDING {
            self.task.wake();
        }
    }
}
