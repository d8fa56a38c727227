//! What needs no look, because it is as the last pass left it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::{Resource, ResourceExt};

/// The revisions at which objects had everything, and when. A pass writes a status, which wakes the
/// next pass; without this that one would ask the cloud for everything again. Lost with the process.
#[derive(Debug, Default)]
pub struct Settled(Mutex<HashMap<String, (String, Instant)>>);

impl Settled {
    /// Notes that an object, as it is stored now, has everything.
    pub fn note<K: Resource>(&self, object: &K) {
        let (Some(uid), Some(revision)) = (object.uid(), object.resource_version()) else { return };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, (revision, Instant::now()));
    }

    /// How long an object need not be looked at; `None` when it is to be looked at now.
    pub fn rest<K: Resource>(&self, object: &K, period: Duration) -> Option<Duration> {
        let mut settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = object.uid()?;
        let (revision, at) = settled.get(&uid)?;
        let rest =
            period.checked_sub(at.elapsed()).filter(|_| Some(revision) == object.resource_version().as_ref());
        if rest.is_none() {
            settled.remove(&uid);
        }
        rest
    }
}
