//! Watch of etcd's space: metrics, and log lines about problems when they begin.

use std::collections::BTreeSet;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use storage_etcd::Maintenance;
use tokio_util::sync::CancellationToken;

use super::judge::{self, Level};
use crate::etcd_files::EtcdFiles;

/// Interval of the queries. A database grows by megabytes in that time.
const INTERVAL: Duration = Duration::from_mins(1);

/// Metrics of etcd's space. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SpaceMetrics {
    size: Gauge,
    in_use: Gauge,
    quota: Gauge,
}

impl SpaceMetrics {
    /// Creates the metrics in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        registry.register(
            "capstan_etcd_database_size_bytes",
            "Size of the largest database of etcd's members, 0 before the first query",
            it.size.clone(),
        );
        registry.register(
            "capstan_etcd_database_in_use_bytes",
            "Bytes of that database that are in use",
            it.in_use.clone(),
        );
        registry.register(
            "capstan_etcd_database_quota_bytes",
            "Size above which that member refuses writes: its own word, or etcd's default",
            it.quota.clone(),
        );
        it
    }
}

/// Queries the members until the end. Its findings change only the metrics and the log.
pub(crate) async fn follow(files: EtcdFiles, metrics: SpaceMetrics, end: CancellationToken) {
    let mut known = BTreeSet::new();
    loop {
        if let Some(Err(error)) = end.run_until_cancelled(Box::pin(look(&files, &metrics, &mut known))).await
        {
            tracing::debug!(error = %format!("{error:#}"), "the members of etcd cannot be queried");
        }
        if end.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_none() {
            return;
        }
    }
}

async fn look(files: &EtcdFiles, metrics: &SpaceMetrics, known: &mut BTreeSet<String>) -> anyhow::Result<()> {
    let maintenance = Maintenance::new(files.read()?);
    let found = maintenance.members().await?;
    let largest = found.iter().filter_map(|(_, state)| state.as_ref().ok()).max_by_key(|state| state.size);
    if let Some(state) = largest {
        let gauge = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        metrics.size.set(gauge(state.size));
        metrics.in_use.set(gauge(state.in_use));
        metrics.quota.set(gauge(judge::quota(state)));
    }
    let mut findings = judge::members(&found);
    if known.is_empty() && !judge::is_any_full(&found) {
        // Only once: its requests are as large as the largest value.
        findings.extend(judge::limits(&maintenance.limits().await));
        findings.push(judge::compaction(&Box::pin(maintenance.may_compact()).await));
    }
    let mut present = BTreeSet::new();
    for finding in findings {
        // The sizes in a text change all the time.
        let subject: String = finding.text.chars().filter(|c| !c.is_ascii_digit()).collect();
        let is_new = !known.contains(&subject);
        match finding.level {
            Level::Ok => {}
            Level::Warning if is_new => tracing::warn!(finding = finding.text, "check of etcd"),
            Level::Error if is_new => tracing::error!(finding = finding.text, "check of etcd"),
            Level::Warning | Level::Error => {}
        }
        present.insert(subject);
    }
    *known = present;
    Ok(())
}
