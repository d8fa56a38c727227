//! Claims of a pool: those that wait for their Cluster, and the condition that says why one has no address.

use apiserver_types::{Cluster, Condition, ConditionStatus, IPAddressClaim, set_condition};
use controllers_runtime::{ReconcileError, now, paused, write_status};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use super::decide::{Claim, Observed};
use crate::CLUSTER_NAME_LABEL;
use crate::deprecated_conditions::{self, Old};

/// Condition of a claim.
const READY: &str = "Ready";

/// Returns the Clusters that claims name.
pub(super) async fn clusters(
    client: &Client,
    namespace: &str,
    claims: &[IPAddressClaim],
) -> Result<Vec<Cluster>, ReconcileError> {
    if !claims.iter().any(|claim| cluster_of(claim).is_some()) {
        return Ok(Vec::new());
    }
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    Ok(clusters.list(&ListParams::default()).await?.items)
}

/// Returns true if a claim is paused, or its Cluster is, or its Cluster does not exist. One without a Cluster is served.
pub(super) fn is_held(claim: &IPAddressClaim, clusters: &[Cluster]) -> bool {
    let Some(name) = cluster_of(claim) else { return paused(claim, None) };
    let cluster = clusters.iter().find(|cluster| cluster.name_any() == name);
    cluster.is_none_or(|cluster| paused(claim, Some(cluster)))
}

/// Returns the name of a claim's Cluster. Older clients set a label only.
fn cluster_of(claim: &IPAddressClaim) -> Option<&str> {
    let name = claim.spec.cluster_name.as_ref().or_else(|| claim.labels().get(CLUSTER_NAME_LABEL));
    name.map(String::as_str)
}

/// Writes into the claims without an address why the pass failed.
pub(super) async fn report_failure(
    client: &Client,
    namespace: &str,
    observed: &Observed,
    error: &ReconcileError,
) -> Result<(), ReconcileError> {
    // The id of the request is in the condition of the pool: with it, the message would differ in each pass.
    let message = match error {
        ReconcileError::Cloud(error) => format!("{}: {}", error.operation, error.words()),
        other => other.to_string(),
    };
    for claim in observed.claims.iter().filter(|claim| claim.waits()) {
        write(client, namespace, &claim.name, not_ready(failure(observed), &message)).await?;
    }
    Ok(())
}

/// Returns the reason of a failed pass: without its network, a pool cannot allocate at all.
fn failure(observed: &Observed) -> &'static str {
    if observed.network.is_none() { "PoolNotReady" } else { "AllocationFailed" }
}

/// Returns the condition of a claim without an address.
pub(super) fn not_ready(reason: &str, message: &str) -> Condition {
    Condition::new(READY, ConditionStatus::False, reason, message, now())
}

/// Writes the condition of a claim, in both forms. A claim that is ready refers to the IPAddress of its name.
pub(super) async fn write(
    client: &Client,
    namespace: &str,
    name: &str,
    ready: Condition,
) -> Result<(), ReconcileError> {
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), namespace);
    let Some(before) = claims.get_opt(name).await? else { return Ok(()) };
    let mut claim = before.clone();
    set(&mut claim, ready);
    write_status(&claims, &before, &claim).await.map(drop)
}

fn set(claim: &mut IPAddressClaim, ready: Condition) {
    let (name, generation) = (claim.name_any(), claim.metadata.generation);
    let status = claim.status.get_or_insert_default();
    let old = if ready.holds() {
        status.address_ref = Some(apiserver_types::IPAddressNameReference { name });
        Old::True
    } else {
        Old::no("Error", &ready.reason, ready.message.as_str())
    };
    let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    let transition = ready.last_transition_time.clone();
    deprecated_conditions::set(deprecated.conditions.get_or_insert_default(), READY, old, &transition);
    set_condition(status.conditions.get_or_insert_default(), ready.at_generation(generation));
}

impl Claim {
    /// Returns true if the pool is to give the claim an address, and has not.
    pub(super) const fn waits(&self) -> bool {
        !self.deleting && !self.held && !self.has_address
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim(metadata: &serde_json::Value, cluster: Option<&str>) -> IPAddressClaim {
        let pool = json!({"apiGroup": "g", "kind": "k", "name": "pool"});
        let object = json!({"apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
            "metadata": metadata, "spec": {"poolRef": pool, "clusterName": cluster}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_claim_waits_while_it_or_its_cluster_is_paused() {
        let mut stops = Cluster::new("stops", Default::default());
        stops.spec.paused = Some(true);
        let clusters = [stops, Cluster::new("runs", Default::default())];
        let named = |name: &str| json!({"name": "c", "labels": {CLUSTER_NAME_LABEL: name}});
        let annotation = json!({"name": "c", "annotations": {"cluster.x-k8s.io/paused": ""}});
        let table = [
            (claim(&json!({"name": "c"}), None), false),
            (claim(&annotation, None), true),
            (claim(&json!({"name": "c"}), Some("runs")), false),
            (claim(&json!({"name": "c"}), Some("stops")), true),
            (claim(&json!({"name": "c"}), Some("gone")), true),
            (claim(&named("runs"), None), false),
            (claim(&named("stops"), None), true),
        ];
        for (claim, expected) in table {
            assert_eq!(is_held(&claim, &clusters), expected, "{claim:?}");
        }
    }

    #[test]
    fn a_failed_pass_tells_a_pool_that_is_not_ready_from_an_allocation_that_fails() {
        let mut observed = Observed::default();
        assert_eq!(failure(&observed), "PoolNotReady");
        observed.network = Some(apiserver_types::NetworkStatus::default());
        assert_eq!(failure(&observed), "AllocationFailed");
    }

    /// A client of v1beta1 saw no condition on a claim, whether it had an address or not.
    #[test]
    fn the_condition_is_there_for_clients_of_both_versions() {
        let mut claim = claim(&json!({"name": "c"}), None);
        set(&mut claim, not_ready("PoolExhausted", "full"));
        let status = claim.status.clone().unwrap();
        let old = status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
        assert_eq!(
            (old[0].reason.as_deref(), old[0].severity.as_deref()),
            (Some("PoolExhausted"), Some("Error"))
        );
        assert_eq!(
            (status.conditions.unwrap()[0].reason.as_str(), status.address_ref),
            ("PoolExhausted", None)
        );
        set(&mut claim, Condition::new(READY, ConditionStatus::True, "Allocated", "", now()));
        let status = claim.status.unwrap();
        let old = status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
        assert_eq!((old[0].status.as_str(), status.address_ref.unwrap().name.as_str()), ("True", "c"));
    }
}
