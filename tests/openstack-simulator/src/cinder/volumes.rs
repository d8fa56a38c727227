//! Volumes and their transitions.

use super::*;
use crate::context::Fate;

/// Error of a volume that cannot be deleted.
const UNDELETABLE: &str = "Invalid volume: Volume status must be available or error or error_restoring or error_extending or \
     error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, \
     or be disassociated from snapshots after volume transfer.";

/// Error of a body that does not fit Cinder's schema.
pub(super) const MALFORMED: &str =
    "The server could not comply with the request since it is either malformed or otherwise incorrect.";

fn view(volume: &Volume, context: &Context<'_>) -> Object {
    let base = &context.request.base_url;
    let project = &volume.project_id;
    let id = &volume.id;
    let attachments: Vec<Value> = volume
        .attached
        .iter()
        .map(|held| {
            json!({
                "id": id, "attachment_id": held.attachment_id, "volume_id": id, "server_id": held.server_id,
                "host_name": null, "device": held.device, "attached_at": microseconds(held.at),
            })
        })
        .collect();
    let mut view = object(json!({
        "id": id, "status": volume.status.as_str(), "size": volume.size, "availability_zone": volume.zone,
        "created_at": microseconds(volume.created), "updated_at": volume.updated.map(microseconds),
        "name": volume.name, "description": volume.description, "volume_type": volume.kind,
        "snapshot_id": null, "source_volid": null, "metadata": volume.metadata, "user_id": volume.user_id,
        "bootable": if volume.image.is_some() { "true" } else { "false" }, "encrypted": false,
        "replication_status": null, "consistencygroup_id": null, "multiattach": false,
        "attachments": attachments, "os-vol-tenant-attr:tenant_id": project,
        "links": [
            {"rel": "self", "href": format!("{base}/volume/v3/{project}/volumes/{id}")},
            {"rel": "bookmark", "href": format!("{base}/volume/{project}/volumes/{id}")},
        ],
    }));
    if let Some(image) = &volume.image {
        set(&mut view, "volume_image_metadata", image.clone());
    }
    view
}

pub(super) fn find<'a>(state: &'a CloudState, context: &Context<'_>, id: &str) -> Result<&'a Volume, Reply> {
    let volume = state.volumes.get(id).filter(|volume| volume.project_id == context.caller.project_id);
    volume.ok_or_else(|| not_found(&format!("Volume {id} could not be found.")))
}

/// `GET /volumes/{id}`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    Ok(Reply::ok(&json!({"volume": view(find(state, context, id)?, context)})))
}

fn list_view(volume: &Volume, context: &Context<'_>, detail: bool) -> Object {
    let mut view = view(volume, context);
    if !detail {
        view.retain(|key, _| matches!(key.as_str(), "id" | "name" | "links"));
    }
    view
}

/// Returns the pairs of a filter by metadata, which is a literal of Python: `{'key': 'value'}`.
fn pairs(filter: &str) -> Option<Object> {
    serde_json::from_str(&filter.replace('\'', "\"")).ok()
}

/// `GET /volumes` and `GET /volumes/detail`, newest first.
pub(super) fn list(state: &CloudState, context: &Context<'_>, detail: bool) -> HandlerResult {
    let query = &context.request.query;
    let metadata = query.get("metadata").filter(|_| context.options.volume_metadata_filter);
    let metadata = metadata.and_then(pairs).unwrap_or_default();
    let equal = |key: &str, value: &str| query.get(key).is_none_or(|requested| requested == value);
    let mut found: Vec<&Volume> = state
        .volumes
        .values()
        .filter(|volume| volume.project_id == context.caller.project_id)
        .filter(|volume| {
            equal("name", volume.name.as_deref().unwrap_or_default())
                && equal("status", volume.status.as_str())
                && equal("id", &volume.id)
                && equal("bootable", if volume.image.is_some() { "true" } else { "false" })
                && metadata.iter().all(|(key, value)| volume.metadata.get(key) == Some(value))
        })
        .collect();
    found.sort_by_key(|volume| std::cmp::Reverse((volume.created, volume.sequence)));
    if let Some(marker) = query.get("marker") {
        let position = found.iter().position(|volume| volume.id == marker);
        let position = position.ok_or_else(|| not_found(&format!("Volume {marker} could not be found.")))?;
        found.drain(..=position);
    }
    let limit = query.get("limit").and_then(|limit| limit.parse::<usize>().ok()).unwrap_or(1000);
    let is_full = limit > 0 && found.len() >= limit;
    found.truncate(limit);
    let views: Vec<Object> = found.iter().map(|volume| list_view(volume, context, detail)).collect();
    let mut body = object(json!({"volumes": views}));
    if let Some(last) = found.last().filter(|_| is_full) {
        let link =
            format!("{}{}?{}", context.request.base_url, context.request.path, query.with_marker(&last.id));
        set(&mut body, "volumes_links", json!([{"rel": "next", "href": link}]));
    }
    Ok(Reply::ok(&Value::Object(body)))
}

/// `POST /volumes`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let body = context.body("volume").ok_or_else(|| bad_request(MALFORMED))?;
    let id = reserve(state, context, &body)?;
    let mut view = state.volumes.get(&id).map(|volume| view(volume, context)).unwrap_or_default();
    view.remove("os-vol-tenant-attr:tenant_id");
    view.remove("volume_image_metadata");
    set(&mut view, "bootable", "false");
    Ok(Reply::json(StatusCode::ACCEPTED, &json!({"volume": view})))
}

fn size(body: &Object) -> Result<i64, Reply> {
    let size = body.get("size").and_then(|size| match size {
        Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    });
    size.filter(|size| *size > 0).ok_or_else(|| bad_request(MALFORMED))
}

fn volume_type(body: &Object) -> Result<String, Reply> {
    let requested = body.get("volume_type").and_then(Value::as_str).unwrap_or("lab");
    let found = TYPES.iter().find(|(id, name, _)| *id == requested || *name == requested);
    let missing = || not_found(&format!("Volume type with name {requested} could not be found."));
    found.map(|(_, name, _)| (*name).to_owned()).ok_or_else(missing)
}

fn image_metadata(state: &CloudState, context: &Context<'_>, body: &Object) -> Result<Option<Object>, Reply> {
    let Some(id) = body.get("imageRef").and_then(Value::as_str) else { return Ok(None) };
    let image = crate::glance::find(state, &context.caller.project_id, id);
    let unknown = "Invalid image identifier or unable to access requested image.";
    let image = image.ok_or_else(|| bad_request(unknown))?;
    let mut metadata = Object::new();
    set(&mut metadata, "image_id", id);
    set(&mut metadata, "image_name", text(image, "name"));
    for key in ["checksum", "container_format", "disk_format", "os_distro"] {
        set(&mut metadata, key, text(image, key));
    }
    Ok(Some(metadata))
}

/// Creates a volume that becomes available after a delay.
pub(crate) fn reserve(state: &mut CloudState, context: &Context<'_>, body: &Object) -> Result<String, Reply> {
    let size = size(body)?;
    let kind = volume_type(body)?;
    let image = image_metadata(state, context, body)?;
    let zone = body.get("availability_zone").and_then(Value::as_str).unwrap_or("az1");
    if !matches!(zone, "az1" | "az2" | "nova") {
        return Err(bad_request(&format!("Availability zone '{zone}' is invalid.")));
    }
    quotas::check(state, &context.caller.project_id, size, &kind)?;
    let text_of = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let until = context.after(context.options.volume_time);
    state.sequence += 1;
    let volume = Volume {
        id: new_id(),
        name: text_of("name"),
        description: text_of("description"),
        project_id: context.caller.project_id.clone(),
        user_id: context.caller.user_id.clone(),
        size,
        kind,
        zone: zone.to_owned(),
        metadata: body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
        image,
        status: Status::Creating,
        until: Some(until),
        fails: context.fate == Fate::Error,
        time: context.options.volume_time,
        attached: None,
        created: context.now,
        updated: None,
        sequence: state.sequence,
    };
    let id = volume.id.clone();
    if volume.fails {
        messages::add(state, context, &id, until);
    }
    state.volumes.insert(id.clone(), volume);
    state.expect(until);
    Ok(id)
}

/// `PUT /volumes/{id}`: its name and its description.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    find(state, context, id)?;
    let body = context.body("volume").ok_or_else(|| bad_request(MALFORMED))?;
    if let Some(volume) = state.volumes.get_mut(id) {
        if let Some(name) = body.get("name") {
            volume.name = name.as_str().map(str::to_owned);
        }
        if let Some(description) = body.get("description") {
            volume.description = description.as_str().map(str::to_owned);
        }
        // Cinder replaces the whole.
        if let Some(metadata) = body.get("metadata").and_then(Value::as_object) {
            volume.metadata.clone_from(metadata);
        }
        volume.updated = Some(context.now);
    }
    get(state, context, id)
}

/// `DELETE /volumes/{id}`.
pub(super) fn delete(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let volume = find(state, context, id)?;
    if !matches!(volume.status, Status::Available | Status::Error) || snapshots::exist(state, id) {
        return Err(bad_request(UNDELETABLE));
    }
    start_delete(state, id, context.now);
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

fn start_delete(state: &mut CloudState, id: &str, now: Timestamp) {
    let Some(volume) = state.volumes.get_mut(id) else { return };
    volume.status = Status::Deleting;
    volume.updated = Some(now);
    let until = later(now, volume.time);
    volume.until = Some(until);
    state.expect(until);
}

/// Attaches the volume to a server.
pub(crate) fn attach(
    state: &mut CloudState,
    id: &str,
    server: &str,
    attachment: &str,
    device: &str,
    now: Timestamp,
) {
    let Some(volume) = state.volumes.get_mut(id) else { return };
    volume.status = Status::InUse;
    volume.until = None;
    volume.updated = Some(now);
    volume.attached = Some(Attached {
        attachment_id: attachment.to_owned(),
        server_id: server.to_owned(),
        device: device.to_owned(),
        at: now,
    });
}

/// Records that Nova detaches the volume. Returns false if it is not attached, or if it is being detached.
pub(crate) fn begin_detaching(state: &mut CloudState, id: &str, now: Timestamp) -> bool {
    let Some(volume) = state.volumes.get_mut(id).filter(|volume| volume.status == Status::InUse) else {
        return false;
    };
    volume.status = Status::Detaching;
    volume.updated = Some(now);
    true
}

/// Detaches the volume from its server, and deletes it if it was to be deleted with the server.
pub(crate) fn detach(state: &mut CloudState, id: &str, delete: bool, now: Timestamp) {
    let Some(volume) = state.volumes.get_mut(id) else { return };
    volume.attached = None;
    volume.status = Status::Available;
    volume.updated = Some(now);
    if delete {
        start_delete(state, id, now);
    }
}

/// Completes the transitions due by `now`, and returns the time of the next one.
pub(crate) fn advance(state: &mut CloudState, now: Timestamp) -> Option<Timestamp> {
    let is_due = |volume: &Volume| volume.until.is_some_and(|until| until <= now);
    state.volumes.retain(|_, volume| volume.status != Status::Deleting || !is_due(volume));
    for volume in state.volumes.values_mut().filter(|volume| is_due(volume)) {
        volume.status = if volume.fails { Status::Error } else { Status::Available };
        volume.updated = volume.until.take();
    }
    state.volumes.values().filter_map(|volume| volume.until).min()
}
