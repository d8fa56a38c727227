//! Manila v2: the list of shares. No call creates one; [`Simulator::create_share`](crate::Simulator::create_share) does,
//! as a CSI driver would.

use std::collections::BTreeMap;

use http::{HeaderName, Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::http::{HandlerResult, Reply, Request};
use crate::object::{Object, microseconds, new_id, object, set};
use crate::options::SimulatorOptions;
use crate::state::CloudState;

/// Header with the version of a request and of its response.
const VERSION: &str = "x-openstack-manila-api-version";

/// Newest minor version, that of the Zed release.
const NEWEST_MINOR: u32 = 73;

/// Default of Manila's option `osapi_max_limit`.
const MOST: usize = 1000;

/// Attributes of a share that came with a minor version.
const SINCE: [(&str, u32); 12] = [
    ("snapshot_support", 2),
    ("task_state", 5),
    ("share_type_name", 6),
    ("access_rules_status", 10),
    ("replication_type", 11),
    ("has_replicas", 11),
    ("user_id", 16),
    ("create_share_from_snapshot_support", 24),
    ("revert_to_snapshot_support", 27),
    ("share_group_id", 31),
    ("source_share_group_snapshot_member_id", 31),
    ("mount_snapshot_support", 32),
];

/// Minor version that removed the export locations from a share.
const WITHOUT_EXPORTS: u32 = 9;

/// The only share type: its id and its name.
const TYPE: (&str, &str) = ("0e47e06e-7888-4a42-8a5c-3d9a4d3bd0a1", "default_share_type");

/// Share that a test puts into the cloud.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeededShare {
    /// Name of its project.
    pub project: String,
    /// Name.
    pub name: String,
    /// Size, GiB.
    pub size: i64,
    /// Metadata.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// A share. It is available from the first moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) project_id: String,
    user_id: String,
    size: i64,
    metadata: BTreeMap<String, String>,
    created: Timestamp,
    sequence: u64,
}

impl Share {
    /// Creates a share as a CSI driver does. Returns its id, or `None` if there is no such project.
    pub(crate) fn create(state: &mut CloudState, new: &SeededShare, now: Timestamp) -> Option<String> {
        let project_id = state.project(&new.project)?.id.clone();
        let user = state.users.iter().find(|user| user.project_id == project_id)?;
        let user_id = user.id.clone();
        state.sequence += 1;
        let share = Self {
            id: new_id(),
            name: new.name.clone(),
            project_id,
            user_id,
            size: new.size,
            metadata: new.metadata.clone(),
            created: now,
            sequence: state.sequence,
        };
        let id = share.id.clone();
        state.shares.insert(id.clone(), share);
        Some(id)
    }

    /// Returns the share in Manila's format, as a user sees it.
    fn view(&self, base_url: &str, minor: u32) -> Object {
        let (project, id) = (&self.project_id, &self.id);
        let mut view = object(json!({
            "id": id, "size": self.size, "availability_zone": "nova", "created_at": microseconds(self.created),
            "status": "available", "name": self.name, "description": null, "project_id": project,
            "snapshot_id": null, "share_network_id": null, "share_proto": "NFS", "metadata": self.metadata,
            "share_type": TYPE.0, "volume_type": TYPE.1, "is_public": false, "snapshot_support": false,
            "task_state": null, "share_type_name": TYPE.1, "access_rules_status": "active",
            "replication_type": null, "has_replicas": false, "user_id": self.user_id,
            "create_share_from_snapshot_support": false, "revert_to_snapshot_support": false,
            "share_group_id": null, "source_share_group_snapshot_member_id": null,
            "mount_snapshot_support": false,
            "links": [
                {"rel": "self", "href": format!("{base_url}/share/v2/{project}/shares/{id}")},
                {"rel": "bookmark", "href": format!("{base_url}/share/{project}/shares/{id}")},
            ],
        }));
        if minor < WITHOUT_EXPORTS {
            set(&mut view, "export_location", Value::Null);
            set(&mut view, "export_locations", json!([]));
        }
        let is_newer = |key: &str| SINCE.iter().any(|(name, since)| *name == key && *since > minor);
        if is_newer("share_type_name") {
            set(&mut view, "share_type", TYPE.1);
        }
        view.retain(|key, _| !is_newer(key));
        view
    }
}

/// Returns an error in Manila's format.
fn refusal(status: StatusCode, message: &str) -> Reply {
    let kind = match status.as_u16() {
        400 => "badRequest",
        404 => "itemNotFound",
        _ => "computeFault",
    };
    Reply::json(status, &json!({kind: {"code": status.as_u16(), "message": message}}))
}

fn no_such_page() -> Reply {
    refusal(StatusCode::NOT_FOUND, "The resource could not be found.")
}

/// The version documents, which need no token.
pub(crate) fn public(request: &Request, options: &SimulatorOptions) -> Option<Reply> {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let status = match segments.as_slice() {
        ["share"] if options.shared_file_systems => StatusCode::MULTIPLE_CHOICES,
        ["share", "v2"] if options.shared_file_systems => StatusCode::OK,
        _ => return None,
    };
    let version = json!({
        "id": "v2.0", "status": "CURRENT", "version": format!("2.{NEWEST_MINOR}"), "min_version": "2.0",
        "updated": "2015-08-27T11:33:21Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/"},
            {"rel": "self", "href": format!("{}/share/v2/", request.base_url)},
        ],
        "media-types": [{
            "base": "application/json", "type": "application/vnd.openstack.share+json;version=1",
        }],
    });
    Some(Reply::json(status, &json!({"versions": [version]})))
}

/// Returns the minor version that a request names.
fn minor(request: &Request) -> Result<u32, Reply> {
    let requested = request.header(VERSION).unwrap_or("2.0");
    if requested == "latest" {
        return Ok(NEWEST_MINOR);
    }
    let malformed = || {
        let message = format!(
            "API Version String {requested} is of invalid format. Must be of format MajorNum.MinorNum."
        );
        refusal(StatusCode::BAD_REQUEST, &message)
    };
    let (major, minor) = requested.split_once('.').ok_or_else(malformed)?;
    let minor: u32 = minor.parse().map_err(|_| malformed())?;
    if major != "2" || minor > NEWEST_MINOR {
        let message = format!(
            "Version {requested} is not supported by the API. Minimum is 2.0 and maximum is 2.{NEWEST_MINOR}."
        );
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, &message));
    }
    Ok(minor)
}

/// Handles a call to Manila.
pub(crate) fn handle(state: &CloudState, context: &Context<'_>) -> HandlerResult {
    if !context.options.shared_file_systems {
        return Err(no_such_page());
    }
    let minor = minor(context.request)?;
    let stamp = |reply: Reply| {
        reply
            .with_header(HeaderName::from_static(VERSION), &format!("2.{minor}"))
            .with_header(http::header::VARY, "X-OpenStack-Manila-API-Version")
    };
    route(state, context, minor).map(stamp).map_err(stamp)
}

fn route(state: &CloudState, context: &Context<'_>, minor: u32) -> HandlerResult {
    let segments = context.request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["share", "v2", path @ ..] = segments.as_slice() else { return Err(no_such_page()) };
    match (&context.request.method, path) {
        // Since the Wallaby release, the project need not be in the path.
        (&Method::GET, ["shares", "detail"]) => list(state, context, minor),
        (&Method::GET, [project, "shares", "detail"]) if *project == context.caller.project_id => {
            list(state, context, minor)
        }
        (_, [_, "shares", ..]) => Err(refusal(StatusCode::BAD_REQUEST, "Malformed request url")),
        _ => Err(no_such_page()),
    }
}

/// Returns a number of the query.
fn number(context: &Context<'_>, key: &str) -> Result<Option<usize>, Reply> {
    let Some(text) = context.request.query.get(key) else { return Ok(None) };
    let wrong = |_| refusal(StatusCode::BAD_REQUEST, &format!("{key} param must be an integer"));
    text.parse().map(Some).map_err(wrong)
}

/// `GET /shares/detail`, newest first. The link to the next page has a marker, which this list ignores.
fn list(state: &CloudState, context: &Context<'_>, minor: u32) -> HandlerResult {
    let (limit, offset) = (number(context, "limit")?, number(context, "offset")?.unwrap_or_default());
    let mut found: Vec<&Share> =
        state.shares.values().filter(|share| share.project_id == context.caller.project_id).collect();
    found.sort_by_key(|share| std::cmp::Reverse((share.created, share.sequence)));
    let most = limit.filter(|limit| *limit > 0).unwrap_or(MOST).min(MOST);
    let page: Vec<&Share> = found.into_iter().skip(offset).take(most).collect();
    let base_url = &context.request.base_url;
    let views: Vec<Object> = page.iter().map(|share| share.view(base_url, minor)).collect();
    let mut body = object(json!({"shares": views}));
    if let Some(last) = page.last().filter(|_| limit == Some(page.len())) {
        let project = &context.caller.project_id;
        let query = context.request.query.with_marker(&last.id);
        let link = format!("{base_url}/share/v2/{project}/shares?{query}");
        set(&mut body, "shares_links", json!([{"rel": "next", "href": link}]));
    }
    Ok(Reply::ok(&Value::Object(body)))
}
