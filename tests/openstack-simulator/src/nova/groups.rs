//! Handlers for Nova server groups.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::model::ServerGroup;
use super::{bad_request, no_such_page, not_found, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{new_id, text, texts};
use crate::state::CloudState;

const POLICIES: [&str; 4] = ["anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"];

/// Handles everything under `/os-server-groups`.
pub(super) fn handle(state: &mut CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    match (&context.request.method, path) {
        (&Method::GET, []) => Ok(list(state, context)),
        (&Method::POST, []) => create(state, context),
        (&Method::GET, [id]) => {
            let group = find(state, context, id)?;
            Ok(Reply::ok(&json!({"server_group": view(state, group, context)})))
        }
        (&Method::DELETE, [id]) => {
            find(state, context, id)?;
            state.server_groups.retain(|group| group.id != *id);
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(no_such_page()),
    }
}

fn find<'a>(state: &'a CloudState, context: &Context<'_>, id: &str) -> Result<&'a ServerGroup, Reply> {
    let visible = |group: &&ServerGroup| group.id == id && context.caller.owns(&group.project_id);
    let group = state.server_groups.iter().find(visible);
    group.ok_or_else(|| not_found(&format!("Instance group {id} could not be found.")))
}

fn view(state: &CloudState, group: &ServerGroup, context: &Context<'_>) -> Value {
    let members: Vec<&str> = state.servers.in_group(&group.id).map(|server| server.id.as_str()).collect();
    let mut view = json!({"id": group.id, "name": group.name, "members": members});
    let Some(fields) = view.as_object_mut() else { return view };
    if context.microversion >= 64 {
        fields.insert("policy".to_owned(), json!(group.policy));
        fields.insert("rules".to_owned(), json!({}));
    } else {
        fields.insert("policies".to_owned(), json!([group.policy]));
        fields.insert("metadata".to_owned(), json!({}));
    }
    if context.microversion >= 13 {
        fields.insert("project_id".to_owned(), json!(group.project_id));
        fields.insert("user_id".to_owned(), json!(group.user_id));
    }
    view
}

fn list(state: &CloudState, context: &Context<'_>) -> Reply {
    let query = &context.request.query;
    let number = |key: &str| query.get(key).and_then(|value| value.parse::<usize>().ok());
    let own = state.server_groups.iter().filter(|group| group.project_id == context.caller.project_id);
    let page = own.skip(number("offset").unwrap_or(0)).take(number("limit").unwrap_or(1000));
    let views: Vec<Value> = page.map(|group| view(state, group, context)).collect();
    Reply::ok(&json!({"server_groups": views}))
}

fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let body = context.body("server_group");
    let body = body.ok_or_else(|| bad_request("Invalid input for field/attribute server_group."))?;
    let policy = if context.microversion >= 64 {
        text(&body, "policy").to_owned()
    } else {
        texts(&body, "policies").into_iter().next().unwrap_or_default()
    };
    if !POLICIES.contains(&policy.as_str()) {
        let message = format!(
            "Invalid input for field/attribute policy. Value: {policy}. '{policy}' is not one of \
             ['anti-affinity', 'affinity', 'soft-anti-affinity', 'soft-affinity']"
        );
        return Err(bad_request(&message));
    }
    let project = &context.caller.project_id;
    let held = state.server_groups.iter().filter(|group| group.project_id == *project).count();
    if usize::try_from(state.quota(project, "server_groups")).is_ok_and(|limit| held >= limit) {
        return Err(refusal(StatusCode::FORBIDDEN, "Quota exceeded, too many server groups."));
    }
    let group = ServerGroup {
        id: new_id(),
        name: text(&body, "name").to_owned(),
        policy,
        project_id: project.clone(),
        user_id: context.caller.user_id.clone(),
    };
    let view = view(state, &group, context);
    state.server_groups.push(group);
    Ok(Reply::ok(&json!({"server_group": view})))
}
