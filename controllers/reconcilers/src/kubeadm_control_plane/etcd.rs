//! Calls to etcd of the workload cluster.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use apiserver_types::KubeadmControlPlane;
use controllers_bootstrap::certificates::{KeyAlgorithm, PemPair, client_certificate};
use controllers_runtime::ReconcileError;
use controllers_workload::WorkloadError;
use controllers_workload::etcd::{Etcd, EtcdAccess, EtcdCredentials};
use jiff::Timestamp;
use kube::{Client, ResourceExt};

use super::certificates;
use super::etcd_projection::Member;
use super::learner_slot;
use super::observe::Observed;
use super::replica::Replica;

/// User of the client certificate. Upstream's.
const USER: &str = "cluster-api.x-k8s.io";

/// Validity of the client certificate: 10 years. Upstream's; it exists in memory only.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Time after which a client certificate is made anew. Upstream's.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Connector to the etcd of a workload cluster.
pub trait EtcdConnector: Send + Sync + Debug + 'static {
    /// Prepares the access to etcd on Nodes, in the order of the attempts. No call is made yet.
    ///
    /// # Errors
    /// The credentials cannot be used.
    fn connect(
        &self,
        client: Client,
        nodes: Vec<String>,
        credentials: &EtcdCredentials,
    ) -> Result<Arc<dyn Etcd>, WorkloadError>;
}

/// Connector through forwarded ports of the pods.
#[derive(Debug, Default)]
pub(super) struct ForwardedPorts;

impl EtcdConnector for ForwardedPorts {
    fn connect(
        &self,
        client: Client,
        nodes: Vec<String>,
        credentials: &EtcdCredentials,
    ) -> Result<Arc<dyn Etcd>, WorkloadError> {
        Ok(Arc::new(EtcdAccess::new(client, nodes, credentials)?))
    }
}

/// Client certificates, by the uid of the control plane. They are lost with the process.
#[derive(Debug, Default)]
pub(super) struct Credentials(Mutex<HashMap<String, Known>>);

/// Hash of the authority and the algorithm, time, and certificate.
type Known = (u64, Instant, EtcdCredentials);

impl Credentials {
    /// Returns a client certificate that an authority has signed.
    async fn of(
        &self,
        control_plane: &KubeadmControlPlane,
        authority: &PemPair,
    ) -> Result<EtcdCredentials, String> {
        let uid = control_plane.uid().unwrap_or_default();
        let algorithm = certificates::algorithm(control_plane);
        let mut hasher = DefaultHasher::new();
        (&authority.certificate, &authority.key, format!("{algorithm:?}")).hash(&mut hasher);
        let hash = hasher.finish();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).cloned();
        if let Some((of, at, credentials)) = known
            && of == hash
            && at.elapsed() < KEPT
        {
            return Ok(credentials);
        }
        let made = make(authority.clone(), algorithm).await?;
        let entry = (hash, Instant::now(), made.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, entry);
        Ok(made)
    }
}

/// Makes a client certificate outside the threads of the runtime: a long RSA key takes seconds.
async fn make(authority: PemPair, algorithm: KeyAlgorithm) -> Result<EtcdCredentials, String> {
    let made = tokio::task::spawn_blocking(move || {
        let client = client_certificate(&authority, USER, None, VALIDITY, algorithm, Timestamp::now())?;
        Ok(EtcdCredentials {
            ca: authority.certificate.into_bytes(),
            certificate: client.certificate.into_bytes(),
            key: client.key.into_bytes(),
        })
    });
    let made = made.await.map_err(|error| error.to_string())?;
    made.map_err(|error: controllers_bootstrap::certificates::CertificateError| error.to_string())
}

/// Prepares the access to etcd.
pub(super) async fn connect(
    connector: &dyn EtcdConnector,
    credentials: &Credentials,
    client: Client,
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
) -> Result<Arc<dyn Etcd>, String> {
    let authority = observed.certificates.etcd.as_ref().filter(|ca| !ca.key.is_empty());
    let authority = authority.ok_or_else(|| "the Secret with the authority of etcd has no key".to_owned())?;
    let credentials = credentials.of(control_plane, authority).await?;
    let mut replicas: Vec<&Replica> = observed.replicas.iter().collect();
    replicas.sort_by_key(|it| !it.holds("EtcdMemberHealthy"));
    let nodes = replicas.iter().filter_map(|it| it.node()).map(str::to_owned).collect();
    connector.connect(client, nodes, &credentials).map_err(|error| error.to_string())
}

/// Returns the members of etcd, with their alarms.
pub(super) async fn members(etcd: &dyn Etcd) -> Result<Vec<Member>, String> {
    let members = etcd.members().await.map_err(|error| error.to_string())?;
    let alarms = etcd.alarms().await.map_err(|error| error.to_string())?;
    let member = |it: controllers_workload::etcd::Member| Member {
        id: it.id,
        has_alarm: alarms.iter().any(|alarm| alarm.member_id == it.id),
        name: it.name,
        is_learner: it.is_learner,
        peer_urls: it.peer_urls,
    };
    Ok(members.into_iter().map(member).collect())
}

/// Hands over the leadership, if the member on a Node has it. Returns the Node of the new leader.
///
/// # Errors
/// The leader is not known, or no other member takes over.
pub(super) async fn forward_leadership(
    observed: &Observed,
    leaving: &str,
) -> Result<Option<String>, ReconcileError> {
    let etcd = observed.etcd.as_deref().ok_or_else(not_connected)?;
    let (members, leader) = (etcd.members().await, etcd.leader().await);
    let (members, leader) =
        (members.map_err(|error| unreachable(&error))?, leader.map_err(|error| unreachable(&error))?);
    if !members.iter().any(|member| member.id == leader && member.name == leaving) {
        return Ok(None);
    }
    let mut failures = Vec::new();
    for node in successors(&observed.replicas, leaving) {
        let Some(member) = members.iter().find(|it| it.name == node && !it.is_learner) else { continue };
        match etcd.move_leader(member.id).await {
            Ok(()) => return Ok(Some(node.to_owned())),
            Err(error) => failures.push(format!("{node}: {error}")),
        }
    }
    let message =
        format!("no member of etcd takes over the leadership of {leaving}: {}", failures.join("; "));
    Err(ReconcileError::waiting("EtcdLeadership", message))
}

/// Returns the Nodes that may take over the leadership, the best first.
fn successors<'a>(replicas: &'a [Replica], leaving: &str) -> Vec<&'a str> {
    let may = |it: &&Replica| !it.is_deleting() && it.node().is_some_and(|node| node != leaving);
    let mut candidates: Vec<&Replica> = replicas.iter().filter(may).collect();
    candidates.sort_by_key(|it| {
        let lacks = |kind| !it.holds(kind);
        let newest = Reverse(it.created());
        (lacks("EtcdMemberHealthy"), lacks("HealthCheckSucceeded"), lacks("UpToDate"), newest)
    });
    candidates.into_iter().filter_map(Replica::node).collect()
}

/// Takes the slot for a learner.
///
/// # Errors
/// The call failed, or another learner has the slot.
pub(super) async fn take_slot(observed: &Observed) -> Result<(), ReconcileError> {
    let etcd = observed.etcd.as_deref().ok_or_else(not_connected)?;
    etcd.add_learner(learner_slot::URL).await.map_err(|error| unreachable(&error))
}

/// Removes a member. One that is gone already is no error.
///
/// # Errors
/// The call failed.
pub(super) async fn remove_member(observed: &Observed, id: u64) -> Result<(), ReconcileError> {
    let etcd = observed.etcd.as_deref().ok_or_else(not_connected)?;
    etcd.remove_member(id).await.map_err(|error| unreachable(&error))
}

fn not_connected() -> ReconcileError {
    ReconcileError::waiting("EtcdUnreachable", "there is no connection to etcd of the workload cluster")
}

fn unreachable(error: &WorkloadError) -> ReconcileError {
    ReconcileError::waiting("EtcdUnreachable", error.to_string())
}

#[cfg(test)]
#[path = "etcd_tests.rs"]
mod tests;
