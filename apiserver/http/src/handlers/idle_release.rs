//! Idle release: drops the state of a watch whose client reads no events.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_executor::spawn_joined;
use tokio_util::task::AbortOnDropHandle;

/// Time after which a watch is closed whose client reads no events. The client reconnects with its last revision and
/// misses nothing.
pub(super) const LONGEST_IDLE: Duration = Duration::from_secs(60);

/// Holder of a value between two uses. A watch holds up to all objects of its start, which are not kept for a client
/// that reads nothing, however long its connection lasts.
pub(super) struct IdleRelease<T> {
    /// Boxed: the value may be large, and moves for every use.
    slot: Arc<Mutex<Option<Box<T>>>>,
    is_idle: fn(&T) -> bool,
    _release_task: AbortOnDropHandle<()>,
}

impl<T: Send + 'static> IdleRelease<T> {
    /// Creates a holder that drops `value` if `is_idle` reports so between two uses. It checks at each `interval`.
    pub(super) fn new(value: T, is_idle: fn(&T) -> bool, interval: Duration) -> Self {
        let slot = Arc::new(Mutex::new(Some(Box::new(value))));
        let release_task = spawn_joined(release(Arc::clone(&slot), is_idle, interval));
        Self { slot, is_idle, _release_task: AbortOnDropHandle::new(release_task) }
    }

    /// Takes the value for a use; `None` if it was dropped.
    pub(super) fn take(&self) -> Option<Box<T>> {
        let value = self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.filter(|value| !(self.is_idle)(value))
    }

    /// Returns the value after a use.
    pub(super) fn put(&self, value: Box<T>) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

async fn release<T>(slot: Arc<Mutex<Option<Box<T>>>>, is_idle: fn(&T) -> bool, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        // The value is dropped after the lock is released.
        let idle = slot.lock().unwrap_or_else(PoisonError::into_inner).take_if(|value| is_idle(value));
        if idle.is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    struct Used {
        _held: Arc<()>,
        last: Instant,
    }

    fn is_idle(used: &Used) -> bool {
        used.last.elapsed() > INTERVAL
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_value_is_dropped_and_a_used_one_is_kept() {
        let held = Arc::new(());
        let holder =
            IdleRelease::new(Used { _held: Arc::clone(&held), last: Instant::now() }, is_idle, INTERVAL);
        for _ in 0..5 {
            tokio::time::sleep(INTERVAL / 2).await;
            let mut used = holder.take().unwrap();
            used.last = Instant::now();
            holder.put(used);
        }
        tokio::time::sleep(INTERVAL * 3).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(holder.take().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_in_use_is_not_dropped() {
        let holder =
            IdleRelease::new(Used { _held: Arc::default(), last: Instant::now() }, is_idle, INTERVAL);
        let mut used = holder.take().unwrap();
        tokio::time::sleep(INTERVAL * 3).await;
        used.last = Instant::now();
        holder.put(used);
        assert!(holder.take().is_some());
    }
}
