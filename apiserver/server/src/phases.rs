//! Metrics of Clusters and Machines by phase. They come from the watch cache of this replica.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver_machinery::selectors::{FieldSelector, LabelSelector};
use apiserver_machinery::store::{Freshness, ListRequest, ObjectStore, RevisionMatch};
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde_json::Value;
use storage_contract::Revision;
use tokio_util::sync::CancellationToken;

/// Interval of the counts. A count decodes all Machines, so that a shorter one would cost a large server much.
const INTERVAL: Duration = Duration::from_secs(60);

/// Interval until the cache can be read at the start.
const START: Duration = Duration::from_secs(1);

/// Group of both kinds.
const GROUP: &str = "cluster.x-k8s.io";

/// Phases of a Cluster.
const OF_CLUSTERS: [&str; 6] = ["Pending", "Provisioning", "Provisioned", "Deleting", "Failed", "Unknown"];

/// Phases of a Machine.
const OF_MACHINES: [&str; 9] = [
    "Pending",
    "Provisioning",
    "Provisioned",
    "Running",
    "Updating",
    "Deleting",
    "Deleted",
    "Failed",
    "Unknown",
];

/// Phases in which a Machine should not stay: before it runs, and while it is deleted.
const PASSING: [&str; 4] = ["Pending", "Provisioning", "Provisioned", "Deleting"];

/// Phase that a series is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

/// Metrics by phase. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct PhaseMetrics {
    clusters: Family<Phase, Gauge>,
    machines: Family<Phase, Gauge>,
    oldest: Family<Phase, Gauge>,
}

/// Phase of an object, and the time since when it should have left that phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Observed {
    phase: &'static str,
    since: Option<Timestamp>,
}

impl PhaseMetrics {
    /// Creates the metrics in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        registry.register("capstan_clusters", "Clusters in each phase", it.clusters.clone());
        registry.register("capstan_machines", "Machines in each phase", it.machines.clone());
        registry.register(
            "capstan_machines_oldest_seconds",
            "Time since the creation of the oldest Machine in a phase before Running, and since the deletion of the \
             oldest one that is deleted; 0 without a Machine",
            it.oldest.clone(),
        );
        it
    }

    fn show(&self, clusters: &[Observed], machines: &[Observed], now: Timestamp) {
        for (family, phases, objects) in
            [(&self.clusters, &OF_CLUSTERS[..], clusters), (&self.machines, &OF_MACHINES[..], machines)]
        {
            for (phase, count) in counts(phases, objects) {
                family.get_or_create(&Phase { phase }).set(count);
            }
        }
        for phase in PASSING {
            self.oldest.get_or_create(&Phase { phase }).set(oldest(machines, phase, now));
        }
    }
}

fn counts(phases: &[&'static str], objects: &[Observed]) -> BTreeMap<&'static str, i64> {
    let mut counts: BTreeMap<&'static str, i64> = phases.iter().map(|phase| (*phase, 0)).collect();
    for object in objects {
        *counts.entry(object.phase).or_default() += 1;
    }
    counts
}

/// Returns the age of the oldest Machine in a phase, in seconds.
fn oldest(machines: &[Observed], phase: &str, now: Timestamp) -> i64 {
    let since = machines.iter().filter(|it| it.phase == phase).filter_map(|it| it.since).min();
    since.map_or(0, |since| now.duration_since(since).as_secs().max(0))
}

/// Returns the phase of an object, one of these.
fn observe(object: &Value, phases: &[&'static str]) -> Observed {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let found = text("/status/phase").and_then(|found| phases.iter().find(|phase| **phase == found));
    let phase = found.copied().unwrap_or("Unknown");
    let path = match phase {
        "Deleting" => "/metadata/deletionTimestamp",
        _ => "/metadata/creationTimestamp",
    };
    Observed { phase, since: text(path).and_then(|time| time.parse().ok()) }
}

/// Counts the objects each minute, until the end.
pub(crate) async fn follow(objects: Arc<ObjectStore>, metrics: PhaseMetrics, end: CancellationToken) {
    let mut known: Option<(Revision, [Vec<Observed>; 2])> = None;
    loop {
        let revision = objects.cached_revision();
        if known.as_ref().is_none_or(|(of, _)| *of != revision) {
            let found = (
                list(&objects, "clusters", &OF_CLUSTERS).await,
                list(&objects, "machines", &OF_MACHINES).await,
            );
            if let (Some(clusters), Some(machines)) = found {
                known = Some((revision, [clusters, machines]));
            }
        }
        let pause = match &known {
            Some((_, [clusters, machines])) => {
                metrics.show(clusters, machines, Timestamp::now());
                INTERVAL
            }
            None => START,
        };
        if end.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// Returns the phases of all objects of a kind; `None` if the cache cannot be read now.
async fn list(objects: &ObjectStore, plural: &str, phases: &[&'static str]) -> Option<Vec<Observed>> {
    let request = ListRequest {
        namespace: String::new(),
        labels: LabelSelector::default(),
        fields: FieldSelector::default(),
        limit: 0,
        token: None,
        revision: RevisionMatch::AtLeast(Freshness::Any),
    };
    let listing = objects.list(objects.kind_of(GROUP, plural)?, &request).await.ok()?;
    let mut found = Vec::with_capacity(listing.items.len());
    for item in &listing.items {
        found.extend(item.to_value().ok().map(|object| observe(&object, phases)));
        // Decoding ten thousand objects takes long enough to delay requests on this thread.
        tokio::task::coop::consume_budget().await;
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use serde_json::json;

    use super::*;

    fn machine(phase: &str, created: &str, deleted: Option<&str>) -> Observed {
        let object = json!({"metadata": {"creationTimestamp": created, "deletionTimestamp": deleted},
            "status": {"phase": phase}});
        observe(&object, &OF_MACHINES)
    }

    #[test]
    fn machines_are_counted_by_phase_and_the_oldest_before_running_has_its_age() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:50:00Z");
        let machines = [
            machine("Provisioning", late, None),
            machine("Provisioning", early, None),
            machine("Running", early, None),
            machine("Deleting", early, Some(late)),
            machine("Odd", early, None),
        ];
        let mut registry = Registry::default();
        let metrics = PhaseMetrics::registered(&mut registry);
        metrics.show(&[], &machines, "2026-01-01T01:00:00Z".parse().unwrap());
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for expected in [
            "capstan_machines{phase=\"Provisioning\"} 2\n",
            "capstan_machines{phase=\"Running\"} 1\n",
            "capstan_machines{phase=\"Unknown\"} 1\n",
            "capstan_machines{phase=\"Failed\"} 0\n",
            "capstan_clusters{phase=\"Provisioned\"} 0\n",
            "capstan_machines_oldest_seconds{phase=\"Provisioning\"} 3600\n",
            "capstan_machines_oldest_seconds{phase=\"Deleting\"} 600\n",
            "capstan_machines_oldest_seconds{phase=\"Pending\"} 0\n",
        ] {
            assert!(text.contains(expected), "{expected}{text}");
        }
        assert!(
            !text.contains("oldest_seconds{phase=\"Running\"}"),
            "a Machine that runs is as old as it likes"
        );
        metrics.show(&[], &machines[2..], "2026-01-01T01:00:00Z".parse().unwrap());
        text.clear();
        encode(&mut text, &registry).unwrap();
        assert!(text.contains("capstan_machines{phase=\"Provisioning\"} 0\n"), "{text}");
    }
}
