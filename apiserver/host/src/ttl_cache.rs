//! TTL cache of the host's answers, bounded, with eviction of the least recently used one.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
struct Entry<V> {
    value: V,
    inserted: Instant,
    /// Count of its last use.
    used: u64,
}

#[derive(Debug)]
struct Entries<K, V> {
    by_key: HashMap<K, Entry<V>>,
    /// Keys by the count of their last use.
    order: BTreeMap<u64, K>,
    count: u64,
}

/// Bounded cache; the entry that was not used for the longest time makes room for a new one.
#[derive(Debug)]
pub(crate) struct TtlCache<K, V> {
    lifetime: Duration,
    capacity: usize,
    entries: Mutex<Entries<K, V>>,
}

impl<K: Clone + Eq + Hash, V: Clone> TtlCache<K, V> {
    pub(crate) fn new(lifetime: Duration, capacity: usize) -> Self {
        let entries = Entries { by_key: HashMap::new(), order: BTreeMap::new(), count: 0 };
        Self { lifetime, capacity, entries: Mutex::new(entries) }
    }

    /// Returns the value of a key, until it expires.
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut guard = self.lock();
        let entries = &mut *guard;
        let entry = entries.by_key.get_mut(key)?;
        if entry.inserted.elapsed() >= self.lifetime {
            return None;
        }
        entries.count += 1;
        if let Some(key) = entries.order.remove(&entry.used) {
            entries.order.insert(entries.count, key);
        }
        entry.used = entries.count;
        Some(entry.value.clone())
    }

    /// Removes the value of a key.
    pub(crate) fn remove(&self, key: &K) {
        let mut entries = self.lock();
        if let Some(old) = entries.by_key.remove(key) {
            entries.order.remove(&old.used);
        }
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut guard = self.lock();
        let entries = &mut *guard;
        entries.count += 1;
        let entry = Entry { value, inserted: Instant::now(), used: entries.count };
        if let Some(old) = entries.by_key.insert(key.clone(), entry) {
            entries.order.remove(&old.used);
        }
        entries.order.insert(entries.count, key);
        while entries.by_key.len() > self.capacity {
            let Some((_, oldest)) = entries.order.pop_first() else { return };
            entries.by_key.remove(&oldest);
        }
    }

    // Nothing under the lock can panic, except for a lack of memory.
    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn used_entries_stay_and_all_entries_expire() {
        let cache = TtlCache::new(Duration::from_secs(10), 2);
        cache.insert("a", 1);
        cache.insert("b", 2);
        assert_eq!(cache.get(&"a"), Some(1));
        cache.insert("c", 3);
        assert_eq!((cache.get(&"a"), cache.get(&"b"), cache.get(&"c")), (Some(1), None, Some(3)));
        cache.insert("c", 4);
        assert_eq!((cache.get(&"a"), cache.get(&"c")), (Some(1), Some(4)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((cache.get(&"a"), cache.get(&"c")), (None, None));
        for number in 0..100 {
            cache.insert("a", number);
        }
        cache.remove(&"a");
        assert_eq!(cache.get(&"a"), None);
        let entries = cache.lock();
        assert_eq!((entries.by_key.len(), entries.order.len()), (1, 1));
    }
}
