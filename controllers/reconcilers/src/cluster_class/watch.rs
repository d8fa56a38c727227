//! Watches that trigger passes over a ClusterClass.

use std::sync::Arc;

use apiserver_types::{ClusterClass, ExtensionConfig};
use controllers_runtime::{ControllerContext, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{ClusterClassReconciler, observe};

/// Number of classes that are reconciled at the same time. Upstream's.
const CONCURRENCY: u16 = 10;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let classes = Api::<ClusterClass>::all(context.client.clone());
    let controller = ReconcileLoop::new(classes, CONCURRENCY, &context.queues, "clusterclass");
    let known = controller.store();
    let of_server = move |config: ExtensionConfig| users(&known, &config.name_any());
    let controller = controller.watches(Api::<ExtensionConfig>::all(context.client.clone()), of_server);
    let reconciler = Arc::new(ClusterClassReconciler::new(context));
    let pass = move |object: Arc<ClusterClass>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
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
}
