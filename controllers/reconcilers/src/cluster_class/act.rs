//! Effects of a pass on the templates of a class.

use apiserver_types::ClusterClass;
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::decide::owners;
use super::observe::{State, Template};
use crate::ownership;

/// Makes a class an owner of the template at a position. Other classes may own it too, so it is not their controller.
///
/// # Errors
/// A conflict, if another client has written since.
pub(super) async fn own(
    context: &ControllerContext,
    class: &ClusterClass,
    templates: &mut [Template],
    position: usize,
) -> Result<(), ReconcileError> {
    let Some(Template { reference, state: State::Found(metadata, resource) }) = templates.get_mut(position)
    else {
        return Ok(());
    };
    let namespace = class.namespace().unwrap_or_default();
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, resource);
    let owner = ownership::shared(class);
    let change = json!({"metadata": {
        "resourceVersion": metadata.resource_version, "uid": metadata.uid,
        "ownerReferences": owners(metadata, owner.clone()),
    }});
    api.patch(&reference.name, &PatchParams::default(), &Patch::Merge(&change)).await?;
    // What was written, so that the next step is another one in any case.
    metadata.owner_references = Some(owners(metadata, owner));
    Ok(())
}
