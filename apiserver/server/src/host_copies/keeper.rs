//! Keeper of the copies: writes what changed in the host cluster, while this replica is the leader.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver_host::{FrontProxy, HostHealth, HostNamespaces, HostPin, HostVersion};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use storage_contract::Outage;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::admission::StoredAdmission;
use super::mirror::{ACCOUNTS, DISAGREEMENTS, PERMISSIONS, StoredMirror, TOKEN_KEYS};
use super::{FRONT_PROXY, HEARTBEAT, HostCopies, NAMESPACES, ONLY, PIN, SECRETS, StoredProxy, VERSION};
use crate::host_admission::{COPIES, HostAdmission};
use crate::host_mirror::Mirroring;
use crate::host_watch::changed;

/// Interval of the heartbeat, from which a later process computes the age of the copies.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// Pause after a change, which collects those that follow, and after an error of the store.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Data of the host that the keeper copies.
#[derive(Clone)]
pub(crate) struct Originals {
    pub(crate) health: HostHealth,
    pub(crate) namespaces: HostNamespaces,
    pub(crate) proxy: watch::Receiver<FrontProxy>,
    pub(crate) pin: HostPin,
    pub(crate) mirror: Option<Mirroring>,
    pub(crate) admission: Option<HostAdmission>,
}

/// Copies of one host that go with its pin. With another pin, none of them is good.
const OF_PIN: [&str; 8] =
    [SECRETS, NAMESPACES, FRONT_PROXY, HEARTBEAT, PERMISSIONS, ACCOUNTS, TOKEN_KEYS, DISAGREEMENTS];

/// Copies as they are in the store.
#[derive(Default)]
struct Stored {
    version: Option<HostVersion>,
    namespaces: Option<HashMap<String, Value>>,
    heartbeat: Option<Instant>,
    mirror: StoredMirror,
    admission: HashMap<&'static str, StoredAdmission>,
}

/// Keeps the copies until `end`. It writes only while the host is up: the answers of another host, or of one that was
/// restored, are no copies.
pub(crate) async fn keep(copies: Arc<HostCopies>, originals: Originals, end: CancellationToken) {
    let _ = end.run_until_cancelled(follow(&copies, originals)).await;
}

async fn follow(copies: &HostCopies, mut originals: Originals) {
    let (mut stored, mut outage) = (Stored::default(), Outage::default());
    let mut namespaces = originals.namespaces.changes();
    let mut mirrored = originals.mirror.as_ref().map(Mirroring::changes);
    let mut configured = originals.admission.as_ref().map(HostAdmission::changes);
    loop {
        originals.health.up().await;
        // Changes after this are copied in the next pass.
        namespaces.borrow_and_update();
        mirrored.iter_mut().chain(&mut configured).for_each(|changes| drop(changes.borrow_and_update()));
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
            () = changed(mirrored.as_mut()) => {}
            () = changed(configured.as_mut()) => {}
            _ = originals.proxy.changed() => {}
            () = tokio::time::sleep(HEARTBEAT_INTERVAL.saturating_sub(PAUSE)) => {}
        }
    }
}

impl HostCopies {
    /// Writes what changed.
    async fn update(&self, originals: &Originals, stored: &mut Stored) -> anyhow::Result<()> {
        if !self.pin(&originals.pin, stored).await? {
            return Ok(());
        }
        self.update_version(&originals.pin, &mut stored.version).await?;
        let proxy = originals.proxy.borrow().clone();
        if !proxy.ca.is_empty() {
            self.values.write(FRONT_PROXY, ONLY, &StoredProxy::from(proxy)).await?;
        }
        self.update_kind(NAMESPACES, &mut stored.namespaces, &originals.namespaces.snapshot()).await?;
        let is_due = stored.heartbeat.is_none_or(|at| at.elapsed() >= HEARTBEAT_INTERVAL - PAUSE);
        if let Some(mirror) = &originals.mirror {
            self.update_mirror(mirror, &mut stored.mirror).await?;
        }
        if let Some(admission) = &originals.admission {
            self.update_admission(admission, &mut stored.admission).await?;
        }
        if is_due && originals.health.age().is_zero() {
            self.values.write(HEARTBEAT, ONLY, &Timestamp::now().as_second()).await?;
            stored.heartbeat = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes the objects of a kind that changed, and removes those that are gone.
    pub(super) async fn update_kind<T: Clone + PartialEq + Serialize + DeserializeOwned>(
        &self,
        kind: &str,
        stored: &mut Option<HashMap<String, T>>,
        now: &HashMap<String, T>,
    ) -> anyhow::Result<()> {
        let before = match stored.take() {
            Some(before) => before,
            None => self.values.list(kind).await?,
        };
        for (name, object) in now.iter().filter(|(name, object)| before.get(*name) != Some(object)) {
            self.values.write(kind, name, object).await?;
        }
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            self.values.remove(kind, name).await?;
        }
        *stored = Some(now.clone());
        Ok(())
    }

    /// Writes the pin. Returns false if another host is pinned in the store: then nothing of this one is copied.
    async fn pin(&self, pin: &HostPin, known: &mut Stored) -> anyhow::Result<bool> {
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
                *known = Stored::default();
                for kind in OF_PIN.into_iter().chain(COPIES) {
                    self.remove_all(kind).await?;
                }
                self.values.remove(PIN, VERSION).await?;
            }
            None => {}
        }
        self.values.write(PIN, ONLY, &uid).await?;
        Ok(true)
    }

    /// Writes the version of the host, so that the next process recognizes an older one.
    async fn update_version(&self, pin: &HostPin, stored: &mut Option<HostVersion>) -> anyhow::Result<()> {
        if stored.is_none()
            && let Some(kept) = self.values.read::<HostVersion>(PIN, VERSION).await?
        {
            pin.restore_version(kept.clone());
            *stored = Some(kept);
        }
        let now = pin.version();
        if let Some(version) = now.as_ref().filter(|_| now != *stored) {
            self.values.write(PIN, VERSION, version).await?;
            stored.clone_from(&now);
        }
        Ok(())
    }

    async fn remove_all(&self, kind: &str) -> anyhow::Result<()> {
        let mut names = Vec::new();
        self.values.scan(kind, |name, _| names.push(name.to_owned())).await?;
        for name in names {
            self.values.remove(kind, &name).await?;
        }
        Ok(())
    }
}
