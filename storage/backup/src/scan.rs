//! Scan of a store: all its entries in key order, as of one revision.

use std::collections::VecDeque;

use storage_contract::{Entry, KeyRange, ListOptions, Revision, Store, StoreResult};

/// Entries of a page: the least, and the most.
const LIMITS: (usize, usize) = (16, 10_000);

/// Entries of the first page.
const FIRST: usize = 250;

/// Factor between the entries of two pages.
const FACTOR: usize = 4;

/// Bytes of values in a page that are neither too many nor too few. With each page, a store also counts all entries
/// behind it, so that small pages of many entries are slow.
const BYTES: std::ops::Range<usize> = 8 * 1024 * 1024..32 * 1024 * 1024;

/// Scan of a range of a store.
#[derive(Debug)]
pub struct Scan<'s> {
    store: &'s dyn Store,
    range: KeyRange,
    revision: Revision,
    limit: usize,
    page: VecDeque<Entry>,
    is_last: bool,
}

impl<'s> Scan<'s> {
    /// Begins a scan at the newest revision.
    ///
    /// # Errors
    /// The store's.
    pub async fn begin(store: &'s dyn Store, prefix: &str) -> StoreResult<Self> {
        let revision = store.current_revision().await?;
        let range = KeyRange::prefix(prefix);
        Ok(Self { store, range, revision, limit: FIRST, page: VecDeque::new(), is_last: false })
    }

    /// Returns the revision of all entries.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the next entry.
    ///
    /// # Errors
    /// The store's: `Compacted`, if the scan took longer than the history reaches back.
    pub async fn next(&mut self) -> StoreResult<Option<Entry>> {
        while self.page.is_empty() && !self.is_last {
            self.read_page().await?;
        }
        Ok(self.page.pop_front())
    }

    async fn read_page(&mut self) -> StoreResult<()> {
        let options = ListOptions { limit: self.limit, revision: Some(self.revision) };
        let page = self.store.list(&self.range, &options).await?;
        match page.entries.last() {
            Some(last) if page.remaining > 0 => self.range = self.range.after(last.key.as_bytes()),
            _ => self.is_last = true,
        }
        let bytes: usize = page.entries.iter().map(|entry| entry.value.len()).sum();
        // Memory is bounded whatever the size of the values, and small values need few requests.
        if bytes >= BYTES.end {
            self.limit = (self.limit / FACTOR).max(LIMITS.0);
        } else if bytes < BYTES.start {
            self.limit = (self.limit * FACTOR).min(LIMITS.1);
        }
        self.page = page.entries.into();
        Ok(())
    }
}
