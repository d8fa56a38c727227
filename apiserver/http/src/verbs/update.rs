//! Update.

use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Kind, Target};

use super::view;
use crate::body;
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

/// Replaces the object or its status.
pub(super) async fn part(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
    target: Target,
) -> ApiResult<Answer> {
    let form = call.form(false)?;
    let options = call.write_options("UpdateOptions")?;
    let (object, duplicates) = body::decode_object(call, kind.resource, options.field_validation)?;
    let written =
        server.parts.objects.update(kind, &path.namespace, &path.name, object, target, options).await?;
    let mut answer = view::object(200, kind.resource, &written.object, form, &call.query)?;
    response::warn(&mut answer, &[duplicates, written.warnings].concat());
    Ok(answer)
}
