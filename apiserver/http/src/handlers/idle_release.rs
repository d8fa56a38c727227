//! What nobody asks for any more.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_executor::spawn_joined;
use tokio_util::task::AbortOnDropHandle;

/// How long a client may leave an event untaken before its watch is closed. It then comes back with the last revision it
/// saw, and misses nothing.
pub(super) const SLOWEST: Duration = Duration::from_secs(60);

/// Holds a value between two uses of it, and no longer than it is worth: a watch holds up to all that was there when it
/// began, which is not kept for a client that takes nothing, however long its connection lasts.
pub(super) struct Parked<T> {
    /// In a place of its own: it may be large, and is handed on for every use.
    place: Arc<Mutex<Option<Box<T>>>>,
    is_left: fn(&T) -> bool,
    _cleared: AbortOnDropHandle<()>,
}

impl<T: Send + 'static> Parked<T> {
    /// Drops `value` when it is parked and `is_left` says that nobody comes back for it, which is asked so `often`.
    pub(super) fn new(value: T, is_left: fn(&T) -> bool, often: Duration) -> Self {
        let place = Arc::new(Mutex::new(Some(Box::new(value))));
        let cleared = spawn_joined(clear(Arc::clone(&place), is_left, often));
        Self { place, is_left, _cleared: AbortOnDropHandle::new(cleared) }
    }

    /// The value, for a use of it; `None` once it is left.
    pub(super) fn take(&self) -> Option<Box<T>> {
        let value = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.filter(|value| !(self.is_left)(value))
    }

    /// After that.
    pub(super) fn put(&self, value: Box<T>) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

async fn clear<T>(place: Arc<Mutex<Option<Box<T>>>>, is_left: fn(&T) -> bool, often: Duration) {
    loop {
        tokio::time::sleep(often).await;
        // Dropped after the lock is.
        let left = place.lock().unwrap_or_else(PoisonError::into_inner).take_if(|value| is_left(value));
        if left.is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    const OFTEN: Duration = Duration::from_secs(60);

    struct Used {
        _held: Arc<()>,
        last: Instant,
    }

    fn is_left(used: &Used) -> bool {
        used.last.elapsed() > OFTEN
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_is_dropped_and_what_is_used_is_not() {
        let held = Arc::new(());
        let parked = Parked::new(Used { _held: Arc::clone(&held), last: Instant::now() }, is_left, OFTEN);
        for _ in 0..5 {
            tokio::time::sleep(OFTEN / 2).await;
            let mut used = parked.take().unwrap();
            used.last = Instant::now();
            parked.put(used);
        }
        tokio::time::sleep(OFTEN * 3).await;
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(parked.take().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_in_use_is_not_dropped_however_long_that_takes() {
        let parked = Parked::new(Used { _held: Arc::default(), last: Instant::now() }, is_left, OFTEN);
        let mut used = parked.take().unwrap();
        tokio::time::sleep(OFTEN * 3).await;
        used.last = Instant::now();
        parked.put(used);
        assert!(parked.take().is_some());
    }
}
