//! In which form an answer goes out.

use apiserver_machinery::status::{ApiError, ApiResult};
use http::HeaderMap;
use http::header::ACCEPT;

/// The form of an object or list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
    /// `meta.k8s.io Table`, with the version asked for.
    Table(&'static str),
    /// `PartialObjectMetadata` or its list.
    Metadata,
}

struct Clause {
    media: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

impl Clause {
    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let mut clauses = Vec::new();
    for header in headers.get_all(ACCEPT) {
        for text in header.to_str().unwrap_or_default().split(',') {
            let mut parts = text.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            if media.is_empty() {
                continue;
            }
            let pairs = parts.filter_map(|part| part.split_once('='));
            let parameters: Vec<_> = pairs.map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned())).collect();
            let quality = parameters
                .iter()
                .find(|(key, _)| key == "q")
                .and_then(|(_, q)| q.parse().ok())
                .unwrap_or(1.0);
            clauses.push(Clause { media, parameters, quality });
        }
    }
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

/// Picks the form of an object (`list` is false) or a list.
///
/// # Errors
/// 406 when none of the forms asked for can be had.
pub(crate) fn form(headers: &HeaderMap, list: bool) -> ApiResult<Form> {
    let clauses = clauses(headers);
    if clauses.is_empty() {
        return Ok(Form::Json);
    }
    for clause in &clauses {
        let json = matches!(clause.media.as_str(), "application/json" | "*/*" | "application/*");
        let found = match (clause.parameter("as"), json) {
            ("", true) => Some(Form::Json),
            ("", false) if clause.media == "application/yaml" => Some(Form::Yaml),
            ("Table", true) if clause.parameter("v") == "v1beta1" => Some(Form::Table("v1beta1")),
            ("Table", true) => Some(Form::Table("v1")),
            ("PartialObjectMetadata", true) if !list => Some(Form::Metadata),
            ("PartialObjectMetadataList", true) if list => Some(Form::Metadata),
            ("PartialObjectMetadata", true) => {
                return Err(ApiError::not_acceptable(
                    "you requested PartialObjectMetadata, but the requested object is a list",
                ));
            }
            _ => None,
        };
        if let Some(form) = found {
            return Ok(form);
        }
    }
    Err(ApiError::not_acceptable(
        "only the following media types are accepted: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf",
    ))
}

/// Picks the form of a watch's events.
///
/// # Errors
/// 406; a stream is JSON or nothing.
pub(crate) fn watch_form(headers: &HeaderMap) -> ApiResult<Form> {
    // Objects in a watch are single ones, whichever of the two names is used.
    let single = form(headers, false).or_else(|error| form(headers, true).map_err(|_| error));
    match single {
        Ok(Form::Yaml) | Err(_) => Err(ApiError::not_acceptable(
            "only the following media types are accepted: application/json;stream=watch",
        )),
        Ok(form) => Ok(form),
    }
}

/// Whether aggregated discovery v2 is preferred to the legacy form; `Err` when only other forms are.
pub(crate) fn wants_aggregated_discovery(headers: &HeaderMap) -> ApiResult<bool> {
    let clauses = clauses(headers);
    for clause in &clauses {
        if !matches!(clause.media.as_str(), "application/json" | "*/*" | "application/*") {
            continue;
        }
        match (clause.parameter("as"), clause.parameter("v")) {
            ("APIGroupDiscoveryList", "v2") => return Ok(true),
            ("", _) => return Ok(false),
            _ => {}
        }
    }
    if clauses.is_empty() { Ok(false) } else { form(headers, false).map(|_| false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, text.parse().unwrap());
        headers
    }

    #[test]
    fn the_first_form_that_can_be_had_wins() {
        let table = [
            ("", false, Ok(Form::Json)),
            ("*/*", false, Ok(Form::Json)),
            ("application/yaml", true, Ok(Form::Yaml)),
            ("application/vnd.kubernetes.protobuf,application/json", false, Ok(Form::Json)),
            ("application/vnd.kubernetes.protobuf", false, Err(406)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", true, Ok(Form::Table("v1"))),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                true,
                Ok(Form::Metadata),
            ),
            ("application/json;q=0.1,application/yaml", false, Ok(Form::Yaml)),
            ("text/html", false, Err(406)),
        ];
        for (text, list, expected) in table {
            assert_eq!(form(&accept(text), list).map_err(|error| error.code), expected, "{text}");
        }
    }
}
