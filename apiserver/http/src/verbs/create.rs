//! Create.

use apiserver_machinery::admission::Creation;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::Kind;

use super::view;
use crate::body;
use crate::filters::authorization::UserPermissions;
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
    let form = call.form(false)?;
    let options = call.write_options("CreateOptions")?;
    let (mut object, duplicates) = body::decode_object(call, kind.resource, options.field_validation)?;
    let permissions = UserPermissions { server, user: &call.user, proxied: call.proxied };
    let creation = Creation { namespace: &path.namespace, caller: call.caller(), permissions: &permissions };
    kind.resource.strategy.admit(&mut object, &creation).await?;
    let written = server.parts.objects.create(kind, &path.namespace, object, options).await?;
    let mut answer = view::object(201, kind.resource, &written.object, form, &call.query)?;
    response::warn(&mut answer, &[duplicates, written.warnings].concat());
    Ok(answer)
}
