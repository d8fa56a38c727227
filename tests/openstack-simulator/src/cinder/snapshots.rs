//! Snapshots of volumes. They exist from the first moment, and a deletion takes effect at once.

use super::volumes::MALFORMED;
use super::*;

/// A snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) project_id: String,
    pub(crate) volume_id: String,
    pub(crate) size: i64,
    pub(crate) metadata: Object,
    pub(crate) created: Timestamp,
}

impl Snapshot {
    /// Takes a snapshot of a volume as a CSI driver does, in any state. Returns false if there is no such volume.
    pub(crate) fn take(state: &mut CloudState, volume: &str, now: Timestamp) -> bool {
        let Some(volume) = state.volumes.get(volume) else { return false };
        let snapshot = Self {
            id: new_id(),
            name: Some("snapshot".to_owned()),
            description: Some("Created by OpenStack Cinder CSI driver".to_owned()),
            project_id: volume.project_id.clone(),
            volume_id: volume.id.clone(),
            size: volume.size,
            metadata: volume.metadata.clone(),
            created: now,
        };
        state.snapshots.insert(snapshot.id.clone(), snapshot);
        true
    }
}

fn view(snapshot: &Snapshot) -> Value {
    json!({
        "id": snapshot.id, "name": snapshot.name, "description": snapshot.description,
        "volume_id": snapshot.volume_id, "size": snapshot.size, "metadata": snapshot.metadata,
        "status": "available", "created_at": microseconds(snapshot.created), "updated_at": null,
        "os-extended-snapshot-attributes:progress": "100%",
        "os-extended-snapshot-attributes:project_id": snapshot.project_id,
    })
}

fn find<'a>(state: &'a CloudState, context: &Context<'_>, id: &str) -> Result<&'a Snapshot, Reply> {
    let snapshot = state.snapshots.get(id).filter(|it| it.project_id == context.caller.project_id);
    snapshot.ok_or_else(|| not_found(&format!("Snapshot {id} could not be found.")))
}

/// Returns true if a volume has snapshots.
pub(super) fn exist(state: &CloudState, volume: &str) -> bool {
    state.snapshots.values().any(|snapshot| snapshot.volume_id == volume)
}

/// `GET /snapshots/{id}`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    Ok(Reply::ok(&json!({"snapshot": view(find(state, context, id)?)})))
}

/// `GET /snapshots/detail`.
pub(super) fn list(state: &CloudState, context: &Context<'_>) -> HandlerResult {
    let own = state.snapshots.values().filter(|it| it.project_id == context.caller.project_id);
    let requested = context.request.query.get("volume_id");
    let own = own.filter(|it| requested.is_none_or(|id| it.volume_id == id));
    let views: Vec<Value> = own.map(view).collect();
    Ok(Reply::ok(&json!({"snapshots": views})))
}

/// `POST /snapshots`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let body = context.body("snapshot").ok_or_else(|| bad_request(MALFORMED))?;
    let text_of = |key: &str| body.get(key).and_then(Value::as_str).map(str::to_owned);
    let volume = volumes::find(state, context, &text_of("volume_id").unwrap_or_default())?;
    let forced = body.get("force").and_then(Value::as_bool).unwrap_or_default();
    if volume.status != Status::Available && !(forced && volume.status == Status::InUse) {
        let status = volume.status.as_str();
        let id = &volume.id;
        return Err(bad_request(&format!(
            "Invalid volume: Volume {id} status must be available, but current status is: {status}."
        )));
    }
    let snapshot = Snapshot {
        id: new_id(),
        name: text_of("name"),
        description: text_of("description"),
        project_id: volume.project_id.clone(),
        volume_id: volume.id.clone(),
        size: volume.size,
        metadata: body.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default(),
        created: context.now,
    };
    let view = view(&snapshot);
    state.snapshots.insert(snapshot.id.clone(), snapshot);
    Ok(Reply::json(StatusCode::ACCEPTED, &json!({"snapshot": view})))
}

/// `DELETE /snapshots/{id}`.
pub(super) fn delete(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    find(state, context, id)?;
    state.snapshots.remove(id);
    Ok(Reply::empty(StatusCode::ACCEPTED))
}
