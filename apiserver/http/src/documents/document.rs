//! Served document with its hash.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use serde_json::Value;

use crate::response::{self, HttpResponse};

/// Bytes with their hash as an entity tag, so that a client that has them need not fetch them again.
#[derive(Debug, Clone)]
pub(super) struct Document {
    body: Bytes,
    hash: String,
}

impl Document {
    pub(super) fn new(value: &Value) -> Self {
        let body = Bytes::from(serde_json::to_vec(value).unwrap_or_default());
        let hash = apiserver_machinery::digest::sha512_hex(&body);
        Self { body, hash }
    }

    /// Returns the same document in another encoding, with the same tag.
    pub(super) fn encoded(&self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), hash: self.hash.clone() }
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// Serves the document, or 304 if the client has it.
    pub(super) fn serve(&self, headers: &HeaderMap, content_type: &'static str) -> HttpResponse {
        let known =
            headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == self.quoted().as_bytes());
        self.answer(known, content_type)
    }

    /// Serves the document, or 304 if the client has it: by its tags, or without tags by the time of its copy.
    pub(super) fn serve_file(
        &self,
        headers: &HeaderMap,
        content_type: &'static str,
        made: Timestamp,
    ) -> HttpResponse {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let known = match (text(IF_NONE_MATCH), text(IF_MODIFIED_SINCE)) {
            (Some(tags), _) => {
                let mut tags = tags.split(',').map(|tag| tag.trim().trim_start_matches("W/"));
                tags.any(|tag| tag == "*" || tag == self.quoted())
            }
            (None, Some(seen)) => {
                let seen = rfc2822::parse(seen).map(|seen| seen.timestamp().as_second());
                seen.is_ok_and(|seen| made.as_second() <= seen)
            }
            (None, None) => false,
        };
        self.answer(known, content_type)
    }

    fn answer(&self, is_known: bool, content_type: &'static str) -> HttpResponse {
        let mut answer = if is_known {
            let mut answer = response::bytes(304, content_type, Bytes::new());
            answer.headers_mut().remove(CONTENT_TYPE);
            answer
        } else {
            response::bytes(200, content_type, self.body.clone())
        };
        self.tag(&mut answer);
        answer
    }

    fn quoted(&self) -> String {
        format!("\"{}\"", self.hash)
    }

    /// Adds the document's tag to a response.
    pub(super) fn tag(&self, answer: &mut HttpResponse) {
        if let Ok(tag) = HeaderValue::from_str(&self.quoted()) {
            answer.headers_mut().insert(ETAG, tag);
        }
    }
}
