//! `metav1.ListOptions` in the query of a list or a watch.
//!
//! The checks are in upstream's order: encoding, then numbers, then selectors (400); combinations (422); fields that
//! cannot be selected by (400); and last the revision and the token.

use apiserver_machinery::Revision;
use apiserver_machinery::continue_token::ContinueToken;
use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{Freshness, Kind, ListRequest, RevisionMatch, WatchRequest, WatchStart};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::go_text::quoted;
use serde_json::json;

use crate::request::query::Query;
use crate::request::request_info::ResourcePath;

/// Options of the query, decoded and consistent.
pub(super) struct ListOptions {
    namespace: String,
    /// Set if the kind has namespaces.
    namespaced: bool,
    labels: LabelSelector,
    fields: FieldSelector,
    limit: usize,
    token: String,
    revision: String,
    matching: String,
    /// Set if a watch starts with the existing objects; `None` if the query does not say.
    initial_events: Option<bool>,
    /// Longest duration of a watch; `None` if the query does not say. Unit: seconds.
    pub(super) seconds: Option<u64>,
}

impl ListOptions {
    /// Reads the options of a list.
    ///
    /// # Errors
    /// 400; 422.
    pub(super) fn of_list(query: &Query, kind: Kind<'_>, path: &ResourcePath) -> ApiResult<Self> {
        Self::read(query, kind, path, Self::list_errors)
    }

    /// Reads the options of a watch.
    ///
    /// # Errors
    /// 400; 422.
    pub(super) fn of_watch(query: &Query, kind: Kind<'_>, path: &ResourcePath) -> ApiResult<Self> {
        Self::read(query, kind, path, Self::watch_errors)
    }

    fn read(
        query: &Query,
        kind: Kind<'_>,
        path: &ResourcePath,
        check: fn(&Self) -> Vec<FieldError>,
    ) -> ApiResult<Self> {
        let positive = |name: &str| {
            let number = query.number(name)?.unwrap_or_default();
            Ok::<_, ApiError>(u64::try_from(number).ok().filter(|number| *number > 0))
        };
        let seconds = positive("timeoutSeconds")?;
        let limit = positive("limit")?.map_or(0, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let options = Self {
            namespace: path.namespace.clone(),
            namespaced: kind.resource.namespaced,
            labels: query.labels()?,
            fields: query.fields()?,
            limit,
            token: query.text("continue").to_owned(),
            revision: query.text("resourceVersion").to_owned(),
            matching: query.text("resourceVersionMatch").to_owned(),
            initial_events: query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents")),
            seconds,
        };
        let errors = check(&options);
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind("ListOptions.meta.k8s.io", "", &errors));
        }
        options.fields.check(&kind.resource.selectable)?;
        Ok(options)
    }

    /// Reads the options of a watch by its path, without `watch` in the query: upstream applies the rules of a list.
    ///
    /// # Errors
    /// 400; 422.
    pub(super) fn of_watching_path(query: &Query, kind: Kind<'_>, path: &ResourcePath) -> ApiResult<Self> {
        Self::read(query, kind, path, Self::list_errors)
    }

    /// Restricts the options to one object.
    ///
    /// # Errors
    /// 400 if the selector names another one.
    pub(super) fn of_one(mut self, name: &str) -> ApiResult<Self> {
        match self.fields.name() {
            None if self.fields.is_empty() => self.fields = self.fields.and_name(name),
            Some(selected) if selected == name => {}
            _ => {
                let why = "fieldSelector metadata.name doesn't match requested name";
                return Err(ApiError::bad_request(why));
            }
        }
        Ok(self)
    }

    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.matching.is_empty() {
            if self.revision.is_empty() {
                errors.push(forbidden(
                    MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.token.is_empty() {
                errors.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
            }
            if !matches!(self.matching.as_str(), "Exact" | "NotOlderThan") {
                errors.push(self.unknown_match(&["Exact", "NotOlderThan", ""]));
            }
            if self.matching == "Exact" && self.revision == "0" {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(forbidden(MATCH, why));
            }
        }
        if self.initial_events.is_some() {
            errors.push(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.initial_events.is_some() && self.matching != "NotOlderThan" {
            let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(forbidden(MATCH, why));
        }
        if !self.matching.is_empty() {
            if self.initial_events.is_none() {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(forbidden(MATCH, why));
            }
            if self.matching != "NotOlderThan" {
                errors.push(self.unknown_match(&["NotOlderThan"]));
            }
        }
        // Upstream takes a watch without a revision for one with a match, because it starts with the existing objects,
        // and ignores the token of any other watch.
        let begins_anew = self.initial_events.is_none() && matches!(self.revision.as_str(), "" | "0");
        if !self.token.is_empty() && (begins_anew || !self.matching.is_empty()) {
            errors.push(forbidden(MATCH, "resourceVersionMatch is forbidden when continue is provided"));
        }
        errors
    }

    fn unknown_match(&self, supported: &[&str]) -> FieldError {
        FieldError::not_supported(FieldPath::new(MATCH), &json!(self.matching), supported)
    }

    /// Returns the list request.
    ///
    /// # Errors
    /// 400 for an invalid token or revision.
    pub(super) fn list(self) -> ApiResult<ListRequest> {
        let token = (!self.token.is_empty()).then(|| ContinueToken::decode(&self.token)).transpose()?;
        let mut limit = self.limit;
        let revision = self.list_revision(token.is_some())?;
        if revision == RevisionMatch::AtLeast(Freshness::Any) && self.revision == "0" {
            // Revision "0" is served from the cache at once, and without a limit, or without one for the rest:
            // upstream's rule.
            limit = 0;
        }
        Ok(ListRequest {
            namespace: self.namespace,
            labels: self.labels,
            fields: self.fields,
            limit,
            token,
            revision,
        })
    }

    /// Returns true if only one object can match.
    fn is_of_one(&self) -> bool {
        let has_namespace = || !self.namespace.is_empty() || self.fields.namespace().is_some();
        self.fields.name().is_some() && (!self.namespaced || has_namespace())
    }

    /// Applies the matrix of `resourceVersion`, `resourceVersionMatch` and `limit`.
    fn list_revision(&self, continued: bool) -> ApiResult<RevisionMatch> {
        if continued && !matches!(self.revision.as_str(), "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let given = number(&self.revision)
            .map_err(|why| ApiError::bad_request(format!("invalid resource version: {why}")))?;
        Ok(match given {
            None => RevisionMatch::AtLeast(Freshness::Consistent),
            Some(revision) if revision == Revision::NONE => RevisionMatch::AtLeast(Freshness::Any),
            Some(revision) if self.matching == "Exact" => RevisionMatch::Exactly(revision),
            // The rule from before `resourceVersionMatch` existed. One object has no pages.
            Some(revision) if self.matching.is_empty() && self.limit > 0 && !self.is_of_one() => {
                RevisionMatch::Exactly(revision)
            }
            Some(revision) => RevisionMatch::AtLeast(Freshness::AtLeast(revision)),
        })
    }

    /// Returns the watch request.
    ///
    /// # Errors
    /// 500 for an invalid revision, as upstream.
    pub(super) fn watch(self) -> ApiResult<WatchRequest> {
        let given = single_revision(&self.revision)?;
        let start = match (self.initial_events, given) {
            (Some(true) | None, None) => WatchStart::Everything(Freshness::Consistent),
            (Some(true) | None, Some(Revision::NONE)) => WatchStart::Everything(Freshness::Any),
            (Some(false), None | Some(Revision::NONE)) => WatchStart::Now,
            (Some(true), Some(revision)) => WatchStart::Everything(Freshness::AtLeast(revision)),
            (Some(false) | None, Some(revision)) => WatchStart::After(revision),
        };
        let (namespace, labels, fields) = (self.namespace, self.labels, self.fields);
        Ok(WatchRequest { namespace, labels, fields, start })
    }
}

const MATCH: &str = "resourceVersionMatch";

fn forbidden(field: &str, why: &str) -> FieldError {
    FieldError::forbidden(FieldPath::new(field), why)
}

/// Returns the revision of a get or a watch; `None` if the query has none.
///
/// # Errors
/// 500 for an invalid one, as upstream.
pub(super) fn single_revision(text: &str) -> ApiResult<Option<Revision>> {
    number(text).map_err(|why| ApiError::untyped(500, why))
}

fn number(text: &str) -> Result<Option<Revision>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if is_number => Ok(Some(Revision::new(number))),
        _ => {
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            let text = quoted(text);
            Err(format!("resourceVersion: Invalid value: {text}: strconv.ParseUint: parsing {text}: {why}"))
        }
    }
}
