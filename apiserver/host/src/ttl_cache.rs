//! What the host has answered, believed for a few seconds.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug)]
struct Answer<V> {
    value: V,
    at: Instant,
    /// When it was last used, by count.
    used: u64,
}

#[derive(Debug)]
struct Kept<K, V> {
    answers: HashMap<K, Answer<V>>,
    /// The questions by when they were last used.
    order: BTreeMap<u64, K>,
    count: u64,
}

/// A bounded number of answers; the one that was not used for longest makes room for the next.
#[derive(Debug)]
pub(crate) struct Answers<K, V> {
    believed: Duration,
    most: usize,
    kept: Mutex<Kept<K, V>>,
}

impl<K: Clone + Eq + Hash, V: Clone> Answers<K, V> {
    pub(crate) fn new(believed: Duration, most: usize) -> Self {
        let kept = Kept { answers: HashMap::new(), order: BTreeMap::new(), count: 0 };
        Self { believed, most, kept: Mutex::new(kept) }
    }

    /// The answer, as long as it is believed.
    pub(crate) fn get(&self, question: &K) -> Option<V> {
        let mut guard = self.lock();
        let kept = &mut *guard;
        let answer = kept.answers.get_mut(question)?;
        if answer.at.elapsed() >= self.believed {
            return None;
        }
        kept.count += 1;
        if let Some(question) = kept.order.remove(&answer.used) {
            kept.order.insert(kept.count, question);
        }
        answer.used = kept.count;
        Some(answer.value.clone())
    }

    pub(crate) fn insert(&self, question: K, value: V) {
        let mut guard = self.lock();
        let kept = &mut *guard;
        kept.count += 1;
        let answer = Answer { value, at: Instant::now(), used: kept.count };
        if let Some(old) = kept.answers.insert(question.clone(), answer) {
            kept.order.remove(&old.used);
        }
        kept.order.insert(kept.count, question);
        while kept.answers.len() > self.most {
            let Some((_, oldest)) = kept.order.pop_first() else { return };
            kept.answers.remove(&oldest);
        }
    }

    // Nothing that can panic happens under the lock but running out of memory.
    fn lock(&self) -> MutexGuard<'_, Kept<K, V>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_used_stays_and_nothing_stays_too_long() {
        let answers = Answers::new(Duration::from_secs(10), 2);
        answers.insert("a", 1);
        answers.insert("b", 2);
        assert_eq!(answers.get(&"a"), Some(1));
        answers.insert("c", 3);
        assert_eq!((answers.get(&"a"), answers.get(&"b"), answers.get(&"c")), (Some(1), None, Some(3)));
        answers.insert("c", 4);
        assert_eq!((answers.get(&"a"), answers.get(&"c")), (Some(1), Some(4)));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((answers.get(&"a"), answers.get(&"c")), (None, None));
        for number in 0..100 {
            answers.insert("a", number);
        }
        let kept = answers.lock();
        assert_eq!((kept.answers.len(), kept.order.len()), (2, 2));
    }
}
