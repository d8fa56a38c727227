//! Upkeep of the store: the record of this replica, the stored form, and the rewrite of values.

use std::sync::Arc;
use std::time::Duration;

use apiserver_http::Supervisor;
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::Registry;
use prometheus_client::registry::Registry as Metrics;
use storage_contract::Store;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::ServerConfiguration;
use crate::encryption_keys::EncryptionKeys;
use crate::replicas::{ReplicaMetrics, ReplicaRecord};
use crate::rewrite::{RewriteMetrics, Rewriter};
use crate::stored_form::StoredForm;

/// Parts that keep the store in order. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Upkeep {
    store: Arc<dyn Store>,
    encryption: Arc<Encryption>,
    form: StoredForm,
    /// Time for which all replicas must run a release before its stored form is committed.
    delay: Duration,
    /// Time with a form that this release cannot read after which the server exits.
    timeout: Duration,
    replica_metrics: ReplicaMetrics,
    rewrite_metrics: RewriteMetrics,
}

impl Upkeep {
    /// Creates them, with their metrics in a registry.
    ///
    /// # Errors
    /// A delay in the configuration that is no duration.
    pub(super) fn new(
        configuration: &ServerConfiguration,
        store: &Arc<dyn Store>,
        encryption: &EncryptionKeys,
        metrics: &mut Metrics,
    ) -> anyhow::Result<Self> {
        let (store, encryption) = (Arc::clone(store), encryption.encryption());
        Ok(Self {
            form: StoredForm::new(Arc::clone(&store), Arc::clone(&encryption), metrics),
            delay: configuration.form_delay()?,
            timeout: configuration.form_timeout()?,
            replica_metrics: ReplicaMetrics::registered(metrics),
            rewrite_metrics: RewriteMetrics::registered(metrics),
            store,
            encryption,
        })
    }

    /// Follows the stored form, and returns the keeper of the record of this replica, which has this address.
    ///
    /// The server shuts down if this release cannot read the form.
    pub(super) fn start(&self, address: String, supervisor: &Supervisor) -> ReplicaRecord {
        let form = self.form.clone().follow(supervisor.shutdown().clone(), self.timeout);
        supervisor.spawn("stored form", form);
        let (store, encryption) = (Arc::clone(&self.store), Arc::clone(&self.encryption));
        ReplicaRecord::new(store, encryption, address, self.replica_metrics.clone())
    }

    /// Spawns the tasks of the leader, which end with its term.
    pub(crate) fn lead(&self, registry: Arc<Registry>, term: &CancellationToken, running: &mut JoinSet<()>) {
        let (store, encryption) = (Arc::clone(&self.store), Arc::clone(&self.encryption));
        let rewriter = Rewriter::new(store, encryption, Some(registry), self.rewrite_metrics.clone());
        running.spawn(rewriter.run(term.clone()));
        running.spawn(self.form.clone().commit(self.delay, term.clone()));
    }

    /// Returns the reason why the server has ended, if it is an error.
    pub(super) fn result(&self, supervisor: &Supervisor) -> anyhow::Result<()> {
        self.form.result()?;
        supervisor.failure().map_or(Ok(()), |failure| Err(failure.clone().into()))
    }
}
