//! Schedule of the passes over Secrets: when each is due, whose turn it is, and the results.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::record::{CopyRecord, Key};
use crate::health::Backlog;

/// First pause after a failure; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

/// Pause after the first refusal of a Secret. A host that starts may refuse until it has read its roles.
const FIRST_REFUSAL: Duration = Duration::from_secs(30);

/// Interval at which each copy is compared again: someone may have changed or deleted it in the host.
pub(super) const COMPARE: Duration = Duration::from_secs(600);

/// Refusal of a copy, or of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `WriteBackRefused`: the host has a Secret of another owner, or does not accept the object. `WriteBackForbidden`: a
    /// permission is missing.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}

/// Result of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The host is owed nothing now.
    Settled,
    /// The host is owed something, and another pass is necessary.
    Pending,
    /// The host does not take it, until a person changes something.
    Refused(Refusal),
}

/// Secret that has a copy in the host, or is to have one.
#[derive(Debug)]
struct Entry {
    /// Name of its Cluster.
    cluster: String,
    record: Option<CopyRecord>,
    due: Instant,
    /// Time since which the host is owed a change.
    since: Option<Instant>,
    failures: u32,
    refusal: Option<Refusal>,
    /// True after the first pass with a result.
    is_compared: bool,
    is_in_flight: bool,
    /// True if the Secret has changed while a pass was in flight.
    is_changed: bool,
}

/// Schedule of all Secrets.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    entries: HashMap<Key, Entry>,
    /// Number of the last turn of each namespace.
    turns: HashMap<String, u64>,
    turn: u64,
    /// True when the Secrets of the own store are known.
    is_listed: bool,
}

impl Schedule {
    /// Notes that a Secret of a Cluster is new, or has changed.
    pub(super) fn change(&mut self, key: Key, cluster: &str) {
        let now = Instant::now();
        let entry = self.entries.entry(key).or_insert_with(|| Entry::new(cluster, now));
        (entry.due, entry.is_changed) = (now, entry.is_in_flight);
        entry.since.get_or_insert(now);
    }

    /// Notes that a Secret has changed or is gone, if it is known.
    pub(super) fn change_known(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get(key) {
            let cluster = entry.cluster.clone();
            self.change(key.clone(), &cluster);
        }
    }

    /// Adds a record of an earlier process.
    pub(super) fn restore(&mut self, record: CopyRecord) {
        let (key, cluster) = (record.key(), record.cluster.clone());
        self.change(key.clone(), &cluster);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.record = Some(record);
        }
    }

    /// Notes that all Secrets of the own store are known.
    pub(super) fn set_listed(&mut self) {
        self.is_listed = true;
    }

    /// Takes a Secret that is due, of the namespace that has waited longest for its turn. Returns its key, its Cluster and
    /// its record. After an outage all comparisons of a namespace are due, so the changes that the host is owed come first.
    pub(super) fn take(&mut self) -> Option<(Key, String, Option<CopyRecord>)> {
        let now = Instant::now();
        let due = self.entries.iter().filter(|(_, entry)| !entry.is_in_flight && entry.due <= now);
        let turn = |namespace: &String| self.turns.get(namespace).copied().unwrap_or_default();
        let next = due.min_by_key(|(key, entry)| (turn(&key.0), entry.rank(), entry.due));
        let key = next?.0.clone();
        self.turn += 1;
        self.turns.insert(key.0.clone(), self.turn);
        let entry = self.entries.get_mut(&key)?;
        (entry.is_in_flight, entry.is_changed) = (true, false);
        Some((key, entry.cluster.clone(), entry.record.clone()))
    }

    /// Returns the time at which the next Secret is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.entries.values().filter(|entry| !entry.is_in_flight).map(|entry| entry.due).min()
    }

    /// Makes each Secret due now that has failed or was refused. The host is back after an outage, and may take it.
    pub(super) fn retry_failed(&mut self) {
        let now = Instant::now();
        let has_failed = |entry: &&mut Entry| entry.failures > 0 || entry.refusal.is_some();
        for entry in self.entries.values_mut().filter(has_failed) {
            (entry.due, entry.failures) = (now, 0);
        }
    }

    /// Notes the result of a pass. `record` is the one that is in the store now. `is_known`: the own store has the
    /// Secret.
    pub(super) fn finish(&mut self, key: &Key, outcome: Outcome, record: Option<CopyRecord>, is_known: bool) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let now = Instant::now();
        entry.record = record;
        entry.is_in_flight = false;
        let since = entry.since.unwrap_or(now);
        let pause = match outcome {
            Outcome::Settled => {
                (entry.failures, entry.since, entry.refusal, entry.is_compared) = (0, None, None, true);
                COMPARE
            }
            Outcome::Refused(refusal) => {
                let pause = if entry.refusal.is_some() { LONGEST_PAUSE } else { FIRST_REFUSAL };
                (entry.failures, entry.since, entry.is_compared) = (0, None, true);
                entry.refusal = Some(refusal);
                pause
            }
            Outcome::Pending => {
                let pause = FIRST_PAUSE.saturating_mul(1 << entry.failures.min(16)).min(LONGEST_PAUSE);
                (entry.failures, entry.since) = (entry.failures + 1, Some(since));
                pause
            }
        };
        if entry.is_changed {
            (entry.due, entry.since) = (now, Some(since));
        } else {
            entry.due = now + pause;
            if entry.since.is_none() && entry.refusal.is_none() && entry.record.is_none() && !is_known {
                self.remove(key);
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        self.entries.remove(key);
        if !self.entries.keys().any(|(namespace, _)| *namespace == key.0) {
            self.turns.remove(&key.0);
        }
    }

    /// Returns the refusals of a Cluster's Secrets, in a fixed order, and true if all of them were compared.
    pub(super) fn refusals(&self, namespace: &str, cluster: &str) -> (Vec<Refusal>, bool) {
        let all = self.entries.iter().filter(|(key, entry)| key.0 == namespace && entry.cluster == cluster);
        let mut all: Vec<(&Key, &Entry)> = all.collect();
        all.sort_by_key(|(key, _)| *key);
        let is_complete = self.is_listed && all.iter().all(|(_, entry)| entry.is_compared);
        (all.into_iter().filter_map(|(_, entry)| entry.refusal.clone()).collect(), is_complete)
    }

    /// Returns the Secrets that the host is owed or refuses.
    pub(super) fn backlog(&self) -> Backlog {
        let ages = || self.entries.values().filter_map(|entry| Some(entry.since?.elapsed()));
        Backlog {
            objects: ages().count(),
            oldest: ages().max().unwrap_or_default(),
            refused: self.entries.values().filter(|entry| entry.refusal.is_some()).count(),
        }
    }
}

impl Entry {
    fn new(cluster: &str, now: Instant) -> Self {
        Self {
            cluster: cluster.to_owned(),
            record: None,
            due: now,
            since: None,
            failures: 0,
            refusal: None,
            is_compared: false,
            is_in_flight: false,
            is_changed: false,
        }
    }

    /// Returns the rank among the Secrets of a namespace that are due. Changes that the host is owed come first, then copies
    /// of an earlier process, which may be as they should be, and then comparisons.
    fn rank(&self) -> u8 {
        match (self.since, &self.record) {
            (None, _) => 2,
            (Some(_), Some(_)) if !self.is_compared => 1,
            (Some(_), _) => 0,
        }
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
