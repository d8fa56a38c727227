//! Records of the replicas: each one says which version it runs, which stored forms it reads, and which encryption keys it
//! has. Operators and upgrades read them.

mod clock;
mod command;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_machinery::encryption::Encryption;
use bytes::Bytes;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage_contract::{Entry, Key, KeyRange, ListOptions, Outage, Revision, Store, StoreError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use clock::Clock;
use clock::Reading;
pub(crate) use command::{all, is_dead, live, run};
pub(crate) use record::Replica;

/// Prefix of the records.
const PREFIX: &str = "/capstan/replicas/";

/// Interval between two renewals of a record.
const INTERVAL: Duration = Duration::from_secs(10);

/// Time without a renewal after which a replica counts as dead.
const DEAD: Duration = Duration::from_secs(30);

/// Time without a renewal after which another replica removes the record. Until then an operator sees that it died.
const REMOVED: Duration = Duration::from_secs(24 * 3600);

/// Version of a replica.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Version {
    version: String,
}

/// Live replicas as this one sees them, and the state of its clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplicaMetrics {
    versions: Family<Version, Gauge>,
    without_key: Gauge,
    clock_difference: Gauge,
    clock_jumps: Counter,
}

impl ReplicaMetrics {
    /// Creates the metric in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        registry.register(
            "capstan_replicas",
            "Live replicas of each version, as this one sees them",
            it.versions.clone(),
        );
        registry.register(
            "capstan_replicas_without_key",
            "Live replicas that lack an encryption key with which another one seals",
            it.without_key.clone(),
        );
        registry.register(
            "capstan_clock_difference_seconds",
            "Largest difference between the clock of this replica and that of another one, as far as it is proved",
            it.clock_difference.clone(),
        );
        registry.register(
            "capstan_clock_jumps",
            "Number of times that the clock of this machine was set by more than five seconds",
            it.clock_jumps.clone(),
        );
        it
    }

    fn set(&self, live: &[Replica]) {
        let sealing: BTreeSet<&String> = live.iter().flat_map(|replica| &replica.seals).collect();
        let lacks = |replica: &&Replica| sealing.iter().any(|key| !replica.keys.contains(*key));
        self.without_key.set(i64::try_from(live.iter().filter(lacks).count()).unwrap_or(i64::MAX));
        self.versions.clear();
        for replica in live {
            self.versions.get_or_create(&Version { version: replica.version.clone() }).inc();
        }
    }
}

/// Keeper of the record of this replica.
#[derive(Debug)]
pub(crate) struct ReplicaRecord {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    replica: Replica,
    metrics: ReplicaMetrics,
    clock: Clock,
}

/// Records of other replicas, with the time at which each revision was first seen. The clocks of machines may differ.
type Seen = HashMap<Key, (Revision, Instant)>;

impl ReplicaRecord {
    /// Creates the keeper of the record of a replica with this address.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        encryption: Arc<Encryption>,
        address: String,
        metrics: ReplicaMetrics,
    ) -> Self {
        Self {
            store,
            encryption,
            replica: Replica::of_this_process(address),
            metrics,
            clock: Clock::default(),
        }
    }

    /// Renews the record every ten seconds until `shutdown`, and removes it then.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let (mut seen, mut outage) = (Seen::new(), Outage::default());
        loop {
            match self.pass(&mut seen, Instant::now()).await {
                Ok(()) => outage = Outage::default(),
                Err(error) if outage.should_log() => {
                    tracing::warn!("the record of this replica cannot be renewed: {error:#}; retrying");
                }
                Err(_) => {}
            }
            if shutdown.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
                break;
            }
        }
        let _ = tokio::time::timeout(INTERVAL, self.remove()).await;
    }

    /// Renews the record, counts the live replicas, and removes records that are a day old.
    async fn pass(&mut self, seen: &mut Seen, now: Instant) -> anyhow::Result<()> {
        let own = self.replica.key()?;
        let reading = self.clock.read(Timestamp::now(), now);
        self.warn_of_jump(reading);
        self.replica.renew(&self.encryption, self.store.form());
        let value = Bytes::from(serde_json::to_vec(&self.replica).context("the record cannot be written")?);
        match self.store.get(&own).await? {
            Some(known) => self.store.update(&own, known.modified, value).await?,
            None => self.store.create(&own, value).await?,
        };
        let entries = list(self.store.as_ref()).await?;
        seen.retain(|key, _| entries.iter().any(|entry| entry.key == *key));
        let (mut live, mut difference) = (Vec::new(), 0);
        for entry in &entries {
            if let Some(elapsed) = reading.elapsed.filter(|_| entry.key != own && is_new(seen, entry)) {
                let renewed = Replica::read(&entry.value).map(|replica| replica.renewed);
                let found = renewed.map_or(0, |at| clock::difference(at, Timestamp::now(), elapsed));
                difference = difference.max(found);
            }
            let age = age(seen, entry, now);
            if age >= REMOVED {
                forget(self.store.as_ref(), entry).await?;
            } else if age < DEAD {
                live.extend(Replica::read(&entry.value));
            }
        }
        self.metrics.set(&live);
        self.metrics.clock_difference.set(difference);
        Ok(())
    }

    /// Says that the clock was set. Tokens and certificates end at times of this clock.
    fn warn_of_jump(&self, reading: Reading) {
        let Some(jump) = reading.jump else { return };
        self.metrics.clock_jumps.inc();
        tracing::warn!(
            seconds = jump,
            "the clock of this machine was set, or the machine was suspended: tokens and certificates end earlier or later; \
             compare it with NTP, and run `capstan doctor`"
        );
    }

    async fn remove(&self) -> anyhow::Result<()> {
        let own = self.replica.key()?;
        if let Some(known) = self.store.get(&own).await? {
            self.store.delete(&own, known.modified).await?;
        }
        Ok(())
    }
}

/// Removes the records that were renewed after a time, by the clocks of their replicas. A replica that lives writes its record
/// again.
///
/// # Errors
/// The store does not answer.
pub(crate) async fn forget_later(store: &dyn Store, time: Timestamp) -> anyhow::Result<()> {
    for entry in list(store).await? {
        if Replica::read(&entry.value).is_some_and(|replica| replica.renewed > time) {
            forget(store, &entry).await?;
        }
    }
    Ok(())
}

/// Removes the record of another replica, unless it was renewed since.
async fn forget(store: &dyn Store, entry: &Entry) -> anyhow::Result<()> {
    match store.delete(&entry.key, entry.modified).await {
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns true if a record was written since the last pass.
fn is_new(seen: &Seen, entry: &Entry) -> bool {
    seen.get(&entry.key).is_none_or(|(revision, _)| *revision != entry.modified)
}

/// Returns the time since this process first saw the revision of a record.
fn age(seen: &mut Seen, entry: &Entry, now: Instant) -> Duration {
    let known = seen.entry(entry.key.clone()).or_insert((entry.modified, now));
    if known.0 != entry.modified {
        *known = (entry.modified, now);
    }
    now.saturating_duration_since(known.1)
}

/// Returns all records.
async fn list(store: &dyn Store) -> anyhow::Result<Vec<Entry>> {
    Ok(store.list(&KeyRange::prefix(PREFIX), &ListOptions::default()).await?.entries)
}
