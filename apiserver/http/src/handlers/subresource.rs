//! Handler of subresources: `status`, `approval`, `finalize`, and the kind's actions.

use std::sync::Arc;

use apiserver_executor::spawn_joined;
use apiserver_machinery::action::{ActionCall, ActionHandler};
use apiserver_machinery::admission_control::{AdmittedWrite, Operation};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{Kind, Target, unknown_field};
use apiserver_schema::field_errors::FieldPath;
use apiserver_trace::carried;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::execution::AuditAnnotations;
use super::{get, objects::StoredObjects, patch, scale, update};
use crate::request::Call;
use crate::request::body::{self, Decoded};
use crate::request::request_info::ResourcePath;
use crate::request::routes::{check_segments, is_served};
use crate::response::negotiation;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

pub(super) async fn serve(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let not_found = || ApiError::not_found(kind.resource, &path.name);
    if kind.resource.namespaced == path.namespace.is_empty() {
        return Ok(response::not_found());
    }
    if is_served(kind, path, call.info.verb) {
        check_segments(path, call.info.verb)?;
    }
    let in_status = match path.subresource.as_str() {
        "status" => Some(Target::Status).filter(|_| kind.resource.status_subresource),
        "approval" => Some(Target::Approval).filter(|_| kind.resource.strategy.has_approval()),
        _ => None,
    };
    if let Some(target) = in_status {
        return match call.info.verb {
            "get" => get::serve(server, call, kind, path).await,
            "update" => update::serve_target(server, call, kind, path, target).await,
            "patch" => patch::serve_target(server, call, kind, path, target).await,
            other => Err(ApiError::method_not_allowed(kind.resource, other)),
        };
    }
    if let Some(numbers) = kind.resource.scale.as_ref().filter(|_| path.subresource == "scale") {
        return scale::serve(server, call, kind, numbers, path).await;
    }
    if path.subresource == "finalize" && kind.resource.strategy.has_spec_finalizers() {
        return match call.info.verb {
            "update" => update::serve_target(server, call, kind, path, Target::Finalizers).await,
            other => Err(ApiError::method_not_allowed(kind.resource, other)),
        };
    }
    let verb = kind.resource.verb(&path.subresource).ok_or_else(not_found)?;
    if call.info.verb != verb.method().verb() {
        return Err(ApiError::method_not_allowed(kind.resource, call.info.verb));
    }
    invoke(server, call, kind, verb, path).await
}

async fn invoke(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    verb: &Arc<dyn ActionHandler>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = call.write_options("CreateOptions")?;
    let body =
        admitted(call, kind, verb.as_ref(), path, body_of(call, verb.as_ref())?, options.dry_run).await?;
    let (store, admission) = (Arc::clone(&server.parts.objects), call.admission.clone());
    let objects = StoredObjects { store, admission };
    let (verb, caller, dry_run) = (Arc::clone(verb), call.caller(), options.dry_run);
    let ResourcePath { namespace, name, .. } = path.clone();
    // A running action is completed, whether or not the client waits for it.
    let work = spawn_joined(carried(async move {
        let (namespace, name, objects) = (&namespace, &name, &objects);
        verb.invoke(ActionCall { namespace, name, body, caller, dry_run, objects }).await
    }));
    let answer = work.await.map_err(|error| ApiError::internal(error.to_string()))??;
    let code = if answer.created { 201 } else { 200 };
    let mut sent = response::value(code, &answer.object, form.encoding)?;
    response::warn(&mut sent, &answer.warnings);
    if !answer.annotations.is_empty() {
        sent.extensions_mut().insert(AuditAnnotations(answer.annotations));
    }
    Ok(sent)
}

/// Lets configurations change and check the body of an action.
async fn admitted(
    call: &Call,
    kind: Kind<'_>,
    verb: &dyn ActionHandler,
    path: &ResourcePath,
    mut body: Value,
    dry_run: bool,
) -> ApiResult<Value> {
    let Some(admission) = &call.admission else { return Ok(body) };
    let of_body = verb.request_kind();
    if let Some(fields) = body.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(format!("{}/{}", of_body.0, of_body.1)));
        fields.insert("kind".to_owned(), json!(of_body.2));
    }
    let write = AdmittedWrite {
        operation: Operation::Create,
        resource: kind.resource,
        kind: of_body,
        subresource: verb.name(),
        namespace: &path.namespace,
        name: &path.name,
        old: None,
        dry_run,
    };
    if let Some(changed) = admission.mutate(write, Some(&body)).await? {
        body = checked(changed, verb, Vec::new())?;
    }
    admission.validate(write, Some(&body)).await?;
    Ok(body)
}

/// Decodes and checks the body. Unknown fields are errors: an action takes effect at once, so a misspelt field must
/// not be dropped.
fn body_of(call: &Call, verb: &dyn ActionHandler) -> ApiResult<Value> {
    let (group, version, kind) = verb.request_kind();
    // Form types are refused: any web page can send them.
    let text = text_of(&call.body);
    let content_type = call.header(&CONTENT_TYPE);
    let Decoded { value: body, duplicates } = body::decode(content_type, text, kind, verb.request_message())?;
    let api_version = format!("{group}/{version}");
    for (field, wanted) in [("apiVersion", api_version.as_str()), ("kind", kind)] {
        match body.get(field).map(|given| given.as_str().unwrap_or_default()) {
            None | Some("") => {}
            Some(given) if given == wanted => {}
            Some(given) => {
                return Err(ApiError::bad_request(format!(
                    "{field}: must be {wanted:?} for this subresource, not {given:?}"
                )));
            }
        }
    }
    checked(body, verb, body::duplicate_texts(&duplicates))
}

/// Returns the text of a body. An empty one is an empty object, and so is one of spaces: `echo | kubectl create --raw` sends the
/// end of a line.
fn text_of(body: &[u8]) -> &[u8] {
    if body.trim_ascii().is_empty() { b"{}" } else { body }
}

/// Checks the fields of a body, after the errors that were found before.
fn checked(mut body: Value, verb: &dyn ActionHandler, mut errors: Vec<String>) -> ApiResult<Value> {
    let (group, version, kind) = verb.request_kind();
    let schema = verb.request_schema();
    let unknown = schema.prune(&mut body, &FieldPath::default());
    errors.extend(unknown.iter().map(|path| unknown_field(path)));
    if !errors.is_empty() {
        return Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: strict decoding error: {}",
            errors.join(", ")
        )));
    }
    schema.fill_in(&mut body);
    let errors = schema.validate(&body, None, &FieldPath::default());
    if !errors.is_empty() {
        return Err(ApiError::invalid_kind(&format!("{kind}.{group}"), "", &errors));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_of_spaces_is_an_empty_object() {
        for body in ["", "\n", " \t\r\n"] {
            assert_eq!(text_of(body.as_bytes()), b"{}", "{body:?}");
        }
        assert_eq!(text_of(b" {\"a\": 1} "), b" {\"a\": 1} ");
    }
}
