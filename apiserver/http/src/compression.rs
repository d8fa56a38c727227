//! Large answers, compressed for who asks: lists of thousands of objects say much the same of each.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue};
use http_body::Body;
use http_body_util::BodyExt;

use crate::body::ResponseBody;
use crate::response::{self, Answer};

/// Smaller answers are sent faster than they are compressed: upstream's threshold. Unit: bytes.
pub(crate) const WORTHWHILE: usize = 128 * 1024;

/// Whether the client asks for gzip, and does so in the one word that upstream knows.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|encoding| encoding.trim() == "gzip")
}

/// Compresses the body if that is worth it; streams are left alone, as their readers wait for each
/// event.
pub(crate) async fn compress(answer: Answer) -> Answer {
    if !is_large(answer.body()) || answer.headers().contains_key(CONTENT_ENCODING) {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    // Some milliseconds for a large list, which other requests need not wait for.
    let compressed = match body {
        ResponseBody::Items(items) => tokio::task::spawn_blocking(move || gzip(*items)).await,
        ResponseBody::Table(table) => tokio::task::spawn_blocking(move || gzip(table.into_chunks())).await,
        body => {
            let plain = match body.collect().await {
                Ok(collected) => collected.to_bytes(),
                Err(never) => match never {},
            };
            tokio::task::spawn_blocking(move || gzip(std::iter::once(plain))).await
        }
    };
    let Ok(Ok(compressed)) = compressed else { return response::panicked() };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Answer::from_parts(head, ResponseBody::full(compressed))
}

fn is_large(body: &ResponseBody) -> bool {
    // One that is not whole is larger.
    let is_long = |size| usize::try_from(size).map_or(true, |size| size > WORTHWHILE);
    matches!(body, ResponseBody::Table(_)) || body.size_hint().exact().is_some_and(is_long)
}

/// At the fastest level, as upstream: most of the gain at a fraction of the cost.
fn gzip(chunks: impl Iterator<Item = Bytes>) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for chunk in chunks {
        encoder.write_all(&chunk)?;
    }
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_who_ask() {
        let table = [
            ("gzip", true),
            ("deflate, gzip", true),
            ("GZIP", false),
            ("gzip;q=0.5", false),
            ("gzip;q=0, br", false),
            ("identity", false),
            ("", false),
        ];
        for (text, expected) in table {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(is_wanted(&headers), expected, "{text}");
        }
        assert!(!is_wanted(&HeaderMap::new()));
    }
}
