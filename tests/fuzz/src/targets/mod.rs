//! List of the targets: one for each decoder.

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

use crate::target::Target;

/// Returns all targets, those without a server first.
pub fn targets() -> &'static [Target] {
    const TARGETS: [Target; 16] = [
        Target::alone("label-selector", selectors::labels),
        Target::alone("field-selector", selectors::fields),
        Target::alone("continue-token", tokens::check_token),
        Target::alone("fields-v1", fields::check),
        Target::alone("path", paths::check_path),
        Target::alone("json-patch", patches::json),
        Target::alone("merge-patch", patches::merge),
        Target::with_server("protobuf", protobuf::check),
        Target::with_server("query", forms::query),
        Target::with_server("accept", forms::accept),
        Target::with_server("json", bodies::json),
        Target::with_server("yaml", bodies::yaml),
        Target::with_server("patch", bodies::patch),
        Target::with_server("apply", bodies::apply),
        Target::with_server("request", requests::check_request),
        Target::with_server("life", life::check),
    ];
    const { &TARGETS }
}
