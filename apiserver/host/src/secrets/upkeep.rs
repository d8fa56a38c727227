//! Upkeep of the copies of Secrets: those that objects name are read again and again, and others are removed.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::HostSecrets;
use super::cache::Key;

/// Interval at which the Secrets that objects name are read.
const INTERVAL: Duration = Duration::from_secs(600);

/// Longest pause between two of these reads. With many Secrets, the pauses are shorter: all reads together take at most
/// half of the interval.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time without an object that names it, and without a reader, after which a copy is removed.
pub(super) const UNUSED: Duration = Duration::from_secs(3600);

/// Secrets that objects need, each as namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SecretReferences {
    /// Secrets that objects name.
    pub named: BTreeSet<(String, String)>,
    /// Secrets whose names follow from those of objects. The host may not have them.
    pub derived: BTreeSet<(String, String)>,
}

impl SecretReferences {
    fn has(&self, key: &Key) -> bool {
        self.named.contains(key) || self.derived.contains(key)
    }

    /// Returns the Secrets to read: the named ones, and the derived ones of which there is a copy.
    fn wanted(&self, copies: &[Key]) -> BTreeSet<Key> {
        let derived = copies.iter().filter(|key| self.derived.contains(*key));
        self.named.iter().chain(derived).cloned().collect()
    }
}

/// Source of the Secrets that objects need.
#[async_trait]
pub trait SecretUsers: Debug + Send + Sync {
    /// Returns the Secrets; `None` if the objects cannot be listed now.
    async fn references(&self) -> Option<SecretReferences>;
}

impl HostSecrets {
    /// Reads the Secrets that objects need every ten minutes, so that the next leader has copies of them. Removes copies
    /// that no object has named and no reader has needed for an hour in which the host was up. Never returns.
    pub async fn keep_copies(&self, users: &dyn SecretUsers) {
        let mut unnamed = HashMap::new();
        loop {
            let begun = Instant::now();
            if !self.host.health.state().believes_absence() {
                self.host.health.up().await;
                unnamed.clear();
                continue;
            }
            if let Some(references) = users.references().await {
                let copies = self.host.copies.names().await;
                self.read_again(&references.wanted(&copies)).await;
                self.remove_unnamed(copies, &references, &mut unnamed).await;
            }
            tokio::time::sleep_until(begun + INTERVAL).await;
        }
    }

    /// Reads Secrets slowly, as long as the host is up. A Secret that was read in the last five minutes is left out. The read
    /// of the pass before is older.
    async fn read_again(&self, wanted: &BTreeSet<Key>) {
        let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX).max(1);
        let pause = (INTERVAL / 2 / count).min(LONGEST_PAUSE);
        for key in wanted {
            if self.host.cache().is_in_use(key, INTERVAL / 2) {
                continue;
            }
            if !self.host.health.state().believes_absence() {
                return;
            }
            if let Err(error) = self.secret(&key.0, &key.1).await {
                tracing::debug!(%error, namespace = key.0, secret = key.1, "a secret that an object names cannot be read");
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Removes the copies that were unnamed and unread for long enough. `unnamed` has the time since when each is.
    async fn remove_unnamed(
        &self,
        copies: Vec<Key>,
        references: &SecretReferences,
        unnamed: &mut HashMap<Key, Instant>,
    ) {
        let all: BTreeSet<Key> = copies.into_iter().filter(|key| !references.has(key)).collect();
        unnamed.retain(|key, _| all.contains(key));
        for key in all {
            let since = *unnamed.entry(key.clone()).or_insert_with(Instant::now);
            let is_used = since.elapsed() < UNUSED || self.host.cache().is_in_use(&key, UNUSED);
            if !is_used && self.host.believes_absence(&key) {
                self.host.copies.remove(&key.0, &key.1).await;
                unnamed.remove(&key);
            }
        }
    }
}
