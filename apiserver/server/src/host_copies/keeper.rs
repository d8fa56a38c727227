//! Keeper of the copies: writes what changed in the host cluster, while this replica is the leader.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver_host::{FrontProxy, HostHealth, HostNamespaces, HostPin};
use jiff::Timestamp;
use serde_json::Value;
use storage_contract::Outage;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FRONT_PROXY, HEARTBEAT, HostCopies, NAMESPACES, ONLY, PIN, SECRETS, StoredProxy};

/// Interval of the heartbeat, from which a later process computes the age of the copies.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// Pause after a change, which collects those that follow, and after an error of the store.
const PAUSE: Duration = Duration::from_millis(500);

/// Data of the host that the keeper copies.
#[derive(Clone)]
pub(crate) struct Originals {
    pub(crate) health: HostHealth,
    pub(crate) namespaces: HostNamespaces,
    pub(crate) proxy: watch::Receiver<FrontProxy>,
    pub(crate) pin: HostPin,
}

/// Copies as they are in the store.
#[derive(Default)]
struct Stored {
    namespaces: Option<HashMap<String, Value>>,
    heartbeat: Option<Instant>,
}

/// Keeps the copies until `end`. It writes only while the host is up: the answers of another host, or of one that was
/// restored, are no copies.
pub(crate) async fn keep(copies: Arc<HostCopies>, originals: Originals, end: CancellationToken) {
    let _ = end.run_until_cancelled(follow(&copies, originals)).await;
}

async fn follow(copies: &HostCopies, mut originals: Originals) {
    let (mut stored, mut outage) = (Stored::default(), Outage::default());
    let mut namespaces = originals.namespaces.changes();
    loop {
        originals.health.up().await;
        // Changes after this are copied in the next pass.
        namespaces.borrow_and_update();
        originals.proxy.borrow_and_update();
        if let Err(error) = copies.update(&originals, &mut stored).await {
            stored = Stored::default();
            if outage.should_log() {
                tracing::warn!(
                    "the copies of the host cluster's data cannot be written; retrying: {error:#}"
                );
            }
        }
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            // The senders live as long as the process.
            _ = namespaces.changed() => {}
            _ = originals.proxy.changed() => {}
            () = tokio::time::sleep(HEARTBEAT_INTERVAL.saturating_sub(PAUSE)) => {}
        }
    }
}

impl HostCopies {
    /// Writes what changed.
    async fn update(&self, originals: &Originals, stored: &mut Stored) -> anyhow::Result<()> {
        if !self.pin(&originals.pin).await? {
            return Ok(());
        }
        let proxy = originals.proxy.borrow().clone();
        if !proxy.ca.is_empty() {
            self.values.write(FRONT_PROXY, ONLY, &StoredProxy::from(proxy)).await?;
        }
        let before = match stored.namespaces.take() {
            Some(before) => before,
            None => self.values.list(NAMESPACES).await?,
        };
        let now = originals.namespaces.snapshot();
        for (name, object) in now.iter().filter(|(name, object)| before.get(*name) != Some(object)) {
            self.values.write(NAMESPACES, name, object).await?;
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            self.values.remove(NAMESPACES, name).await?;
        }
        stored.namespaces = Some(now);
        let is_due = stored.heartbeat.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL - PAUSE);
        if is_due && originals.health.age().is_zero() {
            self.values.write(HEARTBEAT, ONLY, &Timestamp::now().as_second()).await?;
            stored.heartbeat = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes the pin. Returns false if another host is pinned in the store: then nothing of this one is copied.
    async fn pin(&self, pin: &HostPin) -> anyhow::Result<bool> {
        let Some(uid) = pin.uid() else { return Ok(false) };
        match self.values.read::<String>(PIN, ONLY).await? {
            Some(stored) if stored == uid => return Ok(true),
            Some(stored) if !pin.replaces(&stored) => {
                pin.restore(stored);
                return Ok(false);
            }
            Some(stored) => {
                tracing::warn!(
                    before = stored,
                    now = uid,
                    "a new host cluster is accepted; copies of the old one are removed"
                );
                let mut names = Vec::new();
                self.values.scan(SECRETS, |name, _| names.push(name.to_owned())).await?;
                for name in names {
                    self.values.remove(SECRETS, &name).await?;
                }
            }
            None => {}
        }
        self.values.write(PIN, ONLY, &uid).await?;
        Ok(true)
    }
}
