//! Handler of `POST /servers`.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderName, StatusCode};
use serde_json::{Value, json};

use super::labels::check_tags;
use super::model::{Flavor, Pending, Server, ServerTask, VmState};
use super::{bad_request, placement, quotas, servers, view};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::neutron::ResourceKind;
use crate::object::{Object, list, new_id, text, texts};
use crate::state::CloudState;

mod disks;
mod networks;

/// Returns a password like Nova's; it gives no access.
pub(super) fn password() -> String {
    new_id().replace('-', "").chars().take(12).collect()
}

/// Returns an error if the body does not fit Nova's schema.
fn check_schema(context: &Context<'_>, body: &Object) -> Result<(), Reply> {
    let networks = context.microversion >= 37;
    let required = [("name", true), ("flavorRef", true), ("networks", networks)];
    let invalid = |reason: &str| {
        let value = Value::Object(body.clone());
        bad_request(&format!("Invalid input for field/attribute server. Value: {value}. {reason}"))
    };
    if let Some((key, _)) = required.iter().find(|(key, needed)| *needed && !body.contains_key(*key)) {
        return Err(invalid(&format!("'{key}' is a required property")));
    }
    let newer = [("tags", 52), ("description", 19), ("hostname", 90), ("host", 74)];
    for (key, since) in newer {
        if body.contains_key(key) && context.microversion < since {
            return Err(invalid(&format!("Additional properties are not allowed ('{key}' was unexpected)")));
        }
    }
    let name = text(body, "name");
    if name.is_empty() || name.len() > 255 {
        let what = if name.is_empty() { "too short" } else { "too long" };
        return Err(bad_request(&format!(
            "Invalid input for field/attribute name. Value: {name}. '{name}' is {what}"
        )));
    }
    let image = text(body, "imageRef");
    if !image.is_empty() && uuid::Uuid::parse_str(image).is_err() {
        return Err(bad_request(&format!(
            "Invalid input for field/attribute imageRef. Value: {image}. '{image}' is not valid under any of the \
             given schemas"
        )));
    }
    check_tags(&texts(body, "tags"))
}

fn flavor(state: &CloudState, body: &Object) -> Result<Flavor, Reply> {
    let requested = match body.get("flavorRef") {
        Some(Value::Number(number)) => number.to_string(),
        _ => text(body, "flavorRef").to_owned(),
    };
    // Clients send links, too.
    let id = requested.rsplit('/').next().unwrap_or_default();
    let found = state.flavors.iter().find(|flavor| flavor.id == id);
    found.cloned().ok_or_else(|| bad_request(&format!("Flavor {id} could not be found.")))
}

fn key_name(state: &CloudState, context: &Context<'_>, body: &Object) -> Result<Option<String>, Reply> {
    let Some(name) = body.get("key_name").and_then(Value::as_str) else { return Ok(None) };
    let user = &context.caller.user_id;
    let known = state.key_pairs.iter().any(|pair| pair.name == name && pair.user_id == *user);
    if known { Ok(Some(name.to_owned())) } else { Err(bad_request("Invalid key_name provided.")) }
}

fn zone(body: &Object) -> Result<Option<String>, Reply> {
    let Some(zone) = body.get("availability_zone").and_then(Value::as_str) else { return Ok(None) };
    if placement::zone_exists(zone) {
        Ok(Some(zone.to_owned()))
    } else {
        Err(bad_request("The requested availability zone is not available"))
    }
}

fn group(state: &CloudState, context: &Context<'_>) -> Result<Option<String>, Reply> {
    let body = context.whole_body();
    let hints = body.get("os:scheduler_hints").or_else(|| body.get("OS-SCH-HNT:scheduler_hints"));
    let group = hints.and_then(|hints| hints.get("group")?.as_str());
    let Some(group) = group else { return Ok(None) };
    let project = &context.caller.project_id;
    let known = state.server_groups.iter().any(|held| held.id == group && held.project_id == *project);
    if !known {
        return Err(bad_request(&format!("Instance group {group} could not be found.")));
    }
    let limit = state.quota(project, "server_group_members");
    let members = state.servers.in_group(group);
    if usize::try_from(limit).is_ok_and(|limit| members.count() >= limit) {
        return Err(super::refusal(StatusCode::FORBIDDEN, "Quota exceeded, too many servers in group"));
    }
    Ok(Some(group.to_owned()))
}

/// Returns the names of the security groups in the body, with the ids for its ports.
fn security_groups(
    state: &CloudState,
    context: &Context<'_>,
    body: &Object,
) -> Result<Vec<(String, String)>, Reply> {
    let project = &context.caller.project_id;
    let names: Vec<&str> =
        list(body, "security_groups").iter().filter_map(|group| group.get("name")?.as_str()).collect();
    let names = if names.is_empty() { vec!["default"] } else { names };
    let kind = ResourceKind::SecurityGroup;
    names
        .into_iter()
        .map(|name| {
            let named = state.with(kind, "name", name).into_iter().chain(state.find(kind, name));
            let own = named.filter(|group| text(group, "project_id") == project);
            let first = own.min_by(|one, other| text(one, "id").cmp(text(other, "id")));
            let found = first.ok_or_else(|| {
                bad_request(&format!("Unable to find security_group with name or id '{name}'"))
            })?;
            Ok((text(found, "name").to_owned(), text(found, "id").to_owned()))
        })
        .collect()
}

/// Creates a server. All checks run before any change.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let body = context.body("server").ok_or_else(|| {
        bad_request("Invalid input for field/attribute None. Value: {}. 'server' is a required property")
    })?;
    check_schema(context, &body)?;
    let flavor = flavor(state, &body)?;
    let groups = security_groups(state, context, &body)?;
    let disks = disks::requested(state, context, &body)?;
    let nics = networks::requested(state, context, &body)?;
    let zone = disks.zone(state, context, zone(&body)?)?;
    let mut server = draft(state, context, &body, flavor)?;
    server.image = disks.image.clone();
    server.security_groups = groups.iter().map(|(name, _)| name.clone()).collect();
    let place = placement::place(state, server.flavor.ram, zone.as_deref(), server.group.as_deref());
    quotas::check(state, &context.caller.project_id, &server.flavor, 1)?;
    servers::begin(&mut server, context, ServerTask::Build, context.options.build_time);
    server.zone = zone.unwrap_or_default();
    match place {
        Ok((host, zone)) => {
            server.host = Some(host);
            server.zone = zone;
            let connected = networks::connect(state, context, &mut server, &nics, &groups)
                .and_then(|()| disks::connect(state, context, &mut server, &disks));
            if connected.is_err() {
                abort(&mut server);
            }
        }
        Err(message) => fail_before_placement(&mut server, context, message),
    }
    if let Some(pending) = &server.pending {
        state.expect(pending.until);
    }
    let reply = created(&server, context);
    state.servers.insert(server);
    Ok(reply)
}

/// Puts the server into an error state: the call is already accepted. Deleting the server cleans up.
fn abort(server: &mut Server) {
    let message = format!(
        "Build of instance {} aborted: Failed to allocate the network(s) or volume(s), not rescheduling.",
        server.id
    );
    if let Some(pending) = &mut server.pending {
        pending.failure = Some(message);
    }
}

/// Lets the server fail before it is placed: it has no ports and no volumes, and fails sooner than others
/// boot.
fn fail_before_placement(server: &mut Server, context: &Context<'_>, message: &str) {
    let failure = Some(message.to_owned());
    let until = context.after(context.options.build_time / 2);
    server.pending = Some(Pending { task: ServerTask::Build, began: context.now, until, failure });
}

/// Returns the metadata in the body.
fn metadata(body: &Object) -> BTreeMap<String, String> {
    let metadata = body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.into_iter().filter_map(|(key, value)| Some((key, value.as_str()?.to_owned()))).collect()
}

/// Returns the distinct tags in the body.
fn tags(body: &Object) -> Vec<String> {
    let mut tags = texts(body, "tags");
    tags.sort();
    tags.dedup();
    tags
}

/// Returns the flag, which clients send as a boolean or as a text.
fn config_drive(body: &Object) -> bool {
    let drive = body.get("config_drive");
    drive == Some(&json!(true))
        || drive.and_then(Value::as_str).is_some_and(|word| word.eq_ignore_ascii_case("true"))
}

fn draft(
    state: &mut CloudState,
    context: &Context<'_>,
    body: &Object,
    flavor: Flavor,
) -> Result<Server, Reply> {
    let text_of = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text(body, "name").to_owned();
    state.sequence += 1;
    Ok(Server {
        id: new_id(),
        hostname: text_of("hostname").unwrap_or_else(|| name.to_lowercase().replace([' ', '_', '.'], "-")),
        name,
        description: text_of("description"),
        project_id: context.caller.project_id.clone(),
        user_id: context.caller.user_id.clone(),
        image: None,
        flavor,
        key_name: key_name(state, context, body)?,
        zone: String::new(),
        host: None,
        metadata: metadata(body),
        tags: tags(body),
        user_data: text_of("user_data"),
        config_drive: config_drive(body),
        security_groups: Vec::new(),
        group: group(state, context)?,
        attachments: Vec::new(),
        own_ports: BTreeSet::new(),
        vm_state: VmState::Building,
        pending: None,
        fault: None,
        actions: Vec::new(),
        created: context.now,
        updated: context.now,
        launched: None,
        terminated: None,
        sequence: state.sequence,
        console: String::new(),
        locked: false,
        unreachable: false,
    })
}

fn created(server: &Server, context: &Context<'_>) -> Reply {
    let groups: Vec<Value> = server.security_groups.iter().map(|name| json!({"name": name})).collect();
    let body = json!({"server": {
        "id": server.id, "links": view::links(context, &server.id), "OS-DCF:diskConfig": "MANUAL",
        "security_groups": groups, "adminPass": password(),
    }});
    let location = format!("{}/compute/v2.1/servers/{}", context.request.base_url, server.id);
    Reply::json(StatusCode::ACCEPTED, &body).with_header(HeaderName::from_static("location"), &location)
}
