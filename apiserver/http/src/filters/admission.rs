//! Admission of a request by configurations: it is opened here, and the store consults it for each write.

use std::sync::Arc;

use apiserver_access::User;
use apiserver_machinery::admission::Permissions;
use apiserver_machinery::admission_control::{AdmissionRequest, RequestAdmission, Requester};
use serde_json::{Map, Value, json};

use crate::request::query::Query;
use crate::request::request_info::RequestInfo;
use crate::state::ApiServer;

/// Returns the admission of a request that may write an object; `None` if no configuration can apply to it.
pub(crate) fn open(
    server: &ApiServer,
    info: &RequestInfo,
    query: &Query,
    body: &[u8],
    user: &Arc<User>,
    permissions: Option<&Arc<dyn Permissions>>,
) -> Option<Arc<dyn RequestAdmission>> {
    let (control, permissions, path) = (server.settings.admission.as_ref()?, permissions?, info.resource()?);
    control.admission(AdmissionRequest {
        requester: requester(user),
        permissions: Arc::clone(permissions),
        group: path.group.clone(),
        resource: path.resource.clone(),
        subresource: path.subresource.clone(),
        options: options(info, query, body),
    })
}

fn requester(user: &User) -> Requester {
    Requester {
        username: user.name.clone(),
        uid: user.uid.clone().unwrap_or_default(),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
        is_internal: user.is_internal(),
    }
}

/// Returns the options of a request. A deletion may have them in its body.
fn options(info: &RequestInfo, query: &Query, body: &[u8]) -> Map<String, Value> {
    let is_deletion = matches!(info.verb, "delete" | "deletecollection");
    if let Ok(Value::Object(options)) = serde_json::from_slice(if is_deletion { body } else { &[] }) {
        return options;
    }
    let mut options = Map::new();
    for name in ["fieldManager", "fieldValidation", "propagationPolicy"] {
        if !query.text(name).is_empty() {
            options.insert(name.to_owned(), json!(query.text(name)));
        }
    }
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options.insert("dryRun".to_owned(), json!(dry_run));
    }
    options
}
