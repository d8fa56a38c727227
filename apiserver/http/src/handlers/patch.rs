//! Handler of patch.

use apiserver_machinery::patch::Patch;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{FieldValidation, Kind, Target, WriteOptions};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use http::header::CONTENT_TYPE;

use super::{apply, view};
use crate::request::Call;
use crate::request::json as decoder;
use crate::request::request_info::ResourcePath;
use crate::response::negotiation;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    serve_target(server, call, kind, path, Target::Object).await
}

/// Patches the object or a subresource of it.
pub(super) async fn serve_target(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
    target: Target,
) -> ApiResult<HttpResponse> {
    if apply::is_meant(call) {
        return apply::serve(server, call, kind, path, target).await;
    }
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = options(call)?;
    let patch = read(call, kind, options.field_validation)?;
    let written =
        server.parts.objects.patch(kind, &path.namespace, &path.name, &patch, target, options).await?;
    let mut answer = view::written(200, kind.resource, written.object, form, &call.query)?;
    response::warn(&mut answer, &written.warnings);
    Ok(answer)
}

/// Reads the options of a patch that is not server-side apply.
///
/// # Errors
/// 422 that names the options that it may not have.
pub(super) fn options(call: &Call) -> ApiResult<WriteOptions> {
    let mut errors = Vec::new();
    if call.query.has("force") {
        let detail = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden(FieldPath::new("force"), detail));
    }
    call.checked_options("PatchOptions", errors)
}

/// Decodes a patch by its content type. Its validity is checked when it is applied.
///
/// # Errors
/// 415 for another content type.
pub(super) fn read(call: &Call, kind: Kind<'_>, validation: FieldValidation) -> ApiResult<Patch> {
    let media = call.header(&CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    let take = match media {
        JSON => Patch::json,
        MERGE => Patch::merge,
        // kubectl sends this for the kinds that are compiled into it, and for no others.
        STRATEGIC if !kind.resource.hosted => Patch::strategic,
        _ => return Err(ApiError::unsupported_media_type(&[JSON, MERGE, apply::MEDIA_TYPE])),
    };
    Ok(match decoder::parse_exactly(&call.body) {
        Ok((document, duplicates)) => take(document, &duplicates, validation),
        Err(error) => Patch::refused(undecodable(&error, media, validation)),
    })
}

/// Returns the error of a patch that is no JSON. Upstream uses another decoder, with another text, without validation.
fn undecodable(error: &serde_json::Error, media: &str, validation: FieldValidation) -> ApiError {
    let error = if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() };
    match (validation, media) {
        (FieldValidation::Ignore, JSON) => ApiError::bad_request(error),
        (FieldValidation::Ignore, MERGE) => ApiError::bad_request("Invalid JSON Patch"),
        _ => ApiError::bad_request(format!("error decoding patch: {error}")),
    }
}
