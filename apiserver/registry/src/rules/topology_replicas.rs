//! Warning about the replicas of an object that a topology owns: the topology controller restores those of the Cluster.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use crate::rules::json_fields::{get, items, text};
use crate::rules::machine_template::CLUSTER_LABEL;

/// Label of the objects that the topology of a Cluster made.
const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Label with the name of the worker group. A control plane has none.
const WORKERS: &str = "topology.cluster.x-k8s.io/deployment-name";

/// Returns the warning for the client that changes the replicas of an object to others than its Cluster has. A Cluster
/// without a number leaves it to others, for example cluster-autoscaler.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(crate) async fn warning(
    new: &Value,
    old: Option<&Value>,
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    let label = |key: &str| get(new, "metadata.labels")?.get(key)?.as_str();
    let replicas = get(new, "spec.replicas");
    let is_changed = old.is_some_and(|old| get(old, "spec.replicas") != replicas);
    let cluster = label(CLUSTER_LABEL).filter(|_| is_changed && label(OWNED).is_some());
    let Some(cluster) = cluster else { return Ok(None) };
    let found = others.find("cluster.x-k8s.io", "clusters", object::namespace(new), cluster).await?;
    // The topology controller leaves a paused Cluster as it is.
    let active = found.as_ref().filter(|found| get(found, "spec.paused") != Some(&Value::Bool(true)));
    let wanted = active.and_then(|found| wanted(found, label(WORKERS)));
    Ok(wanted.filter(|(_, wanted)| Some(*wanted) != replicas).map(|(field, wanted)| {
        format!(
            "spec.replicas: Cluster {cluster} has {wanted} in {field}, and its topology controller restores that within \
             seconds. Machines can be deleted until then. Change the Cluster instead"
        )
    }))
}

/// Returns the field of a Cluster with the replicas of the control plane, or of a worker group, and its value.
fn wanted<'a>(cluster: &'a Value, workers: Option<&str>) -> Option<(String, &'a Value)> {
    let (part, spec) = match workers {
        None => ("spec.topology.controlPlane".to_owned(), get(cluster, "spec.topology.controlPlane")?),
        Some(name) => {
            let list = "spec.topology.workers.machineDeployments";
            let (index, group) = items(cluster, list).find(|(_, group)| text(group, "name") == Some(name))?;
            (format!("{list}[{index}]"), group)
        }
    };
    let replicas = spec.get("replicas").filter(|it| it.is_number())?;
    Some((format!("{part}.replicas"), replicas))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    /// Cluster of the objects.
    #[derive(Debug)]
    struct World(Value);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(Some(self.0.clone()))
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            Ok(Vec::new())
        }
    }

    /// A scale-down by hand deleted running Machines, and the topology controller had them made again.
    #[tokio::test]
    async fn replicas_that_the_topology_restores_are_warned_of() {
        let groups =
            json!([{"name": "other", "replicas": 9}, {"name": "md-0", "replicas": 6}, {"name": "auto"}]);
        let topology = json!({"controlPlane": {"replicas": 3}, "workers": {"machineDeployments": groups}});
        let world = World(json!({"spec": {"topology": topology}}));
        let object = |group: Option<&str>, is_owned: bool, replicas: u8| {
            let mut labels = json!({CLUSTER_LABEL: "c"});
            if is_owned {
                labels[OWNED] = json!("");
            }
            if let Some(group) = group {
                labels[WORKERS] = json!(group);
            }
            json!({"metadata": {"namespace": "n", "labels": labels}, "spec": {"replicas": replicas}})
        };
        let of_group = "Cluster c has 6 in spec.topology.workers.machineDeployments[1].replicas";
        let of_plane = "Cluster c has 3 in spec.topology.controlPlane.replicas";
        let table = [
            (object(Some("md-0"), true, 6), object(Some("md-0"), true, 1), Some(of_group)),
            (object(None, true, 3), object(None, true, 1), Some(of_plane)),
            (object(Some("md-0"), true, 1), object(Some("md-0"), true, 6), None),
            (object(Some("md-0"), true, 1), object(Some("md-0"), true, 1), None),
            (object(Some("auto"), true, 6), object(Some("auto"), true, 1), None),
            (object(Some("gone"), true, 6), object(Some("gone"), true, 1), None),
            (object(Some("md-0"), false, 6), object(Some("md-0"), false, 1), None),
        ];
        for (old, new, expected) in table {
            let found = warning(&new, Some(&old), &world).await.unwrap();
            let says = |text: &str| found.as_ref().is_some_and(|found| found.contains(text));
            assert!(expected.map_or_else(|| found.is_none(), says), "{old} {new}: {found:?}");
        }
        let new = object(Some("md-0"), true, 1);
        assert_eq!(warning(&new, None, &world).await.unwrap(), None, "a new object");
        let mut paused = world;
        paused.0["spec"]["paused"] = json!(true);
        let old = object(Some("md-0"), true, 6);
        assert_eq!(warning(&new, Some(&old), &paused).await.unwrap(), None, "a paused Cluster");
    }
}
