//! Warning about a request for more Machines than the quota of the project has room for.
//!
//! Admission does not call the cloud. It knows that a quota is exhausted from a machine of the cluster that waits for it.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::{Value, json};

use crate::rules::json_fields::{get, items};

/// Label of all objects of a cluster with its name.
pub(crate) const CLUSTER: &str = "cluster.x-k8s.io/cluster-name";

/// Reason of a machine that waits for quota.
const EXCEEDED: &str = "QuotaExceeded";

/// Returns true if a spec requests more replicas than before. The first request is no scaling.
fn grows(spec: &Value, before: Option<&Value>) -> bool {
    let count = |spec: &Value| spec.get("replicas").and_then(Value::as_i64);
    let counts = count(spec).zip(before.and_then(count));
    counts.is_some_and(|(now, then)| now > then)
}

/// Returns the path of the first number of replicas of an object that is larger than before: its own, or one in the
/// topology of a Cluster.
fn growth(new: &Value, old: &Value) -> Option<String> {
    for part in ["spec", "spec.topology.controlPlane"] {
        if get(new, part).is_some_and(|spec| grows(spec, get(old, part))) {
            return Some(format!("{part}.replicas"));
        }
    }
    let deployments = "spec.topology.workers.machineDeployments";
    let before = |name: Option<&Value>| {
        items(old, deployments).map(|(_, spec)| spec).find(|spec| name.is_some() && spec.get("name") == name)
    };
    let mut all = items(new, deployments);
    let (index, _) = all.find(|(_, spec)| grows(spec, before(spec.get("name"))))?;
    Some(format!("{deployments}[{index}].replicas"))
}

/// Returns the warning about an object that requests more Machines than before, if a machine of its cluster waits for
/// quota. `cluster` is the name of that cluster. An object without one gets no warning.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(crate) async fn warning(
    new: &Value,
    old: Option<&Value>,
    cluster: Option<&str>,
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    let field = old.and_then(|old| growth(new, old));
    let Some((field, cluster)) = field.zip(cluster) else { return Ok(None) };
    let namespace = object::namespace(new);
    let machines = others.all("infrastructure.cluster.x-k8s.io", "openstackmachines", namespace).await?;
    let of_cluster = |machine: &&Value| {
        let labels = object::at(machine, "metadata.labels");
        labels.and_then(|labels| labels.get(CLUSTER)) == Some(&json!(cluster))
    };
    let waits = machines
        .iter()
        .filter(of_cluster)
        .find_map(|machine| Some((object::name(machine), shortage(machine)?)));
    Ok(waits.map(|(name, message)| {
        format!("{field}: more Machines have to wait for quota, as OpenStackMachine {name} does: {message}")
    }))
}

/// Returns the message of a machine that waits for quota.
fn shortage(machine: &Value) -> Option<&str> {
    let conditions = object::at(machine, "status.conditions").and_then(Value::as_array)?;
    let exceeded = conditions.iter().find(|condition| {
        let is = |field: &str, value: &str| condition.get(field).is_some_and(|it| it == value);
        is("type", "InstanceReady") && is("status", "False") && is("reason", EXCEEDED)
    })?;
    exceeded.get("message").and_then(Value::as_str)
}

#[cfg(test)]
pub(crate) mod tests {
    use async_trait::async_trait;

    use super::*;

    /// Objects with one machine of cluster `c`, whose server is absent for this reason.
    #[derive(Debug)]
    pub(crate) struct World(pub(crate) &'static str);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(None)
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            let condition = json!({
                "type": "InstanceReady", "status": "False", "reason": self.0, "message": "needs 3 cores, 2 left of 40"});
            let labels = json!({CLUSTER: "c"});
            Ok(vec![
                json!({"metadata": {"name": "m", "labels": labels}, "status": {"conditions": [condition]}}),
            ])
        }
    }

    #[tokio::test]
    async fn r15_4_a_request_for_more_machines_is_warned_of_while_one_waits_for_quota() {
        let of = |replicas: i32| json!({"metadata": {"namespace": "n"}, "spec": {"replicas": replicas}});
        let (small, large) = (of(1), of(2));
        let warn = async |cluster, reason| {
            let warned = warning(&large, Some(&small), cluster, &World(reason)).await;
            warned.unwrap()
        };
        let warned = warn(Some("c"), EXCEEDED).await.unwrap();
        assert!(warned.starts_with("spec.replicas: more Machines"), "{warned}");
        assert!(warned.ends_with("as OpenStackMachine m does: needs 3 cores, 2 left of 40"), "{warned}");
        assert_eq!(warn(Some("other"), EXCEEDED).await, None);
        assert_eq!(warn(None, EXCEEDED).await, None);
        assert_eq!(warn(Some("c"), "Building").await, None);
        let shrunk = warning(&small, Some(&large), Some("c"), &World(EXCEEDED)).await;
        assert_eq!(shrunk.unwrap(), None);
    }

    #[test]
    fn r15_4_a_topology_that_grows_is_found_with_the_path_of_its_replicas() {
        let cluster = |control_plane: i32, workers: &[(&str, i32)]| {
            let workers: Vec<Value> =
                workers.iter().map(|(name, count)| json!({"name": name, "replicas": count})).collect();
            json!({"spec": {"topology": {"controlPlane": {"replicas": control_plane},
                "workers": {"machineDeployments": workers}}}})
        };
        let old = cluster(1, &[("a", 2), ("b", 2)]);
        for (new, expected) in [
            (cluster(1, &[("a", 2), ("b", 2)]), None),
            (cluster(3, &[("a", 2)]), Some("spec.topology.controlPlane.replicas")),
            (cluster(1, &[("b", 3)]), Some("spec.topology.workers.machineDeployments[0].replicas")),
            (cluster(1, &[("new", 9), ("a", 1)]), None),
            (json!({"spec": {}}), None),
        ] {
            assert_eq!(growth(&new, &old).as_deref(), expected, "{new}");
        }
    }

    #[test]
    fn r15_4_only_more_replicas_than_before_count() {
        let spec = |replicas: Value| json!({"replicas": replicas});
        assert!(grows(&spec(json!(3)), Some(&spec(json!(2)))));
        assert!(!grows(&spec(json!(2)), Some(&spec(json!(3)))));
        assert!(!grows(&spec(json!(3)), None) && !grows(&json!({}), Some(&spec(json!(1)))));
    }
}
