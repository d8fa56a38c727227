//! Queue of Events for the host: bounded, fair between namespaces, with one record for each Event, however often it
//! changed. An Event is in flight at most once, so that an older state never overtakes a newer one.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use tokio::time::Instant;

/// First pause of a record after a failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause of a record.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Key of an Event: namespace and name.
pub(super) type Key = (String, String);

/// Event that waits.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) event: Event,
    /// Revision of this state in our own store.
    revision: u64,
    failures: u32,
    /// Time of the next attempt.
    due: Instant,
    /// Time since which the Event waits.
    since: Instant,
}

/// Events of one namespace, in the order in which they came.
#[derive(Debug, Default)]
struct Namespace {
    order: VecDeque<String>,
    records: HashMap<String, Record>,
}

/// Events in the order in which they are sent: the namespaces take turns.
#[derive(Debug)]
pub(super) struct Queue {
    most: usize,
    most_of_namespace: usize,
    turns: VecDeque<String>,
    namespaces: HashMap<String, Namespace>,
    count: usize,
    /// Events that are being sent, with their revisions. They are few.
    in_flight: Vec<(Key, u64)>,
}

impl Record {
    /// Counts a failure, after which the record waits.
    pub(super) fn fail(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        self.due = now + pause.min(LONGEST_PAUSE);
    }
}

impl Queue {
    /// Creates a queue of at most `most` Events, of which `most_of_namespace` are of one namespace.
    pub(super) fn new(most: usize, most_of_namespace: usize) -> Self {
        let (turns, namespaces) = (VecDeque::new(), HashMap::new());
        Self { most, most_of_namespace, turns, namespaces, count: 0, in_flight: Vec::new() }
    }

    /// Adds an Event at the end, or replaces its queued state. Returns the number of Events that were dropped for it.
    pub(super) fn push(&mut self, (namespace, name): Key, event: Event, revision: u64, now: Instant) -> u64 {
        let queued = self.namespaces.get_mut(&namespace).and_then(|it| it.records.get_mut(&name));
        if let Some(queued) = queued {
            (queued.event, queued.revision) = (event, revision);
            return 0;
        }
        let records = self.namespace(&namespace);
        records.order.push_back(name.clone());
        records.records.insert(name, Record { event, revision, failures: 0, due: now, since: now });
        self.added(&namespace)
    }

    /// Takes the oldest Event that is due, of the namespace whose turn it is. It is in flight until it is put back, or
    /// its end is noted.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Key, Record)> {
        for turn in 0..self.turns.len() {
            let namespace = self.turns.get(turn)?;
            let records = self.namespaces.get(namespace)?;
            let is_due = |name: &&String| records.records.get(*name).is_some_and(|record| record.due <= now);
            let mut due = records.order.iter().filter(is_due);
            let Some(name) = due.find(|name| !self.is_in_flight(namespace, name)).cloned() else { continue };
            let namespace = self.turns.remove(turn)?;
            self.turns.push_back(namespace.clone());
            let record = self.remove(&namespace, &name)?;
            let key = (namespace, name);
            self.in_flight.push((key.clone(), record.revision));
            return Some((key, record));
        }
        None
    }

    /// Makes each queued Event due now that has failed. The host is back after an outage, and may take it.
    pub(super) fn retry_failed(&mut self, now: Instant) {
        let records = self.namespaces.values_mut().flat_map(|it| it.records.values_mut());
        for record in records.filter(|record| record.failures > 0) {
            (record.failures, record.due) = (0, now);
        }
    }

    /// Notes that an Event is not in flight any more.
    pub(super) fn end(&mut self, key: &Key) {
        self.in_flight.retain(|(other, _)| other != key);
    }

    /// Returns the time at which the next Event is due. Those in flight do not count.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let all = self.namespaces.iter().flat_map(|(namespace, it)| {
            it.records.iter().filter(|(name, _)| !self.is_in_flight(namespace, name))
        });
        all.map(|(_, record)| record.due).min()
    }

    /// Returns true if an Event is queued or in flight.
    pub(super) fn holds(&self, namespace: &str, name: &str) -> bool {
        let is_queued = self.namespaces.get(namespace).is_some_and(|it| it.records.contains_key(name));
        is_queued || self.is_in_flight(namespace, name)
    }

    /// Returns the lowest revision of all Events that are queued or in flight.
    pub(super) fn lowest_revision(&self) -> Option<u64> {
        let queued = self.namespaces.values().flat_map(|it| it.records.values()).map(|it| it.revision);
        queued.chain(self.in_flight.iter().map(|(_, revision)| *revision)).min()
    }

    fn is_in_flight(&self, namespace: &str, name: &str) -> bool {
        self.in_flight.iter().any(|((its_namespace, its_name), _)| {
            its_namespace.as_str() == namespace && its_name.as_str() == name
        })
    }

    /// Returns the number of Events, and the time for which the oldest one waits.
    pub(super) fn backlog(&self, now: Instant) -> (usize, Duration) {
        let records = self.namespaces.values().flat_map(|it| it.records.values());
        let oldest = records.map(|record| now.saturating_duration_since(record.since)).max();
        (self.count, oldest.unwrap_or_default())
    }

    /// Puts a record back that failed. A newer state of its Event that is queued waits as long. Returns the number of
    /// Events that were dropped for it.
    pub(super) fn put_back(&mut self, key: Key, record: Record) -> u64 {
        self.end(&key);
        let (namespace, name) = key;
        let records = self.namespace(&namespace);
        if let Some(newer) = records.records.get_mut(&name) {
            (newer.failures, newer.due, newer.since) = (record.failures, record.due, record.since);
            return 0;
        }
        records.order.push_front(name.clone());
        records.records.insert(name, record);
        self.added(&namespace)
    }

    fn namespace(&mut self, name: &str) -> &mut Namespace {
        if !self.namespaces.contains_key(name) {
            self.turns.push_back(name.to_owned());
        }
        self.namespaces.entry(name.to_owned()).or_default()
    }

    /// Counts a new record of a namespace, and drops the oldest one of it, or of the largest namespace, if there are too
    /// many.
    fn added(&mut self, namespace: &str) -> u64 {
        self.count += 1;
        let is_large =
            self.namespaces.get(namespace).is_some_and(|it| it.order.len() > self.most_of_namespace);
        let from = match (is_large, self.count > self.most) {
            (true, _) => Some(namespace.to_owned()),
            (false, true) => {
                self.namespaces.iter().max_by_key(|(_, it)| it.order.len()).map(|(name, _)| name.clone())
            }
            (false, false) => None,
        };
        let oldest = from.and_then(|from| {
            let name = self.namespaces.get(&from)?.order.front()?.clone();
            self.remove(&from, &name)
        });
        u64::from(oldest.is_some())
    }

    fn remove(&mut self, namespace: &str, name: &str) -> Option<Record> {
        let records = self.namespaces.get_mut(namespace)?;
        records.order.retain(|other| other != name);
        let record = records.records.remove(name)?;
        self.count -= 1;
        if records.order.is_empty() {
            self.namespaces.remove(namespace);
            self.turns.retain(|other| other != namespace);
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: &str) -> Key {
        (namespace.to_owned(), name.to_owned())
    }

    fn event(count: i32) -> Event {
        Event { count: Some(count), ..Event::default() }
    }

    fn rest(queue: &mut Queue, now: Instant) -> Vec<String> {
        let mut rest = Vec::new();
        while let Some((key, record)) = queue.pop(now) {
            queue.end(&key);
            let (namespace, name) = key;
            rest.push(format!("{namespace}/{name}={}", record.event.count.unwrap_or_default()));
        }
        rest
    }

    #[test]
    fn a_full_queue_drops_the_oldest_of_the_largest_namespace() {
        let (mut queue, now) = (Queue::new(3, 2), Instant::now());
        let mut push = |namespace, name, count| queue.push(key(namespace, name), event(count), 1, now);
        assert_eq!([push("n", "a", 1), push("n", "b", 1), push("n", "b", 2)], [0, 0, 0]);
        assert_eq!(push("n", "c", 1), 1, "two of a namespace");
        assert_eq!(push("m", "x", 1), 0);
        assert_eq!(push("o", "y", 1), 1, "three of all");
        assert_eq!(rest(&mut queue, now), ["n/c=1", "m/x=1", "o/y=1"]);
        assert_eq!(queue.count, 0);
    }

    #[test]
    fn namespaces_take_turns_and_a_failed_record_waits_without_stopping_others() {
        let (mut queue, start) = (Queue::new(10, 10), Instant::now());
        for (namespace, name) in [("n", "a"), ("n", "b"), ("m", "x"), ("m", "y")] {
            queue.push(key(namespace, name), event(1), 1, start);
        }
        let (failed, mut record) = queue.pop(start).unwrap();
        record.fail(start);
        assert_eq!(queue.put_back(failed, record), 0);
        assert_eq!(rest(&mut queue, start), ["m/x=1", "n/b=1", "m/y=1"]);
        assert_eq!(queue.next_due(), Some(start + FIRST_PAUSE));
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..11 {
            let due = queue.next_due().unwrap();
            pauses.push(due.duration_since(now).as_secs());
            assert!(queue.pop(due - Duration::from_millis(1)).is_none());
            let (key, mut record) = queue.pop(due).unwrap();
            record.fail(due);
            queue.put_back(key, record);
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert!(queue.pop(now).is_none());
        queue.retry_failed(now);
        assert_eq!(rest(&mut queue, now), ["n/a=1"], "the host is back");
    }

    #[test]
    fn a_record_put_back_never_replaces_a_newer_one_and_a_loss_is_counted() {
        let (mut queue, now) = (Queue::new(2, 2), Instant::now());
        queue.push(key("n", "a"), event(1), 1, now);
        let (taken, mut old) = queue.pop(now).unwrap();
        queue.push(key("n", "a"), event(2), 2, now);
        old.fail(now);
        assert_eq!(queue.put_back(taken, old), 0);
        assert!(queue.pop(now).is_none(), "the newer state waits, too");
        assert_eq!(queue.backlog(now + FIRST_PAUSE), (1, FIRST_PAUSE));
        assert_eq!(rest(&mut queue, now + FIRST_PAUSE), ["n/a=2"]);
        queue.push(key("n", "a"), event(1), 1, now);
        let (taken, old) = queue.pop(now).unwrap();
        for name in ["b", "c"] {
            assert_eq!(queue.push(key("n", name), event(1), 1, now), 0);
        }
        assert_eq!(queue.put_back(taken, old), 1, "it was the oldest");
        assert_eq!(rest(&mut queue, now), ["n/b=1", "n/c=1"]);
        assert_eq!(queue.backlog(now), (0, Duration::ZERO));
    }
    #[test]
    fn an_event_is_in_flight_once_and_counts_until_it_has_ended() {
        let (mut queue, now) = (Queue::new(10, 10), Instant::now());
        assert_eq!(queue.lowest_revision(), None);
        for (name, revision) in [("a", 7), ("b", 9)] {
            queue.push(key("n", name), event(1), revision, now);
        }
        let (first, _) = queue.pop(now).unwrap();
        queue.push(key("n", "a"), event(2), 11, now);
        assert_eq!(queue.lowest_revision(), Some(7), "the older state may still fail");
        let (second, _) = queue.pop(now).unwrap();
        assert_eq!([&first.1, &second.1], ["a", "b"]);
        assert!(
            queue.pop(now).is_none() && queue.next_due().is_none(),
            "the newer state waits for the older"
        );
        assert!(queue.holds("n", "a") && queue.holds("n", "b") && !queue.holds("m", "a"));
        queue.end(&second);
        assert!(!queue.holds("n", "b"));
        queue.end(&first);
        assert_eq!((queue.lowest_revision(), queue.next_due()), (Some(11), Some(now)));
        assert_eq!(rest(&mut queue, now), ["n/a=2"]);
    }
}
