//! A document with its hash.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::response::{self, Answer};

/// Bytes that are tagged with their hash, so that who has them need not fetch them again.
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

    /// The same document in another encoding: one document, one tag.
    pub(super) fn encoded(&self, body: Vec<u8>) -> Self {
        Self { body: body.into(), hash: self.hash.clone() }
    }

    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// The document, or that it is the one that the client has.
    pub(super) fn serve(&self, headers: &HeaderMap, content_type: &'static str) -> Answer {
        let tag = format!("\"{}\"", self.hash);
        let known = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mut answer = if known.split(',').any(|one| matches!(one.trim(), "*") || one.trim() == tag) {
            let mut answer = response::bytes(304, content_type, Bytes::new());
            answer.headers_mut().remove(CONTENT_TYPE);
            answer
        } else {
            response::bytes(200, content_type, self.body.clone())
        };
        self.tag(&mut answer);
        answer
    }

    /// Says which document the answer is about.
    pub(super) fn tag(&self, answer: &mut Answer) {
        if let Ok(tag) = HeaderValue::from_str(&format!("\"{}\"", self.hash)) {
            answer.headers_mut().insert(ETAG, tag);
        }
        answer.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    }
}
