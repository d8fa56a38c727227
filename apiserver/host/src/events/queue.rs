//! Queue of Events for the host: bounded, with one entry for each Event, however often it changed.

use std::collections::{HashMap, VecDeque};

use k8s_openapi::api::core::v1::Event;

/// Key of an Event: namespace and name.
pub(super) type Key = (String, String);

/// Events in the order in which they are sent.
#[derive(Debug)]
pub(super) struct Queue {
    most: usize,
    order: VecDeque<Key>,
    waiting: HashMap<Key, Event>,
}

impl Queue {
    /// Creates a queue of at most this many Events.
    pub(super) fn new(most: usize) -> Self {
        Self { most, order: VecDeque::new(), waiting: HashMap::new() }
    }

    /// Adds an Event at the end, or replaces its queued state. Returns true if the oldest Event was dropped for it.
    pub(super) fn push(&mut self, key: Key, event: Event) -> bool {
        if self.waiting.insert(key.clone(), event).is_some() {
            return false;
        }
        self.order.push_back(key);
        let is_full = self.order.len() > self.most;
        if is_full && let Some(oldest) = self.order.pop_front() {
            self.waiting.remove(&oldest);
        }
        is_full
    }

    /// Takes the oldest Event.
    pub(super) fn pop(&mut self) -> Option<(Key, Event)> {
        let key = self.order.pop_front()?;
        self.waiting.remove(&key).map(|event| (key, event))
    }

    /// Puts an Event back, unless a newer state of it is queued or the queue is full.
    pub(super) fn put_back(&mut self, key: Key, event: Event) {
        if self.order.len() < self.most && !self.waiting.contains_key(&key) {
            self.order.push_front(key.clone());
            self.waiting.insert(key, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("n".to_owned(), name.to_owned())
    }

    fn event(count: i32) -> Event {
        Event { count: Some(count), ..Event::default() }
    }

    fn rest(mut queue: Queue) -> Vec<(String, Option<i32>)> {
        let mut rest = Vec::new();
        while let Some(((_, name), event)) = queue.pop() {
            rest.push((name, event.count));
        }
        rest
    }

    #[test]
    fn a_full_queue_drops_the_oldest_and_keeps_the_newest_state() {
        let mut queue = Queue::new(2);
        assert!(!queue.push(key("a"), event(1)));
        assert!(!queue.push(key("b"), event(1)));
        assert!(!queue.push(key("b"), event(2)), "a change takes no room");
        assert!(queue.push(key("c"), event(1)));
        assert_eq!(rest(queue), [("b".to_owned(), Some(2)), ("c".to_owned(), Some(1))]);
    }

    #[test]
    fn an_event_put_back_comes_first_and_never_replaces_a_newer_one() {
        let mut queue = Queue::new(2);
        queue.push(key("a"), event(1));
        queue.push(key("b"), event(1));
        let (taken, old) = queue.pop().unwrap();
        queue.put_back(taken.clone(), old.clone());
        assert_eq!(queue.pop().unwrap().0, taken);
        queue.push(key("a"), event(2));
        queue.put_back(taken, old);
        assert_eq!(rest(queue), [("b".to_owned(), Some(1)), ("a".to_owned(), Some(2))]);
    }
}
