//! Content negotiation: the view of an object, and its encoding.
//!
//! The rules are upstream's: the clauses of `Accept` by weight, and for each of them the first encoding that it names
//! and that supports its parameters. Parameters request another view of the object (`as`, `g`, `v`), a stream, or
//! indentation.

use apiserver_machinery::status::{ApiError, ApiResult};
use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::request::query::Query;
use crate::response::encoding::{ACCEPTED, Encoding};

/// Message of a 406 for a watch.
const ACCEPTED_STREAMS: &str = "only the following media types are accepted: application/json;stream=watch, \
                                application/vnd.kubernetes.protobuf;stream=watch";

/// Media types of responses.
pub(crate) const MEDIA_TYPES: [&str; 3] =
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// View of an object or list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Whole object.
    Whole,
    /// `Table` of `meta.k8s.io`, in this version.
    Table(&'static str),
    /// `PartialObjectMetadata`, in this version of `meta.k8s.io`.
    Metadata(&'static str),
    /// `PartialObjectMetadataList`, in this version of `meta.k8s.io`.
    MetadataList(&'static str),
}

/// Form of a response: its view and encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) view: View,
    pub(crate) encoding: Encoding,
}

impl Form {
    /// Whole objects in one line of JSON: the form in the cache.
    pub(crate) const JSON: Self = Self { view: View::Whole, encoding: Encoding::Json };
}

/// Clause of `Accept`.
#[derive(Debug, Clone, PartialEq)]
struct Clause<'h> {
    media: (&'h str, &'h str),
    parameters: Vec<(&'h str, &'h str)>,
    quality: f32,
}

impl<'h> Clause<'h> {
    fn parse(text: &'h str) -> Option<Self> {
        // Only spaces are trimmed, and a parameter without a value is ignored.
        let trim = |text: &'h str| text.trim_matches(' ');
        let mut parts = text.split(';').map(trim);
        let media = match parts.next()? {
            "*" => ("*", "*"),
            media => media.split_once('/').map(|(kind, subtype)| (trim(kind), trim(subtype)))?,
        };
        let pairs = parts.filter_map(|part| part.split_once('='));
        let pairs = pairs.map(|(key, value)| (trim(key), trim(value)));
        let parameters: Vec<_> = pairs.filter(|(_, value)| !value.is_empty()).collect();
        let mut clause = Self { media, parameters, quality: 1.0 };
        if clause.has("q") {
            // An invalid weight is the lowest one.
            clause.quality = clause.parameter("q").parse().unwrap_or_default();
        }
        Some(clause)
    }

    /// Returns a parameter; the last one of a name counts.
    fn parameter(&self, name: &str) -> &'h str {
        self.parameters.iter().rfind(|(key, _)| *key == name).map_or("", |(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.parameters.iter().any(|(key, _)| *key == name)
    }

    fn names(&self, encoding: Encoding) -> bool {
        let (kind, subtype) = self.media;
        let own = encoding.content_type().strip_prefix("application/");
        matches!((kind, subtype), ("*" | "application", "*"))
            || (kind == "application" && Some(subtype) == own)
    }

    /// Returns true if a parameter requests something that this encoding does not have.
    fn excludes(&self, encoding: Encoding) -> bool {
        let stream = self.parameter("stream");
        !(stream.is_empty() || (stream == "watch" && encoding != Encoding::Yaml))
    }

    /// Returns the requested view; `None` for an unknown one.
    fn view(&self) -> Option<View> {
        if !["as", "g", "v"].iter().any(|name| self.has(name)) {
            return Some(View::Whole);
        }
        let version = match (self.parameter("g"), self.parameter("v")) {
            ("meta.k8s.io", "v1") => "v1",
            ("meta.k8s.io", "v1beta1") => "v1beta1",
            _ => return None,
        };
        match self.parameter("as") {
            "Table" => Some(View::Table(version)),
            "PartialObjectMetadata" => Some(View::Metadata(version)),
            "PartialObjectMetadataList" => Some(View::MetadataList(version)),
            _ => None,
        }
    }
}

/// Returns the clauses of the first `Accept`, by weight and then by precision.
fn clauses(accept: Option<&HeaderValue>) -> Vec<Clause<'_>> {
    let accept = accept.and_then(|value| std::str::from_utf8(value.as_bytes()).ok()).unwrap_or_default();
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(Clause::parse).collect();
    let vague = |clause: &Clause<'_>| (clause.media.0 == "*", clause.media.1 == "*");
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then_with(|| vague(a).cmp(&vague(b))));
    clauses
}

fn is_silent(accept: Option<&HeaderValue>) -> bool {
    accept.is_none_or(|value| value.is_empty())
}

/// Encodings, in the order of preference.
const ENCODINGS: [Encoding; 3] = [Encoding::Json, Encoding::Yaml, Encoding::Protobuf];

/// Negotiates the form of an object or a list. The handler checks whether the result has such a form.
///
/// # Errors
/// 406 if no requested form is available.
pub(crate) fn form(headers: &HeaderMap, query: &Query) -> ApiResult<Form> {
    let accept = headers.get(ACCEPT);
    let pretty = is_for_people(headers.get(USER_AGENT), query.text("pretty"));
    if is_silent(accept) {
        return Ok(Form { view: View::Whole, encoding: indented(Encoding::Json, pretty) });
    }
    for clause in clauses(accept) {
        for encoding in ENCODINGS.into_iter().filter(|encoding| clause.names(*encoding)) {
            let Some(view) = clause.view().filter(|_| !clause.excludes(encoding)) else { continue };
            // Protobuf has no form of whole objects of unknown kinds, nor of tables.
            if encoding == Encoding::Protobuf && matches!(view, View::Whole | View::Table(_)) {
                continue;
            }
            let encoding = indented(encoding, pretty || clause.parameter("pretty") == "1");
            return Ok(Form { view, encoding });
        }
    }
    Err(ApiError::not_acceptable(ACCEPTED))
}

/// Returns the form of a watch's events, for the negotiated form.
///
/// # Errors
/// 406; there are no streams of YAML.
pub(crate) fn stream(form: Form) -> ApiResult<Form> {
    match form.encoding {
        Encoding::Yaml => Err(ApiError::not_acceptable(ACCEPTED_STREAMS)),
        // An event is a line.
        Encoding::PrettyJson => Ok(Form { encoding: Encoding::Json, ..form }),
        Encoding::Json | Encoding::Protobuf => Ok(form),
    }
}

/// Negotiates the encoding of a `Status`, which any encoding can carry; the default is indented JSON.
pub(crate) fn of_errors(headers: &HeaderMap, query: &Query) -> Encoding {
    OfErrors::new(headers, query).encoding()
}

/// Headers that decide the encoding of an error, kept for a request that is consumed before there is one. Most
/// requests have no error.
#[derive(Debug)]
pub(crate) struct OfErrors {
    accept: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    pretty: String,
}

impl OfErrors {
    pub(crate) fn new(headers: &HeaderMap, query: &Query) -> Self {
        let (accept, agent) = (headers.get(ACCEPT).cloned(), headers.get(USER_AGENT).cloned());
        Self { accept, agent, pretty: query.text("pretty").to_owned() }
    }

    pub(crate) fn encoding(&self) -> Encoding {
        let (accept, pretty) = (self.accept.as_ref(), is_for_people(self.agent.as_ref(), &self.pretty));
        if is_silent(accept) {
            return indented(Encoding::Json, pretty);
        }
        for clause in clauses(accept) {
            let plain = clause.view() == Some(View::Whole);
            let mut named = ENCODINGS.into_iter().filter(|encoding| clause.names(*encoding));
            if let Some(encoding) = named.find(|encoding| plain && !clause.excludes(*encoding)) {
                return indented(encoding, pretty || clause.parameter("pretty") == "1");
            }
        }
        Encoding::PrettyJson
    }
}

/// Returns true if a person reads the response, by a parameter or by the user agent.
fn is_for_people(agent: Option<&HeaderValue>, pretty: &str) -> bool {
    match pretty {
        "" => {}
        value => return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
    }
    let agent = agent.and_then(|value| value.to_str().ok()).unwrap_or_default();
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|reader| agent.starts_with(reader))
}

fn indented(encoding: Encoding, pretty: bool) -> Encoding {
    if pretty && encoding == Encoding::Json { Encoding::PrettyJson } else { encoding }
}

/// Availability of aggregated discovery at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aggregation {
    Offered,
    /// Only lists per group version are available.
    None,
}

/// Form of discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Discovery {
    /// `APIGroupDiscoveryList` v2.
    Aggregated(Encoding),
    /// One document per path.
    Legacy(Encoding),
}

/// Negotiates the form of discovery: aggregated if any clause requests it, whatever its weight.
///
/// # Errors
/// 406 if neither form is acceptable, e.g. for an older version of aggregated discovery alone.
pub(crate) fn discovery(
    headers: &HeaderMap,
    query: &Query,
    aggregation: Aggregation,
) -> ApiResult<Discovery> {
    let accept = headers.get(ACCEPT);
    let pretty = is_for_people(headers.get(USER_AGENT), query.text("pretty"));
    if is_silent(accept) {
        return Ok(Discovery::Legacy(indented(Encoding::Json, pretty)));
    }
    let clauses = clauses(accept);
    let first = |wanted: [&str; 3]| {
        let mut clauses = clauses.iter();
        clauses.find_map(|clause| {
            let requested = ["g", "v", "as"].map(|name| clause.parameter(name));
            let mut named = ENCODINGS.into_iter().filter(|encoding| clause.names(*encoding));
            let encoding = named.find(|encoding| requested == wanted && !clause.excludes(*encoding))?;
            Some(indented(encoding, pretty || clause.parameter("pretty") == "1"))
        })
    };
    let aggregated = match aggregation {
        Aggregation::Offered => first(["apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList"]),
        Aggregation::None => None,
    };
    let legacy = || first(["", "", ""]).map(Discovery::Legacy);
    aggregated.map(Discovery::Aggregated).or_else(legacy).ok_or_else(|| ApiError::not_acceptable(ACCEPTED))
}

/// Checks that a client accepts one of `offers`, as upstream's router does before negotiation: by the names of the
/// types alone, without `application/*`.
///
/// # Errors
/// 406 with the offers.
pub(crate) fn check_offered(headers: &HeaderMap, offers: &[&str]) -> ApiResult<()> {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut named = accept.split(',').map(|clause| clause.split(';').next().unwrap_or_default().trim());
    if is_silent(headers.get(ACCEPT)) || named.any(|named| named == "*/*" || offers.contains(&named)) {
        return Ok(());
    }
    Err(ApiError::no_representation(offers))
}

/// Returns the first of `offers`, media types without parameters, that the client accepts; `None` for none.
pub(crate) fn first(headers: &HeaderMap, offers: &[&'static str]) -> Option<&'static str> {
    if is_silent(headers.get(ACCEPT)) {
        return offers.first().copied();
    }
    clauses(headers.get(ACCEPT)).iter().find_map(|clause| {
        let (kind, subtype) = clause.media;
        offers.iter().copied().find(|offer| {
            let Some((own_kind, own_subtype)) = offer.split_once('/') else { return false };
            (kind == "*" || kind == own_kind) && (subtype == "*" || subtype == own_subtype)
        })
    })
}

#[cfg(test)]
mod tests;
