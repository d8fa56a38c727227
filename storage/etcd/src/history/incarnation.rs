//! Incarnation of the store: the time from one replacement of its data to the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use etcd_client::proto::PbResponseHeader;
use etcd_client::{Compare, CompareOp, KeyValue, TxnOp};
use storage_contract::{Form, Revision};
use uuid::Uuid;

use super::Seen;
use super::marked_record::Marked;
use super::record::Record;
use super::verdict::other_cluster;
use crate::revision::Numbering;

/// Incarnation of the store.
#[derive(Debug)]
pub(crate) struct Incarnation {
    /// Number of the incarnation in this process.
    pub(super) number: u64,
    pub(crate) numbering: Numbering,
    /// Stored form, which may change within the incarnation: then another value with the same number replaces this one.
    pub(crate) form: Form,
    /// Revision of etcd at which this server found the form. All later values have it.
    form_since: i64,
    id: Uuid,
    /// Key of the record.
    key: Vec<u8>,
    /// Text of the record.
    text: String,
    /// True if the record has a mark.
    has_mark: bool,
    /// Cluster id of the etcd.
    cluster: u64,
    /// Largest revision of etcd in any answer.
    seen: Arc<AtomicI64>,
}

/// Call that has begun.
#[derive(Debug)]
pub(crate) struct Began {
    pub(crate) incarnation: Arc<Incarnation>,
    /// Largest revision of etcd in any answer before the call.
    seen: i64,
}

impl Incarnation {
    /// Creates it from its record, and the cluster id and the revision of etcd.
    pub(super) fn new(number: u64, key: &[u8], record: &Record, (cluster, seen): (u64, i64)) -> Self {
        let Record { incarnation: id, numbering, form } = *record;
        let (key, text) = (key.to_vec(), record.text());
        Self {
            number,
            numbering,
            form,
            form_since: seen,
            id,
            key,
            text,
            has_mark: false,
            cluster,
            seen: Arc::new(AtomicI64::new(seen)),
        }
    }

    /// Returns the same incarnation with the stored form of a newer record, found at this revision of etcd; `None` if it is
    /// the record of another one, or if this one has a mark: what a restore writes must end with its mark.
    pub(super) fn with_form_of(&self, record: &Record, form_since: i64) -> Option<Self> {
        let is_same = record.incarnation == self.id && record.numbering == self.numbering && !self.has_mark;
        is_same.then(|| Self {
            form: record.form,
            form_since,
            text: record.text(),
            key: self.key.clone(),
            seen: Arc::clone(&self.seen),
            ..*self
        })
    }

    /// Creates it for a record with a mark, on which the writes of a restore depend.
    pub(super) fn marked(key: &[u8], marked: &Marked, position: (u64, i64)) -> Self {
        let has_mark = marked.mark.is_some();
        Self { text: marked.text(), has_mark, ..Self::new(0, key, &marked.record, position) }
    }

    /// Returns true if an entry has a newer form than any server on the record writes.
    pub(super) fn is_stray(&self, found: &KeyValue) -> bool {
        found.mod_revision() > self.form_since && Form::needed(found.value()) > self.form.writes()
    }

    /// Returns the text of the record.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn begin(self: &Arc<Self>) -> Began {
        Began { incarnation: Arc::clone(self), seen: self.seen.load(Ordering::Acquire) }
    }

    /// Returns the newest state that this server has seen.
    pub(super) fn seen(&self) -> Seen {
        let revision = self.numbering.revision(self.seen.load(Ordering::Acquire));
        Seen { incarnation: self.id, cluster: self.cluster, revision }
    }

    /// Notes the revision of an answer.
    pub(super) fn note(&self, header: Option<&PbResponseHeader>) {
        if let Some(header) = header {
            self.seen.fetch_max(header.revision, Ordering::AcqRel);
        }
    }

    /// Returns the difference if an answer is of another etcd.
    pub(super) fn foreign(&self, header: &PbResponseHeader) -> Option<String> {
        other_cluster(self.cluster, header.cluster_id)
    }

    /// Returns the store's revision of an answer.
    pub(super) fn revision_of(&self, header: Option<&PbResponseHeader>) -> Revision {
        self.numbering.revision(header.map_or(0, |header| header.revision))
    }

    /// Returns true if etcd has the record of this incarnation.
    pub(crate) fn is_recorded(&self, text: Option<&[u8]>) -> bool {
        text == Some(self.text.as_bytes())
    }

    /// Creates the guard of a transaction in this incarnation. It compares the text, because another etcd may have
    /// another record at the same revision.
    pub(crate) fn guard(&self) -> Compare {
        Compare::value(self.key.as_slice(), CompareOp::Equal, self.text.as_bytes())
    }

    /// Creates the read that shows whether the guard failed.
    pub(crate) fn look(&self) -> TxnOp {
        TxnOp::get(self.key.as_slice(), None)
    }
}

/// Effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It wrote nothing, so its revision may be the one before it.
    Read,
    /// It wrote, so its revision is new.
    Write,
}

impl Began {
    /// Returns the difference if the answer cannot belong to the incarnation.
    pub(super) fn contradiction(&self, header: &PbResponseHeader, access: Access) -> Option<String> {
        let least = self.seen.saturating_add(i64::from(access == Access::Write));
        let went_back = || {
            let [now, before] =
                [header.revision, self.seen].map(|number| self.incarnation.numbering.revision(number));
            let event = if access == Access::Write { "wrote" } else { "is at" };
            (header.revision < least)
                .then(|| format!("etcd {event} revision {now}, and this server has seen revision {before}"))
        };
        self.incarnation.foreign(header).or_else(went_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_an_earlier_revision_or_of_another_etcd_contradicts() {
        let incarnation = Arc::new(Incarnation::new(0, b"/r", &Record::new(0, Form::of(3)), (7, 50)));
        let header = |cluster_id, revision| PbResponseHeader { cluster_id, revision, ..Default::default() };
        let began = incarnation.begin();
        for (cluster, revision, access, contradicts) in [
            (7, 50, Access::Read, false),
            (7, 51, Access::Write, false),
            // A gateway may leave the id out.
            (0, 50, Access::Read, false),
            (7, 49, Access::Read, true),
            // Revision 50 was written before.
            (7, 50, Access::Write, true),
            (8, 51, Access::Read, true),
        ] {
            let found = began.contradiction(&header(cluster, revision), access);
            assert_eq!(found.is_some(), contradicts, "{cluster} {revision} {access:?}: {found:?}");
        }
        incarnation.note(Some(&header(7, 60)));
        assert!(began.contradiction(&header(7, 55), Access::Read).is_none(), "calls at the same time");
        assert!(incarnation.begin().contradiction(&header(7, 55), Access::Read).is_some());
    }
}
