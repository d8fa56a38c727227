//! Scan of all values of a store: which of them the present key has sealed.

use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::ROOT;
use storage_contract::{KeyRange, ListOptions, Store};

use crate::rewrite;

/// Values that a scan reads at a time.
const PAGE: usize = 500;

/// Result of a scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Values that are sealed as a write seals them now.
    pub(super) current: u64,
    /// Values that a write would seal in another way: with another key, or at all.
    pub(super) others: u64,
    /// Key of the first of these.
    pub(super) first: Option<String>,
}

/// Reads all values that have an encryption rule or are sealed.
///
/// # Errors
/// The store's; a KMS plug-in that cannot be used.
pub(super) async fn scan(store: &dyn Store, encryption: &Encryption) -> anyhow::Result<Found> {
    let rules = encryption.resources();
    let (mut found, mut range) = (Found::default(), KeyRange::prefix(ROOT));
    loop {
        let page = store.list(&range, &ListOptions { limit: PAGE, revision: None }).await?;
        for entry in &page.entries {
            let kind = rewrite::kind(encryption, entry);
            if !rules.contains(&kind) && !Encryption::is_sealed(&entry.value) {
                continue;
            }
            if encryption.is_sealed_as_now(&kind, entry.key.as_str(), &entry.value)? {
                found.current += 1;
            } else {
                found.others += 1;
                found.first.get_or_insert_with(|| entry.key.as_str().to_owned());
            }
        }
        match page.entries.last().filter(|_| page.remaining > 0) {
            Some(last) => range = range.after(last.key.as_bytes()),
            None => return Ok(found),
        }
    }
}
