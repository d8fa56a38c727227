//! Record of the incarnation: one key in etcd on which every write depends.
//!
//! It is JSON for people and other programs. This crate reads it only in the exact form in which it writes it: a record
//! with more fields is of a newer release, whose stored form this one may not understand.

use storage_contract::{StoreError, StoreResult};
use uuid::Uuid;

use crate::revision::Numbering;

/// Name of the record below the prefix.
pub(super) const NAME: &str = "meta/store";

/// Stored form of values that this release reads and writes: positions in a transaction (decision 37) and compression
/// (decision 39).
const FORM: u64 = 3;

/// Identity and numbering of one incarnation of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) incarnation: Uuid,
    pub(super) numbering: Numbering,
}

impl Record {
    /// Creates the record of a new incarnation.
    pub(super) fn new(offset: u64) -> Self {
        Self { incarnation: Uuid::new_v4(), numbering: Numbering { offset } }
    }

    /// Returns the stored text.
    pub(super) fn text(&self) -> String {
        let Self { incarnation, numbering: Numbering { offset } } = self;
        format!(
            r#"{{"form":{{"committed":{FORM},"least":{FORM}}},"incarnation":"{incarnation}","offset":{offset}}}"#
        )
    }

    /// Parses the stored text.
    pub(super) fn parse(text: &[u8]) -> StoreResult<Self> {
        let parsed = std::str::from_utf8(text).ok().and_then(Self::parsed);
        // No other text has the same meaning: the guard of each write compares the text.
        parsed.filter(|record| record.text().as_bytes() == text).ok_or_else(|| {
            let detail = format!(
                "the record {NAME} is {:?}, which this release cannot read: use the release that wrote it, or a newer one",
                String::from_utf8_lossy(text)
            );
            StoreError::Corrupt { detail }
        })
    }

    fn parsed(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once(r#""incarnation":""#)?;
        let (incarnation, rest) = rest.split_once(r#"","offset":"#)?;
        let offset = rest.strip_suffix('}')?.parse().ok()?;
        Some(Self { incarnation: incarnation.parse().ok()?, numbering: Numbering { offset } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_any_other_text_is_refused() {
        let record = Record::new(1_234_500);
        let text = record.text();
        assert!(text.starts_with(r#"{"form":{"committed":3,"least":3},"incarnation":""#), "{text}");
        assert_eq!(Record::parse(text.as_bytes()).unwrap(), record);
        let newer = text.replace(r#""committed":3"#, r#""committed":4"#);
        let more = text.replace('}', r#","keys":[]}"#);
        for other in ["", "{}", &newer, &more, &format!("{text} "), &text.to_uppercase()] {
            let error = Record::parse(other.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("use the release that wrote it"), "{other}: {error}");
        }
        assert!(Record::parse(&[0xff]).is_err());
    }
}
