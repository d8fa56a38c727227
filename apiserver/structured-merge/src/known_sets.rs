//! Sets that were read lately, by their text.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::set::Set;

/// A set that is longer is read each time. Unit: bytes of text.
const LONGEST: usize = 8 * 1024;

/// How much is kept before what was not asked for since is dropped. The programs that write to a cluster have some
/// hundred sets of a kilobyte; a set takes at most fifty times its text, which are 6 MiB. Unit: bytes of text.
const MOST: usize = 128 * 1024;

/// Sets that were asked for lately. Those that differ from object to object, by the uid of an owner, come and go.
#[derive(Debug, Default)]
pub(crate) struct KnownSets(RwLock<Generations>);

type Sets = HashMap<Box<str>, Arc<Set>>;

#[derive(Debug, Default)]
struct Generations {
    young: Sets,
    /// Those that will be dropped unless somebody asks for them before the young ones are as many.
    old: Sets,
    /// Text of the young ones, in bytes.
    text: usize,
}

impl KnownSets {
    pub(crate) fn get(&self, text: &str) -> Option<Arc<Set>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(young) = known.young.get(text) {
            return Some(Arc::clone(young));
        }
        let old = known.old.get(text).map(Arc::clone)?;
        drop(known);
        self.keep(text, &old);
        Some(old)
    }

    pub(crate) fn keep(&self, text: &str, set: &Arc<Set>) {
        if text.len() > LONGEST {
            return;
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = Sets::default();
        if known.text + text.len() > MOST {
            known.text = 0;
            let young = std::mem::take(&mut known.young);
            dropped = std::mem::replace(&mut known.old, young);
        }
        if known.young.insert(text.into(), Arc::clone(set)).is_none() {
            known.text += text.len();
        }
        drop(known);
        // Many small blocks: nobody waits for them to be freed.
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_bounded() {
        let (known, set) = (KnownSets::default(), Arc::<Set>::default());
        known.keep("asked for", &set);
        for number in 0..1_000 {
            known.keep(&format!("{number:01000}"), &set);
            assert!(known.get("asked for").is_some(), "{number}");
        }
        assert!(known.get(&format!("{:01000}", 999)).is_some());
        assert!(known.get(&format!("{:01000}", 1)).is_none());
        let generations = known.0.read().unwrap();
        let bytes = |sets: &Sets| sets.keys().map(|text| text.len()).sum::<usize>();
        assert_eq!(bytes(&generations.young), generations.text);
        assert!(generations.text <= MOST && bytes(&generations.old) <= MOST);
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let (known, set) = (KnownSets::default(), Arc::<Set>::default());
        let text = "x".repeat(LONGEST + 1);
        known.keep(&text, &set);
        assert!(known.get(&text).is_none());
    }
}
