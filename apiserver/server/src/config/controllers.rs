//! Settings under `controllers`: election, metadata of Nodes, and the requests to workload clusters.

use anyhow::{anyhow, bail};
use controllers_runtime::{ControllerSettings, Patterns};
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
    /// Regular expressions. Labels of Machines with such a key are passed on to Nodes, in addition to those of the
    /// domains that upstream passes on. Default: none.
    pub(crate) node_labels: Vec<String>,
    /// The same for annotations. Default: none.
    pub(crate) node_annotations: Vec<String>,
    /// Regular expressions. The cloud may stop servers of these flavors at any time, so that their Nodes get the label
    /// `cluster.x-k8s.io/interruptible`. Default: none.
    pub(crate) interruptible_flavors: Vec<String>,
    /// Rate of the requests to each workload cluster.
    pub(crate) workload_client: WorkloadClient,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            enabled: true,
            node_labels: Vec::new(),
            node_annotations: Vec::new(),
            interruptible_flavors: Vec::new(),
            workload_client: WorkloadClient::default(),
        }
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
        self.settings().map(|_| ())
    }

    /// Returns the settings in the form that the controllers use.
    pub(crate) fn settings(&self) -> anyhow::Result<ControllerSettings> {
        Ok(ControllerSettings {
            node_labels: patterns("nodeLabels", &self.node_labels)?,
            node_annotations: patterns("nodeAnnotations", &self.node_annotations)?,
            interruptible_flavors: patterns("interruptibleFlavors", &self.interruptible_flavors)?,
        })
    }
}

fn patterns(field: &str, expressions: &[String]) -> anyhow::Result<Patterns> {
    Patterns::new(expressions).map_err(|error| anyhow!("controllers.{field}: {error}"))
}
