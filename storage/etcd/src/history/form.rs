//! Stored form of the values, which may change within an incarnation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use etcd_client::KeyValue;
use storage_contract::{Form, StoreError, StoreResult};

use super::marked_record::Marked;
use super::record::Record;
use super::{History, Incarnation, settle};

/// Result of a look at the record, after a call found another one.
pub(crate) enum Changed {
    /// The stored form has changed, and the call can be repeated.
    Form,
    /// The call fails.
    Ended(StoreError),
}

impl History {
    /// Returns the stored form.
    pub(crate) fn form(&self) -> Form {
        self.state.borrow().incarnation.form
    }

    /// Returns the form of the store, if this release cannot read it.
    pub(crate) fn unreadable(&self) -> Option<u64> {
        Some(self.unreadable.load(Ordering::Acquire)).filter(|form| *form > 0)
    }

    /// Returns true if a value that a watch has reported is in a form that no server on the known record writes.
    pub(crate) fn is_stray(&self, found: &KeyValue) -> bool {
        let state = self.state.borrow();
        state.rewound.is_none() && state.incarnation.is_stray(found)
    }

    /// Counts a value that a watch has reported, if it is in such a form.
    pub(crate) fn note_form(&self, found: &KeyValue) {
        if self.is_stray(found) {
            self.strays.fetch_add(1, Ordering::AcqRel);
            tracing::error!(
                key = %String::from_utf8_lossy(found.key()),
                "StrayWriter: a program that does not compare the record of the store has written a value in a form that no server writes"
            );
        }
    }

    /// Returns the number of such values.
    pub(crate) fn strays(&self) -> u64 {
        self.strays.load(Ordering::Acquire)
    }

    /// Replaces the stored form by compare-and-swap.
    ///
    /// # Errors
    /// `Refused`, if the store has another form than the expected one, or a mark; `Unavailable`.
    pub(crate) async fn change_form(self: &Arc<Self>, expected: Form, new: Form) -> StoreResult<()> {
        let began = self.begin()?.incarnation;
        let refuse = || {
            let reason = "its stored form has changed since; look at `capstan storage form`".to_owned();
            StoreError::Refused { operation: "change the stored form", reason }
        };
        let (text, (_, revision)) = settle::read(&self.calls, &self.key).await?;
        let record = text.as_deref().map(Marked::parse).transpose()?.map(Marked::served).transpose()?;
        let record = record.ok_or_else(refuse)?;
        if record.form == new {
            self.adopt(&began, &record, revision);
            return Ok(());
        }
        if record.form != expected || began.with_form_of(&record, revision).is_none() {
            return Err(refuse());
        }
        let next = Record { form: new, ..record };
        let written = settle::replace(&self.calls, &self.key, text, &next.text()).await?;
        let (_, revision) = written.ok_or_else(refuse)?;
        self.adopt(&began, &next, revision);
        Ok(())
    }

    /// Uses the stored form of a newer record from now on. Returns false if it is the record of another incarnation.
    fn adopt(&self, began: &Arc<Incarnation>, record: &Record, revision: i64) -> bool {
        let Some(next) = began.with_form_of(record, revision) else { return false };
        self.state.send_if_modified(|state| {
            let is_current = state.rewound.is_none() && state.incarnation.number == next.number;
            let is_new = is_current && state.incarnation.form != next.form;
            if is_new {
                tracing::info!(form = ?next.form, "the stored form has changed");
                state.incarnation = Arc::new(next);
            }
            is_new
        });
        true
    }

    /// Looks at the record after a call found another one. A change of the stored form is adopted. Any other change ends
    /// the incarnation.
    pub(crate) async fn replaced(self: &Arc<Self>, incarnation: &Arc<Incarnation>) -> Changed {
        match settle::read(&self.calls, &self.key).await {
            Err(error) => return Changed::Ended(error),
            Ok((text, (_, revision))) => {
                let marked = text.as_deref().and_then(|text| Marked::parse(text).ok());
                let served = marked.and_then(|marked| marked.served().ok());
                if served.is_some_and(|record| self.adopt(incarnation, &record, revision)) {
                    return Changed::Form;
                }
            }
        }
        let why = "the record of the store's incarnation was replaced".to_owned();
        Changed::Ended(self.rewind(incarnation, why))
    }
}
