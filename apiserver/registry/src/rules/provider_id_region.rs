//! Warning about provider ids of kubelets that differ from those of their Machines.
//!
//! A Machine has the region in its provider id if `identityRef` names one. Capstan finds the Node by the id of the
//! server alone. Other programs, such as cluster-autoscaler, compare the texts.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

/// Group of Cluster API's core kinds.
const CORE: &str = "cluster.x-k8s.io";

/// Group of infrastructure.
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";

/// Returns true if the kubelets of a kubeadm configuration get a provider id without a region.
pub(crate) fn is_without_region(config: &Value) -> bool {
    ["initConfiguration", "joinConfiguration"].iter().any(|part| {
        let path = format!("{part}.nodeRegistration.kubeletExtraArgs");
        let arguments = object::at(config, &path).and_then(Value::as_array);
        arguments.into_iter().flatten().any(|argument| {
            let text = |name: &str| argument.get(name).and_then(Value::as_str).unwrap_or_default();
            text("name") == "provider-id" && text("value").starts_with("openstack:///")
        })
    })
}

/// Returns the warning if the OpenStackCluster of a Cluster for which `is_of` holds names a region.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(crate) async fn warning(
    path: &str,
    namespace: &str,
    others: &dyn ObjectReader,
    is_of: impl Fn(&Value) -> bool + Send + Sync,
) -> ApiResult<Option<String>> {
    for cluster in others.all(CORE, "clusters", namespace).await? {
        let reference = |field: &str| object::at(&cluster, field).and_then(Value::as_str);
        let Some(name) = reference("spec.infrastructureRef.name").filter(|_| is_of(&cluster)) else {
            continue;
        };
        if reference("spec.infrastructureRef.kind") != Some("OpenStackCluster") {
            continue;
        }
        let found = others.find(INFRASTRUCTURE, "openstackclusters", namespace, name).await?;
        let region = found.as_ref().and_then(|found| object::at(found, "spec.identityRef.region"));
        if let Some(region) = region.and_then(Value::as_str).filter(|region| !region.is_empty()) {
            return Ok(Some(format!(
                "{path}: kubelets get the provider id openstack:///<id>, and Machines get openstack://{region}/<id>, since \
                 OpenStackCluster {name} has spec.identityRef.region. Programs that compare both, such as \
                 cluster-autoscaler, do not find the Nodes. Set the region in the argument provider-id"
            )));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    #[derive(Debug)]
    struct World(Value);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, plural: &str, _: &str, name: &str) -> ApiResult<Option<Value>> {
            assert_eq!((plural, name), ("openstackclusters", "infra"));
            Ok(Some(json!({"spec": {"identityRef": self.0}})))
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            let reference = |kind: &str| json!({"kind": kind, "name": "infra"});
            let cluster = |name: &str, kind: &str| json!({"metadata": {"name": name}, "spec": {"infrastructureRef": reference(kind)}});
            Ok(vec![cluster("c", "OpenStackCluster"), cluster("d", "DockerCluster")])
        }
    }

    #[test]
    fn r3_2_only_a_provider_id_without_region_counts() {
        let config = |value: &str| {
            let arguments =
                json!([{"name": "v", "value": "openstack:///"}, {"name": "provider-id", "value": value}]);
            json!({"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": arguments}}})
        };
        assert!(is_without_region(&config("openstack:///'{{ instance_id }}'")));
        assert!(!is_without_region(&config("openstack://R/'{{ instance_id }}'")));
        assert!(!is_without_region(&json!({})));
    }

    #[tokio::test]
    async fn r3_2_kubelets_without_the_region_of_the_credentials_are_warned_of() {
        let of = async |region: Value, name: &'static str| {
            let is_of = move |cluster: &Value| object::at(cluster, "metadata.name") == Some(&json!(name));
            warning("spec", "n", &World(region), is_of).await.unwrap()
        };
        let warned = of(json!({"region": "R"}), "c").await.unwrap();
        assert!(
            warned.starts_with("spec: kubelets get") && warned.contains("openstack://R/<id>"),
            "{warned}"
        );
        assert_eq!(of(json!({"region": "R"}), "d").await, None, "another provider");
        assert_eq!(of(json!({"region": "R"}), "e").await, None, "another cluster");
        assert_eq!(of(json!({"name": "s"}), "c").await, None);
    }
}
