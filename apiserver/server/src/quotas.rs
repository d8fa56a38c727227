//! Status of ResourceQuotas: the leader writes the amounts that the objects of each namespace use.
//!
//! The status is information for people. Each write counts the objects by itself before it is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apiserver_http::ApiServer;
use apiserver_machinery::quota::{Amounts, Quota, canonical};
use controllers_runtime::PolicyRule;
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use storage_contract::{Outage, Revision};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Identity that writes the status.
pub(crate) const IDENTITY: &str = "quotas";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[
    PolicyRule { groups: &[""], resources: &["resourcequotas"], verbs: PolicyRule::READ },
    PolicyRule { groups: &[""], resources: &["resourcequotas/status"], verbs: &["update"] },
];

/// Interval of the passes, in which something has changed. A pass counts all objects in namespaces with quotas, so more
/// passes would cost a large server much.
const INTERVAL: Duration = Duration::from_secs(2);

/// Interval after which all quotas are counted again, whatever has changed.
const RECOUNT: Duration = Duration::from_secs(5 * 60);

/// Writer of the status of quotas.
pub(crate) struct QuotaStatus {
    server: Arc<ApiServer>,
    client: Client,
}

impl QuotaStatus {
    /// Creates a writer. The client has the permissions [`RULES`].
    pub(crate) fn new(server: Arc<ApiServer>, client: Client) -> Self {
        Self { server, client }
    }

    /// Writes the status of all quotas after each change of an object, until `end`.
    pub(crate) async fn run(self, end: CancellationToken) {
        let _ = end.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&self) {
        let (mut counted, mut outage): (Option<(Revision, Instant)>, _) = (None, Outage::default());
        let mut ticks = tokio::time::interval(INTERVAL);
        loop {
            ticks.tick().await;
            let revision = self.server.objects().cached_revision();
            if counted.is_some_and(|(last, when)| last == revision && when.elapsed() < RECOUNT) {
                continue;
            }
            match self.pass().await {
                Ok(()) => counted = Some((revision, Instant::now())),
                Err(error) if outage.should_log() => {
                    tracing::warn!(error, "cannot write the status of quotas; retrying");
                }
                Err(_) => {}
            }
        }
    }

    async fn pass(&self) -> Result<(), String> {
        let quotas: Api<ResourceQuota> = Api::all(self.client.clone());
        let mut namespaces: BTreeMap<String, Vec<ResourceQuota>> = BTreeMap::new();
        for quota in quotas.list(&ListParams::default()).await.map_err(|error| error.to_string())? {
            namespaces.entry(quota.namespace().unwrap_or_default()).or_default().push(quota);
        }
        for (namespace, quotas) in namespaces {
            self.count(&namespace, quotas).await?;
        }
        Ok(())
    }

    /// Counts the objects of a namespace, and writes the status of its quotas.
    async fn count(&self, namespace: &str, objects: Vec<ResourceQuota>) -> Result<(), String> {
        let quota = |object: &ResourceQuota| serde_json::to_value(object).map(|object| Quota::of(&object));
        let quotas: Vec<Quota> =
            objects.iter().map(quota).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let names: BTreeSet<&str> = quotas.iter().flat_map(|quota| quota.hard.names()).collect();
        let used = self.server.objects().quota_usage(namespace, &names).await;
        let used = used.map_err(|error| error.message)?;
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), namespace);
        for (quota, mut object) in quotas.iter().zip(objects) {
            let status = Some(status(quota, &used));
            if object.status == status {
                continue;
            }
            object.status = status;
            match api.replace_status(&quota.name, &PostParams::default(), &object).await {
                // It has changed or is gone, and the next pass sees that.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                other => other.map(|_| ()).map_err(|error| error.to_string())?,
            }
        }
        Ok(())
    }
}

/// Returns the status of a quota. Amounts that no kind here uses are not enforced, and the status does not claim it.
fn status(quota: &Quota, used: &Amounts) -> ResourceQuotaStatus {
    let used = used.only(|name| quota.hard.get(name).is_some());
    let hard = quota.hard.only(|name| used.get(name).is_some());
    let map = |amounts: &Amounts| {
        let entries =
            amounts.names().map(|name| (name.to_owned(), Quantity(canonical(amounts.of_name(name)))));
        Some(entries.collect()).filter(|all: &BTreeMap<_, _>| !all.is_empty())
    };
    ResourceQuotaStatus { hard: map(&hard), used: map(&used) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_has_only_amounts_that_are_enforced() {
        let quota = Quota::of(
            &json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "1000", "cpu": "2"}}}),
        );
        let used = Amounts::of(&json!({"count/secrets": 3, "count/configmaps": 9}));
        let status = serde_json::to_value(status(&quota, &used)).unwrap();
        assert_eq!(status, json!({"hard": {"count/secrets": "1k"}, "used": {"count/secrets": "3"}}));
    }

    #[test]
    fn a_quota_without_amounts_has_an_empty_status() {
        let quota = Quota::of(&json!({"metadata": {"name": "q"}, "spec": {}}));
        assert_eq!(serde_json::to_value(status(&quota, &Amounts::default())).unwrap(), json!({}));
    }
}
