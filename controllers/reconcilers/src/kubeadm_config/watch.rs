//! Watches that trigger passes over a KubeadmConfig.

use std::sync::Arc;

use apiserver_types::{Bootstrap, Cluster, KubeadmConfig, KubeadmConfigSpec, Machine, MachinePool};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use controllers_workload::WorkloadChange;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::KubeadmConfigReconciler;
use super::decide::{initialized, is_rendered};
use super::observe::is_control_plane;
use super::{attested, pool, tokens};
use crate::change_predicate::ChangePredicate;
use crate::object_refs::concerned;
use crate::{CLUSTER_NAME_LABEL, workload_changes};

/// Number of KubeadmConfigs that are reconciled at the same time. A pass makes a few calls, one to a workload cluster.
const CONCURRENCY: u16 = 32;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let objects = Api::<KubeadmConfig>::all(client.clone());
    let controller = ReconcileLoop::reduced(objects, CONCURRENCY, &context.queues, "kubeadmconfig", reduce);
    let (of_cluster, of_workload) = (controller.store(), controller.store());
    let of_lock = controller.store();
    let (machines, clusters) = (ChangePredicate::default(), ChangePredicate::default());
    let pools = ChangePredicate::default();
    let controller = controller
        .watches(Api::<Machine>::all(client.clone()), move |machine| {
            let changed = machines.is_new_with(&machine, &tokens::is_over(&machine));
            let mut configs: Vec<_> =
                config_of(&machine, &machine.spec.bootstrap).filter(|_| changed).into_iter().collect();
            if changed && is_lost_holder(&machine) {
                let cluster = &machine.spec.cluster_name;
                configs.extend(concerned(&of_lock, &machine, |config| waits_for_lock(config, cluster)));
            }
            configs
        })
        .watches(Api::<MachinePool>::all(client.clone()), move |pool| {
            let is_new = pools.is_new_with(&pool, &pool::is_complete(&pool));
            config_of(&pool, &pool.spec.template.spec.bootstrap).filter(|_| is_new)
        })
        .watches(Api::<Cluster>::all(client), move |cluster| {
            let name = cluster.name_any();
            match clusters.is_new_with(&cluster, &milestones(&cluster)) {
                true => concerned(&of_cluster, &cluster, |config| is_of(config, &name)),
                false => Vec::new(),
            }
        })
        .triggered_by(workload_changes::stream(&context.workloads), move |change| {
            connected(&of_workload, change.as_ref())
        });
    let reconciler = Arc::new(KubeadmConfigReconciler::new(context));
    let pass = move |object: Arc<KubeadmConfig>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Leaves the part of a KubeadmConfig that the watches read. A pass reads it from the API, and its spec can have many files.
fn reduce(config: &mut KubeadmConfig) {
    config.spec = KubeadmConfigSpec::default();
}

/// Returns the milestones of a Cluster that bootstrap waits for, and whether its joins are attested.
fn milestones(cluster: &Cluster) -> (bool, bool, bool) {
    let status = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    let provisioned = status.and_then(|it| it.infrastructure_provisioned) == Some(true);
    (provisioned, initialized(cluster), attested::group(cluster).is_some())
}

/// Returns the KubeadmConfig that a Machine or a MachinePool refers to.
fn config_of<K: Resource>(object: &K, bootstrap: &Bootstrap) -> Option<ObjectRef<KubeadmConfig>> {
    let reference = bootstrap.config_ref.as_ref()?;
    let is_ours = reference.kind == KubeadmConfig::kind(&());
    is_ours.then(|| ObjectRef::new(&reference.name).within(&object.namespace().unwrap_or_default()))
}

/// Returns true if a Machine may have held the lock of its cluster's initialization, and does not any more.
fn is_lost_holder(machine: &Machine) -> bool {
    is_control_plane(machine) && machine.metadata.deletion_timestamp.is_some()
}

/// Returns true if a KubeadmConfig of the cluster has no data yet, so that it may wait for the lock.
fn waits_for_lock(config: &KubeadmConfig, cluster: &str) -> bool {
    is_of(config, cluster) && !is_rendered(config)
}

fn is_of(config: &KubeadmConfig, cluster: &str) -> bool {
    config.labels().get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster)
}

/// Returns the objects that a change of a workload cluster concerns: a connection ends their wait.
fn connected(store: &Store<KubeadmConfig>, change: Option<&WorkloadChange>) -> Vec<ObjectRef<KubeadmConfig>> {
    match change {
        None => workload_changes::labelled(store, None),
        Some(WorkloadChange::Connected(key)) => workload_changes::labelled(store, Some(key)),
        Some(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;
    use serde_json::json;

    use super::*;
    use crate::kubeadm_config::observe::CONTROL_PLANE_LABEL;

    #[test]
    fn the_deletion_of_a_control_plane_machine_concerns_those_that_wait_for_the_lock() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-26T10:00:00Z")).unwrap();
        assert!(!is_lost_holder(&machine), "a worker");
        machine.labels_mut().insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
        assert!(is_lost_holder(&machine));
        let mut config = KubeadmConfig::new("n", KubeadmConfigSpec::default());
        config.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), "blue".to_owned());
        assert!(waits_for_lock(&config, "blue") && !waits_for_lock(&config, "red"));
        let status = json!({"initialization": {"dataSecretCreated": true}});
        config.status = serde_json::from_value(status).unwrap();
        assert!(!waits_for_lock(&config, "blue"), "it has its data");
        let before = config.clone();
        config.spec.verbosity = Some(3);
        reduce(&mut config);
        assert_eq!(config, before, "nothing but the spec is removed");
    }
}
