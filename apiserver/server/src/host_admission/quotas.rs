//! ResourceQuotas of the host cluster that limit kinds which the host serves through Capstan.
//!
//! Capstan reads only their limits. Their status belongs to the quota controller of the host, and Capstan counts by itself.

use std::collections::HashMap;
use std::sync::Arc;

use apiserver_admission::HostContact;
use apiserver_host::{HostHealth, MirrorFacts};
use apiserver_machinery::object;
use apiserver_machinery::quota::{Quota, SourceQuotas};
use apiserver_machinery::resource::Registry;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::copied::{Copied, CopiesToKeep, fit};
use crate::host_watch::{self, Progress, Watched, collect};

/// Name of the copies.
pub(super) const NAME: &str = "quotas";

const QUOTAS: Watched = Watched { what: "ResourceQuotas", may_be_unknown: false, flag: "--mirror" };

/// Maximum size of the copies. A host with more is not copied any more. Unit: bytes.
const MOST: usize = 16 * 1024 * 1024;

/// Quotas by namespace.
type OfNamespaces = HashMap<String, Vec<Quota>>;

/// Quotas of the host.
#[derive(Debug)]
pub(super) struct HostQuotas {
    registry: Registry,
    copied: Copied<OfNamespaces>,
}

impl HostQuotas {
    pub(super) fn new(registry: Registry, health: HostHealth, changes: watch::Sender<u64>) -> Self {
        Self { registry, copied: Copied::new(NAME, health, changes, of_namespaces) }
    }

    /// Returns the quotas of a namespace. A host that was never seen has none, so that Capstan starts without its host.
    pub(super) fn of_namespace(&self, namespace: &str) -> SourceQuotas {
        let contact = self.copied.contact();
        let Some(read) = self.copied.read() else { return unread(contact) };
        let quotas = read.deciding.get(namespace).cloned().unwrap_or_default();
        match contact {
            HostContact::Unusable(why) => SourceQuotas::Outdated(quotas, why),
            HostContact::Up | HostContact::Down => SourceQuotas::Known(quotas),
        }
    }

    /// Returns true if the quotas can decide about writes.
    pub(super) fn can_decide(&self) -> bool {
        match self.copied.contact() {
            HostContact::Unusable(_) => false,
            HostContact::Up => self.copied.read().is_some(),
            HostContact::Down => true,
        }
    }

    pub(super) fn to_keep(&self) -> CopiesToKeep {
        self.copied.to_keep()
    }

    pub(super) fn facts(&self) -> MirrorFacts {
        self.copied.facts()
    }

    pub(super) fn restore(&self, copies: HashMap<String, Value>, contact: Option<Timestamp>) {
        self.copied.restore(copies, contact);
    }

    pub(super) fn note_age(&self) {
        self.copied.note_age();
    }

    /// Follows the quotas of the host. Never returns.
    pub(super) async fn follow(&self, client: &Client) {
        let _stale = self.copied.until_end();
        let (registry, progress) = (self.registry.clone(), Arc::<Progress>::default());
        let strip = move |quota: &mut ResourceQuota| strip(quota, &registry);
        let (api, writer) = (Api::<ResourceQuota>::all(client.clone()), Writer::default());
        let config = watcher::Config::default();
        let (store, changes) =
            host_watch::stripped(api, config, writer, QUOTAS, Arc::clone(&progress), strip);
        collect(changes, || {
            let is_complete = progress.is_read() && self.apply(copies(&store, &self.registry));
            self.copied.set_current(is_complete && progress.is_current());
        })
        .await;
    }

    /// Applies the quotas of the host, if they fit.
    fn apply(&self, copies: HashMap<String, Value>) -> bool {
        let fits = fit("ResourceQuotas", &copies, MOST);
        if fits {
            let quotas = copies.len();
            if self.copied.set(copies) {
                tracing::info!(
                    quotas,
                    "the ResourceQuotas of the host cluster that limit kinds here are read"
                );
            }
        }
        fits
    }
}

/// Returns the quotas of a host that has never been read.
fn unread(contact: HostContact) -> SourceQuotas {
    let cause = match contact {
        HostContact::Down => return SourceQuotas::default(),
        HostContact::Up => "apply the output of `capstan host manifests --mirror`".to_owned(),
        HostContact::Unusable(why) => why,
    };
    SourceQuotas::Unread(format!(
        "the ResourceQuotas of the host cluster have not been read yet, and nothing was changed: {cause}"
    ))
}

/// Removes all but the limits, which are the only part that decides. Pods change the status of a quota all the time.
fn strip(quota: &mut ResourceQuota, registry: &Registry) {
    host_watch::strip(quota);
    quota.status = None;
    if of_host(quota, registry).is_none() {
        quota.spec = None;
    }
}

fn of_host(quota: &ResourceQuota, registry: &Registry) -> Option<Quota> {
    let object = json!({"metadata": {"name": quota.name_any()}, "spec": quota.spec});
    Quota::of_host(&object, registry)
}

/// Returns the quotas that limit kinds here, as `namespace/name`, with these limits only.
fn copies(store: &Store<ResourceQuota>, registry: &Registry) -> HashMap<String, Value> {
    let quotas = store.state().into_iter().filter_map(|quota| {
        let Quota { name, hard } = of_host(&quota, registry)?;
        let namespace = quota.namespace()?;
        let copy =
            json!({"metadata": {"namespace": namespace, "name": name}, "spec": {"hard": hard.to_value()}});
        Some((format!("{namespace}/{name}"), copy))
    });
    quotas.collect()
}

/// Returns the quotas of the copies, by name within each namespace.
fn of_namespaces(copies: &HashMap<String, Value>) -> OfNamespaces {
    let mut quotas = OfNamespaces::new();
    for copy in copies.values() {
        quotas.entry(object::namespace(copy).to_owned()).or_default().push(Quota::of(copy));
    }
    quotas.values_mut().for_each(|of_one| of_one.sort_by(|a, b| a.name.cmp(&b.name)));
    quotas
}

#[cfg(test)]
mod tests {
    use apiserver_host::HostMetrics;

    use super::*;

    const RULES: &str = "count/machinedrainrules.cluster.x-k8s.io";

    fn quota(name: &str, hard: &Value) -> ResourceQuota {
        let object = json!({"metadata": {"name": name, "namespace": "team", "labels": {"a": "b"}},
            "spec": {"hard": hard}, "status": {"hard": hard}});
        serde_json::from_value(object).unwrap()
    }

    fn quotas(health: HostHealth) -> HostQuotas {
        HostQuotas::new(apiserver_registry::registry(), health, watch::Sender::new(0))
    }

    fn ago(hours: i64) -> Timestamp {
        Timestamp::now() - jiff::SignedDuration::from_hours(hours)
    }

    /// Returns quotas of a host that answered these hours ago.
    fn restored(hours: i64) -> HostQuotas {
        let health = HostHealth::new(HostMetrics::default());
        health.restore_contact(ago(hours));
        let quotas = quotas(health);
        let hard = json!({RULES: "2"});
        let copy =
            |name: &str| json!({"metadata": {"name": name, "namespace": "team"}, "spec": {"hard": hard}});
        let copies = ["b", "a"].map(|name| (format!("team/{name}"), copy(name)));
        quotas.restore(copies.into(), Some(ago(hours)));
        quotas
    }

    #[test]
    fn only_limits_on_kinds_of_the_host_are_copied() {
        let registry = apiserver_registry::registry();
        let hard =
            json!({RULES: "2", "capstan.dev/servers.large": "1", "count/configmaps": "3", "pods": "4"});
        let mut found = quota("q", &hard);
        strip(&mut found, &registry);
        assert!(found.spec.is_some() && found.status.is_none());
        let hard = of_host(&found, &registry).unwrap().hard.to_value();
        assert_eq!(hard, json!({RULES: "2", "capstan.dev/servers.large": "1"}));
        let mut other = quota("pods", &json!({"pods": "4", "count/secrets": "1"}));
        strip(&mut other, &registry);
        assert!(other.spec.is_none(), "it limits nothing here");
    }

    #[test]
    fn copies_decide_for_a_day_and_each_namespace_has_its_own() {
        let young = restored(23);
        let SourceQuotas::Known(found) = young.of_namespace("team") else { panic!("they decide") };
        assert_eq!(found.iter().map(|quota| &*quota.name).collect::<Vec<_>>(), ["a", "b"]);
        assert!(young.can_decide() && young.of_namespace("other") == SourceQuotas::default());
        let old = restored(25);
        let SourceQuotas::Outdated(found, why) = old.of_namespace("team") else { panic!("they are too old") };
        assert!(found.len() == 2 && why.contains("25 hours ago"), "{why}");
        assert!(!old.can_decide());
    }

    #[test]
    fn a_host_that_answers_must_show_its_quotas() {
        let unread = quotas(HostHealth::default());
        let SourceQuotas::Unread(why) = unread.of_namespace("team") else { panic!("they may limit") };
        assert!(why.contains("--mirror") && !unread.can_decide(), "{why}");
    }
}
