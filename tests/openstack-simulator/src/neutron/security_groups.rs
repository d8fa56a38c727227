//! Handlers for Neutron security groups.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource::{apply, changes, check_quota, draft, reply, stamp};
use super::{ResourceKind, conflict, security_group_rules};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, list, object, set, text};
use crate::state::CloudState;

fn defaults() -> Value {
    json!({"name": "", "description": "", "stateful": true, "shared": false})
}

/// Returns the project's group called `default`.
pub(crate) fn default_of<'a>(state: &'a CloudState, project: &str) -> Option<&'a str> {
    let groups = state.with(ResourceKind::SecurityGroup, "name", "default");
    let group = groups.into_iter().find(|group| text(group, "project_id") == project)?;
    Some(text(group, "id"))
}

/// `POST /security-groups`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let group = draft(context, ResourceKind::SecurityGroup, defaults(), &[])?;
    let project = text(&group, "project_id").to_owned();
    if text(&group, "name") == "default" {
        return Err(conflict("SecurityGroupDefaultAlreadyExists", "Default security group already exists."));
    }
    check_quota(state, ResourceKind::SecurityGroup, &project)?;
    let id = insert(state, group, context.now);
    reply(state, ResourceKind::SecurityGroup, &id, StatusCode::CREATED)
}

/// Inserts the group, with the initial rules of every group: all egress traffic is allowed.
fn insert(state: &mut CloudState, mut group: Object, now: Timestamp) -> String {
    set(&mut group, "revision_number", 1);
    let id = text(&group, "id").to_owned();
    let project = text(&group, "project_id").to_owned();
    state.insert(ResourceKind::SecurityGroup, group);
    for ethertype in ["IPv4", "IPv6"] {
        let rule = json!({"security_group_id": id, "direction": "egress", "ethertype": ethertype});
        security_group_rules::insert(state, object(rule), &project, now);
    }
    id
}

/// Creates the default group of a project: its members may reach each other.
pub(crate) fn make_default(state: &mut CloudState, project: &str, now: Timestamp) -> String {
    let mut group = object(defaults());
    set(&mut group, "name", "default");
    set(&mut group, "description", "Default security group");
    stamp(&mut group, project, now);
    let id = insert(state, group, now);
    for ethertype in ["IPv4", "IPv6"] {
        let rule = json!({
            "security_group_id": id, "direction": "ingress", "ethertype": ethertype, "remote_group_id": id,
        });
        security_group_rules::insert(state, object(rule), project, now);
    }
    id
}

/// `PUT /security-groups/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let changes =
        changes(state, context, ResourceKind::SecurityGroup, id, &["name", "description", "stateful"])?;
    apply(state, context, ResourceKind::SecurityGroup, id, changes)
}

/// Deletes the group, its rules and the rules of other groups that refer to it, unless a port uses it.
pub(super) fn delete(state: &mut CloudState, id: &str, context: &Context<'_>) -> Result<(), Reply> {
    let has = |port: &Object| list(port, "security_groups").iter().any(|group| group.as_str() == Some(id));
    if state.table(ResourceKind::Port).any(has) {
        return Err(conflict("SecurityGroupInUse", &format!("Security Group {id} in use.")));
    }
    let is_default =
        state.find(ResourceKind::SecurityGroup, id).is_some_and(|group| text(group, "name") == "default");
    if is_default && !context.caller.admin {
        let words = "Insufficient rights for removing default security group.";
        return Err(conflict("SecurityGroupCannotRemoveDefault", words));
    }
    state.remove(ResourceKind::SecurityGroup, id);
    for attribute in ["security_group_id", "remote_group_id"] {
        state.remove_with(ResourceKind::SecurityGroupRule, attribute, id);
    }
    Ok(())
}
