//! What sets were read from and written as lately.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use ahash::RandomState;

/// A set that is longer is read and written each time. Unit: bytes of text.
const LONGEST: usize = 8 * 1024;

/// How much is kept before what was not asked for since is dropped. The programs that write to a cluster have some
/// hundred sets of a kilobyte; a set takes at most fifty times its text, which are 6 MiB. Unit: bytes of text.
const MOST: usize = 128 * 1024;

/// Sets by their text, or the text of sets, that were asked for lately. Those that differ from object to object, by the
/// uid of an owner, come and go.
#[derive(Debug)]
pub(crate) struct Known<K, V>(RwLock<Generations<K, V>>);

/// Looked up with each write and each owner of what is written: by a hash that takes a tenth of the standard library's
/// time, and has its own seed in each process as that has.
type All<K, V> = HashMap<K, Entry<V>, RandomState>;

#[derive(Debug, Clone)]
struct Entry<V> {
    value: V,
    /// How long its text is, in bytes.
    text: usize,
}

#[derive(Debug)]
struct Generations<K, V> {
    young: All<K, V>,
    /// Those that will be dropped unless somebody asks for them before the young ones are as many.
    old: All<K, V>,
    /// Text of the young ones, in bytes.
    text: usize,
}

impl<K, V> Default for Known<K, V> {
    fn default() -> Self {
        Self(RwLock::new(Generations { young: All::default(), old: All::default(), text: 0 }))
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Known<K, V> {
    /// What is known of this one.
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(young) = known.young.get(key) {
            return Some(young.value.clone());
        }
        let (key, old) = known.old.get_key_value(key).map(|(key, old)| (key.clone(), old.clone()))?;
        drop(known);
        self.keep(key, old.value.clone(), old.text);
        Some(old.value)
    }

    /// Keeps one whose text is so long.
    pub(crate) fn keep(&self, key: K, value: V, text: usize) {
        if text > LONGEST {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = All::default();
        if known.text + text > MOST {
            known.text = 0;
            let young = std::mem::take(&mut known.young);
            dropped = std::mem::replace(&mut known.old, young);
        }
        if known.young.insert(key, Entry { value, text }).is_none() {
            known.text += text;
        }
        drop(known);
        // Many small blocks: nobody waits for them to be freed.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(known: &Known<String, ()>, text: &str) {
        known.keep(text.to_owned(), (), text.len());
    }

    fn has(known: &Known<String, ()>, text: &str) -> bool {
        known.get(text).is_some()
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let known = Known::default();
        keep(&known, "asked for");
        for number in 0..1_000 {
            keep(&known, &format!("{number:01000}"));
            assert!(has(&known, "asked for"), "{number}");
        }
        assert!(has(&known, &format!("{:01000}", 999)));
        assert!(!has(&known, &format!("{:01000}", 1)));
        let generations = known.0.read().unwrap();
        let bytes = |sets: &All<String, ()>| sets.keys().map(String::len).sum::<usize>();
        assert_eq!(bytes(&generations.young), generations.text);
        assert!(generations.text <= MOST && bytes(&generations.old) <= MOST);
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let known = Known::default();
        let text = "x".repeat(LONGEST + 1);
        keep(&known, &text);
        assert!(!has(&known, &text));
    }
}
