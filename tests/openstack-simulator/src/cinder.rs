//! Cinder v3: volumes.

use http::{HeaderName, Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::{Context, later};
use crate::http::{HandlerResult, Reply, Request};
use crate::object::{Object, microseconds, new_id, object, set, text};
use crate::state::CloudState;

mod messages;
mod quotas;
mod snapshots;
mod volumes;

pub(crate) use messages::Message;
pub(crate) use snapshots::Snapshot;
pub(crate) use volumes::{advance, attach, begin_detaching, detach, reserve};

/// Status of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    Creating,
    Available,
    InUse,
    Detaching,
    Deleting,
    Error,
}

impl Status {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Available => "available",
            Self::InUse => "in-use",
            Self::Detaching => "detaching",
            Self::Deleting => "deleting",
            Self::Error => "error",
        }
    }
}

/// Attachment of a volume to a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) attachment_id: String,
    pub(crate) server_id: String,
    pub(crate) device: String,
    pub(crate) at: Timestamp,
}

/// A volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) project_id: String,
    pub(crate) user_id: String,
    pub(crate) size: i64,
    pub(crate) kind: String,
    pub(crate) zone: String,
    pub(crate) metadata: Object,
    /// Metadata of the image, for a volume created from one: such a volume is bootable.
    pub(crate) image: Option<Object>,
    pub(crate) status: Status,
    /// Time at which creation or deletion ends.
    pub(crate) until: Option<Timestamp>,
    /// Its creation ends in `error`.
    #[serde(default)]
    pub(crate) fails: bool,
    /// Duration of the deletion, for volumes that are deleted with their server.
    pub(crate) time: std::time::Duration,
    pub(crate) attached: Option<Attached>,
    pub(crate) created: Timestamp,
    pub(crate) updated: Option<Timestamp>,
    pub(crate) sequence: u64,
}

/// The volume types. `lvmdriver-1` is the one of a DevStack, which templates for one name.
const TYPES: [(&str, &str, &str); 4] = [
    ("7d97ddc2-d372-4dfe-a8ba-8e2936aa14ab", "lab", ""),
    ("57ca6557-7493-4a91-97a2-bd952b79fc23", "ssd", ""),
    ("b1f0a8d4-53c6-4a5e-9a8e-6f2f0f1f7c33", "lvmdriver-1", ""),
    ("4887ae57-8169-4e55-ac86-34dd1f6ade7e", "__DEFAULT__", "Default Volume Type"),
];

/// Returns an error in Cinder's format.
fn refusal(status: StatusCode, message: &str) -> Reply {
    let kind = match status.as_u16() {
        400 => "badRequest",
        403 => "forbidden",
        404 => "itemNotFound",
        413 => "overLimit",
        _ => "computeFault",
    };
    Reply::json(status, &json!({kind: {"code": status.as_u16(), "message": message}}))
}

fn bad_request(message: &str) -> Reply {
    refusal(StatusCode::BAD_REQUEST, message)
}

fn not_found(message: &str) -> Reply {
    refusal(StatusCode::NOT_FOUND, message)
}

/// The version documents, which need no token.
pub(crate) fn public(request: &Request) -> Option<Reply> {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let status = match segments.as_slice() {
        ["volume"] => StatusCode::MULTIPLE_CHOICES,
        ["volume", "v3"] => StatusCode::OK,
        _ => return None,
    };
    let version = json!({
        "id": "v3.0", "status": "CURRENT", "version": "3.70", "min_version": "3.0",
        "updated": "2022-08-31T00:00:00Z",
        "links": [{"rel": "self", "href": format!("{}/volume/v3/", request.base_url)}],
        "media-types": [{
            "base": "application/json", "type": "application/vnd.openstack.volume+json;version=3",
        }],
    });
    Some(Reply::json(status, &json!({"versions": [version]})))
}

/// Adds the headers of Cinder's microversions to the reply.
pub(crate) fn stamp(reply: Reply, request: &Request) -> Reply {
    let requested = request.header("openstack-api-version").and_then(|value| value.strip_prefix("volume "));
    let version = match requested {
        Some("latest") => "3.70",
        Some(version) => version,
        None => "3.0",
    };
    reply
        .with_header(HeaderName::from_static("openstack-api-version"), &format!("volume {version}"))
        .with_header(http::header::VARY, "OpenStack-API-Version")
        .with_header(HeaderName::from_static("x-compute-request-id"), &request.request_id)
}

/// Returns the minor version that a request names.
fn minor(request: &Request) -> u32 {
    let requested = request.header("openstack-api-version").and_then(|value| value.strip_prefix("volume "));
    match requested {
        Some("latest") => NEWEST_MINOR,
        Some(version) => version.strip_prefix("3.").and_then(|minor| minor.parse().ok()).unwrap_or_default(),
        None => 0,
    }
}

/// Newest minor version, that of the Zed release.
const NEWEST_MINOR: u32 = 70;

/// Handles a call to Cinder.
pub(crate) fn handle(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let segments = context.request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["volume", "v3", project, path @ ..] = segments.as_slice() else { return Err(no_such_page()) };
    if *project != context.caller.project_id {
        return Err(bad_request("Malformed request url"));
    }
    match (&context.request.method, path) {
        (&Method::GET, ["volumes"]) => volumes::list(state, context, false),
        (&Method::GET, ["volumes", "detail"]) => volumes::list(state, context, true),
        (&Method::POST, ["volumes"]) => volumes::create(state, context),
        (&Method::GET, ["volumes", id]) => volumes::get(state, context, id),
        (&Method::PUT, ["volumes", id]) => volumes::update(state, context, id),
        (&Method::DELETE, ["volumes", id]) => volumes::delete(state, context, id),
        (_, ["messages", rest @ ..]) => messages::handle(state, context, rest),
        (&Method::GET, ["snapshots", "detail"]) => snapshots::list(state, context),
        (&Method::POST, ["snapshots"]) => snapshots::create(state, context),
        (&Method::GET, ["snapshots", id]) => snapshots::get(state, context, id),
        (&Method::DELETE, ["snapshots", id]) => snapshots::delete(state, context, id),
        (&Method::GET, ["types"]) => Ok(types()),
        (&Method::GET, ["types", id]) => volume_type(id),
        (&Method::GET, ["limits"]) => Ok(quotas::limits(state, project)),
        (&Method::GET, ["os-quota-sets", of]) if context.caller.owns(of) => {
            Ok(quotas::get(state, context, of))
        }
        (&Method::GET, ["os-availability-zone"]) => {
            let zone = json!({"zoneName": "az1", "zoneState": {"available": true}});
            Ok(Reply::ok(&json!({"availabilityZoneInfo": [zone]})))
        }
        _ => Err(no_such_page()),
    }
}

fn no_such_page() -> Reply {
    Reply::html(StatusCode::NOT_FOUND, "The resource could not be found.")
}

fn type_view((id, name, description): &(&str, &str, &str)) -> Value {
    let description = Some(*description).filter(|text| !text.is_empty());
    json!({
        "id": id, "name": name, "is_public": true, "description": description, "extra_specs": {},
        "os-volume-type-access:is_public": true, "qos_specs_id": null,
    })
}

fn types() -> Reply {
    let views: Vec<Value> = TYPES.iter().map(type_view).collect();
    Reply::ok(&json!({"volume_types": views}))
}

fn volume_type(id: &str) -> HandlerResult {
    let found = TYPES.iter().find(|(held, ..)| *held == id || (id == "default" && *held == TYPES[0].0));
    let found = found.ok_or_else(|| not_found(&format!("Volume type {id} could not be found.")))?;
    Ok(Reply::ok(&json!({"volume_type": type_view(found)})))
}
