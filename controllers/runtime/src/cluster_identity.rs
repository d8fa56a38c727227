//! OpenStackClusterIdentity: the Secret with credentials that several namespaces share.

use apiserver_types::{LabelSelector, OpenStackClusterIdentity};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};

use crate::ReconcileError;

/// Returns namespace and name of the Secret that an identity names, if objects of `namespace` may use it.
pub(crate) async fn secret(
    client: &Client,
    namespace: &str,
    name: &str,
) -> Result<(String, String), ReconcileError> {
    let identities = Api::<OpenStackClusterIdentity>::all(client.clone());
    let Some(identity) = identities.get_opt(name).await? else {
        let message = format!("OpenStackClusterIdentity {name} does not exist. Create it");
        return Err(ReconcileError::waiting("IdentityNotFound", message));
    };
    if let Some(selector) = &identity.spec.namespace_selector {
        let found = Api::<Namespace>::all(client.clone()).get_opt(namespace).await?;
        if !found.is_some_and(|found| is_selected(selector, &found)) {
            let message = format!(
                "OpenStackClusterIdentity {name} does not select namespace {namespace}. Label the namespace, or change \
                 spec.namespaceSelector"
            );
            return Err(ReconcileError::waiting("IdentityAccessDenied", message));
        }
    }
    let reference = identity.spec.secret_ref;
    Ok((reference.namespace, reference.name))
}

/// Returns true if a selector selects the namespace. An empty selector selects every namespace.
fn is_selected(selector: &LabelSelector, namespace: &Namespace) -> bool {
    let standard = serde_json::to_value(selector).and_then(serde_json::from_value);
    let standard: Result<k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector, _> = standard;
    let Some(selector) = standard.ok().and_then(|it| Selector::try_from(it).ok()) else { return false };
    selector.matches(namespace.labels())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_selects_namespaces_by_their_labels() {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "a", "labels": {"team": "x"}}})).unwrap();
        let selects =
            |selector: serde_json::Value| is_selected(&serde_json::from_value(selector).unwrap(), &namespace);
        assert!(selects(json!({})));
        assert!(selects(json!({"matchLabels": {"team": "x"}})));
        assert!(!selects(json!({"matchLabels": {"team": "y"}})));
        let among = |operator: &str| json!({"matchExpressions": [{"key": "team", "operator": operator, "values": ["x"]}]});
        assert!(selects(among("In")));
        assert!(!selects(among("NotIn")));
        assert!(!selects(among("Unknown")));
    }
}
