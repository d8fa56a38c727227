//! Cinder calls.

use std::collections::BTreeMap;

use controllers_infrastructure::{CloudResult, NewVolume, Snapshot, Volume};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    status: String,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    size: i32,
    #[serde(default)]
    volume_type: Option<String>,
    #[serde(default)]
    attachments: Vec<Attachment>,
    #[serde(default)]
    created_at: String,
}

#[derive(Deserialize)]
struct Attachment {
    #[serde(default)]
    server_id: Option<String>,
}

#[derive(Deserialize)]
struct SnapshotBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    volume_id: String,
    status: String,
}

impl From<SnapshotBody> for Snapshot {
    fn from(answer: SnapshotBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name.unwrap_or_default(),
            volume_id: answer.volume_id,
            status: answer.status,
        }
    }
}

impl From<ResponseBody> for Volume {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name.unwrap_or_default(),
            status: answer.status,
            metadata: answer.metadata,
            size_gib: answer.size,
            volume_type: answer.volume_type,
            servers: answer.attachments.into_iter().filter_map(|held| held.server_id).collect(),
            created_at: utc(&answer.created_at),
        }
    }
}

pub(crate) async fn volumes_named(session: &Session, name: &str) -> CloudResult<Vec<Volume>> {
    let request = Request::get(Service::Volume, "/volumes/detail").with("name", name);
    let found: Vec<ResponseBody> = list(session, request, "volumes").await?;
    Ok(found.into_iter().map(Volume::from).filter(|volume| volume.name == name).collect())
}

pub(crate) async fn volumes(session: &Session) -> CloudResult<Vec<Volume>> {
    let request = Request::get(Service::Volume, "/volumes/detail");
    let found: Vec<ResponseBody> = list(session, request, "volumes").await?;
    Ok(found.into_iter().map(Volume::from).collect())
}

pub(crate) async fn snapshots(session: &Session) -> CloudResult<Vec<Snapshot>> {
    let request = Request::get(Service::Volume, "/snapshots/detail");
    let found: Vec<SnapshotBody> = list(session, request, "snapshots").await?;
    Ok(found.into_iter().map(Snapshot::from).collect())
}

pub(crate) async fn delete_snapshot(session: &Session, id: &str) -> CloudResult<()> {
    let path = format!("/snapshots/{}", encode(id));
    session.done(&Request::delete(Service::Volume, path)).await.map(drop)
}

pub(crate) async fn volume(session: &Session, id: &str) -> CloudResult<Volume> {
    let request = Request::get(Service::Volume, path(id));
    Ok(session.under::<ResponseBody>(&request, "volume").await?.into())
}

pub(crate) async fn create_volume(session: &Session, new: &NewVolume) -> CloudResult<Volume> {
    let mut volume = Map::new();
    volume.insert("name".into(), json!(new.name));
    volume.insert("description".into(), json!(new.description));
    volume.insert("size".into(), json!(new.size_gib));
    volume.insert("metadata".into(), json!(new.metadata));
    let optional = [
        ("volume_type", &new.volume_type),
        ("availability_zone", &new.availability_zone),
        ("imageRef", &new.image_id),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            volume.insert(key.into(), Value::from(value.as_str()));
        }
    }
    let request = Request::post(Service::Volume, "/volumes", json!({"volume": volume}));
    Ok(session.under::<ResponseBody>(&request, "volume").await?.into())
}

pub(crate) async fn set_volume_metadata(
    session: &Session,
    id: &str,
    metadata: &BTreeMap<String, String>,
) -> CloudResult<()> {
    let body = json!({"volume": {"metadata": metadata}});
    session.done(&Request::put(Service::Volume, path(id), body)).await.map(drop)
}

pub(crate) async fn delete_volume(session: &Session, id: &str) -> CloudResult<()> {
    session.done(&Request::delete(Service::Volume, path(id))).await.map(drop)
}

fn path(id: &str) -> String {
    format!("/volumes/{}", encode(id))
}
