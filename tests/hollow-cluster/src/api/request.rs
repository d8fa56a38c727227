//! Target of a request: a kind, an object, a subresource.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

use super::failure::Failure;
use super::kinds::{Kind, find};

/// A request whose body was read.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Resource that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: &'static Kind,
    /// `None` for all namespaces, and for kinds without namespaces.
    pub(crate) namespace: Option<String>,
    /// `None` for the collection.
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        (self.group, self.plural) == (other.group, other.plural)
    }
}

impl Eq for Kind {}

impl Request {
    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.query.get(name).map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the parameters of a query.
    pub(crate) fn parse_query(query: &str) -> BTreeMap<String, String> {
        form_urlencoded::parse(query.as_bytes()).into_owned().collect()
    }

    pub(crate) fn segments(&self) -> Vec<String> {
        let parts = self.path.split('/').filter(|part| !part.is_empty());
        parts.map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned()).collect()
    }

    /// Returns the resource that the path names.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let segments = self.segments();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(Failure::no_such_path()),
        };
        let kind = |plural: &str| find(group, version, plural).ok_or_else(Failure::no_such_path);
        let target = |kind, namespace: Option<&str>, rest: &[&str]| {
            let mut rest = rest.iter().map(|part| (*part).to_owned());
            let namespace = namespace.map(str::to_owned);
            Target { kind, namespace, name: rest.next(), subresource: rest.next() }
        };
        match rest {
            // `namespaces/<name>/<subresource>` and `namespaces/<name>/<kind>` have the same form.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => {
                Ok(target(kind("namespaces")?, None, rest.get(1..).unwrap_or_default()))
            }
            ["namespaces", namespace, plural, rest @ ..] => {
                let kind = kind(plural)?;
                if !kind.namespaced {
                    return Err(Failure::no_such_path());
                }
                Ok(target(kind, Some(namespace), rest))
            }
            [plural, rest @ ..] => {
                let kind = kind(plural)?;
                if kind.namespaced && !rest.is_empty() {
                    return Err(Failure::no_such_path());
                }
                Ok(target(kind, None, rest))
            }
            [] => Err(Failure::no_such_path()),
        }
    }
}
