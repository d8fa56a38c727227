//! Watches of credentials: a change wakes the objects that use them.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apiserver_types::{IdentityType, OpenStackCluster, OpenStackClusterIdentity, OpenStackIdentityReference};
use controllers_runtime::{ControllerContext, CredentialChange, ReconcileLoop};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Secrets of the shared identities, by the names of the identities: namespace and name.
type Shared = HashMap<String, (String, String)>;

/// Change of credentials.
enum Change {
    Of(CredentialChange),
    Identity(String),
}

/// Returns true if a change concerns an object in a namespace with these credentials. Pure.
fn concerns(
    change: &Change,
    namespace: &str,
    reference: &OpenStackIdentityReference,
    shared: &Shared,
) -> bool {
    let is_shared = reference.kind == Some(IdentityType::ClusterIdentity);
    match change {
        Change::Identity(name) => is_shared && reference.name == *name,
        Change::Of(CredentialChange::Namespace(name)) => is_shared && namespace == name,
        Change::Of(CredentialChange::Secret(of, name)) if is_shared => {
            shared.get(&reference.name).is_some_and(|known| (&known.0, &known.1) == (of, name))
        }
        Change::Of(CredentialChange::Secret(of, name)) => namespace == of && reference.name == *name,
    }
}

/// Adds the triggers of changed credentials to a loop. `identity` returns the credentials of an object, and `wake` has it
/// reconciled although it is settled or has failed a moment ago.
pub(crate) fn watch<K>(
    controller: ReconcileLoop<K>,
    context: &ControllerContext,
    identity: impl Fn(&K) -> Option<OpenStackIdentityReference> + Send + Sync + 'static,
    wake: impl Fn(&K) + Send + Sync + 'static,
) -> ReconcileLoop<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let shared: Arc<Mutex<Shared>> = Arc::default();
    let known = controller.store();
    let (of_identities, of_secrets) = (Arc::clone(&shared), shared);
    let woken = Arc::new(move |change: &Change, shared: &Shared| {
        let uses = |object: &K| {
            let namespace = object.meta().namespace.as_deref().unwrap_or_default();
            identity(object).is_some_and(|it| concerns(change, namespace, &it, shared))
        };
        select(&known, uses, &wake)
    });
    let of_identity = Arc::clone(&woken);
    let of_identity = move |it: OpenStackClusterIdentity| {
        let secret = it.spec.secret_ref.clone();
        let mut shared = lock(&of_identities);
        shared.insert(it.name_any(), (secret.namespace, secret.name));
        of_identity(&Change::Identity(it.name_any()), &shared)
    };
    let of_change = move |change: CredentialChange| woken(&Change::Of(change), &lock(&of_secrets));
    controller
        .watches(Api::<OpenStackClusterIdentity>::all(context.client.clone()), of_identity)
        .triggered_by(context.secrets.changes(), of_change)
}

fn select<K>(known: &Store<K>, uses: impl Fn(&K) -> bool, wake: &impl Fn(&K)) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    let found: Vec<Arc<K>> = known.state().into_iter().filter(|object| uses(object)).collect();
    found.iter().for_each(|object| wake(object));
    found.iter().map(|object| ObjectRef::from_obj(&**object)).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Credentials of clusters, for objects of a cluster that name none. By namespace and name of the Cluster.
#[derive(Debug, Default, Clone)]
pub(crate) struct ClusterCredentials(Arc<Mutex<HashMap<(String, String), OpenStackIdentityReference>>>);

impl ClusterCredentials {
    /// Notes the credentials of a cluster.
    pub(crate) fn note(&self, cluster: &OpenStackCluster) {
        let Some(name) = cluster.labels().get(crate::CLUSTER_NAME_LABEL) else { return };
        let key = (cluster.namespace().unwrap_or_default(), name.clone());
        lock(&self.0).insert(key, cluster.spec.identity_ref.clone());
    }

    /// Returns the credentials of the cluster of an object.
    pub(crate) fn of(&self, object: &impl ResourceExt, cluster: &str) -> Option<OpenStackIdentityReference> {
        let key = (object.namespace().unwrap_or_default(), cluster.to_owned());
        lock(&self.0).get(&key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r4_3_a_change_of_a_secret_an_identity_or_a_namespace_wakes_those_that_use_it() {
        let reference = |kind: &str, name: &str| -> OpenStackIdentityReference {
            serde_json::from_value(json!({"type": kind, "name": name, "cloudName": "c"})).unwrap()
        };
        let (own, shared) = (reference("Secret", "s"), reference("ClusterIdentity", "i"));
        let known: Shared = [("i".to_owned(), ("admin".to_owned(), "clouds".to_owned()))].into();
        let secret = |namespace: &str, name: &str| {
            Change::Of(CredentialChange::Secret(namespace.to_owned(), name.to_owned()))
        };
        let labels = |name: &str| Change::Of(CredentialChange::Namespace(name.to_owned()));
        let table = [
            (secret("n", "s"), true, false),
            (secret("other", "s"), false, false),
            (secret("n", "i"), false, false),
            (secret("admin", "clouds"), false, true),
            (labels("n"), false, true),
            (labels("admin"), false, false),
            (Change::Identity("i".to_owned()), false, true),
            (Change::Identity("s".to_owned()), false, false),
        ];
        for (index, (change, of_own, of_shared)) in table.iter().enumerate() {
            assert_eq!(concerns(change, "n", &own, &known), *of_own, "{index}");
            assert_eq!(concerns(change, "n", &shared, &known), *of_shared, "{index}");
        }
    }

    #[test]
    fn a_machine_without_credentials_of_its_own_uses_those_of_its_cluster() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut cluster = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        cluster.metadata.namespace = Some("n".to_owned());
        cluster.labels_mut().insert(crate::CLUSTER_NAME_LABEL.to_owned(), "prod".to_owned());
        let known = ClusterCredentials::default();
        known.note(&cluster);
        assert_eq!(known.of(&cluster, "prod").unwrap().name, "s");
        assert!(known.of(&cluster, "other").is_none());
    }
}
