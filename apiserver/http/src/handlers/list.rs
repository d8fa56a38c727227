//! Handler of list.

use apiserver_machinery::status::ApiResult;
use apiserver_machinery::store::{Kind, ListRequest};

use super::list_options::ListOptions;
use super::view;
use crate::request::Call;
use crate::request::query::Query;
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
    let request = request(&call.query, kind, path)?;
    let listing = server.parts.objects.list(kind, &request).await?;
    view::list(kind.resource, listing, form, &call.query)
}

/// Returns the list that the query requests.
pub(super) fn request(query: &Query, kind: Kind<'_>, path: &ResourcePath) -> ApiResult<ListRequest> {
    ListOptions::of_list(query, kind, path)?.list()
}
