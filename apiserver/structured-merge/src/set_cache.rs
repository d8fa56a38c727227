//! Cache of recently read and written sets.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use ahash::RandomState;

/// Longest cached set; a longer one is parsed and written each time. Unit: bytes of text.
const LONGEST: usize = 8 * 1024;

/// Size of a generation, after which the entries that were not requested since are dropped. The programs that write
/// to a cluster have a few hundred sets of a kilobyte; a set takes at most fifty times its text, which are 6 MiB.
/// Unit: bytes of text.
const GENERATION_SIZE: usize = 128 * 1024;

/// Cache of sets by their text, or of the text of sets. Sets that differ from object to object, by the uid of an
/// owner, come and go.
#[derive(Debug)]
pub(crate) struct SetCache<K, V>(RwLock<Generations<K, V>>);

/// Entries of a generation. Each write looks up the set of each field manager, by a hash that takes a tenth of the
/// standard library's time, and has its own seed in each process as that has.
type Generation<K, V> = HashMap<K, Entry<V>, RandomState>;

#[derive(Debug, Clone)]
struct Entry<V> {
    value: V,
    /// Length of its text, in bytes.
    text: usize,
}

#[derive(Debug)]
struct Generations<K, V> {
    young: Generation<K, V>,
    /// Entries that are dropped unless they are requested before the young generation is full.
    old: Generation<K, V>,
    /// Text of the young entries, in bytes.
    text: usize,
}

impl<K, V> Default for SetCache<K, V> {
    fn default() -> Self {
        Self(RwLock::new(Generations { young: Generation::default(), old: Generation::default(), text: 0 }))
    }
}

impl<K: Hash + Eq + Clone, V: Clone> SetCache<K, V> {
    /// Returns the value of a key.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let cache = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(young) = cache.young.get(key) {
            return Some(young.value.clone());
        }
        let (key, old) = cache.old.get_key_value(key).map(|(key, old)| (key.clone(), old.clone()))?;
        drop(cache);
        self.insert(key, old.value.clone(), old.text);
        Some(old.value)
    }

    /// Inserts an entry whose text has this length.
    pub(crate) fn insert(&self, key: K, value: V, text: usize) {
        if text > LONGEST {
            return;
        }
        let mut cache = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = Generation::default();
        if cache.text + text > GENERATION_SIZE {
            cache.text = 0;
            let young = std::mem::take(&mut cache.young);
            dropped = std::mem::replace(&mut cache.old, young);
        }
        if cache.young.insert(key, Entry { value, text }).is_none() {
            cache.text += text;
        }
        drop(cache);
        // After the lock is released: no caller waits until the many small blocks are freed.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(cache: &SetCache<String, ()>, text: &str) {
        cache.insert(text.to_owned(), (), text.len());
    }

    fn has(cache: &SetCache<String, ()>, text: &str) -> bool {
        cache.get(text).is_some()
    }

    #[test]
    fn requested_entries_stay_and_the_others_are_bounded() {
        let cache = SetCache::default();
        insert(&cache, "requested");
        for number in 0..1_000 {
            insert(&cache, &format!("{number:01000}"));
            assert!(has(&cache, "requested"), "{number}");
        }
        assert!(has(&cache, &format!("{:01000}", 999)));
        assert!(!has(&cache, &format!("{:01000}", 1)));
        let generations = cache.0.read().unwrap();
        let bytes = |sets: &Generation<String, ()>| sets.keys().map(String::len).sum::<usize>();
        assert_eq!(bytes(&generations.young), generations.text);
        assert!(generations.text <= GENERATION_SIZE && bytes(&generations.old) <= GENERATION_SIZE);
    }

    #[test]
    fn a_set_that_is_too_long_is_not_cached() {
        let cache = SetCache::default();
        let text = "x".repeat(LONGEST + 1);
        insert(&cache, &text);
        assert!(!has(&cache, &text));
    }
}
