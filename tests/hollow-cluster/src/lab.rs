//! State that all tasks share.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tests_openstack_simulator::{GuestChanges, GuestServer, Hypervisor};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::access::LaterVerifier;
use crate::api::serve::{self, ApiServer};
use crate::calls::{Calls, EndpointFault};
use crate::cluster::Cluster;
use crate::faults::{BootStep, Faults};
use crate::options::HollowOptions;
use crate::persistence::SavedServer;
use crate::{kubelet, lock, pki, real};

/// Interval in which waiting steps look again.
const POLL: Duration = Duration::from_millis(20);

/// Result of the boot of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BootState {
    Running,
    Done,
    Failed(String),
}

/// Boot of a server.
#[derive(Debug, Clone)]
pub(crate) struct BootRecord {
    pub(crate) name: String,
    pub(crate) state: BootState,
}

/// Shared state.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) hypervisor: Hypervisor,
    pub(crate) options: HollowOptions,
    pub(crate) faults: Mutex<Faults>,
    pub(crate) calls: Arc<Calls>,
    /// Boots by server id.
    pub(crate) boots: Mutex<BTreeMap<String, BootRecord>>,
    /// Cluster of each server that has become a node.
    pub(crate) registered: Mutex<BTreeMap<String, SocketAddr>>,
    clusters: Mutex<BTreeMap<SocketAddr, Arc<Cluster>>>,
    /// Servers by id.
    servers: Mutex<BTreeMap<String, GuestServer>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl Lab {
    pub(crate) fn new(hypervisor: Hypervisor, options: HollowOptions, stop: CancellationToken) -> Self {
        Self {
            hypervisor,
            options,
            faults: Mutex::default(),
            calls: Arc::default(),
            boots: Mutex::default(),
            registered: Mutex::default(),
            clusters: Mutex::default(),
            servers: Mutex::default(),
            tasks: TaskTracker::new(),
            stop,
        }
    }

    /// Writes a line to the console of a server.
    pub(crate) fn console(&self, server: &GuestServer, line: &str) {
        self.hypervisor.append_console(&server.id, &format!("{line}\n"));
    }

    /// Returns the text of an injected failure.
    pub(crate) fn check_fault(&self, server: &GuestServer, step: BootStep) -> Result<(), String> {
        lock(&self.faults).failure(&server.name, step).map_or(Ok(()), Err)
    }

    /// Returns true if the kubelet of a server was killed by a test.
    pub(crate) fn is_kubelet_dead(&self, server: &str) -> bool {
        if lock(&self.faults).dead_kubelets.is_empty() {
            return false;
        }
        let dead = |name: &str| lock(&self.faults).dead_kubelets.contains(name);
        dead(server) || lock(&self.boots).get(server).is_some_and(|boot| dead(&boot.name))
    }

    /// Parses an endpoint. A hollow node resolves no names.
    #[expect(clippy::unused_self, reason = "the endpoint belongs to this lab's network")]
    pub(crate) fn endpoint(&self, endpoint: &str) -> Result<(String, SocketAddr), String> {
        let (host, port) = endpoint
            .rsplit_once(':')
            .ok_or_else(|| format!("the endpoint {endpoint:?} is not of the form host:port"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let ip: IpAddr = host
            .parse()
            .map_err(|_| format!("dial tcp: lookup {host}: no such host (a hollow node knows no DNS)"))?;
        let port = port.parse().map_err(|_| format!("the port of the endpoint {endpoint:?} is invalid"))?;
        Ok((host.to_owned(), SocketAddr::new(ip, port)))
    }

    pub(crate) fn cluster(&self, address: SocketAddr) -> Option<Arc<Cluster>> {
        lock(&self.clusters).get(&address).cloned()
    }

    pub(crate) fn clusters(&self) -> Vec<Arc<Cluster>> {
        lock(&self.clusters).values().cloned().collect()
    }

    /// Returns the cluster of which a server is a node.
    pub(crate) fn cluster_of(&self, server: &str) -> Option<Arc<Cluster>> {
        let address = *lock(&self.registered).get(server)?;
        self.cluster(address)
    }

    /// Adds a cluster. An endpoint belongs to one cluster as long as a control plane node of it runs.
    pub(crate) fn add_cluster(&self, cluster: Arc<Cluster>) -> Result<(), String> {
        let mut clusters = lock(&self.clusters);
        if clusters.get(&cluster.address).is_some_and(|held| held.has_running_control_plane()) {
            return Err(format!(
                "error execution phase preflight: a cluster already runs at https://{}: a second init would split it",
                cluster.address
            ));
        }
        if let Some(old) = clusters.insert(cluster.address, cluster) {
            old.stop_listening();
        }
        Ok(())
    }

    /// Adds the clusters and the boots of an earlier run.
    pub(crate) fn restore(&self, clusters: Vec<Arc<Cluster>>, boots: &[SavedServer]) {
        lock(&self.clusters).extend(clusters.into_iter().map(|cluster| (cluster.address, cluster)));
        for server in boots {
            let state = server.error.clone().map_or(BootState::Done, BootState::Failed);
            let record = BootRecord { name: server.name.clone(), state };
            lock(&self.boots).insert(server.id.clone(), record);
            if let Some(address) = server.cluster {
                lock(&self.registered).insert(server.id.clone(), address);
            }
        }
    }

    /// Removes a cluster that has never answered.
    pub(crate) fn remove_cluster(&self, cluster: &Arc<Cluster>) {
        let mut clusters = lock(&self.clusters);
        if clusters.get(&cluster.address).is_some_and(|held| Arc::ptr_eq(held, cluster)) {
            clusters.remove(&cluster.address);
        }
        cluster.stop_listening();
    }

    /// Waits until `ready` returns a value, at most for `limit`.
    pub(crate) async fn until<T>(&self, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
        let end = Instant::now() + limit;
        loop {
            if let Some(value) = ready() {
                return Some(value);
            }
            if Instant::now() >= end {
                return None;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Takes over the changes of the servers.
    pub(crate) fn take_over(&self, changes: &GuestChanges) {
        let mut servers = lock(&self.servers);
        for id in &changes.gone {
            servers.remove(id);
        }
        servers.extend(changes.present.iter().map(|server| (server.id.clone(), server.clone())));
    }

    /// Lets time pass for all clusters.
    pub(crate) async fn tend(&self) {
        for cluster in self.clusters() {
            self.tend_endpoint(&cluster).await;
            kubelet::tend(self, &cluster);
        }
    }

    /// Returns true if connections to the endpoint reach an API server that works.
    fn is_routed(&self, cluster: &Cluster) -> bool {
        let serving = cluster.serving();
        let leads_to = |server: &GuestServer| self.options.routes.leads_to(cluster.address.ip(), server);
        let servers = lock(&self.servers);
        serving.iter().filter_map(|id| servers.get(id)).any(leads_to)
    }

    /// Starts or stops the API of a cluster.
    async fn tend_endpoint(&self, cluster: &Arc<Cluster>) {
        let fault = self.calls.endpoints();
        let refuses = fault == Some(EndpointFault::Refuse) || cluster.is_down.load(Ordering::Relaxed);
        let wanted = !refuses && self.is_routed(cluster);
        if !wanted || *lock(&cluster.endpoint_fault) != fault {
            *lock(&cluster.endpoint_fault) = fault;
            cluster.stop_listening();
        } else if !cluster.is_listening() {
            let started = self.listen(cluster, fault).await.err();
            *lock(&cluster.listen_error) = started;
        }
    }

    async fn listen(&self, cluster: &Arc<Cluster>, fault: Option<EndpointFault>) -> Result<(), String> {
        if cluster.real.get().is_some() {
            return real::serve(self, cluster);
        }
        let listener = TcpListener::bind(cluster.address)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", cluster.address))?;
        let verifier = Arc::new(LaterVerifier::new(&cluster.pki.ca)?);
        let mut names: Vec<String> =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
                .map(str::to_owned)
                .to_vec();
        names.push(cluster.host.clone());
        names.extend(lock(&cluster.nodes).values().map(|node| node.name.clone()));
        let serving = match fault {
            Some(EndpointFault::OtherAuthority) => pki::foreign_serving("kube-apiserver", names)?,
            Some(EndpointFault::ExpiredCertificate) => {
                cluster.pki.ca.expired_serving("kube-apiserver", names)?
            }
            Some(EndpointFault::Refuse) | None => cluster.pki.ca.serving("kube-apiserver", names)?,
        };
        let acceptor_config = pki::server_config(verifier.clone(), serving, &["h2", "http/1.1"])?;
        let stop = self.stop.child_token();
        *lock(&cluster.listener) = Some(stop.clone());
        let cluster = Arc::clone(cluster);
        let (tasks, calls) = (self.tasks.clone(), Arc::clone(&self.calls));
        let server = ApiServer { cluster, verifier, acceptor_config, stop, tasks, calls };
        self.tasks.spawn(serve::run(Arc::new(server), listener));
        Ok(())
    }
}
