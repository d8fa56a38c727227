//! Chain of an audit log: each line has a link, an HMAC over the line and the link of the line before it.
//!
//! A link is `<number>.<code>` in the annotation `capstan.dev/chain`. Fields are sorted by name, so annotations are the
//! first field of a line. The link is the first annotation. So a line without its link is found byte for byte, and no
//! JSON is parsed.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;

/// Beginning of a line that has annotations.
const ANNOTATIONS: &str = r#"{"annotations":{"#;

/// The same without the brace of the line.
const FIELD: &str = r#""annotations":{"#;

/// Beginning of a line that has a link.
const CHAINED: &str = r#"{"annotations":{"capstan.dev/chain":""#;

/// Bytes of a code.
const LENGTH: usize = 32;

/// Link of a line: its position in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainLink {
    /// Number of the line: that of the line before it, plus one. A new chain begins with the microseconds since 1970, so
    /// its numbers are larger than those of chains before it.
    pub number: u64,
    /// HMAC-SHA-256 over the code of the line before (zeros at the beginning of a chain), the number in 8 bytes, the
    /// largest first, and the line without its link.
    pub code: [u8; LENGTH],
}

impl ChainLink {
    /// Parses `<number>.<code>`. The code is in base64url. Only the form in which links are written is accepted.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, code) = text.split_once('.')?;
        let code: [u8; LENGTH] = URL_SAFE_NO_PAD.decode(code).ok()?.try_into().ok()?;
        let link = Self { number: number.parse().ok()?, code };
        (link.to_string() == text).then_some(link)
    }
}

impl fmt::Display for ChainLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number, URL_SAFE_NO_PAD.encode(self.code))
    }
}

/// Line of a chained log, taken apart.
#[derive(Debug, Clone, Copy)]
pub struct ChainedLine<'a> {
    link: ChainLink,
    /// Beginning of the line without its link.
    head: &'static str,
    /// Rest of the line, without the line feed.
    rest: &'a str,
}

impl<'a> ChainedLine<'a> {
    /// Takes a line apart, without its line feed. `None`: the line has no link in the form in which a server writes it.
    pub fn parse(line: &'a str) -> Option<Self> {
        let (link, rest) = line.strip_prefix(CHAINED)?.split_once('"')?;
        let link = ChainLink::parse(link)?;
        let Some(without_others) = rest.strip_prefix("},") else {
            return Some(Self { link, head: ANNOTATIONS, rest: rest.strip_prefix(',')? });
        };
        // Such a line would have the same code as another text.
        let is_ambiguous = without_others.starts_with(FIELD);
        (!is_ambiguous).then_some(Self { link, head: "{", rest: without_others })
    }

    /// Returns the link.
    pub const fn link(&self) -> ChainLink {
        self.link
    }
}

/// Key of a chain.
#[derive(Debug, Clone)]
pub struct ChainKey(hmac::Key);

impl ChainKey {
    /// Creates the key of these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Returns true if a line has the right link after the line `before`, or as the first one of a chain.
    pub fn follows(&self, before: Option<ChainLink>, line: &ChainedLine<'_>) -> bool {
        self.code(before, line.link.number, [line.head, line.rest]) == line.link.code
    }

    /// Writes a line with its link to `chained`, and returns the link. The line is the first one of a chain, or comes after
    /// the line with the link `before`. It ends with a line feed.
    pub fn link(
        &self,
        before: Option<ChainLink>,
        number: u64,
        line: &str,
        chained: &mut String,
    ) -> ChainLink {
        let plain = line.strip_suffix('\n').unwrap_or(line);
        let link = ChainLink { number, code: self.code(before, number, [plain, ""]) };
        let (separator, rest) = match line.strip_prefix(ANNOTATIONS) {
            Some(rest) => (r#"","#, rest),
            None => (r#""},"#, line.strip_prefix('{').unwrap_or(line)),
        };
        chained.clear();
        chained.push_str(CHAINED);
        let _ = write!(chained, "{link}");
        chained.push_str(separator);
        chained.push_str(rest);
        link
    }

    fn code(&self, before: Option<ChainLink>, number: u64, line: [&str; 2]) -> [u8; LENGTH] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&before.map_or([0; LENGTH], |link| link.code));
        context.update(&number.to_be_bytes());
        for part in line {
            context.update(part.as_bytes());
        }
        let tag = context.sign();
        // The tag of SHA-256 has 32 bytes.
        <[u8; LENGTH]>::try_from(tag.as_ref()).unwrap_or_default()
    }
}

/// Receiver of the checkpoints of a log.
pub trait CheckpointSink: Send + Sync + fmt::Debug + 'static {
    /// Receives the link of the last line. That line and all before it are on the disk. The call must not wait.
    fn offer(&self, link: ChainLink);
}

/// Settings of a chained log.
#[derive(Debug)]
pub struct AuditChain {
    pub(super) chain: Chain,
    pub(super) sink: Arc<dyn CheckpointSink>,
}

impl AuditChain {
    /// Continues the chain after the link `last`, or begins a chain. The sink receives a checkpoint every 1,000 lines or
    /// every minute, whichever is first, before a file is rotated, and at each flush.
    pub fn new(key: ChainKey, last: Option<ChainLink>, sink: Arc<dyn CheckpointSink>) -> Self {
        Self { chain: Chain::new(key, last), sink }
    }
}

/// Writing end of a chain.
#[derive(Debug)]
pub(super) struct Chain {
    key: ChainKey,
    last: Option<ChainLink>,
    /// Number of the first line of a new chain.
    first: u64,
}

impl Chain {
    fn new(key: ChainKey, last: Option<ChainLink>) -> Self {
        let first = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or(1);
        Self { key, last, first }
    }

    /// Returns the link of the last line, if there is one.
    pub(super) fn last(&self) -> Option<ChainLink> {
        self.last
    }

    /// Writes a line with its link to `chained`. Returns the link, which [`Chain::advance`] takes once the line is
    /// written.
    pub(super) fn link(&self, line: &str, chained: &mut String) -> ChainLink {
        let number = self.last.map_or(self.first, |last| last.number.saturating_add(1));
        self.key.link(self.last, number, line, chained)
    }

    /// Notes that the line with this link is the last one.
    pub(super) fn advance(&mut self, link: ChainLink) {
        self.last = Some(link);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const LINES: [&str; 3] = [
        "{\"apiVersion\":\"audit.k8s.io/v1\",\"auditID\":\"1\"}\n",
        "{\"annotations\":{\"authorization.k8s.io/decision\":\"allow\"},\"auditID\":\"2\"}\n",
        "{\"auditID\":\"3\",\"requestObject\":{\"annotations\":{\"capstan.dev/chain\":\"1.x\"}}}\n",
    ];

    fn key() -> ChainKey {
        ChainKey::new(&[7; 32])
    }

    fn chained(chain: &mut Chain) -> Vec<String> {
        let mut text = String::new();
        let add = |line: &str| {
            let link = chain.link(line, &mut text);
            chain.advance(link);
            text.trim_end().to_owned()
        };
        LINES.map(add).to_vec()
    }

    #[test]
    fn am_12_each_line_follows_the_one_before_it_and_is_json_with_one_more_annotation() {
        let lines = chained(&mut Chain::new(key(), None));
        let mut before = None;
        for (line, plain) in lines.iter().zip(LINES) {
            let parsed = ChainedLine::parse(line).unwrap();
            assert!(key().follows(before, &parsed), "{line}");
            assert!(!ChainKey::new(&[8; 32]).follows(before, &parsed));
            assert_eq!(format!("{}{}\n", parsed.head, parsed.rest), plain);
            let (mut event, mut expected): (Value, Value) =
                (serde_json::from_str(line).unwrap(), serde_json::from_str(plain).unwrap());
            let annotations = event["annotations"].as_object_mut().unwrap();
            assert_eq!(annotations.remove("capstan.dev/chain").unwrap(), parsed.link.to_string());
            if annotations.is_empty() {
                expected["annotations"] = serde_json::json!({});
            }
            assert_eq!(event, expected);
            before = Some(parsed.link());
        }
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn am_12_no_other_text_has_the_code_of_a_line() {
        let mut chain = Chain::new(key(), None);
        let lines = chained(&mut chain);
        let before = ChainedLine::parse(&lines[0]).unwrap().link();
        let holds =
            |text: &str| ChainedLine::parse(text).is_some_and(|line| key().follows(Some(before), &line));
        assert!(holds(&lines[1]));
        for at in 0..lines[1].len() {
            let mut changed = lines[1].clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert!(!holds(&changed), "{changed}");
        }
        let moved = lines[1].replacen("\",", "\"},\"annotations\":{", 1);
        assert!(moved.contains("\"},\"annotations\":{\"authorization"), "{moved}");
        assert!(!holds(&moved), "two fields of one name are not the text of the server");
        let number = format!(":\"{}.", before.number + 1);
        for form in [":\"+", ":\"0"] {
            let other = lines[1].replacen(&number, &format!("{form}{}", &number[2..]), 1);
            assert!(other != lines[1] && !holds(&other), "{other}");
        }
        assert!(!holds(&lines[2]) && !holds(&lines[0]));
    }

    #[test]
    fn am_12_a_new_chain_has_larger_numbers_than_an_earlier_one() {
        let mut first = Chain::new(key(), None);
        let lines = chained(&mut first);
        let later = Chain { first: first.first + 1_000, ..Chain::new(key(), None) };
        let last = ChainedLine::parse(&lines[2]).unwrap().link();
        assert_eq!((first.last(), last.number), (Some(last), first.first + 2));
        assert!(later.link(LINES[0], &mut String::new()).number > last.number);
        let continued = Chain::new(key(), Some(last));
        assert_eq!(continued.link(LINES[0], &mut String::new()).number, last.number + 1);
    }
}
