//! Compression of large responses with gzip: the objects of a list have much text in common.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue};

use crate::response::HttpResponse;
use crate::response::body::ResponseBody;
use crate::response::chunked::Chunked;
use crate::response::streamed::chunk_source::ChunkSource;

/// Size from which a response is compressed: upstream's threshold. Unit: bytes.
pub(crate) const WORTHWHILE: usize = 128 * 1024;

/// Input of one chunk: about a millisecond of work, for Machines. Unit: bytes.
const CHUNK_INPUT: usize = 1024 * 1024;

/// Returns true if the client accepts gzip. Like upstream, it accepts only the word `gzip`, and reads only the first of
/// several headers.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let value = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(',').any(|encoding| encoding.trim() == "gzip")
}

/// Compresses a large body while it is sent. Streams are not compressed, because their clients wait for each event.
pub(crate) fn compress(answer: HttpResponse) -> HttpResponse {
    if !is_large(answer.body()) || answer.headers().contains_key(CONTENT_ENCODING) {
        return answer;
    }
    let (mut head, body) = answer.into_parts();
    let chunks = match body.into_chunks() {
        Ok(chunks) => chunks,
        Err(stream) => return HttpResponse::from_parts(head, stream),
    };
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    let compressed = Chunked::new(None, Gzip::new(chunks));
    HttpResponse::from_parts(head, ResponseBody::Chunked(Box::new(compressed)))
}

fn is_large(body: &ResponseBody) -> bool {
    // A body without a length is large.
    matches!(body, ResponseBody::Chunked(_)) || body.length().is_some_and(|length| length > WORTHWHILE)
}

/// Chunks, compressed. At the fastest level, as upstream: most of the gain at a fraction of the cost.
struct Gzip<S> {
    plain: S,
    /// Rest of a chunk that is longer than a time slice's.
    pending: Bytes,
    /// Encoder, until all is compressed.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<S: ChunkSource> Gzip<S> {
    fn new(plain: S) -> Self {
        Self { plain, pending: Bytes::new(), encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl<S: ChunkSource> ChunkSource for Gzip<S> {
    /// Compresses the input of one chunk, or of more, if there is no output yet. The body is cut off if compression
    /// fails, which it does not in memory.
    fn next_chunk(&mut self) -> Option<Bytes> {
        let mut encoder = self.encoder.take()?;
        let mut read = 0;
        while read < CHUNK_INPUT || encoder.get_ref().is_empty() {
            if self.pending.is_empty() {
                let Some(chunk) = self.plain.next_chunk() else {
                    return encoder.finish().ok().map(Bytes::from);
                };
                self.pending = chunk;
            }
            let piece = self.pending.split_to(self.pending.len().min(CHUNK_INPUT));
            encoder.write_all(&piece).ok()?;
            read += piece.len();
        }
        let made = std::mem::take(encoder.get_mut());
        self.encoder = Some(encoder);
        Some(Bytes::from(made))
    }

    fn is_done(&self) -> bool {
        self.encoder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::response::streamed::chunk_source::Chunks;

    #[test]
    fn gzip_is_used_only_if_the_client_accepts_it() {
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

    /// Two and a half chunks of input, without repetition.
    #[test]
    fn output_compressed_in_chunks_decompresses_to_the_input() {
        let plain: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(CHUNK_INPUT * 5 / 2).collect();
        for chunk in [1_000, 64 * 1024, CHUNK_INPUT, plain.len()] {
            let chunks = plain.chunks(chunk).map(Bytes::copy_from_slice);
            let mut gzip = Gzip::new(Chunks(chunks.collect::<Vec<_>>().into_iter()));
            let parts: Vec<Bytes> = std::iter::from_fn(|| gzip.next_chunk()).collect();
            assert!(parts.iter().all(|part| !part.is_empty()), "{chunk}");
            assert!(gzip.is_done());
            if chunk <= CHUNK_INPUT {
                assert_eq!(parts.len(), 3, "{chunk}");
            }
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(parts.concat().as_slice()).read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == plain, "{chunk}");
        }
    }
}
