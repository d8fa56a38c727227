//! Watches that trigger passes over an OpenStackMachineTemplate.

use std::sync::Arc;

use apiserver_types::{Cluster, OpenStackCluster, OpenStackMachineTemplate};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::OpenStackMachineTemplateReconciler;
use crate::change_predicate::ChangePredicate;
use crate::credential_watch::{self, ClusterCredentials};
use crate::object_refs::concerned;
use crate::ownership;

/// Number of templates that are reconciled at the same time: each makes a few calls to the cloud.
const CONCURRENCY: u16 = 4;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let controller = ReconcileLoop::new(
        Api::<OpenStackMachineTemplate>::all(client.clone()),
        CONCURRENCY,
        &context.queues,
        "openstackmachinetemplate",
    );
    let known = controller.store();
    let predicate = ChangePredicate::default();
    // The credentials of a template are those of its cluster.
    let credentials = ClusterCredentials::default();
    let noted = credentials.clone();
    let of_cluster = move |cluster: OpenStackCluster| {
        noted.note(&cluster);
        if !predicate.is_new(&cluster) {
            return Vec::new();
        }
        let name = cluster.labels().get(crate::CLUSTER_NAME_LABEL).cloned();
        concerned(&known, &cluster, |template: &OpenStackMachineTemplate| {
            let mut owners = template.owner_references().iter();
            owners.any(|owner| owner.kind == "Cluster" && Some(&owner.name) == name.as_ref())
        })
    };
    let of_pause = after_pause(controller.store());
    let controller = controller
        .watches(Api::<OpenStackCluster>::all(client.clone()), of_cluster)
        .watches(Api::<Cluster>::all(client), of_pause);
    let shared = context.clone();
    let reconciler = Arc::new(OpenStackMachineTemplateReconciler::new(context));
    let identity = move |template: &OpenStackMachineTemplate| {
        let own = template.spec.template.spec.identity_ref.clone();
        let owner = template.owner_references().iter().find(|owner| owner.kind == "Cluster");
        own.or_else(|| credentials.of(template, &owner?.name))
    };
    let waking = Arc::clone(&reconciler);
    let wake = move |template: &OpenStackMachineTemplate| {
        waking.requeue.forget(&template.uid().unwrap_or_default());
    };
    let controller = credential_watch::watch(controller, &shared, identity, wake);
    let pass = move |object: Arc<OpenStackMachineTemplate>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns a function that returns the templates of a Cluster whose spec has changed: the end of a pause changes no
/// template and no OpenStackCluster, and a pass during the pause plans no next one.
fn after_pause(
    known: Store<OpenStackMachineTemplate>,
) -> impl Fn(Cluster) -> Vec<ObjectRef<OpenStackMachineTemplate>> {
    let predicate = ChangePredicate::default();
    move |cluster: Cluster| {
        if !predicate.is_new(&cluster) {
            return Vec::new();
        }
        concerned(&known, &cluster, |template: &OpenStackMachineTemplate| {
            ownership::is_owned(template, &cluster)
        })
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    /// After a move, a template had no capacity: it was created while its Cluster was paused.
    #[test]
    fn the_end_of_a_pause_concerns_the_templates_of_the_cluster() {
        let (store, mut writer) = reflector::store::<OpenStackMachineTemplate>();
        for (name, uid) in [("ours", "u"), ("of-another", "v")] {
            let template = json!({
                "metadata": {"name": name, "namespace": "n", "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": uid}]},
                "spec": {"template": {"spec": {"flavor": {"id": "f"}, "image": {"id": "i"}}}},
            });
            writer.apply_watcher_event(&watcher::Event::Apply(serde_json::from_value(template).unwrap()));
        }
        let mut cluster = Cluster::new("c", ClusterSpec { paused: Some(true), ..ClusterSpec::default() });
        cluster.metadata.namespace = Some("n".to_owned());
        cluster.metadata.uid = Some("u".to_owned());
        cluster.metadata.generation = Some(1);
        let of_pause = after_pause(store);
        let ours = ObjectRef::<OpenStackMachineTemplate>::new("ours").within("n");
        assert_eq!(of_pause(cluster.clone()), std::slice::from_ref(&ours));
        assert_eq!(of_pause(cluster.clone()), [], "nothing but its status has changed");
        cluster.spec.paused = None;
        cluster.metadata.generation = Some(2);
        assert_eq!(of_pause(cluster), [ours]);
    }
}
