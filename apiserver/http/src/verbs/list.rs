//! List.

use apiserver_machinery::continue_token::ContinueToken;
use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{Freshness, Kind, ListRequest, RevisionMatch};
use serde_json::json;

use super::view;
use crate::query::Query;
use crate::request::Call;
use crate::request_info::ResourcePath;
use crate::response::Answer;
use crate::server::ApiServer;

pub(super) async fn serve(
    server: &ApiServer,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<Answer> {
    let form = call.form(true)?;
    let request = request(&call.query, kind, path)?;
    let listing = server.parts.objects.list(kind, &request).await?;
    view::list(kind.resource, &listing, form, &call.query)
}

/// What the query asks for.
pub(super) fn request(query: &Query, kind: Kind<'_>, path: &ResourcePath) -> ApiResult<ListRequest> {
    if query.has("sendInitialEvents") {
        return Err(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    let token = match query.text("continue") {
        "" => None,
        text => Some(ContinueToken::decode(text)?),
    };
    let mut limit = usize::try_from(query.number("limit")?.unwrap_or_default().max(0)).unwrap_or(usize::MAX);
    let wanted = revision_match(query, token.is_some(), limit > 0)?;
    if wanted == RevisionMatch::AtLeast(Freshness::Any) {
        // From the cache at once, and then all of it: upstream's rule for revision "0".
        limit = 0;
    }
    Ok(ListRequest {
        namespace: path.namespace.clone(),
        labels: query.labels()?,
        fields: query.fields(kind.resource)?,
        limit,
        token,
        revision: wanted,
    })
}

/// The matrix of `resourceVersion` and `resourceVersionMatch`.
fn revision_match(query: &Query, continued: bool, limited: bool) -> ApiResult<RevisionMatch> {
    let text = query.text("resourceVersion");
    let given = revision(text)?;
    let matching = query.text("resourceVersionMatch");
    if continued {
        if !matching.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            return Err(forbidden("resourceVersionMatch", detail));
        }
        if given.is_some_and(|revision| revision.number() != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        return Ok(RevisionMatch::AtLeast(Freshness::Consistent));
    }
    match (given, matching) {
        (None, "") => Ok(RevisionMatch::AtLeast(Freshness::Consistent)),
        (None, "Exact" | "NotOlderThan") => {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            Err(forbidden("resourceVersionMatch", detail))
        }
        (Some(revision), "Exact") if revision.number() == 0 => {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            Err(forbidden("resourceVersionMatch", detail))
        }
        (Some(revision), "" | "NotOlderThan") if revision.number() == 0 => {
            Ok(RevisionMatch::AtLeast(Freshness::Any))
        }
        (Some(revision), "Exact") => Ok(RevisionMatch::Exactly(revision)),
        (Some(revision), "") if limited => Ok(RevisionMatch::Exactly(revision)),
        (Some(revision), "" | "NotOlderThan") => Ok(RevisionMatch::AtLeast(Freshness::AtLeast(revision))),
        (_, other) => {
            let supported = ["Exact", "NotOlderThan", ""];
            let field = FieldPath::new("resourceVersionMatch");
            Err(options_error(FieldError::not_supported(field, &json!(other), &supported)))
        }
    }
}

/// A revision as the query says it; `None` when it says none.
pub(super) fn revision(text: &str) -> ApiResult<Option<apiserver_machinery::Revision>> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(|number| Some(apiserver_machinery::Revision::new(number))).map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: must be a decimal number"
        ))
    })
}

pub(super) fn forbidden(field: &str, detail: &str) -> ApiError {
    options_error(FieldError::forbidden(FieldPath::new(field), detail))
}

pub(super) fn options_error(fault: FieldError) -> ApiError {
    ApiError::invalid_kind("ListOptions.meta.k8s.io", "", &[fault])
}
