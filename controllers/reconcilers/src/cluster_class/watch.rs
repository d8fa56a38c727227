//! Watches that trigger passes over a ClusterClass.

use std::sync::Arc;

use apiserver_types::{
    ClusterClass, ExtensionConfig, KubeadmConfigTemplate, KubeadmControlPlaneTemplate,
    OpenStackClusterTemplate, OpenStackMachineTemplate, RemediationTemplateRef,
};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{ClusterClassReconciler, observe};

/// Number of classes that are reconciled at the same time. Upstream's.
const CONCURRENCY: u16 = 10;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let client = context.client.clone();
    let classes = Api::<ClusterClass>::all(client.clone());
    let controller = ReconcileLoop::new(classes, CONCURRENCY, &context.queues, "clusterclass");
    let known = controller.store();
    let of_server = move |config: ExtensionConfig| users(&known, &config.name_any());
    let of_networks = of_template::<OpenStackClusterTemplate>(controller.store());
    let of_planes = of_template::<KubeadmControlPlaneTemplate>(controller.store());
    let of_machines = of_template::<OpenStackMachineTemplate>(controller.store());
    let of_configs = of_template::<KubeadmConfigTemplate>(controller.store());
    let controller = controller
        .watches(Api::<ExtensionConfig>::all(client.clone()), of_server)
        .watches(Api::<OpenStackClusterTemplate>::all(client.clone()), of_networks)
        .watches(Api::<KubeadmControlPlaneTemplate>::all(client.clone()), of_planes)
        .watches(Api::<OpenStackMachineTemplate>::all(client.clone()), of_machines)
        .watches(Api::<KubeadmConfigTemplate>::all(client), of_configs);
    let reconciler = Arc::new(ClusterClassReconciler::new(context));
    let pass = move |object: Arc<ClusterClass>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Returns the trigger of a template: the classes that name it. They own one that was made anew, and report one that is gone.
fn of_template<K: Resource<DynamicType = ()> + 'static>(
    known: Store<ClusterClass>,
) -> impl Fn(K) -> Vec<ObjectRef<ClusterClass>> + Send + Sync + 'static {
    move |template: K| naming(&known, &template)
}

/// Returns the classes that name a template.
fn naming<K: Resource<DynamicType = ()>>(
    known: &Store<ClusterClass>,
    template: &K,
) -> Vec<ObjectRef<ClusterClass>> {
    let (group, kind, name) = (K::group(&()), K::kind(&()), template.name_any());
    let is_named = |reference: &RemediationTemplateRef| {
        let of_group = reference.api_version.split_once('/').is_some_and(|(of, _)| of == group);
        of_group && reference.kind == kind && reference.name == name
    };
    let classes = known.state();
    let is_user = |class: &ClusterClass| {
        class.namespace() == template.namespace() && observe::references(class).iter().any(is_named)
    };
    classes.iter().filter(|class| is_user(class)).map(|class| ObjectRef::from_obj(&**class)).collect()
}

/// Returns the classes with variables of the server of an ExtensionConfig.
fn users(known: &Store<ClusterClass>, config: &str) -> Vec<ObjectRef<ClusterClass>> {
    let classes = known.state();
    let is_user = |class: &ClusterClass| {
        // The name of a handler ends with that of its ExtensionConfig.
        let mut handlers = observe::declaring(class).filter_map(|(_, _, handler)| handler.split_once('.'));
        handlers.any(|(_, of)| of == config)
    };
    classes.iter().filter(|class| is_user(class)).map(|class| ObjectRef::from_obj(&**class)).collect()
}

#[cfg(test)]
mod tests {
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_of_an_extension_config_triggers_the_classes_with_its_variables() {
        let (store, mut writer) = reflector::store::<ClusterClass>();
        let reference = json!({"templateRef": {"apiVersion": "a/v1", "kind": "FooTemplate", "name": "t"}});
        for (name, handler) in [("own", "vars.ext"), ("other", "vars.other"), ("longer", "vars.ext2")] {
            let patches = "p.ext";
            let external =
                json!({"generatePatchesExtension": patches, "discoverVariablesExtension": handler});
            let class: ClusterClass = serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "ns"},
                "spec": {
                    "infrastructure": reference, "controlPlane": reference,
                    "patches": [{"name": "p", "external": external}],
                },
            }))
            .unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(class));
        }
        let names: Vec<String> = users(&store, "ext").into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["own"]);
    }

    /// A template that was deleted, or made anew, reached its classes after up to ten minutes.
    #[test]
    fn a_template_triggers_the_classes_that_name_it() {
        let (store, mut writer) = reflector::store::<ClusterClass>();
        let group = "bootstrap.cluster.x-k8s.io";
        for (namespace, name, group) in [
            ("classes", "own", group),
            ("teams", "other-namespace", group),
            ("classes", "other-group", "boot.example.com"),
        ] {
            let reference = |kind: &str| {
                let version = format!("{group}/v1beta1");
                json!({"templateRef": {"apiVersion": version, "kind": kind, "name": "t"}})
            };
            let (named, other) = (reference("KubeadmConfigTemplate"), reference("FooTemplate"));
            let class: ClusterClass = serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"infrastructure": other, "controlPlane": named},
            }))
            .unwrap();
            writer.apply_watcher_event(&watcher::Event::Apply(class));
        }
        let template = |name: &str| -> KubeadmConfigTemplate {
            let metadata = json!({"name": name, "namespace": "classes"});
            serde_json::from_value(json!({"metadata": metadata, "spec": {"template": {}}})).unwrap()
        };
        let names = |found: Vec<ObjectRef<ClusterClass>>| -> Vec<String> {
            found.into_iter().map(|it| it.name).collect()
        };
        let trigger = of_template::<KubeadmConfigTemplate>(store.clone());
        assert_eq!(names(trigger(template("t"))), ["own"]);
        assert_eq!(names(trigger(template("t"))), ["own"], "also when it is deleted");
        assert_eq!(names(naming(&store, &template("u"))), [""; 0]);
    }
}
