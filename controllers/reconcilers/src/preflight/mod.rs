//! Preflight: whether quotas and subnets have room for what a pass is about to create.
//!
//! Ports, volumes and networks are created before the server that may turn out to be over quota, and they stay then.
//! So the quotas are read first. They are read for all passes of a project together, and what a pass was granted
//! is reserved until the cloud counts it. Quotas that cannot be read stop no pass: then the cloud itself refuses.

mod addresses;
mod ledger;
mod needs;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use controllers_infrastructure::{Cloud, CloudError, CloudResult, ErrorClass};
use controllers_runtime::ReconcileError;

use ledger::{Ledger, Limit, Shortage};
pub(crate) use needs::{Holder, Needs, Source};

/// Reason of the conditions of an object without room in a quota.
pub(crate) const QUOTA_EXCEEDED: &str = ErrorClass::Quota.reason();

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
    /// A quota or a subnet has no room. The message names the field, the numbers of the cloud, and the remedy.
    pub(crate) async fn reserve(
        &self,
        cloud: &Arc<dyn Cloud>,
        uid: &str,
        needs: Needs,
        attempt: &str,
    ) -> Result<(), ReconcileError> {
        let ledger = self.ledger(cloud);
        let mut ledger = ledger.lock().await;
        self.refresh(cloud.as_ref(), &mut ledger, &needs).await;
        match ledger.reserve(uid, needs, Instant::now()) {
            Ok(()) => Ok(()),
            Err(Shortage { message, is_passing: true, .. }) => {
                let message = format!("{attempt}: {message}, as other objects are being created");
                Err(ReconcileError::waiting(QUOTA_EXCEEDED, message))
            }
            Err(Shortage { message, remedy, .. }) => {
                let message =
                    format!("{message}. Nothing was created. {remedy}: it is tried again by itself");
                Err(CloudError::new(ErrorClass::Quota, attempt, message).into())
            }
        }
    }

    /// Returns why an object has no room now; `None` if it has, or if the limits cannot be read. Nothing is reserved.
    /// The text also says if `count` objects of the same size never fit.
    pub(crate) async fn lacks(&self, cloud: &Arc<dyn Cloud>, needs: &Needs, count: i64) -> Option<String> {
        let ledger = self.ledger(cloud);
        let mut ledger = ledger.lock().await;
        self.refresh(cloud.as_ref(), &mut ledger, needs).await;
        ledger.lacks(needs, count)
    }

    /// Reads the limits of some needs that are due.
    async fn refresh(&self, cloud: &dyn Cloud, ledger: &mut Ledger, needs: &Needs) {
        let freed = *self.freed.lock().unwrap_or_else(PoisonError::into_inner);
        for source in needs.sources() {
            let requested = Instant::now();
            if !ledger.is_due(&source, freed, requested) {
                continue;
            }
            match limits(cloud, &source).await {
                Ok(limits) => ledger.note(source, requested, limits),
                Err(error) => {
                    tracing::debug!(?source, %error, "the limits cannot be read");
                    let is_refused = matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound);
                    if is_refused && matches!(source, Source::Addresses(_)) {
                        ledger.refuse(&source, requested);
                    } else {
                        ledger.note(source, requested, Vec::new());
                    }
                }
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

/// Reads the limits of one place.
async fn limits(cloud: &dyn Cloud, source: &Source) -> CloudResult<Vec<Limit>> {
    match source {
        Source::Quota(service) => Ok(cloud.quotas(*service).await?.into_iter().map(Limit::from).collect()),
        Source::Addresses(network) => addresses::limits(cloud, network).await,
    }
}
