//! Handle of all hollow clusters, for tests.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tests_openstack_simulator::Hypervisor;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::calls::{EndpointFault, WorkloadCall, WorkloadFault};
use crate::cluster::Cluster;
use crate::etcd::EtcdMember;
use crate::faults::BootStep;
use crate::lab::{BootState, Lab};
use crate::options::HollowOptions;
use crate::{guests, lock, persistence};

/// Hollow clusters of one simulated cloud. Dropping it stops them.
#[derive(Debug)]
pub struct HollowClusters {
    lab: Arc<Lab>,
    stop: DropGuard,
}

impl HollowClusters {
    /// Starts to turn the servers of a cloud into nodes. It must be called within a Tokio runtime.
    #[must_use]
    pub fn start(hypervisor: Hypervisor, options: HollowOptions) -> Self {
        let stop = CancellationToken::new();
        let lab = Arc::new(Lab::new(hypervisor, options, stop.clone()));
        lab.tasks.spawn(guests::run(Arc::clone(&lab), Vec::new()));
        Self { lab, stop: stop.drop_guard() }
    }

    /// Starts as [`Self::start`] does, with the clusters of the state file if it exists. The cloud must have its state
    /// of that time, too.
    ///
    /// # Errors
    ///
    /// Returns an error if the state file cannot be read, parsed or written.
    pub async fn resume(hypervisor: Hypervisor, options: HollowOptions) -> io::Result<Self> {
        let stop = CancellationToken::new();
        let lab = Arc::new(Lab::new(hypervisor, options, stop.clone()));
        let servers = persistence::load(&lab).await?;
        lab.tasks.spawn(guests::run(Arc::clone(&lab), servers));
        Ok(Self { lab, stop: stop.drop_guard() })
    }

    /// Stops all clusters, and waits for their tasks.
    pub async fn shutdown(self) {
        self.stop.disarm().cancel();
        self.lab.tasks.close();
        self.lab.tasks.wait().await;
    }

    /// Returns the endpoints of all clusters.
    #[must_use]
    pub fn endpoints(&self) -> Vec<SocketAddr> {
        self.lab.clusters().iter().map(|cluster| cluster.address).collect()
    }

    /// Returns the endpoint of the cluster with this certificate authority in PEM format.
    #[must_use]
    pub fn endpoint_of_authority(&self, pem: &str) -> Option<SocketAddr> {
        let clusters = self.lab.clusters();
        let found = clusters.iter().find(|cluster| cluster.pki.ca.pem.trim() == pem.trim());
        found.map(|cluster| cluster.address)
    }

    /// Returns true if the API of a cluster accepts connections.
    #[must_use]
    pub fn is_listening(&self, endpoint: SocketAddr) -> bool {
        self.cluster(endpoint).is_some_and(|cluster| cluster.is_listening())
    }

    /// Returns the Node objects of a cluster. It works even if the API is down.
    #[must_use]
    pub fn nodes(&self, endpoint: SocketAddr) -> Vec<Value> {
        self.objects(endpoint, "nodes", None)
    }

    /// Returns the objects of a kind, e.g. `pods`, of one namespace or of all.
    #[must_use]
    pub fn objects(&self, endpoint: SocketAddr, plural: &'static str, namespace: Option<&str>) -> Vec<Value> {
        let Some(cluster) = self.cluster(endpoint) else { return Vec::new() };
        cluster.store.list(plural, namespace).0.iter().map(|object| Value::clone(object)).collect()
    }

    /// Returns the etcd members of a cluster.
    #[must_use]
    pub fn etcd_members(&self, endpoint: SocketAddr) -> Vec<EtcdMember> {
        self.cluster(endpoint).map(|cluster| lock(&cluster.etcd).members.clone()).unwrap_or_default()
    }

    /// Returns the name of the etcd member that leads.
    #[must_use]
    pub fn etcd_leader(&self, endpoint: SocketAddr) -> Option<String> {
        let cluster = self.cluster(endpoint)?;
        let etcd = lock(&cluster.etcd);
        let leader = etcd.members.iter().find(|member| member.id == etcd.leader);
        leader.map(|member| member.name.clone())
    }

    /// Returns the number of times at which etcd lost its quorum.
    #[must_use]
    pub fn quorum_losses(&self, endpoint: SocketAddr) -> u64 {
        self.cluster(endpoint).map(|cluster| lock(&cluster.etcd).quorum_losses).unwrap_or_default()
    }

    /// Returns the reason for which a server, by name or id, did not become a node.
    #[must_use]
    pub fn boot_error(&self, server: &str) -> Option<String> {
        match self.boot_state(server)? {
            BootState::Failed(error) => Some(error),
            BootState::Running | BootState::Done => None,
        }
    }

    /// Returns true if a server, by name or id, has executed its user data without an error.
    #[must_use]
    pub fn has_booted(&self, server: &str) -> bool {
        self.boot_state(server) == Some(BootState::Done)
    }

    fn boot_state(&self, server: &str) -> Option<BootState> {
        let boots = lock(&self.lab.boots);
        let found = boots.iter().find(|(id, boot)| *id == server || boot.name == server);
        found.map(|(_, boot)| boot.state.clone())
    }

    fn cluster(&self, endpoint: SocketAddr) -> Option<Arc<Cluster>> {
        self.lab.cluster(endpoint)
    }

    /// Kills the kubelet of a server, by name or id, or lets it live again.
    pub fn kubelet_dead(&self, server: &str, dead: bool) {
        let mut faults = lock(&self.lab.faults);
        if dead {
            faults.dead_kubelets.insert(server.to_owned());
        } else {
            faults.dead_kubelets.remove(server);
        }
    }

    /// Stops the API of a cluster, or lets it start again.
    pub fn api_down(&self, endpoint: SocketAddr, down: bool) {
        if let Some(cluster) = self.cluster(endpoint) {
            cluster.is_down.store(down, Ordering::Relaxed);
            if down {
                cluster.stop_listening();
            }
        }
    }

    /// Kills the etcd member of a node for ever. Returns false if there is none.
    pub fn etcd_member_lost(&self, endpoint: SocketAddr, node: &str) -> bool {
        self.cluster(endpoint).is_some_and(|cluster| lock(&cluster.etcd).lose(node))
    }

    /// Raises an alarm of the etcd member of a node: `NOSPACE` or `CORRUPT`. Returns false if there is none.
    pub fn etcd_alarm(&self, endpoint: SocketAddr, node: &str, alarm: &str) -> bool {
        self.cluster(endpoint).is_some_and(|cluster| lock(&cluster.etcd).raise(node, alarm))
    }

    /// Makes the endpoints unreachable for nodes that join, or reachable again.
    pub fn refuse_joins(&self, refuse: bool) {
        lock(&self.lab.faults).refuses_joins = refuse;
    }

    /// Sets the time from the start of a server to its first look at the user data. It also applies to servers that
    /// boot now.
    pub fn boot_delay(&self, delay: Duration) {
        lock(&self.lab.faults).boot_delay = Some(delay);
    }

    /// Makes a step of the boot fail, on servers whose name begins with the prefix.
    pub fn boot_failure(&self, prefix: &str, step: BootStep) {
        lock(&self.lab.faults).boot_failures.push((prefix.to_owned(), step));
    }

    /// Ends the failures that [`Self::boot_failure`] has set.
    pub fn clear_boot_failures(&self) {
        lock(&self.lab.faults).boot_failures.clear();
    }

    /// Makes calls of the workload APIs fail.
    pub fn inject(&self, fault: WorkloadFault) {
        self.lab.calls.inject(fault);
    }

    /// Makes the endpoints of all clusters fail, or work again.
    pub fn endpoint_fault(&self, fault: Option<EndpointFault>) {
        self.lab.calls.set_endpoints(fault);
    }

    /// Ends the failures of one kind of call.
    pub fn clear_faults_of(&self, call: &WorkloadCall) {
        self.lab.calls.clear_faults_of(call);
    }

    /// Ends the failures of calls and of endpoints.
    pub fn clear_faults(&self) {
        self.lab.calls.clear_faults();
    }

    /// Returns the kinds of the calls so far, with their number. All clusters count.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<WorkloadCall, u64> {
        self.lab.calls.seen()
    }

    /// Returns the kinds of the calls that failed because a test wanted it, with their number.
    #[must_use]
    pub fn failed_calls(&self) -> BTreeMap<WorkloadCall, u64> {
        self.lab.calls.failed()
    }

    /// Forgets the calls so far.
    pub fn forget_calls(&self) {
        self.lab.calls.forget();
    }
}
