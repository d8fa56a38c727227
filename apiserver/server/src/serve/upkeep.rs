//! Upkeep of the store: the record of this replica, the recorded time, the stored form, the rewrite of values, and the phases
//! of objects.

use std::sync::Arc;
use std::time::Duration;

use apiserver_http::Supervisor;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::ObjectStore;
use prometheus_client::registry::Registry as Metrics;
use storage_contract::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfiguration;
use crate::encryption_keys::EncryptionKeys;
use crate::phases::{self, PhaseMetrics};
use crate::recorded_time::RecordedTime;
use crate::replicas::{ReplicaMetrics, ReplicaRecord};
use crate::rewrite::{RewriteMetrics, Rewriter};
use crate::stored_form::StoredForm;

/// Parts that keep the store in order. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Upkeep {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    form: StoredForm,
    time: RecordedTime,
    /// Time for which all replicas must run a release before its stored form is committed.
    delay: Duration,
    /// Time with a form that this release cannot read after which the server exits.
    timeout: Duration,
    replica_metrics: ReplicaMetrics,
    rewrite_metrics: RewriteMetrics,
    phase_metrics: PhaseMetrics,
}

impl Upkeep {
    /// Creates them, with their metrics in a registry.
    ///
    /// # Errors
    /// A delay in the configuration that is no duration, or an accepted time that is none.
    pub(super) fn new(
        configuration: &ServerConfiguration,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
        metrics: &mut Metrics,
    ) -> anyhow::Result<Self> {
        let (store, encryption) = (Arc::clone(store), encryption.encryption());
        let time = RecordedTime::new(Arc::clone(&store), Arc::clone(&encryption));
        Ok(Self {
            time: time.with(configuration.clock.accepted_at()?, metrics),
            form: StoredForm::new(
                Arc::clone(&store),
                Arc::clone(&encryption),
                configuration.storage.etcd.is_some(),
                metrics,
            ),
            delay: configuration.form_delay()?,
            timeout: configuration.form_timeout()?,
            replica_metrics: ReplicaMetrics::registered(metrics),
            rewrite_metrics: RewriteMetrics::registered(metrics),
            phase_metrics: PhaseMetrics::registered(metrics),
            store,
            encryption,
        })
    }

    /// Compares the clock with the times in the store, if that answers soon. What is read from the store afterwards is judged
    /// by the corrected clock.
    pub(super) async fn begin(&self) {
        self.time.begin().await;
    }

    /// Follows the clock, the stored form and the phases of objects, and returns the keeper of the record of this replica,
    /// which has this address.
    ///
    /// The server shuts down if this release cannot read the form.
    pub(super) fn start(
        &self,
        address: String,
        objects: &Arc<ObjectStore>,
        supervisor: &Supervisor,
    ) -> ReplicaRecord {
        let phases =
            phases::follow(Arc::clone(objects), self.phase_metrics.clone(), supervisor.shutdown().clone());
        supervisor.spawn("phases of objects", phases);
        let form = self.form.clone().follow(supervisor.shutdown().clone(), self.timeout);
        supervisor.spawn("stored form", form);
        supervisor.spawn("recorded time", self.time.clone().follow(supervisor.shutdown().clone()));
        let (store, encryption) = (Arc::clone(&self.store), Arc::clone(&self.encryption));
        ReplicaRecord::new(store, encryption, address, self.replica_metrics.clone())
    }

    /// Spawns the tasks of the leader, which end with its term.
    pub(crate) fn lead(&self, registry: Arc<Registry>, term: &CancellationToken, running: &mut JoinSet<()>) {
        let (store, encryption) = (Arc::clone(&self.store), Arc::clone(&self.encryption));
        let rewriter = Rewriter::new(store, encryption, Some(registry), self.rewrite_metrics.clone());
        running.spawn(rewriter.run(term.clone()));
        running.spawn(self.form.clone().commit(self.delay, term.clone()));
        running.spawn(self.time.clone().keep(term.clone()));
    }

    /// Returns the reason why the server has ended, if it is an error.
    pub(super) fn result(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        self.form.result()?;
        supervisor.failure().map_or(Ok(()), |failure| Err(failure.clone().into()))
    }
}
