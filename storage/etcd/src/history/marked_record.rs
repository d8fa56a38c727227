//! Mark of a record: the data are being replaced by a restore, or were migrated to another store.
//!
//! A record with a mark is no record of an incarnation. So each server refuses to serve, also one of an older release.

use storage_contract::{StoreError, StoreResult};

use super::record::Record;

/// Text before the mark.
const REPLACING: &str = r#","replacing":{"by":""#;
const ASIDE: &str = r#"","aside":""#;
const MOVED: &str = r#"","moved":"#;
const MIGRATED: &str = r#","migrated":""#;

/// Mark of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mark {
    /// A restore or a migration replaces the data.
    Replacing {
        /// Identity of the new data.
        by: String,
        /// Prefix below which the present data are kept. Empty if there are none.
        aside: String,
        /// True if the present data are below that prefix, and the new ones are being written.
        moved: bool,
    },
    /// The data were migrated to this store.
    Migrated(String),
}

/// Record with a mark or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marked {
    pub(super) record: Record,
    pub(super) mark: Option<Mark>,
}

impl Marked {
    /// Returns the stored text.
    pub(super) fn text(&self) -> String {
        let mut text = self.record.text();
        let Some(mark) = &self.mark else { return text };
        text.pop();
        match mark {
            Mark::Replacing { by, aside, moved } => {
                text.push_str(&format!("{REPLACING}{by}{ASIDE}{aside}{MOVED}{moved}}}}}"));
            }
            Mark::Migrated(to) => text.push_str(&format!(r#"{MIGRATED}{to}"}}"#)),
        }
        text
    }

    /// Parses the stored text.
    pub(super) fn parse(stored: &[u8]) -> StoreResult<Self> {
        let marked = std::str::from_utf8(stored).ok().and_then(Self::parse_mark);
        match marked.filter(|marked| marked.text().as_bytes() == stored) {
            Some(marked) => Ok(marked),
            None => Record::parse(stored).map(|record| Self { record, mark: None }),
        }
    }

    fn parse_mark(text: &str) -> Option<Self> {
        let record = |text: &str| Record::parse(format!("{text}}}").as_bytes()).ok();
        if let Some((text, to)) = text.split_once(MIGRATED) {
            let mark = Mark::Migrated(to.strip_suffix(r#""}"#)?.to_owned());
            return Some(Self { record: record(text)?, mark: Some(mark) });
        }
        let (text, rest) = text.split_once(REPLACING)?;
        let (by, rest) = rest.split_once(ASIDE)?;
        let (aside, moved) = rest.split_once(MOVED)?;
        let moved = moved.strip_suffix("}}")?.parse().ok()?;
        let mark = Mark::Replacing { by: by.to_owned(), aside: aside.to_owned(), moved };
        Some(Self { record: record(text)?, mark: Some(mark) })
    }

    /// Returns the record of an incarnation that can be served.
    ///
    /// # Errors
    /// `Refused`, if it has a mark.
    pub(super) fn served(self) -> StoreResult<Record> {
        let reason = match self.mark {
            None => return Ok(self.record),
            Some(Mark::Replacing { by, .. }) => format!(
                "its data are being replaced by {by}, which has not ended. If it was interrupted, run the same \
                 command again"
            ),
            Some(Mark::Migrated(to)) => format!(
                "its objects were migrated to {to}, which servers use since then. Use that store, or give --force to \
                 return to this one, without all later changes"
            ),
        };
        Err(StoreError::Refused { operation: "open the store in etcd", reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_is_never_served() {
        let record = Record::new(1_234_500, storage_contract::Form::of(4));
        for (mark, words) in [
            (
                Mark::Replacing { by: "backup 7".into(), aside: String::new(), moved: true },
                "run the same command",
            ),
            (Mark::Replacing { by: "b".into(), aside: "/aside-1/".into(), moved: false }, "replaced by b"),
            (Mark::Migrated("the embedded store /a/b".into()), "migrated to the embedded store /a/b"),
        ] {
            let marked = Marked { record: record.clone(), mark: Some(mark) };
            let text = marked.text();
            assert_eq!(Marked::parse(text.as_bytes()).unwrap(), marked, "{text}");
            assert!(Record::parse(text.as_bytes()).is_err(), "an older release refuses {text}");
            let error = marked.served().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let plain = Marked::parse(record.text().as_bytes()).unwrap();
        assert_eq!(plain.served().unwrap(), record);
        assert!(Marked::parse(b"{}").is_err());
    }
}
