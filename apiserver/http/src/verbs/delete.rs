//! Delete and deletecollection.

use apiserver_machinery::protobuf;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{DeleteOptions, Deletion, Kind};
use apiserver_machinery::{object, resource::Resource};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::{list, view};
use crate::body;
use crate::request::Call;
use crate::request_info::ResourcePath;
use crate::response::{self, Answer};
use crate::server::ApiServer;

pub(super) async fn one(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
    let form = call.form(false)?;
    let options = options(call)?;
    match server.parts.objects.delete(kind, &path.namespace, &path.name, &options).await? {
        Deletion::Gone(gone) => response::value(200, &success(kind.resource, &gone), form.encoding),
        Deletion::Pending(pending) => view::object(200, kind.resource, &pending, form, &call.query),
    }
}

pub(super) async fn collection(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
    let form = call.form(true)?;
    let options = options(call)?;
    let request = list::request(&call.query, kind, path)?;
    let deleted = server.parts.objects.delete_collection(kind, &request, &options).await?;
    view::list(kind.resource, &deleted, form, &call.query)
}

/// From the body when there is one, else from the query.
fn options(call: &Call) -> ApiResult<DeleteOptions> {
    let dry_run = call.query.write_options("DeleteOptions")?.dry_run;
    if call.body.is_empty() {
        let mut value = json!({});
        if call.query.has("propagationPolicy") {
            value["propagationPolicy"] = json!(call.query.text("propagationPolicy"));
        }
        if call.query.has("orphanDependents") {
            value["orphanDependents"] = json!(call.query.flag("orphanDependents"));
        }
        let options = DeleteOptions::from_value(&value)?;
        return Ok(DeleteOptions { dry_run, ..options });
    }
    let fields = Some(protobuf::DELETE_OPTIONS);
    let value = body::decode(call.header(&CONTENT_TYPE), &call.body, "DeleteOptions", fields)?.value;
    if !value.is_object() {
        return Err(ApiError::bad_request(
            "the object provided is unrecognized (must be of type DeleteOptions)",
        ));
    }
    let options = DeleteOptions::from_value(&value)?;
    Ok(DeleteOptions { dry_run: dry_run || options.dry_run, ..options })
}

fn success(resource: &Resource, gone: &Value) -> Value {
    let mut details =
        json!({"name": object::name(gone), "kind": resource.plural, "uid": object::meta(gone, "uid")});
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
