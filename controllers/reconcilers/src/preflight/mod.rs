//! Preflight: whether the quotas of a project have room for what a pass is about to create.
//!
//! Ports, volumes and networks are created before the server that may turn out to be over quota, and they stay then.
//! So the quotas are read first. They are read for all passes of a project together, and what a pass was granted
//! is reserved until the cloud counts it. Quotas that cannot be read stop no pass: then the cloud itself refuses.

mod ledger;
mod needs;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use controllers_infrastructure::{Cloud, CloudError, ErrorClass};
use controllers_runtime::ReconcileError;

use ledger::{Ledger, Shortage};
pub(crate) use needs::Needs;

/// Reason of the conditions of an object without room in a quota.
pub(crate) const QUOTA_EXCEEDED: &str = ErrorClass::Quota.reason();

/// End of each message about a quota.
const REMEDY: &str = "Nothing was created. Raise the quota of the project, or delete what is not needed there: it is tried again by itself";

/// A cloud and the ledger of its project.
type Known = (Weak<dyn Cloud>, Arc<tokio::sync::Mutex<Ledger>>);

/// Quotas of all projects of one controller.
#[derive(Debug, Default)]
pub(crate) struct Preflight {
    /// By the address of the cloud, which is unique while the cloud lives.
    projects: Mutex<HashMap<usize, Known>>,
    /// Time at which a resource was deleted, so that older quotas are read again.
    freed: Mutex<Option<Instant>>,
}

impl Preflight {
    /// Reserves what an object is about to create. `attempt` describes that for the error.
    ///
    /// # Errors
    /// The quotas have no room. The message names the field, the numbers of the cloud, and the remedy.
    pub(crate) async fn reserve(
        &self,
        cloud: &Arc<dyn Cloud>,
        uid: &str,
        needs: Needs,
        attempt: &str,
    ) -> Result<(), ReconcileError> {
        let ledger = self.ledger(cloud);
        let mut ledger = ledger.lock().await;
        let freed = *self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        for service in needs.services() {
            if ledger.is_due(service, freed, Instant::now()) {
                let requested = Instant::now();
                match cloud.quotas(service).await {
                    Ok(quotas) => ledger.note(service, requested, quotas),
                    Err(error) => {
                        tracing::debug!(?service, %error, "the quotas cannot be read");
                        ledger.note(service, requested, Vec::new());
                    }
                }
            }
        }
        match ledger.reserve(uid, needs, Instant::now()) {
            Ok(()) => Ok(()),
            Err(Shortage { message, is_passing: true }) => {
                let message = format!("{attempt}: {message}, as other objects are being created");
                Err(ReconcileError::waiting(QUOTA_EXCEEDED, message))
            }
            Err(Shortage { message, .. }) => {
                let message = format!("{message}. {REMEDY}");
                Err(CloudError::new(ErrorClass::Quota, attempt, message).into())
            }
        }
    }

    /// Notes that an object has created what was reserved, or gave up.
    pub(crate) async fn settle(&self, cloud: &Arc<dyn Cloud>, uid: &str) {
        self.ledger(cloud).lock().await.settle(uid, Instant::now());
    }

    /// Notes that something was deleted, so that the quotas have to be read again.
    pub(crate) fn note_freed(&self) {
        *self.freed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    fn ledger(&self, cloud: &Arc<dyn Cloud>) -> Arc<tokio::sync::Mutex<Ledger>> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        projects.retain(|_, (cloud, _)| cloud.strong_count() > 0);
        let key = Arc::as_ptr(cloud).addr();
        let (_, ledger) = projects.entry(key).or_insert_with(|| (Arc::downgrade(cloud), Arc::default()));
        Arc::clone(ledger)
    }
}
