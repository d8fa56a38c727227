//! Patch.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::patch::Patch;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{FieldValidation, Kind, Target, Written};
use http::header::CONTENT_TYPE;
use serde_json::json;

use super::{apply, view};
use crate::request::Call;
use crate::request_info::ResourcePath;
use crate::response::{self, Answer};
use crate::server::ApiServer;
use crate::{body, json as decoder};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
    part(server, call, kind, path, Target::Object).await
}

/// Patches the object or its status.
pub(super) async fn part(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
    target: Target,
) -> ApiResult<Answer> {
    if apply::is_meant(call) {
        return apply::serve(server, call, kind, path, target).await;
    }
    let form = call.form()?;
    let options = call.write_options("PatchOptions")?;
    let (patch, duplicates) = read(call, kind, options.field_validation)?;
    let patched =
        server.parts.objects.patch(kind, &path.namespace, &path.name, &patch, target, options).await;
    let written = Written::told(patched, duplicates)?;
    let mut answer = view::object(200, kind.resource, &written.object, form, &call.query)?;
    response::warn(&mut answer, &written.warnings);
    Ok(answer)
}

/// Decodes a patch as its content type says; beside it what its writer should be told.
///
/// # Errors
/// 415 for another content type; 400 for what is no patch; 422 for options or fields that it may not have.
pub(super) fn read(
    call: &Call,
    kind: Kind<'_>,
    validation: FieldValidation,
) -> ApiResult<(Patch, Vec<String>)> {
    if call.query.has("force") {
        let fault =
            FieldError::forbidden(FieldPath::new("force"), "may not be specified for non-apply patch");
        return Err(ApiError::invalid_kind("PatchOptions.meta.k8s.io", "", &[fault]));
    }
    let media = call.header(&CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
    let patch = match media.as_str() {
        JSON => Patch::json(&call.body)?,
        MERGE => Patch::merge(&call.body)?,
        // kubectl sends this for the kinds that are compiled into it, and for no others.
        STRATEGIC if !kind.resource.hosted => Patch::strategic(&call.body)?,
        _ => return Err(ApiError::unsupported_media_type(&[JSON, MERGE, apply::MEDIA_TYPE])),
    };
    let duplicates = duplicates(&media, call, validation)?;
    Ok((patch, duplicates))
}

/// What to say of the fields that occur twice in a patch that has fields.
///
/// # Errors
/// 422 naming them, when they are not to be.
fn duplicates(media: &str, call: &Call, validation: FieldValidation) -> ApiResult<Vec<String>> {
    if validation == FieldValidation::Ignore || media == JSON {
        return Ok(Vec::new());
    }
    let (patch, duplicates) = decoder::parse(&call.body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    let texts = body::duplicate_texts(&duplicates);
    if texts.is_empty() || validation == FieldValidation::Warn {
        return Ok(texts);
    }
    let detail = format!("strict decoding error: {}", texts.join(", "));
    Err(ApiError::invalid_kind(
        "",
        "",
        &[FieldError::invalid(FieldPath::new("patch"), &json!(patch.to_string()), &detail)],
    ))
}
