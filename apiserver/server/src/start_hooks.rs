//! What must be done once before the server is ready, tried until it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_http::Check;
use apiserver_machinery::store::{FieldValidation, ObjectStore, SERVER, WriteOptions};
use serde_json::json;
use storage_contract::Outage;
use tokio_util::sync::CancellationToken;

/// Longest pause before the next try.
const PAUSE: Duration = Duration::from_millis(500);

/// The first one, doubled with every other: storage is being connected to, and mostly there at once.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// How long the port stays closed for what has to be done first. After that it opens, and what cannot
/// be served yet is answered with 503.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whether everything is done.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartHooks {
    namespaces: Arc<AtomicBool>,
}

impl StartHooks {
    /// Sets about it. Ends when it is done, or with `shutdown`.
    pub(crate) fn start(
        objects: &Arc<ObjectStore>,
        namespaces: Vec<String>,
        shutdown: &CancellationToken,
    ) -> Self {
        let hooks = Self::default();
        let (objects, shutdown, done) = (Arc::clone(objects), shutdown.clone(), hooks.clone());
        tokio::spawn(async move {
            let (mut outage, mut pause) = (Outage::default(), FIRST_PAUSE);
            while let Err(error) = make_namespaces(&objects, &namespaces).await {
                // What is over within half a second is a start, and no news.
                if pause >= PAUSE && outage.tell() {
                    tracing::warn!("{error:#}; trying again");
                }
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = (pause * 2).min(PAUSE);
            }
            done.namespaces.store(true, Ordering::Release);
        });
        hooks
    }

    fn are_done(&self) -> bool {
        self.namespaces.load(Ordering::Acquire)
    }

    /// As readiness shows it.
    pub(crate) fn checks(&self) -> Vec<Check> {
        let hooks = self.clone();
        let is_well: Arc<dyn Fn() -> bool + Send + Sync> = Arc::new(move || hooks.are_done());
        vec![Check { name: "poststarthook/capstan-namespaces", is_well }]
    }

    /// Waits until everything is done and the objects are read, but not for ever: what the start itself
    /// has taken counts.
    pub(crate) async fn settle(&self, objects: &ObjectStore, begun: Instant) {
        let settled = async {
            while !(self.are_done() && objects.is_ready()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(PATIENCE.saturating_sub(begun.elapsed()), settled).await.is_err() {
            let why =
                if self.are_done() { "the objects are still being read" } else { "storage does not answer" };
            tracing::warn!("{why}: health and discovery are served, all else gets 503");
        }
    }
}

/// The namespaces that clients count on.
async fn make_namespaces(objects: &ObjectStore, names: &[String]) -> anyhow::Result<()> {
    let Some(kind) = objects.kind("", "v1", "namespaces") else { return Ok(()) };
    for name in names {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let options = WriteOptions {
            dry_run: false,
            field_validation: FieldValidation::Strict,
            manager: SERVER.to_owned(),
        };
        match objects.create(kind, "", object, options).await {
            Ok(_) => {}
            Err(error) if error.code == 409 => {}
            Err(error) => bail!("namespace {name:?} cannot be made: {error}"),
        }
    }
    Ok(())
}
