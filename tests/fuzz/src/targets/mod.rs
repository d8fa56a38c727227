//! List of the targets: one for each decoder.

mod backups;
mod bodies;
mod fields;
mod forms;
mod life;
mod patches;
mod paths;
mod protobuf;
mod requests;
mod selectors;
mod tokens;

use crate::target::FuzzTarget;

/// Returns all targets, those without a server first.
pub fn targets() -> &'static [FuzzTarget] {
    const TARGETS: [FuzzTarget; 18] = [
        FuzzTarget::alone("label-selector", selectors::labels),
        FuzzTarget::alone("field-selector", selectors::fields),
        FuzzTarget::alone("continue-token", tokens::check_token),
        FuzzTarget::alone("fields-v1", fields::check),
        FuzzTarget::alone("path", paths::check_path),
        FuzzTarget::alone("json-patch", patches::json),
        FuzzTarget::alone("merge-patch", patches::merge),
        FuzzTarget::alone("backup-file", backups::file),
        FuzzTarget::alone("backup-frames", backups::frames),
        FuzzTarget::with_server("protobuf", protobuf::check),
        FuzzTarget::with_server("query", forms::query),
        FuzzTarget::with_server("accept", forms::accept),
        FuzzTarget::with_server("json", bodies::json),
        FuzzTarget::with_server("yaml", bodies::yaml),
        FuzzTarget::with_server("patch", bodies::patch),
        FuzzTarget::with_server("apply", bodies::apply),
        FuzzTarget::with_server("request", requests::check_request),
        FuzzTarget::with_server("life", life::check),
    ];
    const { &TARGETS }
}
