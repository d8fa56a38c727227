//! JSON indenter: indents compact JSON while it is sent, without building a tree.

use bytes::Bytes;

use crate::response::HttpResponse;
use crate::response::body::ResponseBody;
use crate::response::chunked::Chunked;
use crate::response::compression::WORTHWHILE;
use crate::response::streamed::chunk_source::ChunkSource;

/// Indentation of one level.
const INDENT: &[u8] = b"  ";

/// Indents the JSON of a response. A large one is indented while it is sent.
pub(crate) fn indent(answer: HttpResponse) -> HttpResponse {
    let (head, body) = answer.into_parts();
    let is_small = body.length().is_some_and(|length| length <= WORTHWHILE);
    let body = match body.into_chunks() {
        Ok(chunks) if is_small => ResponseBody::full(Indented::new(chunks).whole()),
        Ok(chunks) => ResponseBody::Chunked(Box::new(Chunked::new(None, Indented::new(chunks)))),
        Err(stream) => stream,
    };
    HttpResponse::from_parts(head, body)
}

/// Position of the next byte in the JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Outside,
    /// After the start of an object or a list, which may be empty.
    Opened,
    Text,
    /// In a text, after a backslash.
    Escape,
}

/// Indented chunks of JSON, as Go's `MarshalIndent` with two spaces writes it, without a newline at the end.
struct Indented<S> {
    plain: S,
    position: Position,
    depth: usize,
}

impl<S> Indented<S> {
    fn new(plain: S) -> Self {
        Self { plain, position: Position::Outside, depth: 0 }
    }

    fn write(&mut self, mut plain: &[u8], to: &mut Vec<u8>) {
        loop {
            if self.position == Position::Text {
                let end = memchr::memchr2(b'"', b'\\', plain).unwrap_or(plain.len());
                let (text, rest) = plain.split_at(end);
                to.extend_from_slice(text);
                plain = rest;
            }
            let Some((byte, rest)) = plain.split_first() else { return };
            self.byte(*byte, to);
            plain = rest;
        }
    }

    fn byte(&mut self, byte: u8, to: &mut Vec<u8>) {
        let position = std::mem::replace(&mut self.position, Position::Outside);
        match (position, byte) {
            (Position::Text, b'\\') => self.position = Position::Escape,
            (Position::Text, b'"') => {}
            (Position::Text | Position::Escape, _) => self.position = Position::Text,
            (_, b' ' | b'\n' | b'\r' | b'\t') => {
                self.position = position;
                return;
            }
            (Position::Opened, b'}' | b']') => {}
            (Position::Opened, _) => {
                self.depth += 1;
                self.line(to);
                self.outside(byte, to);
            }
            (Position::Outside, _) => self.outside(byte, to),
        }
        to.push(byte);
        match (position, byte) {
            (Position::Outside, b',') => self.line(to),
            (Position::Outside, b':') => to.push(b' '),
            _ => {}
        }
    }

    /// Writes the space before a byte outside of texts, and updates the position.
    fn outside(&mut self, byte: u8, to: &mut Vec<u8>) {
        match byte {
            b'"' => self.position = Position::Text,
            b'{' | b'[' => self.position = Position::Opened,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.line(to);
            }
            _ => {}
        }
    }

    /// Begins a line.
    fn line(&self, to: &mut Vec<u8>) {
        to.push(b'\n');
        (0..self.depth).for_each(|_| to.extend_from_slice(INDENT));
    }
}

impl<S: ChunkSource> ChunkSource for Indented<S> {
    fn next_chunk(&mut self) -> Option<Bytes> {
        let plain = self.plain.next_chunk()?;
        // A Machine's JSON becomes twice as long.
        let mut indented = Vec::with_capacity(2 * plain.len());
        self.write(&plain, &mut indented);
        Some(Bytes::from(indented))
    }

    fn is_done(&self) -> bool {
        self.plain.is_done()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::response::streamed::chunk_source::Chunks;

    fn indented(compact: &[u8], cut: usize) -> Vec<u8> {
        let chunks: Vec<Bytes> = compact.chunks(cut).map(Bytes::copy_from_slice).collect();
        Indented::new(Chunks(chunks.into_iter())).whole()
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            r#"[{}\[\]",:\\ a]{0,8}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn chunked_output_equals_the_output_of_serde_json(value in any_json(), cut in 1_usize..40) {
            let mut compact = serde_json::to_vec(&value).unwrap();
            compact.push(b'\n');
            prop_assert_eq!(indented(&compact, cut), serde_json::to_vec_pretty(&value).unwrap());
        }
    }

    #[test]
    fn empty_objects_and_arrays_stay_on_one_line() {
        let value = json!({"a": {}, "b": [], "c": [{}, [1, "x\\\"y"]]});
        assert_eq!(indented(value.to_string().as_bytes(), 1), serde_json::to_vec_pretty(&value).unwrap());
    }
}
