//! Start hooks: work that must be done once before the server is ready. Each is retried until it succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_http::{Check, Supervisor};
use apiserver_machinery::store::{FieldValidation, ObjectStore, SERVER, WriteOptions};
use serde_json::json;
use storage_contract::{Outage, Store};

use crate::rbac::{self, RbacPolicy};
use crate::storage_history::went_back;

/// Longest pause before a retry.
const PAUSE: Duration = Duration::from_millis(500);

/// First pause before a retry. Each retry doubles it: storage is mostly connected within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// Longest time that the port stays closed for the start hooks. After that it opens, and requests that cannot be served
/// yet get 503.
const PATIENCE: Duration = Duration::from_secs(5);

/// State of the start hooks. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartHooks {
    namespaces: Arc<AtomicBool>,
    roles: Arc<AtomicBool>,
}

impl StartHooks {
    /// Starts the hooks after `begin`. They run again if the history of the store goes back, and end at shutdown.
    pub(crate) fn start(
        objects: &Arc<ObjectStore>,
        store: Arc<dyn Store>,
        namespaces: Vec<String>,
        begin: impl Future<Output = ()> + Send + 'static,
        supervisor: &Supervisor,
    ) -> Self {
        let hooks = Self::default();
        let (objects, shutdown, done) = (Arc::clone(objects), supervisor.shutdown().clone(), hooks.clone());
        supervisor.spawn_finite("start hooks", async move {
            if shutdown.run_until_cancelled(begin).await.is_none() {
                return;
            }
            loop {
                let history = store.history();
                if shutdown.run_until_cancelled(done.run_until_done(&objects, &namespaces)).await.is_none() {
                    return;
                }
                if shutdown.run_until_cancelled(went_back(|| store.history(), history)).await.is_none() {
                    return;
                }
                done.namespaces.store(false, Ordering::Release);
                done.roles.store(false, Ordering::Release);
            }
        });
        hooks
    }

    /// Runs the hooks, and retries until all are done.
    async fn run_until_done(&self, objects: &ObjectStore, namespaces: &[String]) {
        let (mut outage, mut pause) = (Outage::default(), FIRST_PAUSE);
        while let Err(error) = self.run(objects, namespaces).await {
            // An outage that ends within half a second is part of a normal start.
            if pause >= PAUSE && outage.should_log() {
                tracing::warn!("{error:#}; retrying");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE);
        }
    }

    /// Runs the hooks that are not done.
    async fn run(&self, objects: &ObjectStore, namespaces: &[String]) -> anyhow::Result<()> {
        if !self.namespaces.load(Ordering::Acquire) {
            make_namespaces(objects, namespaces).await?;
            self.namespaces.store(true, Ordering::Release);
        }
        rbac::make_defaults(objects).await?;
        self.roles.store(true, Ordering::Release);
        Ok(())
    }

    fn are_done(&self) -> bool {
        self.namespaces.load(Ordering::Acquire) && self.roles.load(Ordering::Acquire)
    }

    /// Returns the readiness checks of the hooks. The roles must be read, too: requests that need them get 503 before.
    pub(crate) fn checks(&self, policy: &RbacPolicy) -> Vec<Check> {
        let (hooks, with_roles, policy) = (self.clone(), self.clone(), policy.clone());
        let has_namespaces: Arc<dyn Fn() -> bool + Send + Sync> =
            Arc::new(move || hooks.namespaces.load(Ordering::Acquire));
        let has_roles: Arc<dyn Fn() -> bool + Send + Sync> =
            Arc::new(move || with_roles.roles.load(Ordering::Acquire) && policy.is_read());
        vec![
            Check { name: "poststarthook/capstan-namespaces", is_well: has_namespaces },
            Check { name: "poststarthook/rbac/bootstrap-roles", is_well: has_roles },
        ]
    }

    /// Waits until all hooks are done and the objects are read, for at most five seconds since `begun`.
    pub(crate) async fn settle(&self, objects: &ObjectStore, begun: Instant) {
        let settled = async {
            while !(self.are_done() && objects.is_ready()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(PATIENCE.saturating_sub(begun.elapsed()), settled).await.is_err() {
            let why =
                if self.are_done() { "the objects are still being read" } else { "storage does not answer" };
            tracing::warn!("{why}; health and discovery are served, all other requests get 503");
        }
    }
}

/// Creates the namespaces that clients rely on.
async fn make_namespaces(objects: &ObjectStore, names: &[String]) -> anyhow::Result<()> {
    let Some(kind) = objects.kind("", "v1", "namespaces") else { return Ok(()) };
    for name in names {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let options = WriteOptions {
            dry_run: false,
            field_validation: FieldValidation::Strict,
            manager: SERVER.to_owned(),
            permissions: None,
            admission: None,
            lock: None,
            timeout: None,
        };
        match objects.create(kind, "", object, options).await {
            Ok(_) => {}
            Err(error) if error.code == 409 => {}
            Err(error) => bail!("namespace {name:?} cannot be created: {error}"),
        }
    }
    Ok(())
}
