//! Warning about the deletion of the only control plane Machine of a Cluster. The deletion is accepted, as upstream
//! accepts it, and the workload cluster ends with it.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use super::CONTROL_PLANE_LABEL;
use crate::rules::json_fields::text;
use crate::rules::machine_template::CLUSTER_LABEL;

/// API group of Clusters and Machines.
const GROUP: &str = "cluster.x-k8s.io";

/// Returns the warning, unless the Cluster is being deleted or has another control plane Machine that stays.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(super) async fn warning(machine: &Value, others: &dyn ObjectReader) -> ApiResult<Option<String>> {
    let Some(cluster) = control_plane_of(machine) else { return Ok(None) };
    let (namespace, name) = (object::namespace(machine), object::name(machine));
    let found = others.find(GROUP, "clusters", namespace, cluster).await?;
    if found.is_none_or(|found| is_deleting(&found)) {
        return Ok(None);
    }
    let machines = others.all(GROUP, "machines", namespace).await?;
    let stays = |other: &Value| {
        object::name(other) != name && control_plane_of(other) == Some(cluster) && !is_deleting(other)
    };
    let is_last = !machines.iter().any(stays);
    Ok(is_last.then(|| {
        format!(
            "Machine {name} is the only control plane Machine of Cluster {cluster}: the workload API and its etcd end \
             with it. To replace the Machine, create another one first, e.g. with more replicas of the control plane"
        )
    }))
}

/// Returns the name of the Cluster of a control plane Machine.
fn control_plane_of(machine: &Value) -> Option<&str> {
    let labels = object::at(machine, "metadata.labels")?;
    labels.get(CONTROL_PLANE_LABEL)?;
    labels.get(CLUSTER_LABEL)?.as_str()
}

fn is_deleting(object: &Value) -> bool {
    text(object, "metadata.deletionTimestamp").is_some()
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    /// Cluster and Machines of a namespace.
    #[derive(Debug)]
    struct World(Option<Value>, Vec<Value>);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(self.0.clone())
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            Ok(self.1.clone())
        }
    }

    fn machine(name: &str, cluster: &str, is_control_plane: bool, is_going: bool) -> Value {
        let mut machine =
            json!({"metadata": {"name": name, "namespace": "n", "labels": {CLUSTER_LABEL: cluster}}});
        if is_control_plane {
            machine["metadata"]["labels"][CONTROL_PLANE_LABEL] = json!("");
        }
        if is_going {
            machine["metadata"]["deletionTimestamp"] = json!("2026-11-27T05:00:00Z");
        }
        machine
    }

    #[tokio::test]
    async fn only_the_deletion_of_the_last_control_plane_machine_is_warned_of() {
        let (cluster, going) =
            (json!({}), json!({"metadata": {"deletionTimestamp": "2026-11-27T05:00:00Z"}}));
        let one = || machine("m", "c", true, true);
        let table = [
            ("alone", one(), Some(&cluster), vec![one()], true),
            ("beside a worker", one(), Some(&cluster), vec![machine("w", "c", false, false)], true),
            ("beside one that goes", one(), Some(&cluster), vec![machine("o", "c", true, true)], true),
            ("beside one of another", one(), Some(&cluster), vec![machine("o", "d", true, false)], true),
            ("beside one that stays", one(), Some(&cluster), vec![machine("o", "c", true, false)], false),
            ("with the Cluster", one(), Some(&going), vec![one()], false),
            ("without a Cluster", one(), None, vec![one()], false),
            ("a worker", machine("w", "c", false, true), Some(&cluster), vec![], false),
        ];
        for (case, deleted, cluster, machines, expected) in table {
            let warned = warning(&deleted, &World(cluster.cloned(), machines)).await.unwrap();
            assert_eq!(warned.is_some(), expected, "{case}: {warned:?}");
        }
    }
}
