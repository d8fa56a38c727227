//! Simulated OpenStack with hollow nodes, and an issuer of OpenID Connect tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::json;
use tests_hollow_cluster::{HollowClusters, HollowOptions, loopback_range};
use tests_oidc_issuer::{Issuer, SigningKey};
use tests_openstack_simulator::{LoggedCall, Simulator, SimulatorOptions};

/// Project of the clusters.
const PROJECT: &str = "demo";

/// Id of the issuer's key.
const KEY: &str = "first";

/// Lifetime of the issuer's token, and of those of Keystone. They must not end during the run, in which the clocks of the servers
/// are set forward by hours. Unit: seconds.
const LIFETIME: u64 = 12 * 3600;

/// Running cloud and issuer. They stay up during the outage, as clouds do.
pub(crate) struct Cloud {
    simulator: Simulator,
    nodes: HollowClusters,
    _issuer: Issuer,
}

impl Cloud {
    /// Starts all of it. Writes `authentication.yaml` and `issuer.token`.
    pub(crate) async fn start(address: SocketAddr, home: &Path) -> anyhow::Result<Self> {
        // Capstan's process reaches the endpoint of the cluster at its floating IP, which is an address of the loopback device.
        // Tests of hollow clusters run at the same time, and have other ranges.
        let external_cidr = loopback_range();
        let token_lifetime = Duration::from_secs(LIFETIME);
        let options = SimulatorOptions {
            listen: address,
            external_cidr,
            token_lifetime,
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(options).await.context("the cloud cannot be started")?;
        let nodes = HollowClusters::resume(simulator.hypervisor(), HollowOptions::default()).await?;
        let issuer = Issuer::start(vec![(KEY, SigningKey::new("ES256"))]).await;
        let configuration = json!({
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration",
            "jwt": [{
                "issuer": {"url": issuer.url(), "certificateAuthority": issuer.ca(), "audiences": ["capstan"]},
                "claimMappings": {"username": {"claim": "sub", "prefix": "oidc:"}}}]});
        std::fs::write(home.join("authentication.yaml"), configuration.to_string())?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
        let token = issuer.token(KEY, &json!({"sub": "olga", "exp": now + LIFETIME}));
        std::fs::write(home.join("issuer.token"), token)?;
        Ok(Self { simulator, nodes, _issuer: issuer })
    }

    /// Counts the servers that were ever created.
    pub(crate) fn creations(&self) -> usize {
        let is_creation =
            |call: &LoggedCall| call.method == "POST" && call.path.ends_with("/servers") && call.status < 300;
        self.simulator.log().iter().filter(|call| is_creation(call)).count()
    }

    /// Returns the ids of the servers that exist.
    pub(crate) fn servers(&self) -> BTreeSet<String> {
        self.simulator.hypervisor().servers().into_iter().map(|server| server.id).collect()
    }

    /// Returns the names that two resources of one kind have. Capstan gives each resource a name of its own.
    pub(crate) fn doubled(&self) -> Vec<String> {
        let found = self.simulator.inventory(PROJECT);
        let kinds = [
            ("servers", &found.servers),
            ("volumes", &found.volumes),
            ("ports", &found.ports),
            ("networks", &found.networks),
            ("subnets", &found.subnets),
            ("routers", &found.routers),
            ("security groups", &found.security_groups),
            ("load balancers", &found.load_balancers),
        ];
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for (kind, items) in kinds {
            for item in items.iter().filter(|item| !item.name.is_empty()) {
                *counts.entry((kind, &item.name)).or_default() += 1;
            }
        }
        let doubled = counts.into_iter().filter(|(_, count)| *count > 1);
        doubled.map(|((kind, name), count)| format!("{count} {kind} have the name {name}")).collect()
    }

    /// Describes the servers that did not become nodes.
    pub(crate) fn boot_errors(&self) -> String {
        let servers = self.simulator.hypervisor().servers();
        let errors = servers.iter().filter_map(|server| {
            let error = self.nodes.boot_error(&server.id)?;
            Some(format!("server {} did not boot: {error}", server.name))
        });
        errors.collect::<Vec<_>>().join("; ")
    }

    /// Stops all of it.
    pub(crate) async fn shutdown(self) -> anyhow::Result<()> {
        self.nodes.shutdown().await;
        Ok(self.simulator.shutdown().await?)
    }
}
