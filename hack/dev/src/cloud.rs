//! Simulated OpenStack, whose servers are nodes of hollow clusters.

use anyhow::{Context, bail};
use tests_hollow_cluster::{HollowClusters, HollowOptions};
use tests_openstack_simulator::{GuestServer, Simulator, SimulatorOptions};

use crate::home::Home;

/// Address of the simulated OpenStack, which the credentials of the example name.
pub(crate) const ADDRESS: &str = "127.0.0.1:15000";

/// External network. Its addresses are those of this machine's loopback device, so that kubectl reaches the endpoint of
/// a cluster at its floating IP. Tests use other ranges.
const EXTERNAL_CIDR: &str = "127.254.0.0/20";

/// File with the state of the cloud.
const CLOUD_STATE: &str = "openstack.json";

/// File with the state of the nodes.
const NODE_STATE: &str = "nodes.json";

/// Running cloud.
pub(crate) struct Cloud {
    simulator: Simulator,
    nodes: HollowClusters,
}

impl Cloud {
    /// Starts the cloud and its nodes, with the state of an earlier run if there is one.
    pub(crate) async fn start(home: &Home) -> anyhow::Result<Self> {
        let (cloud, nodes) = (home.path(CLOUD_STATE), home.path(NODE_STATE));
        if cloud.exists() && !nodes.exists() {
            bail!(
                "{} is from an older version of this command: delete it with --fresh",
                home.shown(CLOUD_STATE)
            );
        }
        let options = SimulatorOptions {
            listen: ADDRESS.parse()?,
            state_file: Some(cloud),
            external_cidr: EXTERNAL_CIDR.to_owned(),
            ..SimulatorOptions::default()
        };
        let simulator =
            Simulator::start(options).await.context("the simulated OpenStack cannot be started")?;
        let options = HollowOptions { state_file: Some(nodes), ..HollowOptions::default() };
        let nodes = HollowClusters::resume(simulator.hypervisor(), options)
            .await
            .context("the nodes of the simulated OpenStack cannot be started")?;
        Ok(Self { simulator, nodes })
    }

    /// Stops everything and saves its state.
    pub(crate) async fn shutdown(self) -> anyhow::Result<()> {
        self.nodes.shutdown().await;
        self.simulator.shutdown().await.context("the simulated OpenStack could not save its state")
    }

    /// Returns a server, or `None` if it does not exist.
    pub(crate) fn server(&self, id: &str) -> Option<GuestServer> {
        self.simulator.hypervisor().servers().into_iter().find(|server| server.id == id)
    }

    /// Counts the successful calls of an action on a server, according to the cloud's own log.
    pub(crate) fn calls(&self, server: &str, action: &str) -> usize {
        let log = self.simulator.log();
        let calls = log.iter().filter(|call| {
            call.action.as_deref() == Some(action) && call.path.contains(server) && call.status < 300
        });
        calls.count()
    }

    /// Describes the servers that did not become nodes.
    pub(crate) fn boot_errors(&self) -> Vec<String> {
        let servers = self.simulator.hypervisor().servers();
        let error = |server: &GuestServer| {
            let error = self.nodes.boot_error(&server.id)?;
            Some(format!("server {} did not boot: {error}", server.name))
        };
        servers.iter().filter_map(error).collect()
    }
}
