//! Queue of the writes that wait for a transaction.

use std::collections::HashMap;
use std::sync::Arc;

use storage_contract::{Key, Revision, StoreResult};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::revision::EACH;
use crate::write::Write;

/// Number of single writes in a row after which no further ones are expected. Under many writers, one write in three
/// or four is single by chance, and sixteen in a row never are.
const QUIET: u8 = 16;

/// Writes that wait for the transactions in flight. None of them writes a key that another one writes or depends on:
/// the parts of a transaction happen at one moment.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Number of transactions in flight.
    pub(crate) in_flight: usize,
    /// Number of times in a row that at most one write was taken, up to [`QUIET`].
    single: u8,
    waiting: Vec<Waiting>,
    /// Uses of keys by the waiting writes.
    keys: HashMap<Key, Use>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { in_flight: 0, single: QUIET, waiting: Vec::new(), keys: HashMap::new() }
    }
}

/// Write that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) write: Arc<Write>,
    pub(crate) deadline: Instant,
    pub(crate) answer: oneshot::Sender<StoreResult<Revision>>,
}

/// Use of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Written,
    /// This number of writes depends on it.
    Guard(usize),
}

impl Queue {
    /// Returns true if a write shares no key with the waiting writes.
    pub(crate) fn is_apart(&self, write: &Write) -> bool {
        let guard = write.unchanged.as_ref().and_then(|unchanged| self.keys.get(&unchanged.key));
        !self.keys.contains_key(&write.key) && guard != Some(&Use::Written)
    }

    /// Adds a write, which must be apart.
    pub(crate) fn push(&mut self, waiting: Waiting) {
        self.keys.insert(waiting.write.key.clone(), Use::Written);
        if let Some(unchanged) = &waiting.write.unchanged {
            let uses = self.keys.entry(unchanged.key.clone()).or_insert(Use::Guard(0));
            if let Use::Guard(count) = uses {
                *count += 1;
            }
        }
        self.waiting.push(waiting);
    }

    /// Returns true if writes were batched lately.
    pub(crate) fn expects_more(&self) -> bool {
        self.single < QUIET
    }

    /// Returns true if no write waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Removes a waiting write. Returns false if it does not wait.
    pub(crate) fn withdraw(&mut self, write: &Arc<Write>) -> bool {
        let position = self.waiting.iter().position(|waiting| Arc::ptr_eq(&waiting.write, write));
        position
            .map(|position| self.waiting.remove(position))
            .inspect(|waiting| self.release_keys(&waiting.write))
            .is_some()
    }

    /// Takes the writes of one transaction: the first, and those that fit with it. A write without a caller is left
    /// out, and so is one whose deadline has passed, which will withdraw.
    pub(crate) fn take(&mut self, largest: usize) -> Vec<Waiting> {
        let (mut batch, mut size) = (Vec::new(), 0);
        let mut rest = std::mem::take(&mut self.waiting).into_iter();
        while batch.len() < usize::from(EACH)
            && let Some(next) = rest.next()
        {
            let more = size + next.write.size_of_part();
            if next.answer.is_closed() {
                self.release_keys(&next.write);
            } else if next.deadline <= Instant::now() {
                self.waiting.push(next);
            } else if !batch.is_empty() && more > largest {
                self.waiting.push(next);
                break;
            } else {
                self.release_keys(&next.write);
                size = more;
                batch.push(next);
            }
        }
        self.waiting.extend(rest);
        self.single = if batch.len() > 1 { 0 } else { QUIET.min(self.single + 1) };
        batch
    }

    /// Releases the keys of a write.
    fn release_keys(&mut self, write: &Write) {
        self.keys.remove(&write.key);
        let Some(unchanged) = &write.unchanged else { return };
        match self.keys.get_mut(&unchanged.key) {
            Some(Use::Guard(count)) if *count > 1 => *count -= 1,
            Some(Use::Guard(_)) => drop(self.keys.remove(&unchanged.key)),
            Some(Use::Written) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use storage_contract::Unchanged;

    use super::*;

    type Answers = Vec<oneshot::Receiver<StoreResult<Revision>>>;

    fn key(name: &str) -> Key {
        Key::new(format!("/{name}")).unwrap()
    }

    /// Creates a write of ten bytes that depends on another key, or on none.
    fn write(name: &str, guard: &str) -> Arc<Write> {
        let unchanged =
            (!guard.is_empty()).then(|| Unchanged { key: key(guard), modified: Revision::new(1) });
        let value = Some(Bytes::from_static(&[b'x'; 10]));
        Arc::new(Write { operation: "create", key: key(name), value, expected: None, unchanged })
    }

    /// Queues the writes that are apart from those before, and returns which.
    fn push(queue: &mut Queue, writes: &[(&str, &str)]) -> (Vec<bool>, Answers) {
        let mut answers = Vec::new();
        let mut push = |(name, guard): &(&str, &str)| {
            let write = write(name, guard);
            let is_apart = queue.is_apart(&write);
            if is_apart {
                let (answer, answered) = oneshot::channel();
                queue.push(Waiting { write, deadline: Instant::now() + Duration::from_secs(10), answer });
                answers.push(answered);
            }
            is_apart
        };
        (writes.iter().map(&mut push).collect(), answers)
    }

    fn taken(queue: &mut Queue, largest: usize) -> Vec<String> {
        queue.take(largest).iter().map(|waiting| waiting.write.key.to_string()).collect()
    }

    #[test]
    fn a_write_that_shares_a_key_with_a_queued_one_is_not_queued() {
        let mut queue = Queue::default();
        let writes = [("a", "space"), ("b", "space"), ("a", ""), ("space", ""), ("c", "b"), ("d", "")];
        let (apart, _answers) = push(&mut queue, &writes);
        assert_eq!(apart, [true, true, false, false, false, true]);
        assert_eq!(taken(&mut queue, 10_000), ["/a", "/b", "/d"]);
        let (apart, _answers) = push(&mut queue, &[("space", ""), ("a", "space"), ("c", "b")]);
        assert_eq!(apart, [true, false, true], "writes in flight block no other write");
    }

    #[test]
    fn a_key_is_released_when_no_queued_write_uses_it() {
        let mut queue = Queue::default();
        let (_, answers) = push(&mut queue, &[("a", "space"), ("b", "space"), ("c", "space")]);
        assert_eq!(taken(&mut queue, 0), ["/a"], "the first goes however large it is");
        assert!(!queue.is_apart(&write("space", "")));
        let first = Arc::clone(&queue.waiting[0].write);
        assert!(queue.withdraw(&first) && !queue.withdraw(&first));
        assert!(!queue.is_apart(&write("space", "")));
        drop(answers);
        assert!(queue.take(0).is_empty(), "its caller is gone");
        assert!(queue.is_apart(&write("space", "")));
    }

    #[test]
    fn a_transaction_is_limited_in_bytes() {
        let mut queue = Queue::default();
        let (_, _answers) = push(&mut queue, &[("a", ""), ("b", ""), ("c", "")]);
        let each = write("a", "").size_of_part();
        assert_eq!(taken(&mut queue, each * 3 - 1), ["/a", "/b"]);
        assert_eq!(taken(&mut queue, 1), ["/c"]);
    }

    #[test]
    fn a_transaction_has_at_most_one_write_per_revision() {
        let names: Vec<String> = (0..150).map(|number| format!("n{number}")).collect();
        let writes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let mut queue = Queue::default();
        let (_, _answers) = push(&mut queue, &writes);
        assert_eq!((taken(&mut queue, 1_000_000).len(), taken(&mut queue, 1_000_000).len()), (100, 50));
    }

    #[test]
    fn more_writes_are_expected_until_many_arrived_alone() {
        let mut queue = Queue::default();
        let mut are_many_after = |names: &[(&str, &str)]| {
            let (_, _answers) = push(&mut queue, names);
            assert_eq!(taken(&mut queue, 10_000).len(), names.len());
            queue.expects_more()
        };
        assert!(!are_many_after(&[("a", "")]), "the first is by itself");
        assert!(are_many_after(&[("a", ""), ("b", "")]));
        let single: Vec<bool> = (0..QUIET + 1).map(|_| are_many_after(&[("a", "")])).collect();
        assert_eq!(single.iter().position(|expects_more| !expects_more), Some(usize::from(QUIET) - 1));
        assert!(are_many_after(&[("a", ""), ("b", "")]));
    }

    #[test]
    fn a_write_past_its_deadline_is_not_sent() {
        let mut queue = Queue::default();
        let (_, _answers) = push(&mut queue, &[("a", ""), ("b", "")]);
        queue.waiting[0].deadline = Instant::now();
        let late = Arc::clone(&queue.waiting[0].write);
        assert_eq!(taken(&mut queue, 10_000), ["/b"]);
        assert!(queue.withdraw(&late));
    }
}
