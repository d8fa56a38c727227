//! Taint of a Node whose server is off: the workload cluster then removes its Pods and detaches its volumes.

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::{WorkloadError, found};

/// Key of the taint. Kubernetes' name.
const KEY: &str = "node.kubernetes.io/out-of-service";

/// Effect of the taint.
const EFFECT: &str = "NoExecute";

/// Taints a Node as out of service, and makes it unschedulable. A Node that does not exist needs no taint.
///
/// Only a server that is proved to be off may have the taint: two servers could write to one volume otherwise.
///
/// # Errors
/// The Node cannot be read or written.
pub async fn take_out_of_service(client: &Client, node: &str) -> Result<(), WorkloadError> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(object) = found(nodes.get(node).await)? else { return Ok(()) };
    let mut taints = object.spec.and_then(|spec| spec.taints).unwrap_or_default();
    if taints.iter().any(|taint| taint.key == KEY && taint.effect == EFFECT) {
        return Ok(());
    }
    let value = Some("nodeshutdown".to_owned());
    taints.push(Taint { key: KEY.to_owned(), effect: EFFECT.to_owned(), value, ..Taint::default() });
    // A list is replaced as a whole, so the change is bound to what was read.
    let change = json!({
        "metadata": {"resourceVersion": object.metadata.resource_version},
        "spec": {"taints": taints, "unschedulable": true},
    });
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}
