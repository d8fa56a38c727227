//! Time limits of the deletion of a Machine, which follow the template of its owner until the end. Pure.

use apiserver_types::{Machine, MachineDeletionSpec};
use serde_json::{Value, json};

/// Time limit for the deletion of a Node, if the template sets none. Upstream's default. Unit: seconds.
pub(crate) const NODE_DELETION_TIMEOUT: i32 = 10;

/// Returns the time limits that Machines of a template have.
pub(crate) fn wanted(template: Option<&MachineDeletionSpec>) -> MachineDeletionSpec {
    let mut wanted = template.cloned().unwrap_or_default();
    wanted.node_deletion_timeout_seconds.get_or_insert(NODE_DELETION_TIMEOUT);
    wanted
}

/// Reports whether a Machine has these time limits.
pub(crate) fn is_current(live: &Machine, wanted: &MachineDeletionSpec) -> bool {
    live.spec.deletion.as_ref() == Some(wanted)
}

/// Returns the field `deletion` of a merge patch. Limits that are not set are removed.
pub(crate) fn patch(wanted: &MachineDeletionSpec) -> Value {
    json!({
        "nodeDrainTimeoutSeconds": wanted.node_drain_timeout_seconds,
        "nodeVolumeDetachTimeoutSeconds": wanted.node_volume_detach_timeout_seconds,
        "nodeDeletionTimeoutSeconds": wanted.node_deletion_timeout_seconds,
    })
}
