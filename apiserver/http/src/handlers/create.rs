//! Handler of create.

use apiserver_machinery::admission::{Action, Creation, Permissions};
use apiserver_machinery::object;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Kind, WriteOptions, Written};
use serde_json::Value;

use super::view;
use crate::filters::authorization::UserPermissions;
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
    let form = negotiation::form(&call.headers, &call.query)?;
    let options = call.write_options("CreateOptions")?;
    let (mut object, duplicates) = body::decode_object(call, kind.resource, options.field_validation)?;
    let permissions = UserPermissions::new(server, call);
    let creation = Creation { namespace: &path.namespace, caller: call.caller(), permissions: &permissions };
    kind.resource.strategy.admit(&mut object, &creation).await?;
    let created = server.parts.objects.create(kind, &path.namespace, object, options).await;
    let written = Written::with_warnings(created, duplicates)?;
    let mut answer = view::written(201, kind.resource, written.object, form, &call.query)?;
    response::warn(&mut answer, &written.warnings);
    Ok(answer)
}

/// Creates the object of an update that does not exist, for users who may create it.
pub(super) async fn create_on_update(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
    mut object: Value,
    options: WriteOptions,
) -> ApiResult<Written> {
    let permissions = UserPermissions::new(server, call);
    let resource = kind.resource;
    let action = Action {
        verb: "create",
        group: &resource.group,
        version: &resource.version,
        resource: &resource.plural,
        subresource: "",
        namespace: &path.namespace,
        name: &path.name,
    };
    permissions.require(action).await?;
    object::remove_meta(&mut object, "resourceVersion");
    server.parts.objects.create(kind, &path.namespace, object, options).await
}
