//! Upgrade of a Cluster without a topology, which the verb `upgrade` requests by an annotation.
//!
//! The decisions are those about a topology: the Cluster counts as one whose topology demands the target of the request, and
//! whose class lists the other versions. Hooks, the order of the workers and the published plan are the same, too. A pass
//! reads all that it needs from stored objects, so another leader goes on where the last one has stopped.

mod act;
mod image;
mod observe;
mod preview;
mod report;
#[cfg(test)]
mod tests;

use std::time::Duration;

use apiserver_types::{Cluster, ClusterSpec, Condition, Topology, UPGRADE, UPGRADING, upgrade_versions};
use controllers_runtime::{ControllerContext, ReconcileError, now, paused};
use kube::{Api, ResourceExt};

use super::upgrade::plan::Source;
use super::upgrade::workers::Progress;
use super::upgrade::{self, Upgrade};
use super::{HELD, UPGRADE_STEP, WAITING};
use observe::Observed;
pub(super) use preview::preview;
use report::Report;

/// Reason of an upgrade that does not go on before a person acts.
const BLOCKED: &str = "UpgradeBlocked";

/// Kind of the control planes that have an upgrade.
const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// Upgrade that the annotation of a Cluster requests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    /// Versions in their order, with the target.
    versions: Vec<String>,
    target: String,
}

impl Request {
    /// Returns the request; `None` without one. The error is for people.
    fn of(cluster: &Cluster) -> Option<Result<Self, String>> {
        let versions = upgrade_versions(cluster.annotations().get(UPGRADE)?);
        Some(versions.map(Self::new).map_err(|problem| format!("annotation {UPGRADE} {problem}")))
    }

    fn new(versions: Vec<String>) -> Self {
        let target = versions.last().cloned().unwrap_or_default();
        Self { versions, target }
    }

    /// Returns the Cluster as if its topology demanded the target.
    fn demanded(&self, cluster: &Cluster) -> Cluster {
        let topology = Topology { version: self.target.clone(), ..Topology::default() };
        let spec = ClusterSpec { topology: Some(topology), ..cluster.spec.clone() };
        Cluster { spec, ..cluster.clone() }
    }
}

/// Reports whether a pass over a Cluster without a topology has anything to do.
pub(super) fn concerns(cluster: &Cluster) -> bool {
    cluster.annotations().contains_key(UPGRADE) || has_traces(cluster)
}

/// Reports whether a Cluster has traces of an upgrade.
fn has_traces(cluster: &Cluster) -> bool {
    cluster.annotations().contains_key(UPGRADE_STEP)
        || cluster.condition(UPGRADING).is_some_and(Condition::holds)
}

/// Makes one pass over a Cluster without a topology. Returns the time until the next one.
///
/// # Errors
/// The upgrade waits for a person, or the API's own failure.
pub(super) async fn pass(
    context: &ControllerContext,
    api: &Api<Cluster>,
    mut cluster: Cluster,
) -> Result<Option<Duration>, ReconcileError> {
    if cluster.metadata.deletion_timestamp.is_some() || paused(&cluster, Some(&cluster)) {
        return Ok(None);
    }
    let request = match Request::of(&cluster) {
        Some(request) => request,
        None if has_traces(&cluster) => {
            act::clear(api, &mut cluster).await?;
            report::write(api, &cluster, &Report::Ended, &now()).await?;
            return Ok(None);
        }
        None => return Ok(None),
    };
    let result = match request {
        Ok(request) => Box::pin(act::work(context, api, &mut cluster, &request)).await,
        Err(message) => Err(ReconcileError::waiting(BLOCKED, message)),
    };
    if result.as_ref().is_err_and(ReconcileError::is_conflict) {
        return result.map(|_| None);
    }
    let report = match &result {
        Ok(report) => report.clone(),
        Err(error) => Report::Blocked(error.to_string()),
    };
    report::write(api, &cluster, &report, &now()).await?;
    Ok(match result? {
        Report::Upgrading { is_held: true, .. } => Some(HELD),
        Report::Ended => None,
        Report::Upgrading { .. } | Report::Blocked(_) => Some(WAITING),
    })
}

/// Decides on the versions of all parts in a pass. Pure. The error is for people.
fn decide(cluster: &Cluster, request: &Request, observed: &Observed) -> Result<Upgrade, String> {
    observed.check()?;
    let demanded = request.demanded(cluster);
    let source = Source::Listed(&request.versions);
    upgrade::decide(&demanded, source, Some(&observed.state()), &observed.groups())
}

/// Reports whether all parts have the target, and no hook holds the end.
fn is_done(upgrade: &Upgrade) -> bool {
    upgrade.control_plane.is_stable()
        && upgrade.hooks.blocking.is_empty()
        && upgrade.workers.iter().all(|it| it.progress == Progress::Done)
}
