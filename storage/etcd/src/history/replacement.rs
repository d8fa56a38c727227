//! Replacement of the data by a restore or a migration: a mark in the record keeps all servers away, and a new
//! incarnation begins at its end.

use std::sync::Arc;

use etcd_client::{GetOptions, KvClient};
use storage_contract::{Form, Revision, StoreError, StoreResult};

use super::marked_record::{Mark, Marked};
use super::record::Record;
use super::settle::{read, replace};
use super::verdict::offset_above;
use super::{History, Incarnation, record_key};
use crate::calls::Calls;
use crate::revision::Numbering;

/// Replacement of the data of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// Identity of the new data, for people. An interrupted replacement by the same data is continued.
    pub by: String,
    /// Prefix below which the present data are kept, ending with a slash. They may be those of a replacement that has
    /// not ended. `None`: there must be no data. A continued replacement gets the prefix of its first attempt.
    pub aside: Option<String>,
    /// Newest revision of the new data. All revisions after the replacement are larger, also than those of the present
    /// data.
    pub after: Revision,
    /// Newest stored form of the new data.
    pub form: u64,
    /// Set by the store: true if the present data are put aside, and the new ones can be written.
    pub moved: bool,
}

/// Returns the stored form after a replacement by data of this form.
///
/// No form is committed that was not there before, because replicas of the last release may be running. Values of an
/// older form may be among the new ones.
fn form_of(present: Option<&Marked>, new: u64) -> Form {
    let committed = present.map_or(Form::OLDEST, |marked| marked.record.form.committed);
    Form { committed: committed.max(new), least: Form::OLDEST, to: None }
}

impl History {
    /// Marks the record, or finds the mark of an earlier attempt.
    pub(crate) async fn replace(
        calls: Calls,
        prefix: &str,
        replacement: &mut Replacement,
    ) -> StoreResult<Arc<Self>> {
        let key = record_key(prefix);
        let by = plain(&replacement.by);
        let (text, (cluster, revision)) = read(&calls, &key).await?;
        let present = text.as_deref().map(Marked::parse).transpose()?;
        let (marked, position) = match present {
            Some(marked) if marked.is_replaced_by(&by) => (marked, (cluster, revision)),
            other => {
                if replacement.aside.is_none() {
                    refuse_another(other.as_ref())?;
                    refuse_data(&calls, prefix, text.is_some()).await?;
                }
                let form = form_of(other.as_ref(), replacement.form);
                let numbering = other.map_or_else(Numbering::default, |marked| marked.record.numbering);
                let least = replacement.after.max(numbering.revision(revision));
                let aside = replacement.aside.clone().unwrap_or_default();
                let moved = aside.is_empty();
                let mark = Some(Mark::Replacing { by, aside, moved });
                let marked = Marked { record: Record::new(offset_above(least), form), mark };
                let written = replace(&calls, &key, text, &marked.text()).await?;
                (marked, written.ok_or_else(changed)?)
            }
        };
        if let Some(Mark::Replacing { aside, moved, .. }) = &marked.mark {
            replacement.aside = Some(aside.clone()).filter(|aside| !aside.is_empty());
            replacement.moved = *moved;
        }
        let incarnation = Incarnation::marked(&key, &marked, position);
        Ok(Self::of(calls, key, incarnation, None))
    }

    /// Ends the present part of a replacement.
    pub(crate) async fn advance(&self) -> StoreResult<()> {
        self.write_mark(|mark| match mark {
            Some(Mark::Replacing { by, aside, moved: false }) => {
                Some(Mark::Replacing { by, aside, moved: true })
            }
            _ => None,
        })
        .await
    }

    /// Marks the data as migrated to another store, or finds the mark of an earlier attempt.
    pub(crate) async fn migrate(calls: Calls, prefix: &str, to: &str) -> StoreResult<Arc<Self>> {
        let (key, to) = (record_key(prefix), plain(to));
        let (text, (cluster, revision)) = read(&calls, &key).await?;
        let (record, position) = match text.as_deref().map(Marked::parse).transpose()? {
            Some(Marked { record, mark: Some(Mark::Migrated(other)) }) if other == to => {
                (record, (cluster, revision))
            }
            other => {
                let record = other
                    .map(Marked::served)
                    .transpose()?
                    .unwrap_or_else(|| Record::new(0, Form::of(Form::OLDEST)));
                let marked = Marked { record: record.clone(), mark: Some(Mark::Migrated(to.clone())) };
                let written = replace(&calls, &key, text, &marked.text()).await?;
                (record, written.ok_or_else(changed)?)
            }
        };
        let marked = Marked { record, mark: Some(Mark::Migrated(to)) };
        let incarnation = Incarnation::marked(&key, &marked, position);
        Ok(Self::of(calls, key, incarnation, None))
    }

    /// Removes the mark of a migration that failed.
    pub(crate) async fn cancel_migration(&self) -> StoreResult<()> {
        self.write_mark(|_| None).await
    }

    async fn write_mark(&self, next: impl FnOnce(Option<Mark>) -> Option<Mark>) -> StoreResult<()> {
        let text = self.state.borrow().incarnation.text().to_owned();
        let Marked { record, mark } = Marked::parse(text.as_bytes())?;
        let new = Marked { record, mark: next(mark) }.text();
        if replace(&self.calls, &self.key, Some(text.into_bytes()), &new).await?.is_some() {
            return Ok(());
        }
        // The answer to a first attempt may have been lost.
        let (found, _) = read(&self.calls, &self.key).await?;
        if found.as_deref() == Some(new.as_bytes()) { Ok(()) } else { Err(changed()) }
    }
}

impl Marked {
    /// Returns true if these new data replace the present ones, and that has not ended.
    fn is_replaced_by(&self, new: &str) -> bool {
        matches!(&self.mark, Some(Mark::Replacing { by, .. }) if by == new)
    }
}

/// Refuses to write into a store while others replace its data.
fn refuse_another(present: Option<&Marked>) -> StoreResult<()> {
    let Some(Marked { mark: Some(Mark::Replacing { by, .. }), .. }) = present else { return Ok(()) };
    let reason = format!(
        "its data are being replaced by {by}, which has not ended. Run that command again until it ends, or give \
         --replace to put aside what it has written"
    );
    Err(StoreError::Refused { operation: "replace the data of etcd", reason })
}

/// Refuses to write into a store that has other keys than the record.
async fn refuse_data(calls: &Calls, prefix: &str, has_record: bool) -> StoreResult<()> {
    let count = |mut kv: KvClient| async move {
        kv.get(prefix, Some(GetOptions::new().with_prefix().with_count_only())).await
    };
    let keys = calls.reading("count the keys", count).await?.count() - i64::from(has_record);
    if keys <= 0 {
        return Ok(());
    }
    let reason =
        format!("it has {keys} keys below {prefix}; give --replace to put them aside, or use another etcd");
    Err(StoreError::Refused { operation: "replace the data of etcd", reason })
}

fn changed() -> StoreError {
    let reason =
        "another program has changed the record of the store at the same time; run the command again";
    StoreError::Refused { operation: "replace the data of etcd", reason: reason.to_owned() }
}

/// Returns a text without the characters that have a meaning in JSON texts.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c == '"' || c == '\\' || c.is_control() { '_' } else { c }).collect()
}
