//! Record of the incarnation: one key in etcd on which every write depends.
//!
//! It is JSON for people and other programs. This crate reads it only in the exact form in which it writes it: a record
//! with more fields is of a newer release, whose stored form this one may not understand.

use storage_contract::{Form, StoreError, StoreResult};
use uuid::Uuid;

use crate::revision::Numbering;

/// Name of the record below the prefix.
pub(super) const NAME: &str = "meta/store";

/// Identity and numbering of one incarnation of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) incarnation: Uuid,
    pub(super) numbering: Numbering,
    /// Stored form of the values.
    pub(super) form: Form,
}

impl Record {
    /// Creates the record of a new incarnation.
    pub(super) fn new(offset: u64, form: Form) -> Self {
        Self { incarnation: Uuid::new_v4(), numbering: Numbering { offset }, form }
    }

    /// Returns the stored text.
    pub(super) fn text(&self) -> String {
        let Self { incarnation, numbering: Numbering { offset }, form: Form { committed, least, to } } = self;
        let to = to.map(|to| format!(r#","to":{to}"#)).unwrap_or_default();
        format!(
            r#"{{"form":{{"committed":{committed},"least":{least}{to}}},"incarnation":"{incarnation}","offset":{offset}}}"#
        )
    }

    /// Parses the stored text.
    pub(super) fn parse(text: &[u8]) -> StoreResult<Self> {
        let parsed = std::str::from_utf8(text).ok().and_then(Self::parsed);
        // No other text has the same meaning: the guard of each write compares the text.
        let parsed = parsed.filter(|record| record.text().as_bytes() == text && record.form.is_known());
        parsed.ok_or_else(|| {
            let committed = std::str::from_utf8(text).ok().and_then(committed);
            if let Some(found) = committed.filter(|it| !Form::READ.contains(it)) {
                return StoreError::Form { found };
            }
            let detail = format!(
                "the record {NAME} is {:?}, which this release cannot read: use the release that wrote it, or a newer one",
                String::from_utf8_lossy(text)
            );
            StoreError::Corrupt { detail }
        })
    }

    fn parsed(text: &str) -> Option<Self> {
        let (form, rest) = text.split_once(r#","incarnation":""#)?;
        let form = form.strip_prefix(r#"{"form":{"committed":"#)?.strip_suffix('}')?;
        let (committed, form) = form.split_once(r#","least":"#)?;
        let (least, to) = match form.split_once(r#","to":"#) {
            None => (form, None),
            Some((least, to)) => (least, Some(to.parse().ok()?)),
        };
        let form = Form { committed: committed.parse().ok()?, least: least.parse().ok()?, to };
        let (incarnation, rest) = rest.split_once(r#"","offset":"#)?;
        let offset = rest.strip_suffix('}')?.parse().ok()?;
        Some(Self { incarnation: incarnation.parse().ok()?, numbering: Numbering { offset }, form })
    }
}

/// Returns the committed form of a record of any release.
fn committed(text: &str) -> Option<u64> {
    let (_, rest) = text.split_once(r#""committed":"#)?;
    let end = rest.find(|digit: char| !digit.is_ascii_digit())?;
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_any_other_text_is_refused() {
        let forms = [Form::of(4), Form { to: Some(3), ..Form::of(4) }, Form { least: 3, ..Form::of(4) }];
        for form in forms {
            let record = Record::new(7, form);
            assert_eq!(Record::parse(record.text().as_bytes()).unwrap(), record);
        }
        let record = Record::new(1_234_500, Form::of(3));
        let text = record.text();
        assert!(text.starts_with(r#"{"form":{"committed":3,"least":3},"incarnation":""#), "{text}");
        assert_eq!(Record::parse(text.as_bytes()).unwrap(), record);
        for newer in [r#""committed":5"#, r#""committed":2"#] {
            let text = text.replace(r#""committed":3"#, newer);
            let error = Record::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error, StoreError::Form { found: 5 | 2 }), "{error}");
        }
        let more = text.replace('}', r#","keys":[]}"#);
        for other in ["", "{}", &more, &format!("{text} "), &text.to_uppercase()] {
            let error = Record::parse(other.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("use the release that wrote it"), "{other}: {error}");
        }
        assert!(Record::parse(&[0xff]).is_err());
    }
}
