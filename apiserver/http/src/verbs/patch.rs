//! Patch.

use apiserver_machinery::patch::Patch;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{Kind, Target};
use http::header::CONTENT_TYPE;

use super::view;
use crate::negotiation;
use crate::request::Call;
use crate::request_info::ResourcePath;
use crate::response::{self, Answer};
use crate::server::ApiServer;

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
    let form = negotiation::form(&call.headers, false)?;
    let options = call.query.write_options("PatchOptions")?;
    let media = call.header(&CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned();
    let patch = match media.as_str() {
        "application/json-patch+json" => Patch::json(&call.body)?,
        "application/merge-patch+json" => Patch::merge(&call.body)?,
        // kubectl sends this for the kinds that are compiled into it, and for no others.
        "application/strategic-merge-patch+json" if !kind.resource.hosted => Patch::strategic(&call.body)?,
        // Server-side apply is not offered yet; clients fall back to a merge patch.
        _ => {
            return Err(ApiError::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
            ]));
        }
    };
    let written =
        server.parts.objects.patch(kind, &path.namespace, &path.name, &patch, target, options).await?;
    let mut answer = view::object(200, kind.resource, &written.object, form, &call.query)?;
    response::warn(&mut answer, &written.warnings);
    Ok(answer)
}
