//! Credentials of a cloud in a Secret: the resources of these objects stay in the cloud if the Secret is deleted first.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_types::{
    Described, Descriptor, Image, OpenStackCluster, OpenStackClusterIdentity, OpenStackFloatingIPPool,
    OpenStackMachine, OpenStackServer,
};
use serde_json::Value;

use crate::rules::json_fields::text;
use crate::rules::{protection, used_identities, used_secrets};

/// Key of a Secret with credentials of clouds.
const CLOUDS: &str = "clouds.yaml";

/// Kinds of a namespace that can name a Secret beside the object.
const USERS: [Descriptor; 5] = [
    OpenStackCluster::DESCRIPTOR,
    OpenStackMachine::DESCRIPTOR,
    OpenStackServer::DESCRIPTOR,
    OpenStackFloatingIPPool::DESCRIPTOR,
    Image::DESCRIPTOR,
];

/// Returns the warning for the client that deletes a Secret with which Capstan logs in to a cloud. There is none if clusterctl
/// has moved the Secret.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(super) async fn warning(secret: &Value, others: &dyn ObjectReader) -> ApiResult<Option<String>> {
    // The deletion of a Cluster deletes a Secret for each Machine. Reading all users for each of these would be slow.
    let has_clouds = secret.get("data").is_some_and(|data| data.get(CLOUDS).is_some());
    if !has_clouds || protection::is_moved(secret) {
        return Ok(None);
    }
    let (namespace, name) = (object::namespace(secret), object::name(secret));
    let mut users = Vec::new();
    for kind in USERS {
        for found in others.all(kind.group, kind.plural, namespace).await? {
            let mut used = used_identities::at(&found, &["spec.identityRef"]);
            used.extend(used_secrets::at(&found, &["spec.cloudCredentialsRef.secretName"]));
            if used.iter().any(|it| it.resource == "secrets" && it.name == name) {
                users.push(format!("{} {}", kind.kind, object::name(&found)));
            }
        }
    }
    let identity = OpenStackClusterIdentity::DESCRIPTOR;
    for found in others.all(identity.group, identity.plural, "").await? {
        let part = |field: &str| text(&found, &format!("spec.secretRef.{field}")).unwrap_or_default();
        if (part("namespace"), part("name")) == (namespace, name) {
            users.push(format!("{} {}", identity.kind, object::name(&found)));
        }
    }
    let Some(first) = users.first() else { return Ok(None) };
    let more = match users.len() {
        1 => String::new(),
        count => format!(" and of {} more objects", count - 1),
    };
    Ok(Some(format!(
        "Secret {namespace}/{name} has the credentials of {first}{more}. Without them, Capstan deletes nothing in the \
         cloud, and a deletion of these objects waits. Create the Secret again until they are gone"
    )))
}

#[cfg(test)]
mod tests {
    use apiserver_types::protection::DELETE_FOR_MOVE;
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    /// Objects by their plural.
    #[derive(Debug)]
    struct World(Vec<(&'static str, Value)>);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(None)
        }

        async fn all(&self, _: &str, plural: &str, namespace: &str) -> ApiResult<Vec<Value>> {
            let of_kind = self.0.iter().filter(|(kind, _)| *kind == plural).map(|(_, found)| found.clone());
            Ok(of_kind.filter(|it| namespace.is_empty() || object::namespace(it) == namespace).collect())
        }
    }

    fn named(namespace: &str, name: &str, spec: &Value) -> Value {
        json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec})
    }

    /// `helm uninstall` and `kubectl delete -f` delete the Secret with the Cluster, whose deletion then waits for it.
    #[tokio::test]
    async fn the_deletion_of_credentials_in_use_is_warned_of() {
        let reference = |kind: &str, name: &str| json!({"identityRef": {"type": kind, "name": name}});
        let cluster = |spec: &Value| ("openstackclusters", named("n", "c", spec));
        let machine = ("openstackmachines", named("n", "m", &reference("Secret", "s")));
        let elsewhere = ("openstackclusters", named("other", "c", &reference("Secret", "s")));
        let identity = |namespace: &str| {
            let spec = json!({"secretRef": {"namespace": namespace, "name": "s"}});
            ("openstackclusteridentities", named("", "shared", &spec))
        };
        let mut secret = named("n", "s", &Value::Null);
        secret["data"] = json!({CLOUDS: ""});
        let image = ("images", named("n", "i", &json!({"cloudCredentialsRef": {"secretName": "s"}})));
        let table = [
            (vec![], None),
            (vec![cluster(&reference("Secret", "s"))], Some("of OpenStackCluster c. ")),
            (vec![cluster(&json!({"identityRef": {"name": "s"}}))], Some("of OpenStackCluster c. ")),
            (
                vec![cluster(&reference("Secret", "s")), machine],
                Some("of OpenStackCluster c and of 1 more objects. "),
            ),
            (vec![cluster(&reference("Secret", "another"))], None),
            (vec![cluster(&reference("ClusterIdentity", "s"))], None),
            (vec![elsewhere], None),
            (vec![image], Some("of Image i. ")),
            (vec![identity("n")], Some("of OpenStackClusterIdentity shared. ")),
            (vec![identity("other")], None),
        ];
        for (objects, expected) in table {
            let world = World(objects);
            let found = warning(&secret, &world).await.unwrap();
            let says = |text: &str| found.as_ref().is_some_and(|found| found.contains(text));
            assert!(expected.map_or_else(|| found.is_none(), says), "{world:?}: {found:?}");
        }
        let world = World(vec![cluster(&reference("Secret", "s"))]);
        let mut other = secret.clone();
        other["data"] = json!({"value": ""});
        assert_eq!(warning(&other, &world).await.unwrap(), None, "bootstrap data");
        let mut moved = secret;
        moved["metadata"]["annotations"] = json!({DELETE_FOR_MOVE: ""});
        assert_eq!(warning(&moved, &world).await.unwrap(), None);
    }
}
