//! Metrics of stored objects and of the watch cache.

use apiserver_machinery::store::ObjectStore;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{KindLabels, ResourceLabels};
use super::number;

#[derive(Debug, Default)]
pub(super) struct ObjectMetrics {
    storage_objects: Family<ResourceLabels, Gauge>,
    resource_objects: Family<KindLabels, Gauge>,
    kept_changes: Family<KindLabels, Gauge>,
    cached_revision: Family<KindLabels, Gauge>,
}

impl ObjectMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("apiserver_storage_objects", "Objects stored", metrics.storage_objects.clone());
        registry.register(
            "apiserver_resource_objects",
            "Objects stored, by group and resource",
            metrics.resource_objects.clone(),
        );
        registry.register(
            "watch_cache_capacity",
            "Changes that the cache holds for watches to go on with",
            metrics.kept_changes.clone(),
        );
        registry.register(
            "apiserver_watch_cache_resource_version",
            "Up to where the cache shows everything",
            metrics.cached_revision.clone(),
        );
        metrics
    }

    pub(super) fn collect(&self, objects: &ObjectStore) {
        for (qualified, count) in objects.counts() {
            self.resource_objects.get_or_create(&KindLabels::of(&qualified)).set(number(count));
            self.storage_objects.get_or_create(&ResourceLabels { resource: qualified }).set(number(count));
        }
        let revision = i64::try_from(objects.cached_revision().number()).unwrap_or(i64::MAX);
        for (qualified, count) in objects.kept_changes() {
            let kind = KindLabels::of(&qualified);
            self.kept_changes.get_or_create(&kind).set(number(count));
            self.cached_revision.get_or_create(&kind).set(revision);
        }
    }
}
