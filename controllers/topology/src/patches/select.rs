//! Selection of the templates that a definition patches.

use apiserver_types::{PatchSelector, PatchSelectorClasses};
use serde_json::Value;

use super::{Item, Place};

/// Reports whether a definition with this selector patches the item.
pub(super) fn selects(selector: &PatchSelector, item: &Item) -> bool {
    let field = |name: &str| item.template.get(name).and_then(Value::as_str);
    if field("apiVersion") != Some(&selector.api_version) || field("kind") != Some(&selector.kind) {
        return false;
    }
    let matches = &selector.match_resources;
    match &item.place {
        Place::InfrastructureCluster => matches.infrastructure_cluster == Some(true),
        Place::ControlPlane | Place::ControlPlaneInfrastructureMachine => matches.control_plane == Some(true),
        Place::DeploymentBootstrap { class, .. } | Place::DeploymentInfrastructure { class, .. } => {
            names(matches.machine_deployment_class.as_ref(), class)
        }
        Place::PoolBootstrap { class, .. } | Place::PoolInfrastructure { class, .. } => {
            names(matches.machine_pool_class.as_ref(), class)
        }
    }
}

/// Reports whether a list of names contains a class. A name can have a `*` at one end.
fn names(classes: Option<&PatchSelectorClasses>, class: &str) -> bool {
    let names = classes.and_then(|classes| classes.names.as_deref()).unwrap_or_default();
    names.iter().any(|name| {
        name == class
            || name.strip_prefix('*').is_some_and(|end| class.ends_with(end))
            || name.strip_suffix('*').is_some_and(|start| class.starts_with(start))
    })
}
