//! One target for each thing that is decoded.

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

/// All of them, those without a server first.
pub fn targets() -> &'static [Target] {
    const TARGETS: [Target; 16] = [
        Target::alone("label-selector", selectors::labels),
        Target::alone("field-selector", selectors::fields),
        Target::alone("continue-token", tokens::judge),
        Target::alone("fields-v1", fields::judge),
        Target::alone("path", paths::judge),
        Target::alone("json-patch", patches::json),
        Target::alone("merge-patch", patches::merge),
        Target::served("protobuf", protobuf::judge),
        Target::served("query", forms::query),
        Target::served("accept", forms::accept),
        Target::served("json", bodies::json),
        Target::served("yaml", bodies::yaml),
        Target::served("patch", bodies::patch),
        Target::served("apply", bodies::apply),
        Target::served("request", requests::judge),
        Target::served("life", life::judge),
    ];
    const { &TARGETS }
}
