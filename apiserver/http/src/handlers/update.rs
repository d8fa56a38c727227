//! Handler of update.

use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Kind, Replacement, Target, Written};

use super::{create, view};
use crate::request::Call;
use crate::request::body;
use crate::request::request_info::ResourcePath;
use crate::response::negotiation;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    serve_target(server, call, kind, path, Target::Object).await
}

/// Replaces the object or a subresource of it.
pub(super) async fn serve_target(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
    target: Target,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = call.write_options("UpdateOptions")?;
    let (object, duplicates) = body::decode_object(call, kind.resource, options.field_validation)?;
    let objects = &server.parts.objects;
    let create_on_update = may_create(kind, target).then(|| options.clone());
    let validation = options.field_validation;
    let decode = || body::decode_object(call, kind.resource, validation).map(|(object, _)| object);
    let sent = Replacement { object, again: &decode };
    let updated = objects.update(kind, &path.namespace, &path.name, sent, target, options).await;
    let (code, written) = match (updated, create_on_update) {
        (Err(error), Some(options)) if error.code == 404 => {
            (201, create::create_on_update(server, call, kind, path, decode()?, options).await)
        }
        (updated, _) => (200, updated),
    };
    let written = Written::with_warnings(written, duplicates)?;
    let mut answer = view::written(code, kind.resource, written.object, form, &call.query)?;
    response::warn(&mut answer, &written.warnings);
    Ok(answer)
}

fn may_create(kind: Kind<'_>, target: Target) -> bool {
    target == Target::Object && kind.stored.strategy.allow_create_on_update()
}
