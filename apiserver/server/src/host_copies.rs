//! Copies of the host cluster's data in Capstan's own store, sealed as Secrets are. They survive a restart, a failover
//! and the loss of a disk. The leader writes them, and all replicas read them.

mod admission;
mod heartbeat;
mod issuers;
mod keeper;
mod mirror;
mod outbox;
mod secrets;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use apiserver_access::RequestHeaders;
use apiserver_host::{FrontProxy, HostVersion};
use apiserver_machinery::encryption::Encryption;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use storage_contract::Store;

pub(crate) use admission::RestoredAdmission;
pub(crate) use keeper::{Originals, keep};
pub(crate) use mirror::RestoredMirror;
pub(crate) use outbox::StoredOutbox;
pub(crate) use secrets::StoredSecrets;

use crate::recorded_time::RecordedTime;
use crate::sealed_values::SealedValues;

/// First part of the keys. No API group has this name.
const HOST: &str = "host";

const FRONT_PROXY: &str = "frontproxy";
const HEARTBEAT: &str = "heartbeat";
const ISSUERS: &str = "issuers";
const NAMESPACES: &str = "namespaces";
const PIN: &str = "pin";
const SECRETS: &str = "secrets";

/// Name of the only value of a kind.
const ONLY: &str = "current";

/// Name of the host's version, beside its uid.
const VERSION: &str = "version";

/// Copies in the store.
#[derive(Debug, Clone)]
pub(crate) struct HostCopies {
    values: SealedValues,
    time: RecordedTime,
    /// Uid of the host whose copies are used, although another one is pinned. `None`: the pinned one.
    accepted: Option<String>,
}

/// Copies that a process reads at its start.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    pub(crate) proxy: Option<FrontProxy>,
    pub(crate) namespaces: HashMap<String, Value>,
    /// Last time at which the host was up.
    pub(crate) contact: Option<Timestamp>,
    /// Uid of the host.
    pub(crate) uid: Option<String>,
    /// Last version of the host.
    pub(crate) version: Option<HostVersion>,
    /// True if the copies are of a host that another one replaces. Then there are none.
    pub(crate) is_replaced: bool,
}

/// Front proxy, as it is stored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredProxy {
    ca: String,
    /// Absent in copies of earlier releases.
    #[serde(default)]
    client_ca: String,
    allowed_names: Vec<String>,
    username: Vec<String>,
    uid: Vec<String>,
    group: Vec<String>,
    extra_prefix: Vec<String>,
}

impl From<FrontProxy> for StoredProxy {
    fn from(FrontProxy { ca, client_ca, headers }: FrontProxy) -> Self {
        let RequestHeaders { allowed_names, username, uid, group, extra_prefix } = headers;
        Self { ca, client_ca, allowed_names, username, uid, group, extra_prefix }
    }
}

impl From<StoredProxy> for FrontProxy {
    fn from(stored: StoredProxy) -> Self {
        let StoredProxy { ca, client_ca, allowed_names, username, uid, group, extra_prefix } = stored;
        Self { ca, client_ca, headers: RequestHeaders { allowed_names, username, uid, group, extra_prefix } }
    }
}

impl HostCopies {
    pub(crate) fn new(store: Arc<dyn Store>, encryption: Arc<Encryption>) -> Self {
        let time = RecordedTime::new(Arc::clone(&store), Arc::clone(&encryption));
        Self { values: SealedValues::new(store, encryption, HOST), time, accepted: None }
    }

    /// Uses no copies of another host than this one. They are there until the pin of this one is written.
    pub(crate) fn accepting(self, accepted: Option<&str>) -> Self {
        Self { accepted: accepted.map(str::to_owned), ..self }
    }

    /// Returns true if the copies are of a host that another one replaces.
    ///
    /// # Errors
    /// The store does not answer.
    async fn are_replaced(&self) -> anyhow::Result<bool> {
        let Some(accepted) = &self.accepted else { return Ok(false) };
        let pinned: Option<String> = self.values.read(PIN, ONLY).await?;
        Ok(pinned.is_some_and(|pinned| pinned != *accepted))
    }

    /// Reads the copies that a process needs at its start.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn restore(&self) -> anyhow::Result<Restored> {
        let uid = self.values.read(PIN, ONLY).await?;
        if self.are_replaced().await? {
            return Ok(Restored { uid, is_replaced: true, ..Restored::default() });
        }
        let proxy: Option<StoredProxy> = self.values.read(FRONT_PROXY, ONLY).await?;
        let behind = self.time.behind().await?;
        if behind.is_positive() {
            tracing::warn!(
                seconds = behind.as_secs(),
                "the clock of this machine is behind the last time in the store: the copies of the host cluster's data count \
                 as older by as much; compare it with NTP, and run `capstan doctor`"
            );
        }
        Ok(Restored {
            proxy: proxy.map(FrontProxy::from),
            namespaces: self.values.list(NAMESPACES).await?,
            contact: self.heartbeat(ONLY).await?,
            uid,
            version: self.values.read(PIN, VERSION).await?,
            is_replaced: false,
        })
    }
}
