//! Metrics of stored objects and of the watch cache.

use apiserver_machinery::store::{CacheSize, ObjectStore};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{CachePartLabels, KindLabels, ResourceLabels};
use super::number;

#[derive(Debug, Default)]
pub(super) struct ObjectMetrics {
    storage_objects: Family<ResourceLabels, Gauge>,
    resource_objects: Family<KindLabels, Gauge>,
    kept_changes: Family<KindLabels, Gauge>,
    cached_revision: Family<KindLabels, Gauge>,
    cached_bytes: Family<CachePartLabels, Gauge>,
    field_set_bytes: Gauge,
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
        registry.register(
            "capstan_watch_cache_bytes",
            "Memory of the watch cache, by kind and part",
            metrics.cached_bytes.clone(),
        );
        registry.register(
            "capstan_watch_cache_field_set_bytes",
            "Memory of the sets of managed fields that objects in the watch cache share",
            metrics.field_set_bytes.clone(),
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
        for (qualified, size) in objects.cache_sizes() {
            self.collect_size(&KindLabels::of(&qualified), size);
        }
        self.field_set_bytes.set(number(objects.field_set_bytes()));
    }

    fn collect_size(&self, kind: &KindLabels, size: CacheSize) {
        let CacheSize { items, history, repeats } = size;
        for (part, bytes) in [("objects", items), ("history", history), ("encoded", repeats)] {
            self.cached_bytes.get_or_create(&CachePartLabels::new(kind, part)).set(number(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn the_memory_of_the_watch_cache_is_shown_by_kind_and_part() {
        let mut registry = Registry::default();
        let metrics = ObjectMetrics::new(&mut registry);
        let size = CacheSize { items: 1, history: 2, repeats: 3 };
        metrics.collect_size(&KindLabels::of("machines.cluster.x-k8s.io"), size);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for (part, bytes) in [("objects", 1), ("history", 2), ("encoded", 3)] {
            let labels = format!("group=\"cluster.x-k8s.io\",resource=\"machines\",part=\"{part}\"");
            let line = format!("capstan_watch_cache_bytes{{{labels}}} {bytes}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.contains("capstan_watch_cache_field_set_bytes 0\n"), "{text}");
    }
}
