//! Watches that trigger passes over an ExtensionConfig.

use std::sync::Arc;

use apiserver_types::ExtensionConfig;
use controllers_runtime::{ControllerContext, CredentialChange, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::{ExtensionConfigReconciler, observe};

/// Number of ExtensionConfigs that are reconciled at the same time: a silent server takes ten seconds.
const CONCURRENCY: u16 = 4;

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
pub(super) async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let configs = Api::<ExtensionConfig>::all(context.client.clone());
    let controller = ReconcileLoop::new(configs, CONCURRENCY, &context.queues, "extensionconfig");
    let (known, changes) = (controller.store(), context.secrets.changes());
    let reconciler = Arc::new(ExtensionConfigReconciler::new(context));
    let waking = Arc::clone(&reconciler);
    let of_change = move |change: CredentialChange| match change {
        CredentialChange::Secret(namespace, name) => users(&known, &namespace, &name, &waking),
        CredentialChange::Namespace(_) => Vec::new(),
    };
    let pass = move |object: Arc<ExtensionConfig>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.triggered_by(changes, of_change).run(pass, shutdown).await;
}

/// Returns the ExtensionConfigs that name a Secret. Their next passes are due, although they are settled.
fn users(
    known: &Store<ExtensionConfig>,
    namespace: &str,
    name: &str,
    reconciler: &ExtensionConfigReconciler,
) -> Vec<ObjectRef<ExtensionConfig>> {
    let all = known.state();
    let found = all.iter().filter(|config| observe::secret(config) == Some((namespace, name)));
    found
        .map(|config| {
            reconciler.requeue.forget(&config.uid().unwrap_or_default());
            ObjectRef::from_obj(&**config)
        })
        .collect()
}
