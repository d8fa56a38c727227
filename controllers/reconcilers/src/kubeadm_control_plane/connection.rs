//! Reads from the workload cluster.

use std::collections::BTreeMap;

use apiserver_types::KubeadmControlPlane;
use controllers_runtime::ControllerSettings;
use controllers_workload::health::Component;
use controllers_workload::{ClusterKey, Probe, WorkloadError, found};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Api, Client, ResourceExt};

use super::act::Actor;
use super::etcd;
use super::etcd_projection::Member;
use super::inspection::{Inspection, Workload};
use super::learner_slot;
use super::observe::Observed;
use super::outdated::timestamp;
use super::replica::{Replica, initialized, managed_etcd};

/// Message while the first API server has not responded. The Machines' controller uses the same.
const NOT_INITIALIZED: &str = "Waiting for Cluster control plane to be initialized";

/// Failed probes after which a cluster that was never reached counts as unreachable.
const FAILURES: u32 = 5;

/// Namespace of the static pods and of kubeadm's ConfigMap.
pub(super) const SYSTEM: &str = "kube-system";

/// ConfigMap that `kubeadm init` writes last.
pub(super) const KUBEADM_CONFIG: &str = "kubeadm-config";

/// Returns the key of the connection to a control plane's cluster.
pub(super) fn key(observed: &Observed) -> ClusterKey {
    let cluster = &observed.cluster;
    ClusterKey { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() }
}

/// Inspects the workload cluster, and connects to its etcd.
pub(super) async fn inspect(actor: &Actor<'_>, control_plane: &KubeadmControlPlane, observed: &mut Observed) {
    let (key, workloads) = (key(observed), &actor.context.workloads);
    if !initialized(control_plane) {
        let may_ask = !only_machine_goes(&observed.replicas);
        let is_initialized = match workloads.client(&key) {
            Ok(client) if may_ask => has_kubeadm_config(client).await,
            _ => Ok(false),
        };
        let (message, failed) = match is_initialized {
            Ok(true) => (None, false),
            Ok(false) => (Some(NOT_INITIALIZED.to_owned()), false),
            Err(error) => {
                (Some(format!("{NOT_INITIALIZED}: ConfigMap {SYSTEM}/{KUBEADM_CONFIG}: {error}")), true)
            }
        };
        if let Some(message) = message {
            observed.workload = Workload::NotInitialized { message, failed };
            return;
        }
    }
    let client = match workloads.client(&key) {
        Ok(client) => client,
        Err(error) => {
            let (probe, settings) = (workloads.probe(&key), &actor.context.settings);
            observed.workload = unreachable(control_plane, &probe, &error, Timestamp::now(), settings);
            return;
        }
    };
    let members = match managed_etcd(control_plane) {
        true => members(actor, client.clone(), control_plane, observed).await,
        false => Err("etcd is external".to_owned()),
    };
    let nodes = workloads.nodes(&key).map_err(|error| error.to_string());
    let nodes = nodes.map(|nodes| nodes.iter().map(|node| (**node).clone()).collect());
    let api = Api::namespaced(client, SYSTEM);
    let pods = pods_of(&api, &observed.replicas, managed_etcd(control_plane)).await;
    observed.workload = Workload::Reached(Inspection { nodes, pods, members });
}

/// Connects to etcd, and returns its members. The learner that takes the slot is none of them.
async fn members(
    actor: &Actor<'_>,
    client: Client,
    control_plane: &KubeadmControlPlane,
    observed: &mut Observed,
) -> Result<Vec<Member>, String> {
    let etcd = etcd::connect(actor.etcd, actor.credentials, client, control_plane, observed).await?;
    let members = etcd::members(etcd.as_ref()).await;
    observed.etcd = Some(etcd);
    let (slot, members): (Vec<Member>, Vec<Member>) =
        members?.into_iter().partition(learner_slot::is_taken_by);
    observed.slot = slot.first().map(|it| it.id);
    Ok(members)
}

/// Reports whether the only Machine is about to go, so that what it says of the cluster does not last.
fn only_machine_goes(replicas: &[Replica]) -> bool {
    matches!(replicas, [only] if only.is_deleting() || only.needs_remediation())
}

async fn has_kubeadm_config(client: Client) -> Result<bool, WorkloadError> {
    let api: Api<ConfigMap> = Api::namespaced(client, SYSTEM);
    Ok(found(api.get(KUBEADM_CONFIG).await)?.is_some())
}

/// Returns the state of a cluster without a connection.
fn unreachable(
    control_plane: &KubeadmControlPlane,
    probe: &Probe,
    error: &WorkloadError,
    now: Timestamp,
    settings: &ControllerSettings,
) -> Workload {
    let WorkloadError::NotConnected(_) = error else {
        return Workload::Unreachable {
            message: error.to_string(),
            is_over: true,
            reason: "InspectionFailed",
        };
    };
    let reason = "ConnectionDown";
    if probe.last_success.is_none() && probe.failures < FAILURES {
        let message = "Remote connection not established yet".to_owned();
        return Workload::Unreachable { message, is_over: false, reason };
    }
    let initialized = control_plane.condition("Initialized").filter(|it| it.holds());
    let initialized = initialized.and_then(|it| timestamp(&it.last_transition_time));
    let last = probe.last_success.max(initialized).unwrap_or(Timestamp::UNIX_EPOCH);
    let is_over = settings.is_unknown(now.duration_since(last));
    let since = probe.last_success.map_or_else(|| "never".to_owned(), |at| at.to_string());
    let cause = probe.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    Workload::Unreachable { message: format!("Last successful probe at {since}{cause}"), is_over, reason }
}

/// Reads the static pods of all Machines at once.
async fn pods_of(
    api: &Api<Pod>,
    replicas: &[Replica],
    managed_etcd: bool,
) -> BTreeMap<String, Result<Option<Pod>, String>> {
    let components = || Component::ALL.into_iter().filter(move |it| managed_etcd || *it != Component::Etcd);
    let nodes = replicas.iter().filter(|it| !it.is_deleting()).filter_map(Replica::node);
    let names = nodes.flat_map(|node| components().map(move |component| component.pod(node)));
    let reads = names.map(|name| async move {
        let outcome = found(api.get(&name).await).map_err(|error| error.to_string());
        (name, outcome)
    });
    join_all(reads).await.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, ConditionStatus, Time};

    use super::*;

    #[test]
    fn a_lost_connection_counts_after_the_grace_period_and_a_first_one_may_take_five_probes() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let error = WorkloadError::NotConnected("down".to_owned());
        let mut control_plane = KubeadmControlPlane::default();
        let initialized =
            Condition::new("Initialized", ConditionStatus::True, "", "", Time(at(10).to_string()));
        control_plane.status.get_or_insert_default().conditions = Some(vec![initialized]);
        let table = [
            (None, 4, 20, false),
            (None, 5, 12, false),
            (None, 5, 16, true),
            (Some(at(12)), 9, 16, false),
            (Some(at(12)), 9, 18, true),
        ];
        for (last_success, failures, minute, expected) in table {
            let probe = Probe { last_success, failures, ..Probe::default() };
            let settings = ControllerSettings::default();
            let found = unreachable(&control_plane, &probe, &error, at(minute), &settings);
            let Workload::Unreachable { is_over, .. } = found else { panic!("{found:?}") };
            assert_eq!(is_over, expected, "{probe:?}");
        }
    }
}
