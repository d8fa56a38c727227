//! Taint of a Node whose server is off: the workload cluster then removes its Pods and detaches its volumes.
//!
//! kube-controller-manager detaches the volumes of a tainted Node even while they are mounted. So the taint must not stay
//! on a Node that reports again.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::is_unreachable;
use crate::{WorkloadError, found};

/// Key of the taint. Kubernetes' name.
const KEY: &str = "node.kubernetes.io/out-of-service";

/// Effect of the taint.
const EFFECT: &str = "NoExecute";

/// Value of the taint that Capstan sets. Kubernetes reads no value. A taint with another value is that of another client.
const VALUE: &str = "capstan";

/// Result of a change of the taint.
#[derive(Debug, Clone, PartialEq)]
pub enum ServiceChange {
    /// The Node does not exist.
    Gone,
    /// The Node, which needed no change.
    Unchanged(Box<Node>),
    /// The Node after the change.
    Changed(Box<Node>),
}

/// Says whether a taint is the one that Capstan sets on a Node whose server is off.
pub fn is_own_taint(taint: &Taint) -> bool {
    is_taint(taint) && taint.value.as_deref() == Some(VALUE)
}

/// Says whether a Node is out of service, by Capstan or by another client.
pub fn is_out_of_service(node: &Node) -> bool {
    taints(node).iter().any(is_taint)
}

/// Says whether Capstan has taken a Node out of service.
pub fn is_taken_out_of_service(node: &Node) -> bool {
    taints(node).iter().any(is_own_taint)
}

fn is_taint(taint: &Taint) -> bool {
    taint.key == KEY && taint.effect == EFFECT
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Taints a Node as out of service, and makes it unschedulable. A Node that reports is not tainted.
///
/// Only a server that is proved to be off may have the taint: two servers could write to one volume otherwise.
///
/// # Errors
/// The Node cannot be read or written.
pub async fn take_out_of_service(client: &Client, node: &str) -> Result<ServiceChange, WorkloadError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(object) = found(nodes.get(node).await)? else { return Ok(ServiceChange::Gone) };
    if is_out_of_service(&object) || !is_unreachable(&object) {
        return Ok(ServiceChange::Unchanged(Box::new(object)));
    }
    let mut all = taints(&object).to_vec();
    let (key, effect) = (KEY.to_owned(), EFFECT.to_owned());
    all.push(Taint { key, effect, value: Some(VALUE.to_owned()), ..Taint::default() });
    write(&nodes, &object, &json!({"taints": all, "unschedulable": true})).await
}

/// Removes the taint that Capstan has set. The Node stays unschedulable.
///
/// # Errors
/// The Node cannot be read or written.
pub async fn return_to_service(client: &Client, node: &str) -> Result<ServiceChange, WorkloadError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(object) = found(nodes.get(node).await)? else { return Ok(ServiceChange::Gone) };
    if !is_taken_out_of_service(&object) {
        return Ok(ServiceChange::Unchanged(Box::new(object)));
    }
    let others: Vec<&Taint> = taints(&object).iter().filter(|taint| !is_own_taint(taint)).collect();
    write(&nodes, &object, &json!({ "taints": others })).await
}

/// Writes a part of the spec. A list is replaced as a whole, so the change is bound to what was read.
async fn write(nodes: &Api<Node>, object: &Node, spec: &Value) -> Result<ServiceChange, WorkloadError> {
    let metadata = json!({"resourceVersion": object.metadata.resource_version});
    let change = Patch::Merge(json!({"metadata": metadata, "spec": spec}));
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let node = nodes.patch(name, &PatchParams::default(), &change).await?;
    Ok(ServiceChange::Changed(Box::new(node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(taints: &Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": {"taints": taints}})).unwrap()
    }

    #[test]
    fn only_the_taint_of_capstan_is_its_own() {
        let of = |key: &str, value: Option<&str>, effect: &str| {
            let node = node(&json!([{"key": key, "value": value, "effect": effect}]));
            (is_out_of_service(&node), is_taken_out_of_service(&node))
        };
        assert_eq!(of(KEY, Some("capstan"), "NoExecute"), (true, true));
        assert_eq!(of(KEY, Some("nodeshutdown"), "NoExecute"), (true, false), "of another client");
        assert_eq!(of(KEY, None, "NoExecute"), (true, false));
        assert_eq!(of(KEY, Some("capstan"), "NoSchedule"), (false, false));
        assert_eq!(of("dedicated", Some("capstan"), "NoExecute"), (false, false));
        assert!(!is_out_of_service(&Node::default()));
    }
}
