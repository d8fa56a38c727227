//! Write of the part of a Node that belongs to its Machine.

use controllers_workload::describe;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

/// Outcome of a write.
pub(super) enum Written {
    /// The Node has what was written.
    Done(Box<Node>),
    /// The Node had changed before. This is the newest one, without what was to be written.
    Overtaken(Box<Node>),
}

/// Writes a merge patch to a Node. `is_newest` says that the Node was read in this pass.
///
/// # Errors
/// The failed call, in the words of the other side, and what to do.
pub(super) async fn write(
    api: &Api<Node>,
    known: &Node,
    patch: &Value,
    is_newest: bool,
) -> Result<Written, String> {
    let name = known.name_any();
    let failed =
        |verb: &str, error: &kube::Error| format!("{verb} /api/v1/nodes/{name}: {}", describe(error));
    let error = match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(node) => return Ok(Written::Done(Box::new(node))),
        Err(error) => error,
    };
    if is_newest || !is_conflict(&error) {
        return Err(failed("PATCH", &error));
    }
    let newest = api.get(&name).await.map_err(|error| failed("GET", &error))?;
    // Another server may have registered under the same name.
    if provider_id(&newest) != provider_id(known) {
        return Err(failed("PATCH", &error));
    }
    Ok(Written::Overtaken(Box::new(newest)))
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn provider_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_deref()
}
