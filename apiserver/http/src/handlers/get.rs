//! Handler of get.

use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Freshness, Kind};

use super::{list_options, view};
use crate::request::Call;
use crate::request::request_info::ResourcePath;
use crate::response::HttpResponse;
use crate::response::negotiation;
use crate::state::ApiServer;

pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    let form = negotiation::form(&call.headers, &call.query)?;
    call.query.check_export()?;
    let freshness = match list_options::single_revision(call.query.text("resourceVersion"))? {
        None => Freshness::Consistent,
        Some(revision) if revision.number() == 0 => Freshness::Any,
        Some(revision) => Freshness::AtLeast(revision),
    };
    let item = server.parts.objects.get(kind, &path.namespace, &path.name, freshness).await?;
    view::cached(kind.resource, &item, form, &call.query)
}
