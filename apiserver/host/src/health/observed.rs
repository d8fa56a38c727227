//! Observations of the host cluster that no decision depends on. People read them in the object HostStatus.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::machine::Probe;
use crate::metrics::Outbox;

/// Objects of one kind that wait to be written to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backlog {
    /// Number of objects that wait.
    pub(crate) objects: usize,
    /// Time for which the oldest one has waited.
    pub(crate) oldest: Duration,
    /// Number of objects that the host refuses.
    pub(crate) refused: usize,
}

/// Observations so far.
#[derive(Debug, Clone)]
pub(crate) struct HostObservations {
    /// Last change of the state; at first the begin of the process.
    pub(crate) since: Timestamp,
    /// Result of the last probe. `None`: there was none.
    pub(crate) probe: Option<Probe>,
    backlogs: BTreeMap<&'static str, Backlog>,
}

impl HostObservations {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { since: now, probe: None, backlogs: BTreeMap::new() }
    }

    pub(super) fn note_probe(&mut self, probe: Probe) {
        self.probe = Some(probe);
    }

    pub(super) fn set_backlog(&mut self, outbox: Outbox, backlog: Option<Backlog>) {
        match backlog {
            Some(backlog) => self.backlogs.insert(outbox.name(), backlog),
            None => self.backlogs.remove(outbox.name()),
        };
    }

    /// Returns the backlogs by the names of the kinds. Empty: this process does not write to the host.
    pub(crate) fn backlogs(&self) -> &BTreeMap<&'static str, Backlog> {
        &self.backlogs
    }
}
