//! Revisions of a MachineDeployment that are kept, and their copies of templates.

use std::cmp::Reverse;

use apiserver_types::{
    AnyObject, ContractVersionedObjectReference, MachineDeployment, MachineDeploymentRevision,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use crate::machine_labels::DEPLOYMENT_NAME;
use crate::{ownership, templates};

/// Lists the revisions of a MachineDeployment, newest first. One that lost its owners is among them.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn list(
    context: &ControllerContext,
    deployment: &MachineDeployment,
) -> Result<Vec<MachineDeploymentRevision>, ReconcileError> {
    let namespace = deployment.namespace().unwrap_or_default();
    let api: Api<MachineDeploymentRevision> = Api::namespaced(context.client.clone(), &namespace);
    let selector = format!("{DEPLOYMENT_NAME}={}", deployment.name_any());
    let mut known = api.list(&ListParams::default().labels(&selector)).await?.items;
    // A revision that lost its owners would outlive the MachineDeployment, and its number could not be used again.
    known.retain(|it| it.owner_references().is_empty() || ownership::is_owned(it, deployment));
    known.sort_by_key(|revision| Reverse(revision.spec.revision));
    Ok(known)
}

/// Returns the newest copy of a template with this revision of its content.
pub(crate) fn copy(
    kept: &[MachineDeploymentRevision],
    reference: &ContractVersionedObjectReference,
    number: i64,
) -> Option<DynamicObject> {
    kept.iter().find_map(|revision| copy_in(revision, reference, number))
}

/// Returns the copy of a template in one revision, if it has this revision of the content.
pub(crate) fn copy_in(
    revision: &MachineDeploymentRevision,
    reference: &ContractVersionedObjectReference,
    number: i64,
) -> Option<DynamicObject> {
    let copies = [&revision.spec.bootstrap_template, &revision.spec.infrastructure_template];
    let mut copies = copies.into_iter().flatten().filter_map(object);
    copies.find(|copy| {
        let types = copy.types.clone().unwrap_or_default();
        types.kind == reference.kind
            && types.api_version.starts_with(&format!("{}/", reference.api_group))
            && copy.name_any() == reference.name
            && templates::revision(copy) == number
    })
}

fn object(copy: &AnyObject) -> Option<DynamicObject> {
    serde_json::from_value(Value::Object(copy.0.clone())).ok()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineDeploymentRevisionSpec, TEMPLATE_REVISION};
    use serde_json::json;

    use super::*;

    fn revision(flavor: &str, number: Option<&str>) -> MachineDeploymentRevision {
        let annotations = number.map(|number| json!({TEMPLATE_REVISION: number}));
        let copy = json!({
            "apiVersion": "g/v1", "kind": "KTemplate", "metadata": {"name": "t", "annotations": annotations},
            "spec": {"flavor": flavor},
        });
        let Value::Object(copy) = copy else { panic!("it is an object") };
        let spec = MachineDeploymentRevisionSpec {
            infrastructure_template: Some(AnyObject(copy)),
            ..MachineDeploymentRevisionSpec::default()
        };
        MachineDeploymentRevision { spec, ..MachineDeploymentRevision::default() }
    }

    #[test]
    fn the_newest_copy_of_the_same_content_is_found_by_name_and_number() {
        let reference = |name: &str, group: &str| ContractVersionedObjectReference {
            api_group: group.to_owned(),
            kind: "KTemplate".to_owned(),
            name: name.to_owned(),
        };
        let kept = [revision("c", Some("2")), revision("b", None), revision("a", None)];
        let flavor = |name: &str, group: &str, number: i64| {
            copy(&kept, &reference(name, group), number).map(|copy| copy.data["spec"]["flavor"].clone())
        };
        assert_eq!(flavor("t", "g", 2), Some(json!("c")));
        assert_eq!(flavor("t", "g", 1), Some(json!("b")), "the newest one");
        assert_eq!(flavor("t", "g", 3), None);
        assert_eq!(flavor("u", "g", 1), None);
        assert_eq!(flavor("t", "h", 1), None);
    }
}
