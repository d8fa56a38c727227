//! Watches that trigger passes over the topology of a Cluster.

use std::sync::Arc;

use apiserver_types::{
    Cluster, ClusterClass, KubeadmConfigTemplate, KubeadmControlPlane, KubeadmControlPlaneTemplate,
    MachineDeployment, MachineHealthCheck, OpenStackCluster, OpenStackClusterTemplate,
    OpenStackMachineTemplate,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{ClusterTopologyReconciler, OWNED};
use crate::CLUSTER_NAME_LABEL;
use crate::change_predicate::ChangePredicate;

/// Number of Clusters that are reconciled at the same time; a pass is a few calls per object inside the process.
const CONCURRENCY: u16 = 10;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let clusters = Api::<Cluster>::all(client.clone());
    let controller = ReconcileLoop::new(clusters, CONCURRENCY, &context.queues, "cluster_topology");
    let known = controller.store();
    let of_class = move |class: ClusterClass| {
        let clusters = known.state();
        let users = clusters.iter().filter(|cluster| uses(cluster, &class));
        users.map(|cluster| ObjectRef::from_obj(&**cluster)).collect::<Vec<_>>()
    };
    let of_networks = of_template::<OpenStackClusterTemplate>(controller.store());
    let of_planes = of_template::<KubeadmControlPlaneTemplate>(controller.store());
    let of_machines = of_template::<OpenStackMachineTemplate>(controller.store());
    let of_configs = of_template::<KubeadmConfigTemplate>(controller.store());
    let controller = controller
        .watches(Api::<ClusterClass>::all(client.clone()), of_class)
        .watches(Api::<OpenStackClusterTemplate>::all(client.clone()), of_networks)
        .watches(Api::<KubeadmControlPlaneTemplate>::all(client.clone()), of_planes)
        .watches(Api::<OpenStackMachineTemplate>::all(client.clone()), of_machines)
        .watches(Api::<KubeadmConfigTemplate>::all(client.clone()), of_configs)
        .watches(Api::<OpenStackCluster>::all(client.clone()), of_owned)
        .watches(Api::<KubeadmControlPlane>::all(client.clone()), of_labelled)
        .watches(Api::<MachineHealthCheck>::all(client.clone()), of_owned)
        .watches(Api::<MachineDeployment>::all(client), of_labelled);
    let reconciler = Arc::new(ClusterTopologyReconciler::new(context));
    let pass = move |object: Arc<Cluster>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the Cluster of an object that a topology has made.
#[allow(clippy::needless_pass_by_value, reason = "the watch hands over its objects")]
fn of_owned<K: Resource>(object: K) -> Option<ObjectRef<Cluster>> {
    owning(&object)
}

fn owning<K: Resource>(object: &K) -> Option<ObjectRef<Cluster>> {
    let labels = object.labels();
    let name = labels.get(CLUSTER_NAME_LABEL).filter(|_| labels.contains_key(OWNED))?;
    Some(ObjectRef::new(name).within(&object.namespace().unwrap_or_default()))
}

/// Returns the Cluster of an object whose version an upgrade changes, with a topology or without.
#[allow(clippy::needless_pass_by_value, reason = "the watch hands over its objects")]
fn of_labelled<K: Resource>(object: K) -> Option<ObjectRef<Cluster>> {
    let name = object.labels().get(CLUSTER_NAME_LABEL)?;
    Some(ObjectRef::new(name).within(&object.namespace().unwrap_or_default()))
}

/// Returns the trigger of a template. Its Clusters get the edits of one that a class has, and one that was made anew once the
/// class owns it. One that a topology has made is replaced when it is gone: the watch reports that as the last state again, so
/// that no predicate can apply.
fn of_template<K: Resource + 'static>(
    known: Store<Cluster>,
) -> impl Fn(K) -> Vec<ObjectRef<Cluster>> + Send + Sync + 'static {
    let predicate = ChangePredicate::default();
    move |template: K| {
        if let Some(cluster) = owning(&template) {
            return vec![cluster];
        }
        let part = (template.labels(), template.annotations(), template.owner_references());
        if predicate.is_new_with(&template, &part) { users(&known, &template) } else { Vec::new() }
    }
}

/// Returns the Clusters of the classes that own a template. A class owns each template that it names.
fn users<K: Resource>(known: &Store<Cluster>, template: &K) -> Vec<ObjectRef<Cluster>> {
    let namespace = template.namespace();
    let owners = template.owner_references().iter();
    let classes: Vec<&str> = owners
        .filter(|it| it.kind == ClusterClass::kind(&()) && it.api_version.starts_with("cluster.x-k8s.io/"))
        .map(|it| it.name.as_str())
        .collect();
    let clusters = known.state();
    let is_user =
        |cluster: &Cluster| classes.iter().any(|name| is_of_class(cluster, namespace.as_deref(), name));
    let users = clusters.iter().filter(|cluster| is_user(cluster));
    users.map(|cluster| ObjectRef::from_obj(&**cluster)).collect()
}

/// Returns true if a Cluster is of a class.
pub(crate) fn uses(cluster: &Cluster, class: &ClusterClass) -> bool {
    is_of_class(cluster, class.namespace().as_deref(), &class.name_any())
}

/// Returns true if a Cluster is of the class of this namespace and name.
fn is_of_class(cluster: &Cluster, namespace: Option<&str>, name: &str) -> bool {
    let Some(reference) = cluster.spec.topology.as_ref().map(|topology| &topology.class_ref) else {
        return false;
    };
    let of_cluster = reference.namespace.clone().or_else(|| cluster.namespace());
    reference.name == name && of_cluster.as_deref() == namespace
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    fn cluster(namespace: &str, name: &str, class: &serde_json::Value) -> Cluster {
        let object = json!({"metadata": {"name": name, "namespace": namespace},
            "spec": {"topology": {"classRef": class, "version": "v1.33.0"}}});
        serde_json::from_value(object).unwrap()
    }

    fn template(generation: i64, owner: &str) -> KubeadmConfigTemplate {
        let owner =
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": owner, "name": "small", "uid": "c"});
        let metadata = json!({"name": "t", "namespace": "classes", "uid": "t", "generation": generation,
            "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"template": {}}})).unwrap()
    }

    /// An edit reached the Clusters after up to ten minutes.
    #[test]
    fn an_edit_of_a_template_triggers_the_clusters_of_its_class() {
        let (store, mut writer) = reflector::store::<Cluster>();
        let clusters = [
            cluster("teams", "blue", &json!({"name": "small", "namespace": "classes"})),
            cluster("classes", "green", &json!({"name": "small"})),
            cluster("teams", "same-name", &json!({"name": "small"})),
            cluster("classes", "other-class", &json!({"name": "large"})),
        ];
        for cluster in clusters {
            writer.apply_watcher_event(&watcher::Event::Apply(cluster));
        }
        let trigger = of_template::<KubeadmConfigTemplate>(store.clone());
        let names = |found: Vec<ObjectRef<Cluster>>| {
            let mut names: Vec<String> = found.into_iter().map(|it| it.name).collect();
            names.sort();
            names
        };
        assert_eq!(names(trigger(template(1, "ClusterClass"))), ["blue", "green"]);
        assert_eq!(names(trigger(template(1, "ClusterClass"))), [""; 0], "nothing has changed");
        assert_eq!(names(trigger(template(2, "ClusterClass"))), ["blue", "green"], "its spec is another one");
        assert_eq!(names(trigger(template(2, "Cluster"))), [""; 0], "it was made anew");
        assert_eq!(names(trigger(template(2, "ClusterClass"))), ["blue", "green"], "the class owns it again");
        assert_eq!(names(users(&store, &template(1, "Cluster"))), [""; 0], "a topology has made it");
    }
    /// A template that was deleted was missing for up to ten minutes.
    #[test]
    fn a_template_that_a_topology_has_made_triggers_its_cluster_also_when_it_is_deleted() {
        let (store, _) = reflector::store::<Cluster>();
        let trigger = of_template::<KubeadmConfigTemplate>(store);
        let mut made = template(1, "Cluster");
        made.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), "blue".to_owned());
        assert_eq!(trigger(made.clone()), [], "a user has made it");
        made.labels_mut().insert(OWNED.to_owned(), String::new());
        let blue = [ObjectRef::<Cluster>::new("blue").within("classes")];
        assert_eq!(trigger(made.clone()), blue);
        assert_eq!(trigger(made), blue, "the watch reports it again when it is gone");
    }
}
