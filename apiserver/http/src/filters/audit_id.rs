//! Audit id: one id per request, in every log.

use http::{HeaderMap, HeaderValue};

use crate::response::HttpResponse;

const HEADER: &str = "audit-id";

/// Longest id that is accepted from a caller. Upstream accepts any. Unit: bytes.
const LONGEST: usize = 4096;

/// Returns the caller's id if it has sent one, as a host does, else a new one.
pub(crate) fn of(headers: &HeaderMap) -> String {
    let given = headers.get(HEADER).and_then(|value| value.to_str().ok()).filter(|id| !id.is_empty());
    match given {
        Some(id) if id.len() <= LONGEST => id.to_owned(),
        _ => uuid::Uuid::new_v4().to_string(),
    }
}

pub(crate) fn set(answer: &mut HttpResponse, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        answer.headers_mut().insert(HEADER, value);
    }
}
