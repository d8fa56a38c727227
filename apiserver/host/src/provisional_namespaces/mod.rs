//! Provisional namespaces: those that users have created in Capstan's own store while the host cluster did not answer.
//!
//! The leader creates them in the host when it is up. From then on the namespace is the host's, with the objects in it.

mod decide;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::health::{Backlog, HostHealth};
use crate::manifests::cluster_role;
use crate::metrics::Outbox;
use crate::write_back::Refusal;
use crate::write_limit::WriteLimit;
use decide::{Step, copy, is_provisional, refusal, shown, step, without_finalizer};

/// Field manager of the Namespaces in the host.
const MANAGER: &str = "capstan";

/// Name of the role that lets Capstan create namespaces in the host, and of its binding.
const ROLE: &str = "capstan:namespaces";

/// Interval of the passes. A client that waits for its namespace in the host waits for at most two of them.
const INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a refusal, which lasts until a person acts.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

/// Writer of one term of the leader.
///
/// *Flow.* Each pass lists Capstan's own Namespaces. It creates a provisional one in the host if the host does not have it.
/// If the host has it, Capstan's own Namespace ends, and its objects stay.
///
/// *Guarantees.* Nothing is written while the host is not up. A namespace of the host is never changed. The own Namespace
/// is the only record, so an outage, a failover or a restart loses nothing.
pub struct ProvisionalNamespaces {
    own: Client,
    client: Client,
    health: HostHealth,
    limit: WriteLimit,
    /// Times of the next attempts for namespaces that the host refuses.
    refused: HashMap<String, Instant>,
}

impl std::fmt::Debug for ProvisionalNamespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProvisionalNamespaces").finish_non_exhaustive()
    }
}

impl ProvisionalNamespaces {
    /// Creates a writer. `own` reads and ends Capstan's own Namespaces, and `client` is one of the host cluster.
    pub fn new(own: Client, client: Client, health: HostHealth, limit: WriteLimit) -> Self {
        Self { own, client, health, limit, refused: HashMap::new() }
    }

    /// Writes until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let _ = shutdown.run_until_cancelled(self.follow()).await;
        self.health.report_backlog(Outbox::Namespaces, None);
    }

    /// Makes passes. Never returns.
    async fn follow(&mut self) {
        loop {
            if let Err(error) = self.pass().await {
                tracing::debug!(%error, "the provisional namespaces cannot be compared with those of the host; retrying");
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn pass(&mut self) -> Result<(), kube::Error> {
        let mut waiting = self.own().list(&ListParams::default().match_any()).await?.items;
        waiting.retain(is_provisional);
        self.refused.retain(|name, _| waiting.iter().any(|it| it.name_any() == *name));
        self.report(&waiting);
        let mut result = Ok(());
        for namespace in &waiting {
            let is_due = self.refused.get(&namespace.name_any()).is_none_or(|at| *at <= Instant::now());
            if is_due && self.health.state().believes_absence() {
                // An error stops no other.
                if let Err(error) = self.compare(namespace).await {
                    result = Err(error);
                }
            }
        }
        result
    }

    /// Publishes the number of namespaces that the host does not have.
    fn report(&self, waiting: &[Namespace]) {
        let now = Timestamp::now();
        let ages = waiting.iter().filter_map(|it| it.metadata.creation_timestamp.as_ref());
        let ages = ages.filter_map(|Time(at)| Duration::try_from(now.duration_since(*at)).ok());
        let (objects, refused) = (waiting.len(), self.refused.len());
        let backlog = Backlog { objects, oldest: ages.max().unwrap_or_default(), refused };
        self.health.report_backlog(Outbox::Namespaces, Some(backlog));
    }

    /// Makes one step for a namespace.
    async fn compare(&mut self, namespace: &Namespace) -> Result<(), kube::Error> {
        let name = namespace.name_any();
        let host: Api<Namespace> = Api::all(self.client.clone());
        let found = self.limit.read(host.get_opt(&name)).await?;
        match step(found.as_ref()) {
            Step::Wait => Ok(()),
            Step::HandOver => self.hand_over(namespace).await,
            Step::Create => {
                let params = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
                let created = self.limit.write(host.create(&params, &copy(namespace))).await;
                let Err(error) = created else {
                    tracing::info!(
                        namespace = name,
                        "a provisional namespace was created in the host cluster"
                    );
                    return Ok(());
                };
                match refusal(&name, &error).filter(|_| self.health.state().believes_absence()) {
                    Some(refusal) => self.refuse(namespace, &refusal).await,
                    None => Err(error),
                }
            }
        }
    }

    /// Removes Capstan's own Namespace, and nothing in it. The finalizer goes first: with it, the namespace controller would
    /// empty the namespace if the host lost its own one at this moment.
    async fn hand_over(&self, namespace: &Namespace) -> Result<(), kube::Error> {
        let (own, name) = (self.own(), namespace.name_any());
        let settled = without_finalizer(namespace);
        let settled = own.replace_subresource("finalize", &name, &PostParams::default(), &settled).await?;
        let preconditions =
            Preconditions { uid: settled.uid(), resource_version: settled.resource_version() };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        own.delete(&name, &params).await?;
        tracing::info!(
            namespace = name,
            "the host cluster has a provisional namespace, so Capstan's own one has ended"
        );
        Ok(())
    }

    /// Shows a refusal as a condition of Capstan's own Namespace.
    async fn refuse(&mut self, namespace: &Namespace, refusal: &Refusal) -> Result<(), kube::Error> {
        let name = namespace.name_any();
        self.refused.insert(name.clone(), Instant::now() + REFUSED_PAUSE);
        let Some(shown) = shown(namespace, refusal, Time(Timestamp::now())) else { return Ok(()) };
        self.own().replace_status(&name, &PostParams::default(), &shown).await?;
        Ok(())
    }

    fn own(&self) -> Api<Namespace> {
        Api::all(self.own.clone())
    }
}

/// Returns the role that lets Capstan create namespaces, and its binding. It can neither change nor delete one.
pub(crate) fn access(subjects: &Value) -> [Value; 2] {
    let rule = json!({"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]});
    cluster_role(ROLE, &[rule], subjects)
}
