//! When the next pass over an object is due.

use std::time::Duration;

use kube::{Resource, ResourceExt};

use crate::backoff::Backoff;
use crate::dedup::Settled;
use crate::{Next, ReconcileError};

/// How often something that waits for another object looks again; a watch tells of most sooner.
const WAITING: Duration = Duration::from_secs(10);

/// What a controller remembers of the pace of its objects. Lost with the process, which then begins
/// with short pauses.
#[derive(Debug, Default)]
pub struct Pace {
    backoff: Backoff,
    settled: Settled,
}

impl Pace {
    /// How long an object need not be looked at; `None` when it is to be looked at now.
    pub fn rest<K: Resource>(&self, object: &K) -> Option<Duration> {
        self.settled.rest(object)
    }

    /// Forgets an object that is gone.
    pub fn gone(&self, uid: &str) {
        self.backoff.succeeded(uid);
        self.settled.forget(uid);
    }

    /// When to look again after a pass that left `object` as it is stored now. `busy`: the pause of
    /// what is under way; it is looked at whenever somebody comes by, and is no success yet, so that
    /// retries of what fails in the end stay apart.
    ///
    /// # Errors
    /// When the API failed.
    pub fn after<K: Resource>(
        &self,
        object: &K,
        result: Result<Option<Duration>, ReconcileError>,
        busy: Option<Duration>,
    ) -> Result<Next, kube::Error> {
        let uid = object.uid().unwrap_or_default();
        let next = match result {
            Ok(next) if next.is_some() && next == busy => return Ok(next.into()),
            Ok(next) => {
                self.backoff.succeeded(&uid);
                Next::from(next)
            }
            Err(trouble) if trouble.is_conflict() => return Ok(Next::After(Duration::ZERO)),
            Err(ReconcileError::Api(error)) => return Err(error),
            Err(ReconcileError::Waiting { .. }) => return Ok(Next::After(WAITING)),
            Err(trouble) => Next::Retry(self.backoff.failed(&uid, trouble.retry_after())),
        };
        if let Some(rest) = next.pause() {
            self.settled.note(object, rest);
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackMachine, OpenStackMachineSpec};
    use controllers_infrastructure::{CloudError, ErrorClass};

    use super::*;

    #[test]
    fn a_failure_is_not_tried_again_because_it_was_written_down() {
        let mut machine = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        machine.metadata.resource_version = Some("1".to_owned());
        let pace = Pace::default();
        let quota = || Err(CloudError::new(ErrorClass::Quota, "create server", "no").into());
        let after = |result, busy| pace.after(&machine, result, busy).unwrap();
        let seconds = |result, busy| after(result, busy).pause().map(|pause| pause.as_secs());
        assert_eq!(after(quota(), None), Next::Retry(Duration::from_secs(1)));
        assert!(pace.rest(&machine).is_some());
        let building = Some(Duration::from_secs(2));
        assert_eq!(seconds(Ok(building), building), Some(2));
        assert_eq!(seconds(quota(), None), Some(2), "what is being built has not succeeded");
        assert_eq!(seconds(Ok(None), building), None);
        assert_eq!(seconds(quota(), None), Some(1));
        machine.metadata.resource_version = Some("2".to_owned());
        assert_eq!(pace.rest(&machine), None, "somebody else has written");
    }
}
