//! OpenStackClusterIdentity: strategy.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

use crate::rules::used_identities::secret;

/// Reference to the Secret with the credentials.
const REFERENCE: &str = "spec.secretRef";

/// Strategy of OpenStackClusterIdentity. Its reference has a namespace, so its writer could otherwise make any Secret of
/// the cluster the credentials of all namespaces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackClusterIdentityStrategy;

impl Strategy for OpenStackClusterIdentityStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        let text = |field: &str| object::at(object, REFERENCE)?.get(field)?.as_str();
        let reference = text("namespace").zip(text("name"));
        let reference = reference.filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty());
        reference.map(|(namespace, name)| secret(REFERENCE, namespace, name)).into_iter().collect()
    }
}
