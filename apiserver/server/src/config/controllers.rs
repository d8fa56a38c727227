//! Settings under `controllers`: election, queues, bootstrap tokens, metadata of Nodes, and the connections to workload
//! clusters.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{anyhow, bail};
use controllers_runtime::{ControllerSettings, NamespaceWeights, Patterns};
use controllers_workload::RequestRate;
use serde::Deserialize;

use crate::cli;

/// Shortest lifetime of a bootstrap token. Each of its three looks at a token costs a call to the workload cluster.
const SHORTEST_TTL: Duration = Duration::from_secs(60);

/// Range of `qps`. Below it, a connection is not established in time.
const QPS: std::ops::RangeInclusive<f64> = 1.0..=10_000.0;

/// Shortest `conditionsGrace`, as upstream: a kubelet that is restarted is silent for that long.
const SHORTEST: Duration = Duration::from_mins(2);

/// Settings of the controllers.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Controllers {
    /// True if this server may be elected to run the controllers. Default: true.
    pub(crate) enabled: bool,
    /// Time for which a bootstrap token is valid after each extension, e.g. `15m`. Default: 15m.
    #[serde(rename = "bootstrapTokenTTL")]
    pub(crate) bootstrap_token_ttl: Option<String>,
    /// Regular expressions. Labels of Machines with such a key are passed on to Nodes, in addition to those of the
    /// domains that upstream passes on. Default: none.
    pub(crate) node_labels: Vec<String>,
    /// The same for annotations. Default: none.
    pub(crate) node_annotations: Vec<String>,
    /// Regular expressions. The cloud may stop servers of these flavors at any time, so that their Nodes get the label
    /// `cluster.x-k8s.io/interruptible`. Default: none.
    pub(crate) interruptible_flavors: Vec<String>,
    /// Number of passes of a namespace in its turn, in the queue of each controller. Range: 1 to 100. Default: 1.
    pub(crate) namespace_weights: BTreeMap<String, i64>,
    /// Requests to each workload cluster, and what becomes of one that does not respond.
    pub(crate) workload_client: WorkloadClient,
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            enabled: true,
            bootstrap_token_ttl: None,
            node_labels: Vec::new(),
            node_annotations: Vec::new(),
            interruptible_flavors: Vec::new(),
            namespace_weights: BTreeMap::new(),
            workload_client: WorkloadClient::default(),
        }
    }
}

/// Requests to each workload cluster, and what becomes of one that does not respond.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct WorkloadClient {
    /// Requests per second, in the long run. Range: 1 to 10000. Default: 20, as upstream.
    pub(crate) qps: f64,
    /// Requests that may be sent at once. Minimum: 1. Default: 30, as upstream.
    pub(crate) burst: u32,
    /// Age of the last successful probe after which the cluster counts as down. Default: 50s, as upstream.
    pub(crate) connection_grace: Option<String>,
    /// Age of the last successful probe after which conditions about its Nodes become unknown. It is longer than
    /// `connectionGrace`. Minimum: 2m. Default: 5m, as upstream.
    pub(crate) conditions_grace: Option<String>,
}

impl Default for WorkloadClient {
    fn default() -> Self {
        let RequestRate { qps, burst } = RequestRate::default();
        Self { qps, burst, connection_grace: None, conditions_grace: None }
    }
}

impl WorkloadClient {
    /// Returns both grace periods.
    fn grace(&self) -> anyhow::Result<(Duration, Duration)> {
        let default = ControllerSettings::default();
        let given = |field: &str, text: Option<&String>, default| {
            duration(&format!("workloadClient.{field}"), text, default)
        };
        let connection = given("connectionGrace", self.connection_grace.as_ref(), default.connection_grace)?;
        let conditions = given("conditionsGrace", self.conditions_grace.as_ref(), default.conditions_grace)?;
        if conditions < SHORTEST || conditions <= connection {
            bail!(
                "controllers.workloadClient.conditionsGrace: must be at least 2m and longer than connectionGrace, \
                 which is {} s",
                connection.as_secs()
            );
        }
        Ok((connection, conditions))
    }

    /// Returns the rate.
    pub(crate) fn rate(&self) -> RequestRate {
        RequestRate { qps: self.qps, burst: self.burst }
    }
}

impl Controllers {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let WorkloadClient { qps, burst, .. } = self.workload_client;
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
        self.weights()?;
        self.settings().map(|_| ())
    }

    /// Returns the weights of namespaces in the queues.
    pub(crate) fn weights(&self) -> anyhow::Result<NamespaceWeights> {
        let weights = NamespaceWeights::new(&self.namespace_weights);
        weights.map_err(|error| anyhow!("controllers.namespaceWeights: {error}"))
    }

    fn bootstrap_token_lifetime(&self) -> anyhow::Result<Duration> {
        let (text, default) = (self.bootstrap_token_ttl.as_ref(), ControllerSettings::default());
        let lifetime = duration("bootstrapTokenTTL", text, default.bootstrap_token_lifetime)?;
        if lifetime < SHORTEST_TTL {
            bail!("controllers.bootstrapTokenTTL: must be at least {}s", SHORTEST_TTL.as_secs());
        }
        Ok(lifetime)
    }

    /// Returns the settings in the form that the controllers use.
    pub(crate) fn settings(&self) -> anyhow::Result<ControllerSettings> {
        let (connection_grace, conditions_grace) = self.workload_client.grace()?;
        Ok(ControllerSettings {
            bootstrap_token_lifetime: self.bootstrap_token_lifetime()?,
            connection_grace,
            conditions_grace,
            node_labels: patterns("nodeLabels", &self.node_labels)?,
            node_annotations: patterns("nodeAnnotations", &self.node_annotations)?,
            interruptible_flavors: patterns("interruptibleFlavors", &self.interruptible_flavors)?,
            restores: None,
            ..ControllerSettings::default()
        })
    }
}

fn duration(field: &str, given: Option<&String>, default: Duration) -> anyhow::Result<Duration> {
    let Some(text) = given else { return Ok(default) };
    cli::duration_or_none(text).map_err(|error| anyhow!("controllers.{field}: {error}"))
}

fn patterns(field: &str, expressions: &[String]) -> anyhow::Result<Patterns> {
    Patterns::new(expressions).map_err(|error| anyhow!("controllers.{field}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_reach_the_controllers_and_the_defaults_are_upstreams() {
        let read = |text: &str| serde_saphyr::from_str::<Controllers>(text).unwrap();
        let default = read("enabled: true");
        default.check().unwrap();
        assert_eq!(default.workload_client.rate(), RequestRate { qps: 20.0, burst: 30 });
        let settings = default.settings().unwrap();
        assert_eq!(settings.bootstrap_token_lifetime, Duration::from_mins(15));
        assert_eq!((settings.connection_grace.as_secs(), settings.conditions_grace.as_secs()), (50, 300));
        assert!(!settings.node_labels.matches("team") && !settings.interruptible_flavors.matches("spot"));
        let chosen = read(
            "{bootstrapTokenTTL: 2h, nodeLabels: [team], nodeAnnotations: [rack], interruptibleFlavors: ['^spot'], \
             namespaceWeights: {team-a: 2}, \
             workloadClient: {qps: 5, burst: 7, connectionGrace: 2m, conditionsGrace: 10m}}",
        );
        chosen.check().unwrap();
        assert_eq!(chosen.settings().unwrap().bootstrap_token_lifetime, Duration::from_hours(2));
        assert_eq!(chosen.workload_client.rate(), RequestRate { qps: 5.0, burst: 7 });
        let settings = chosen.settings().unwrap();
        assert_eq!((settings.connection_grace.as_secs(), settings.conditions_grace.as_secs()), (120, 600));
        assert!(
            settings.node_labels.matches("example.org/team") && settings.node_annotations.matches("rack")
        );
        assert!(settings.interruptible_flavors.matches("spot.small"));
        assert_eq!(default.weights().unwrap().of("team-a"), 1);
        let weights = chosen.weights().unwrap();
        assert_eq!((weights.of("team-a"), weights.of("team-b")), (2, 1));
    }
}
