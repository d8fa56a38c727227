//! Handlers for Neutron quotas.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{ResourceKind, no_such_page, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::Object;
use crate::state::CloudState;

fn view(state: &CloudState, project: &str, detail: bool) -> Object {
    let mut view = Object::new();
    for kind in ResourceKind::ALL {
        let limit = state.quota(project, kind.singular());
        let used = state.network.count(kind, project);
        let detailed = json!({"limit": limit, "used": used, "reserved": 0});
        view.insert(kind.singular().to_owned(), if detail { detailed } else { json!(limit) });
    }
    for (name, limit) in [("subnetpool", -1), ("rbac_policy", 10)] {
        let detailed = json!({"limit": limit, "used": 0, "reserved": 0});
        view.insert(name.to_owned(), if detail { detailed } else { json!(limit) });
    }
    view
}

/// Handles everything under `/quotas`.
pub(super) fn handle(state: &mut CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let caller = &context.caller;
    match (&context.request.method, path) {
        (&Method::GET, []) => Ok(Reply::ok(&json!({"quotas": []}))),
        (&Method::GET, [project, rest @ ..]) if caller.owns(project) => {
            let detail = rest.first().is_some_and(|part| part.starts_with("details"));
            Ok(Reply::ok(&json!({"quota": view(state, project, detail)})))
        }
        (&Method::PUT, [project]) if caller.admin => {
            let quotas = state.quotas.entry((*project).to_owned()).or_default();
            for (resource, limit) in context.body("quota").unwrap_or_default() {
                if let Some(limit) = limit.as_i64() {
                    quotas.insert(resource, limit);
                }
            }
            Ok(Reply::ok(&json!({"quota": Value::Object(view(state, project, false))})))
        }
        (&Method::GET | &Method::PUT, [_, ..]) => {
            let words = "rule:get_quota is disallowed by policy";
            Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", words))
        }
        _ => Err(no_such_page()),
    }
}
