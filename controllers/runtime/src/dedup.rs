//! Deduplication of passes: an object that is unchanged since its last pass needs no other pass yet.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

use crate::SteadyClock;

/// Revision of each object after its last pass, and the time until which the object needs no other pass. A pass writes
/// a status, which triggers the next pass. Without this record, the next pass would query the cloud again, and after a
/// failure it would do so at once. A write of another client changes the revision, and so triggers a pass. The record
/// is lost with the process.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    clock: SteadyClock,
    passes: Mutex<HashMap<String, (String, Instant)>>,
}

impl Settled {
    /// Creates a record whose intervals this clock measures.
    pub(crate) fn with_clock(clock: SteadyClock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// Returns true if an object is stored as its last pass left it, whether or not the next pass is due.
    pub(crate) fn is_unchanged<K: Resource>(&self, object: &K) -> bool {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = object.uid().and_then(|uid| passes.get(&uid).map(|(revision, _)| revision.clone()));
        known.is_some() && known == object.resource_version()
    }

    /// Records that an object, as it is stored now, needs no pass for this interval.
    pub(crate) fn note<K: Resource>(&self, object: &K, interval: Duration) {
        let (Some(uid), Some(revision)) = (object.uid(), object.resource_version()) else { return };
        let Some(until) = self.clock.now().checked_add(interval) else { return };
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, (revision, until));
    }

    /// Forgets an object that does not exist any more.
    pub(crate) fn forget(&self, uid: &str) {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// Returns how long an object needs no pass; `None` if it needs one now.
    pub(crate) fn remaining<K: Resource>(&self, object: &K) -> Option<Duration> {
        let mut settled = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = object.uid()?;
        let (revision, until) = settled.get(&uid)?;
        let same = Some(revision) == object.resource_version().as_ref();
        let remaining = until.checked_duration_since(self.clock.now()).filter(|it| same && !it.is_zero());
        if remaining.is_none() {
            settled.remove(&uid);
        }
        remaining
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackCluster, OpenStackClusterSpec};

    use super::*;

    #[test]
    fn a_new_revision_is_reconciled_at_once() {
        let mut cluster = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        cluster.metadata.resource_version = Some("1".to_owned());
        let settled = Settled::default();
        assert_eq!(settled.remaining(&cluster), None);
        settled.note(&cluster, Duration::from_secs(60));
        assert!(settled.remaining(&cluster).is_some() && settled.is_unchanged(&cluster));
        settled.note(&cluster, Duration::ZERO);
        assert!(settled.is_unchanged(&cluster), "its interval is over, and no one has changed it");
        assert_eq!(settled.remaining(&cluster), None);
        settled.note(&cluster, Duration::from_secs(60));
        cluster.metadata.resource_version = Some("2".to_owned());
        assert!(!settled.is_unchanged(&cluster));
        assert_eq!(settled.remaining(&cluster), None);
    }
}
