//! History of an etcd as this server has seen it: the file `high-water`, a metric and a readiness check.
//!
//! The file has the newest revision that this server has seen. If etcd's data are replaced by older ones while the server
//! is stopped, the next run notices it at its start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_http::Check;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use storage_contract::{Outage, Revision, Store};
use storage_etcd::{EtcdStore, Seen};
use tokio::task::spawn_blocking;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::pki;

/// Name of the file in the data directory.
const FILE: &str = "high-water";

/// Interval at which the file is written. A backup that replaces the data is nearly always older.
const INTERVAL: Duration = Duration::from_secs(60);

/// Interval at which a task looks whether the history of the store went back.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Function that returns the number of the store's present history.
pub(crate) type HistoryNumber = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Content of the file, as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct HighWater {
    incarnation: String,
    /// Cluster id of the etcd, in hexadecimal digits.
    cluster: String,
    revision: u64,
}

impl HighWater {
    fn of(seen: &Seen) -> Self {
        let Seen { incarnation, cluster, revision } = seen;
        let (incarnation, cluster) = (incarnation.to_string(), format!("{cluster:x}"));
        Self { incarnation, cluster, revision: revision.number() }
    }

    fn seen(&self) -> anyhow::Result<Seen> {
        let incarnation = self.incarnation.parse().context("incarnation")?;
        let cluster = u64::from_str_radix(&self.cluster, 16).context("cluster")?;
        Ok(Seen { incarnation, cluster, revision: Revision::new(self.revision) })
    }
}

/// History of the etcd of a server.
#[derive(Debug)]
pub(crate) struct StorageHistory {
    file: PathBuf,
    rewinds: Counter,
}

impl StorageHistory {
    /// Creates it for a data directory, with its metric in a registry.
    pub(crate) fn new(data: &Path, registry: &mut Registry) -> Self {
        let rewinds = Counter::default();
        registry.register(
            "capstan_storage_rewinds",
            "Number of times that this server found the data of etcd replaced by older or other data",
            rewinds.clone(),
        );
        Self { file: data.join(FILE), rewinds }
    }

    /// Returns the state that an earlier run saw. A file that cannot be used is logged and left out, since the server can
    /// serve without it.
    pub(crate) fn seen(&self) -> Option<Seen> {
        let read = || -> anyhow::Result<Seen> {
            serde_json::from_str::<HighWater>(&pki::read(&self.file)?).context("not valid JSON")?.seen()
        };
        if !self.file.exists() {
            return None;
        }
        let seen = read().with_context(|| format!("{}: cannot be used", self.file.display()));
        seen.inspect_err(|error| {
            tracing::error!(
                error = %format!("{error:#}"),
                "the newest revision of the last run is unknown; older data in etcd would not be noticed"
            );
        })
        .ok()
    }

    /// Writes the file each minute, in each new incarnation and at `shutdown`, and counts how often the history went back.
    pub(crate) async fn follow(self, store: EtcdStore, shutdown: CancellationToken) {
        let (mut history, mut is_rewound, mut outage) = (0, false, Outage::default());
        let mut interval = tokio::time::interval(INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = went_back(|| store.history(), history) => {
                    let now = store.history();
                    self.rewinds.inc_by(now.saturating_sub(history));
                    (history, is_rewound) = (now, true);
                    continue;
                }
                () = recovered(&store), if is_rewound => is_rewound = false,
                _ = interval.tick() => {}
            };
            if let Err(error) = self.write(&store).await
                && outage.should_log()
            {
                tracing::warn!(error = %format!("{error:#}"), "cannot save the newest revision of storage");
            }
            if shutdown.is_cancelled() {
                return;
            }
        }
    }

    async fn write(&self, store: &EtcdStore) -> anyhow::Result<()> {
        let text = serde_json::to_string(&HighWater::of(&store.seen()))?;
        let file = self.file.clone();
        spawn_blocking(move || pki::write_private(&file, &text)).await?
    }
}

/// Returns the readiness check `storage-history`: the server serves the history that the store has.
pub(crate) fn check(store: Arc<dyn Store>) -> Check {
    Check { name: "storage-history", is_well: Arc::new(move || !store.is_rewound()) }
}

/// Returns a function that returns the number of the store's present history.
pub(crate) fn number(store: &Arc<dyn Store>) -> HistoryNumber {
    let store = Arc::clone(store);
    Arc::new(move || store.history())
}

/// Waits until the history of the store is another one than `known`.
pub(crate) async fn went_back(now: impl Fn() -> u64, known: u64) {
    while now() == known {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Waits until the store serves again after its history went back.
async fn recovered(store: &EtcdStore) {
    while store.is_rewound() {
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_has_the_newest_state_and_a_damaged_one_is_left_out() {
        let data = tempfile::tempdir().unwrap();
        let history = StorageHistory::new(data.path(), &mut Registry::default());
        assert_eq!(history.seen(), None);
        let incarnation = "67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap();
        let seen = Seen { incarnation, cluster: u64::MAX, revision: Revision::new(700) };
        let text = serde_json::to_string(&HighWater::of(&seen)).unwrap();
        let expected = r#"{"incarnation":"67e55044-10b1-426f-9247-bb680e5fe0c8","cluster":"ffffffffffffffff","revision":700}"#;
        assert_eq!(text, expected);
        pki::write_private(&history.file, &text).unwrap();
        assert_eq!(history.seen(), Some(seen));
        for damaged in ["", "{}", &text.replace("67e5", "x"), &text.replace("ffff", "g")] {
            pki::write_private(&history.file, damaged).unwrap();
            assert_eq!(history.seen(), None, "{damaged}");
        }
    }
}
