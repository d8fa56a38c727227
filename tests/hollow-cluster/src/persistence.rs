//! State of all clusters in a file, so that they outlive the process.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tests_openstack_simulator::GuestServer;
use tokio::fs;

use crate::api::store::Store;
use crate::cluster::{Cluster, ClusterPki, HollowNode, KubeletState};
use crate::etcd::EtcdCluster;
use crate::guests::Guest;
use crate::lab::{BootState, Lab};
use crate::lock;
use crate::pki::Authority;

/// Contents of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SavedState {
    clusters: Vec<SavedCluster>,
    servers: Vec<SavedServer>,
}

/// Server that has executed its user data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SavedServer {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) boots: usize,
    pub(crate) disks: usize,
    /// Reason for which the server did not become a node.
    pub(crate) error: Option<String>,
    /// Endpoint of the cluster of which the server is a node.
    pub(crate) cluster: Option<SocketAddr>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedCluster {
    host: String,
    address: SocketAddr,
    version: String,
    pki: SavedPki,
    etcd: EtcdCluster,
    revision: u64,
    /// Objects, each with the plural name of its kind.
    objects: Vec<(String, Value)>,
    nodes: Vec<SavedNode>,
}

/// Certificates and keys, in PEM format.
#[derive(Debug, Serialize, Deserialize)]
struct SavedPki {
    ca: (String, String),
    etcd: Option<(String, String)>,
    front_proxy: (String, String),
    /// Public key in base64.
    service_accounts: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedNode {
    server: String,
    name: String,
    control_plane: bool,
    template: Value,
    boot: usize,
}

impl SavedPki {
    fn of(pki: &ClusterPki) -> Self {
        let pair = |authority: &Authority| (authority.pem.clone(), authority.key.clone());
        Self {
            ca: pair(&pki.ca),
            etcd: pki.etcd.as_ref().map(pair),
            front_proxy: pair(&pki.front_proxy),
            service_accounts: STANDARD.encode(&pki.service_accounts),
        }
    }

    fn restored(&self) -> Result<ClusterPki, String> {
        let read = |(certificate, key): &(String, String)| Authority::read(certificate, key);
        Ok(ClusterPki {
            ca: read(&self.ca)?,
            etcd: self.etcd.as_ref().map(read).transpose()?,
            front_proxy: read(&self.front_proxy)?,
            service_accounts: STANDARD.decode(&self.service_accounts).map_err(|error| error.to_string())?,
        })
    }
}

impl SavedCluster {
    fn of(cluster: &Cluster) -> Self {
        let (revision, objects) = cluster.store.snapshot();
        let nodes = lock(&cluster.nodes);
        let nodes = nodes.values().map(|node| SavedNode {
            server: node.server.clone(),
            name: node.name.clone(),
            control_plane: node.control_plane,
            template: node.template.clone(),
            boot: node.boot,
        });
        Self {
            host: cluster.host.clone(),
            address: cluster.address,
            version: cluster.version(),
            pki: SavedPki::of(&cluster.pki),
            etcd: lock(&cluster.etcd).clone(),
            revision,
            objects,
            nodes: nodes.collect(),
        }
    }

    /// Returns the cluster as it is after a start of the whole cloud: what ran then runs again.
    fn restored(self, servers: &[GuestServer]) -> Result<Cluster, String> {
        let store = Store::restored(self.revision, self.objects);
        let cluster = Cluster::with(&self.host, self.address, &self.version, self.pki.restored()?, store);
        let mut etcd = self.etcd;
        for saved in self.nodes {
            let running = servers.iter().any(|server| server.id == saved.server && server.running);
            let now = Instant::now();
            if saved.control_plane {
                etcd.finish_join(&saved.name);
                etcd.set_alive(&saved.name, running);
            }
            let node = HollowNode {
                server: saved.server.clone(),
                name: saved.name,
                control_plane: saved.control_plane,
                template: saved.template,
                boot: saved.boot,
                running,
                kubelet: if running { KubeletState::Starting(now) } else { KubeletState::Lost(now) },
            };
            lock(&cluster.nodes).insert(saved.server, node);
        }
        *lock(&cluster.etcd) = etcd;
        Ok(cluster)
    }
}

/// Returns the server as it is saved, or `None` while it boots for the first time: then it does so again.
fn saved(lab: &Lab, guest: &Guest) -> Option<SavedServer> {
    let server = &guest.server;
    let cluster = lab.cluster_of(&server.id).map(|cluster| cluster.address);
    let boot = lock(&lab.boots).get(&server.id)?.clone();
    let error = match boot.state {
        BootState::Running if cluster.is_none() => return None,
        BootState::Running | BootState::Done => None,
        BootState::Failed(error) => Some(error),
    };
    let (id, name) = (server.id.clone(), boot.name);
    Some(SavedServer { id, name, boots: server.boots, disks: server.disks, error, cluster })
}

/// File with the state of a lab.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: Option<PathBuf>,
    written: Vec<u8>,
}

impl StateFile {
    pub(crate) fn new(lab: &Lab) -> Self {
        Self { path: lab.options.state_file.clone(), written: Vec::new() }
    }

    /// Writes the state, if it has changed.
    pub(crate) async fn save(&mut self, lab: &Lab, guests: &BTreeMap<String, Guest>) {
        let Some(path) = &self.path else { return };
        let state = SavedState {
            clusters: lab.clusters().iter().map(|cluster| SavedCluster::of(cluster)).collect(),
            servers: guests.values().filter_map(|guest| saved(lab, guest)).collect(),
        };
        let result = match serde_json::to_vec(&state) {
            Ok(bytes) if bytes == self.written => return,
            Ok(bytes) => write(path, &bytes).await.map(|()| self.written = bytes),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = result {
            tracing::error!(path = %path.display(), error = %error, "cannot save the state");
        }
    }
}

/// Writes the bytes atomically: the file always has either the old or the new state.
async fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_added_extension("new");
    fs::write(&temporary, bytes).await?;
    fs::rename(&temporary, path).await
}

/// Restores the clusters of the lab's state file, and returns their servers. Without a file there are none.
pub(crate) async fn load(lab: &Lab) -> io::Result<Vec<SavedServer>> {
    let Some(path) = &lab.options.state_file else { return Ok(Vec::new()) };
    let about =
        |error: io::Error| io::Error::new(error.kind(), format!("state file {}: {error}", path.display()));
    let bytes = match fs::read(path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // The first write is immediate, so that an invalid path is reported at once.
            write(path, &serde_json::to_vec(&SavedState::default())?).await.map_err(about)?;
            return Ok(Vec::new());
        }
        Err(error) => return Err(about(error)),
    };
    let state: SavedState = serde_json::from_slice(&bytes).map_err(|error| about(error.into()))?;
    let servers = lab.hypervisor.servers();
    let clusters = state.clusters.into_iter().map(|saved| saved.restored(&servers).map(Arc::new));
    let clusters: Vec<Arc<Cluster>> =
        clusters.collect::<Result<_, _>>().map_err(|why| about(io::Error::other(why)))?;
    lab.restore(clusters, &state.servers);
    Ok(state.servers)
}
