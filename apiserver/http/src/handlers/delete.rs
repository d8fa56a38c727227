//! Handlers of delete and deletecollection.

use apiserver_machinery::protobuf;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{DeleteOptions, Deletion, Kind};
use apiserver_machinery::{object, resource::Resource};
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::{list, view};
use crate::filters::authorization;
use crate::request::Call;
use crate::request::body;
use crate::request::query;
use crate::request::request_info::ResourcePath;
use crate::response::negotiation;
use crate::response::{self, HttpResponse, StatusInfo};
use crate::state::ApiServer;

/// Option of a request for an object that cannot be read.
const IGNORES_READ_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Verb of the permission for that option, in addition to `delete`: upstream's.
const UNSAFE_DELETE: &str = "unsafe-delete-ignore-read-errors";

pub(super) async fn one(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = options(call)?;
    if options.ignores_read_errors {
        return gone(kind, &unreadable(server, call, kind, path).await?, form);
    }
    let objects = &server.parts.objects;
    let deletion =
        objects.delete(kind, &path.namespace, &path.name, &options, call.admission.as_deref()).await?;
    let (Deletion::Gone(object) | Deletion::Pending(object)) = &deletion;
    let warnings = objects.deletion_warnings(kind, object).await;
    let mut answer = show(call, kind, form, &options, &deletion)?;
    response::warn(&mut answer, &warnings);
    Ok(answer)
}

/// Deletes an object that cannot be read. Returns an object with its names.
async fn unreadable(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Value> {
    let mut attributes = authorization::attributes(&call.info, &call.query, &call.user);
    UNSAFE_DELETE.clone_into(&mut attributes.verb);
    authorization::require(server, &attributes, call.proxied).await?;
    let (objects, admission) = (&server.parts.objects, call.admission.as_deref());
    objects.delete_unreadable(kind, &path.namespace, &path.name, admission).await
}

fn show(
    call: &Call,
    kind: Kind<'_>,
    form: negotiation::Form,
    options: &DeleteOptions,
    deletion: &Deletion,
) -> ApiResult<HttpResponse> {
    match deletion {
        Deletion::Gone(object) => gone(kind, object, form),
        Deletion::Pending(pending) => {
            let code = if options.cascades { 202 } else { 200 };
            view::object(code, kind.resource, pending, form, &call.query)
        }
    }
}

fn gone(kind: Kind<'_>, object: &Value, form: negotiation::Form) -> ApiResult<HttpResponse> {
    let status = success(kind.resource, object);
    let mut answer = response::value(200, &status, form.encoding)?;
    let details = status["details"].clone();
    answer.extensions_mut().insert(StatusInfo { status: "Success", details, ..StatusInfo::default() });
    Ok(answer)
}

pub(super) async fn collection(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = options(call)?;
    let request = list::request(&call.query, kind, path)?;
    let admission = call.admission.as_deref();
    let deleted = server.parts.objects.delete_collection(kind, &request, &options, admission).await?;
    view::list(kind.resource, deleted, form, &call.query)
}

/// Returns the options of a request, with the sort of its user.
fn options(call: &Call) -> ApiResult<DeleteOptions> {
    Ok(DeleteOptions { is_by_person: call.user.is_person(), ..sent_options(call)? })
}

/// Reads the options from the body if there is one, else from the query. A dry run in either of them counts: the safe
/// reading is to delete nothing.
fn sent_options(call: &Call) -> ApiResult<DeleteOptions> {
    let from_query =
        DeleteOptions::from_value(&json!({"dryRun": call.query.all("dryRun").collect::<Vec<_>>()}))?;
    if call.body.is_empty() {
        return DeleteOptions::from_value(&query(call)?);
    }
    let fields = Some(protobuf::DELETE_OPTIONS);
    let value = body::decode(call.header(&CONTENT_TYPE), &call.body, "DeleteOptions", fields)?.value;
    let options = DeleteOptions::from_value(&value)?;
    Ok(DeleteOptions { dry_run: from_query.dry_run || options.dry_run, ..options })
}

/// Returns the query's options in the form of a body. Preconditions have no parent there.
fn query(call: &Call) -> ApiResult<Value> {
    let query = &call.query;
    let mut value = json!({"dryRun": query.all("dryRun").collect::<Vec<_>>(), "preconditions": {}});
    if query.has("gracePeriodSeconds") {
        value["gracePeriodSeconds"] = json!(query::integer(query.text("gracePeriodSeconds"))?);
    }
    if query.has("propagationPolicy") {
        value["propagationPolicy"] = json!(query.text("propagationPolicy"));
    }
    if query.has("orphanDependents") {
        value["orphanDependents"] = json!(query.flag("orphanDependents"));
    }
    if query.has(IGNORES_READ_ERRORS) {
        value[IGNORES_READ_ERRORS] = json!(query.flag(IGNORES_READ_ERRORS));
    }
    for name in ["uid", "resourceVersion"] {
        match query.text(name) {
            "" => {}
            text => value["preconditions"][name] = json!(text),
        }
    }
    Ok(value)
}

fn success(resource: &Resource, gone: &Value) -> Value {
    let mut details = json!({"name": object::name(gone), "kind": resource.plural});
    // That of an object that cannot be read is not known.
    let uid = object::meta(gone, "uid");
    if !uid.is_empty() {
        details["uid"] = json!(uid);
    }
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
