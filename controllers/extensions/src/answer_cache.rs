//! Answers that are kept for a while.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use controllers_runtime::SteadyClock;

/// Most answers that a cache keeps. One of a Cluster or MachineSet has a few kilobytes at most.
const CAPACITY: usize = 4096;

/// Answers by key, each for a time of its own. Their number is limited: the one that ends first makes room. They are lost with
/// the process, and then the servers are called again.
pub struct AnswerCache<V> {
    capacity: usize,
    clock: SteadyClock,
    kept: Mutex<HashMap<String, Kept<V>>>,
}

/// Answer, and the end of its time.
struct Kept<V> {
    value: V,
    until: Instant,
}

impl<V> fmt::Debug for AnswerCache<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerCache").field("kept", &self.kept().len()).finish_non_exhaustive()
    }
}

impl<V> Default for AnswerCache<V> {
    fn default() -> Self {
        Self { capacity: CAPACITY, clock: SteadyClock::default(), kept: Mutex::default() }
    }
}

impl<V> AnswerCache<V> {
    /// Creates a cache of this many answers, whose times a clock measures. The default has 4,096 and the system's clock.
    pub fn new(capacity: usize, clock: SteadyClock) -> Self {
        Self { capacity, clock, ..Self::default() }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept<V>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an answer for a time, in place of an earlier one.
    pub fn keep(&self, key: String, value: V, time: Duration) {
        let now = self.clock.now();
        // A time too long for the clock is none that a server means.
        let Some(until) = now.checked_add(time) else { return };
        let mut kept = self.kept();
        if kept.len() >= self.capacity && !kept.contains_key(&key) {
            kept.retain(|_, it| it.until > now);
        }
        if kept.len() >= self.capacity && !kept.contains_key(&key) {
            let first = kept.iter().min_by_key(|(_, it)| it.until).map(|(key, _)| key.clone());
            if let Some(first) = first {
                kept.remove(&first);
            }
        }
        kept.insert(key, Kept { value, until });
    }

    /// Forgets an answer.
    pub fn forget(&self, key: &str) {
        self.kept().remove(key);
    }
}

impl<V: Clone> AnswerCache<V> {
    /// Returns an answer, and the rest of its time.
    pub fn get(&self, key: &str) -> Option<(V, Duration)> {
        let kept = self.kept();
        let found = kept.get(key)?;
        let rest = found.until.checked_duration_since(self.clock.now()).filter(|rest| !rest.is_zero())?;
        Some((found.value.clone(), rest))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Returns a cache of two answers, and the seconds of its clock.
    fn cache() -> (AnswerCache<u8>, Arc<AtomicU64>) {
        let (start, seconds) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let shown = Arc::clone(&seconds);
        let clock = SteadyClock::new(move || start + Duration::from_secs(shown.load(Ordering::Relaxed)));
        (AnswerCache::new(2, clock), seconds)
    }

    fn keep(cache: &AnswerCache<u8>, key: &str, value: u8, seconds: u64) {
        cache.keep(key.to_owned(), value, Duration::from_secs(seconds));
    }

    #[test]
    fn an_answer_is_kept_for_its_time() {
        let (cache, seconds) = cache();
        keep(&cache, "a", 1, 10);
        seconds.store(4, Ordering::Relaxed);
        assert_eq!(cache.get("a"), Some((1, Duration::from_secs(6))));
        keep(&cache, "a", 2, 10);
        seconds.store(13, Ordering::Relaxed);
        assert_eq!(cache.get("a"), Some((2, Duration::from_secs(1))));
        seconds.store(14, Ordering::Relaxed);
        assert_eq!(cache.get("a"), None);
        keep(&cache, "b", 3, 10);
        cache.forget("b");
        assert_eq!(cache.get("b"), None);
    }

    #[test]
    fn the_answer_that_ends_first_makes_room() {
        let (cache, seconds) = cache();
        keep(&cache, "long", 1, 60);
        keep(&cache, "short", 2, 30);
        keep(&cache, "new", 3, 45);
        assert_eq!((cache.get("short"), cache.kept().len()), (None, 2));
        seconds.store(50, Ordering::Relaxed);
        keep(&cache, "next", 4, 5);
        assert!(cache.get("long").is_some() && cache.get("next").is_some(), "the ended one made room");
        cache.keep("endless".to_owned(), 5, Duration::MAX);
        assert_eq!(cache.get("endless"), None);
    }
}
