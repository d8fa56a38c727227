//! Settings under `controllers`: election, and the requests to workload clusters.

use anyhow::bail;
use controllers_workload::RequestRate;
use serde::Deserialize;

/// Range of `qps`. Below it, a connection is not established in time.
const QPS: std::ops::RangeInclusive<f64> = 1.0..=10_000.0;

/// Settings of the controllers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Controllers {
    /// True if this server may be elected to run the controllers. Default: true.
    pub(crate) enabled: bool,
    /// Rate of the requests to each workload cluster.
    pub(crate) workload_client: WorkloadClient,
}

impl Default for Controllers {
    fn default() -> Self {
        Self { enabled: true, workload_client: WorkloadClient::default() }
    }
}

/// Rate of the requests to each workload cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WorkloadClient {
    /// Requests per second, in the long run. Range: 1 to 10000. Default: 20, as upstream.
    pub(crate) qps: f64,
    /// Requests that may be sent at once. Minimum: 1. Default: 30, as upstream.
    pub(crate) burst: u32,
}

impl Default for WorkloadClient {
    fn default() -> Self {
        let RequestRate { qps, burst } = RequestRate::default();
        Self { qps, burst }
    }
}

impl WorkloadClient {
    /// Returns the rate.
    pub(crate) fn rate(&self) -> RequestRate {
        RequestRate { qps: self.qps, burst: self.burst }
    }
}

impl Controllers {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let WorkloadClient { qps, burst } = self.workload_client;
        if !QPS.contains(&qps) {
            bail!(
                "controllers.workloadClient.qps: must be between {} and {}, not {qps}",
                QPS.start(),
                QPS.end()
            );
        }
        if burst == 0 {
            bail!("controllers.workloadClient.burst: must be at least 1");
        }
        Ok(())
    }
}
