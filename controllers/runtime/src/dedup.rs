//! What needs no look yet, because it is as the last pass left it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

/// The revisions at which passes left objects, and until when they need no other. A pass writes a
/// status, which wakes the next pass: without this that one would ask the cloud for everything again,
/// and after a failure it would do so at once instead of after a pause. Whatever anybody else writes
/// is another revision. Lost with the process.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<HashMap<String, (String, Instant)>>);

impl Settled {
    /// Notes that an object, as it is stored now, needs no look for so long.
    pub(crate) fn note<K: Resource>(&self, object: &K, rest: Duration) {
        let (Some(uid), Some(revision)) = (object.uid(), object.resource_version()) else { return };
        let Some(until) = Instant::now().checked_add(rest) else { return };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, (revision, until));
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    /// How long an object need not be looked at; `None` when it is to be looked at now.
    pub(crate) fn remaining<K: Resource>(&self, object: &K) -> Option<Duration> {
        let mut settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = object.uid()?;
        let (revision, until) = settled.get(&uid)?;
        let same = Some(revision) == object.resource_version().as_ref();
        let rest = until.checked_duration_since(Instant::now()).filter(|rest| same && !rest.is_zero());
        if rest.is_none() {
            settled.remove(&uid);
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackCluster, OpenStackClusterSpec};

    use super::*;

    #[test]
    fn another_revision_is_looked_at_at_once() {
        let mut cluster = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        cluster.metadata.resource_version = Some("1".to_owned());
        let settled = Settled::default();
        assert_eq!(settled.remaining(&cluster), None);
        settled.note(&cluster, Duration::from_secs(60));
        assert!(settled.remaining(&cluster).is_some());
        settled.note(&cluster, Duration::ZERO);
        assert_eq!(settled.remaining(&cluster), None);
        settled.note(&cluster, Duration::from_secs(60));
        cluster.metadata.resource_version = Some("2".to_owned());
        assert_eq!(settled.remaining(&cluster), None);
    }
}
