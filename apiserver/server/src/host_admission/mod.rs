//! Admission configurations of the host cluster, which apply to the kinds that the host serves through Capstan.

mod copied;
mod endpoints;
mod held_maps;
mod parameters;
mod quotas;
mod reference;
mod services;
mod watches;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use apiserver_admission::{HostCluster, HostConfigurations, HostContact, HostParameters, HostService};
use apiserver_host::{HostConnection, HostHealth, MirrorFacts};
use apiserver_machinery::quota::{QuotaSource, SourceQuotas};
use apiserver_machinery::resource::Registry;
use async_trait::async_trait;
use kube::Client;
use serde_json::Value;
use tokio::sync::watch;

use crate::host_copies::RestoredAdmission;
use crate::host_watch::collect;
use copied::{Copied, TICK, fit};
use parameters::Parameters;
use quotas::HostQuotas;
use services::Services;
use watches::Watches;

pub(crate) use copied::CopiesToKeep;

/// Names of all copies in the store.
pub(crate) const COPIES: [&str; 3] = [CONFIGURATIONS, quotas::NAME, parameters::NAME];

/// Name of the copies of webhook configurations, policies and bindings.
const CONFIGURATIONS: &str = "admission";

/// Maximum size of the copies of configurations. A host with more is not copied any more. Unit: bytes.
const MOST: usize = 16 * 1024 * 1024;

/// Configurations of the host with their parameters, and quotas. Clones share them.
#[derive(Clone)]
pub(crate) struct HostAdmission(Arc<Shared>);

struct Shared {
    health: HostHealth,
    client: Client,
    configurations: Copied<Arc<HostConfigurations>>,
    parameters: Parameters,
    quotas: HostQuotas,
    services: Services,
    /// Notified after each change of the configurations.
    configured: watch::Sender<u64>,
    /// Notified after each change of a copy.
    changes: watch::Sender<u64>,
}

impl std::fmt::Debug for HostAdmission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostAdmission").finish_non_exhaustive()
    }
}

impl HostAdmission {
    /// Creates an admission that has read nothing. `registry` has the kinds that the quotas of the host may limit.
    pub(crate) fn new(connection: &HostConnection, registry: Registry) -> Self {
        let (health, changes) = (connection.health(), watch::Sender::new(0));
        let compute =
            |copies: &HashMap<String, Value>| Arc::new(HostConfigurations::of(copies.values().cloned()));
        Self(Arc::new(Shared {
            client: connection.watching(),
            configurations: Copied::new(CONFIGURATIONS, health.clone(), changes.clone(), compute),
            parameters: Parameters::new(health.clone(), changes.clone()),
            quotas: HostQuotas::new(registry, health.clone(), changes.clone()),
            services: Services::default(),
            configured: watch::Sender::new(0),
            health,
            changes,
        }))
    }

    /// Returns the host as the chain of admission sees it.
    pub(crate) fn cluster(&self) -> Arc<dyn HostCluster> {
        Arc::new(self.clone())
    }

    /// Returns the configurations; `None` if they have never been read.
    pub(crate) fn configurations(&self) -> Option<Arc<HostConfigurations>> {
        self.0.configurations.read().map(|read| Arc::clone(&read.deciding))
    }

    /// Returns all copies, as they are kept.
    pub(crate) fn to_keep(&self) -> [CopiesToKeep; 3] {
        [self.0.configurations.to_keep(), self.0.quotas.to_keep(), self.0.parameters.to_keep()]
    }

    /// Returns a receiver that is notified after each change of the configurations.
    pub(crate) fn configured(&self) -> watch::Receiver<u64> {
        self.0.configured.subscribe()
    }

    /// Returns a receiver that is notified after each change of a copy.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns what people see of the copies.
    pub(crate) fn facts(&self) -> [MirrorFacts; 3] {
        let left_out = self.configurations().map(|all| all.left_out.clone()).unwrap_or_default();
        let configurations = MirrorFacts { left_out, ..self.0.configurations.facts() };
        [configurations, self.0.quotas.facts(), self.0.parameters.facts()]
    }

    /// Applies copies of an earlier process.
    pub(crate) fn restore(&self, restored: RestoredAdmission) {
        let RestoredAdmission { name, objects, contact } = restored;
        match name {
            CONFIGURATIONS => self.configure(self.0.configurations.restore(objects, contact)),
            quotas::NAME => self.0.quotas.restore(objects, contact),
            parameters::NAME => self.0.parameters.restore(objects, contact),
            _ => {}
        }
    }

    /// Lets configurations apply, if they are new.
    fn configure(&self, are_new: bool) {
        let Some(configurations) = self.configurations().filter(|_| are_new) else { return };
        tracing::info!(
            applied = configurations.applied.len(),
            left_out = configurations.left_out.len(),
            "the admission configurations of the host cluster are read"
        );
        self.0.services.want(configurations.services());
        self.0.parameters.want(configurations.parameters());
        self.0.configured.send_modify(|count| *count += 1);
    }

    /// Follows the host. Never returns.
    pub(crate) async fn follow(&self) {
        let Shared { health, client, parameters, quotas, services, .. } = &*self.0;
        tokio::join!(
            health.while_reachable(|| async {
                // Answers before that are no copies.
                health.up().await;
                tokio::join!(
                    self.follow_configurations(),
                    services.follow(client),
                    parameters.follow(client),
                    quotas.follow(client),
                );
            }),
            self.tick(),
        );
    }

    async fn follow_configurations(&self) {
        let copied = &self.0.configurations;
        let _stale = copied.until_end();
        let (watches, changes) = Watches::start(&self.0.client);
        collect(changes, || {
            let is_complete = watches.are_read() && self.apply(watches.copies());
            copied.set_current(is_complete && watches.are_current());
        })
        .await;
    }

    /// Applies the configurations of the host, if they fit.
    fn apply(&self, copies: HashMap<String, Value>) -> bool {
        let fits = fit("admission configurations", &copies, MOST);
        self.configure(fits && self.0.configurations.set(copies));
        fits
    }

    async fn tick(&self) {
        loop {
            self.0.configurations.note_age();
            self.0.quotas.note_age();
            self.0.parameters.note_age();
            if self.0.health.age().is_zero() {
                self.0.services.synchronized();
            }
            tokio::time::sleep(TICK).await;
        }
    }
}

#[async_trait]
impl HostCluster for HostAdmission {
    fn contact(&self) -> HostContact {
        self.0.configurations.contact()
    }

    fn can_quotas_decide(&self) -> bool {
        self.0.quotas.can_decide()
    }

    async fn addresses(&self, service: &HostService) -> Result<Vec<SocketAddr>, String> {
        let has_answers = self.0.health.age().is_zero();
        self.0.services.addresses(service, has_answers).await
    }

    async fn parameters(&self, wanted: &HostParameters, namespace: &str) -> Result<Vec<Arc<Value>>, String> {
        let has_answers = self.0.health.age().is_zero();
        self.0.parameters.of(wanted, namespace, has_answers).await
    }
}

impl QuotaSource for HostAdmission {
    fn quotas(&self, namespace: &str) -> SourceQuotas {
        self.0.quotas.of_namespace(namespace)
    }
}
