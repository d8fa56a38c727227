//! Looks at clusters at rest: complete clusters that no one has changed since their last pass. They share what looks at
//! other clusters of the project have read, so that the calls are those of the project.

use std::sync::Arc;

use apiserver_types::{Cluster, Condition, FailureDomain, OpenStackCluster};
use controllers_infrastructure::Cloud;
use controllers_runtime::{OwnershipTag, ReconcileError, ServerLists};

use super::desired::Desired;
use super::observe::{Observed, Observer};
use super::{bastion, decide};

/// Reason of each part of a cluster that is as the spec says. A degraded part has another one.
const COMPLETE: &str = "Ready";

/// Conditions of the parts, and their summary.
const PARTS: [&str; 5] = ["NetworkReady", "RouterReady", "SecurityGroupsReady", "APIEndpointReady", "Ready"];

/// Condition of a Cluster whose API is reached through these parts.
const CONNECTED: &str = "RemoteConnectionProbe";

/// Returns true if the last pass found everything complete, and the workload API has been reachable since. That shows sooner
/// than a list that its network, router, floating IP and load balancer work. While a zone is absent, each look is direct,
/// because its failure domain goes with the second look.
pub(super) fn is_at_rest(object: &OpenStackCluster, cluster: &Cluster, observed: &Observed) -> bool {
    let generation = object.metadata.generation;
    let is_complete = |kind: &&str| {
        let condition = object.condition(kind).filter(|it| it.holds() && it.reason == COMPLETE);
        condition.is_some_and(|it| it.observed_generation == generation)
    };
    let domains = object.status.as_ref().and_then(|status| status.failure_domains.as_deref());
    let is_absent = |domain: &FailureDomain| domain.attributes.is_some();
    PARTS.iter().all(is_complete)
        && !domains.unwrap_or_default().iter().any(is_absent)
        && cluster.condition(CONNECTED).is_some_and(Condition::holds)
        && observed.lost_calls.text().is_none()
}

/// Observes a cluster. One at rest is observed by what looks share. Unless that shows that nothing is to do, it is observed
/// directly, so that each change and each error comes from direct reads. Returns the cloud as the pass read it.
///
/// # Errors
/// Those of the direct reads.
pub(super) async fn observe(
    lists: &ServerLists,
    cloud: &Arc<dyn Cloud>,
    (desired, tag): (&Desired, &OwnershipTag),
    observed: &mut Observed,
    is_at_rest: bool,
) -> Result<Arc<dyn Cloud>, ReconcileError> {
    if is_at_rest {
        let shared = lists.at_rest(cloud);
        let mut seen = observed.clone();
        let looked = Observer { cloud: &shared, desired, tag }.observe(&mut seen).await;
        if looked.is_ok() && is_settled(desired, tag, &seen) {
            *observed = seen;
            return Ok(shared);
        }
    }
    let direct = lists.direct(cloud);
    Observer { cloud: &direct, desired, tag }.observe(observed).await?;
    Ok(direct)
}

/// Returns true if nothing is to do.
fn is_settled(desired: &Desired, tag: &OwnershipTag, seen: &Observed) -> bool {
    decide::next_step(desired, tag, seen) == decide::Step::Nothing && bastion::is_settled(desired, tag, seen)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, ConditionStatus, OpenStackClusterSpec};
    use controllers_runtime::now;

    use super::*;

    #[test]
    fn a_cluster_is_at_rest_while_it_is_complete_and_reached() {
        let condition = |kind: &str, status, reason: &str| {
            Condition::new(kind, status, reason, "", now()).at_generation(Some(3))
        };
        let of = |failing: &str, reason: &str| {
            let mut object = OpenStackCluster::new("c", OpenStackClusterSpec::default());
            object.metadata.generation = Some(3);
            let parts = PARTS.map(|kind| {
                condition(kind, ConditionStatus::True, if kind == failing { reason } else { COMPLETE })
            });
            object.status.get_or_insert_default().conditions = Some(parts.to_vec());
            object
        };
        let reached = |status| {
            let mut cluster = Cluster::new("c", ClusterSpec::default());
            cluster.status.get_or_insert_default().conditions = Some(vec![condition(CONNECTED, status, "")]);
            cluster
        };
        let (up, down) = (reached(ConditionStatus::True), reached(ConditionStatus::Unknown));
        let none = Observed::default();
        assert!(is_at_rest(&of("", ""), &up, &none));
        assert!(!is_at_rest(&of("", ""), &down, &none), "the API is not reached");
        assert!(!is_at_rest(&of("APIEndpointReady", "LoadBalancerDegraded"), &up, &none));
        let mut lacking = of("", "");
        let absent = FailureDomain {
            name: "z".to_owned(),
            control_plane: Some(false),
            attributes: Some([("since".to_owned(), "now".to_owned())].into()),
        };
        lacking.status.get_or_insert_default().failure_domains = Some(vec![absent]);
        assert!(!is_at_rest(&lacking, &up, &none), "a zone is absent");
        let mut changed = of("", "");
        changed.metadata.generation = Some(4);
        assert!(!is_at_rest(&changed, &up, &none), "a change is not applied yet");
    }
}
