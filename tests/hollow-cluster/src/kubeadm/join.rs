//! `kubeadm join`.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tests_openstack_simulator::GuestServer;
use tokio::time::Instant;

use super::documents::{self, Documents};
use super::registration::{self, Registration};
use super::versions::{Version, check_skew, parse};
use super::{Programs, certificates, duration, token};
use crate::api::access::JOINING;
use crate::boot::BootPlan;
use crate::cluster::Cluster;
use crate::faults::BootStep;
use crate::json::{flag, list, text};
use crate::lab::Lab;
use crate::{kubelet, lock};

/// Start of the messages of a failed discovery.
const DISCOVERY: &str = "error execution phase preflight: couldn't validate the identity of the API Server";

/// Interval of kubeadm's attempts. It is 5 s in a real one.
const RETRY: std::time::Duration = std::time::Duration::from_millis(50);

/// Result of one attempt of the discovery.
enum Attempt {
    Found(Arc<Cluster>),
    /// Another attempt may succeed.
    Again(String),
    Refused(String),
}

/// Makes the server a node of an existing cluster.
pub(super) async fn run(
    lab: &Arc<Lab>,
    server: &GuestServer,
    plan: &BootPlan,
    documents: &Documents,
    programs: &Programs,
) -> Result<(), String> {
    let join = documents.join.as_ref().ok_or("no JoinConfiguration was found in the config file")?;
    lab.console(server, "[preflight] Running pre-flight checks");
    lab.check_fault(server, BootStep::Preflight)?;
    let cluster = discover(lab, plan, join).await?;
    lab.console(server, "[preflight] Reading configuration from the \"kubeadm-config\" ConfigMap in namespace \"kube-system\"...");
    let configuration = configuration(&cluster, programs.kubeadm.as_ref())?;
    let wanted = parse(text(&configuration, "/kubernetesVersion"))?;
    check_skew(programs.kubeadm.as_ref().unwrap_or(&wanted), &wanted)?;
    let kubelet = programs.kubelet.as_ref().unwrap_or(&wanted);
    let control_plane = join.get("controlPlane").is_some_and(|part| !part.is_null());
    let empty = json!({});
    let node = registration::of(
        &lab.options,
        server,
        join.get("nodeRegistration").unwrap_or(&empty),
        control_plane,
        &kubelet.text,
    )?;
    check_name_is_free(lab, &cluster, server, &node)?;
    if control_plane {
        let pki =
            certificates::read(plan, &configuration, "error execution phase control-plane-prepare/certs")?;
        certificates::check_same(&cluster.pki, &pki)?;
    }
    lab.check_fault(server, BootStep::Kubelet)?;
    let member = if control_plane { add_member(&cluster, server, join, &node)? } else { None };
    lab.console(server, "[kubelet-start] Starting the kubelet");
    kubelet::register(lab, &cluster, server, node);
    if let Some(member) = member {
        tokio::time::sleep(lab.options.promotion_delay).await;
        lock(&cluster.etcd).promote(member);
    }
    lab.console(server, "This node has joined the cluster:");
    Ok(())
}

/// Finds the cluster, and retries until the time is over.
async fn discover(lab: &Arc<Lab>, plan: &BootPlan, join: &Value) -> Result<Arc<Cluster>, String> {
    let configured = [text(join, "/timeouts/discovery"), text(join, "/discovery/timeout")];
    let configured = configured.into_iter().find(|text| !text.is_empty());
    let configured = configured.map(duration::parse).transpose()?;
    let configured = configured.and_then(|time| std::time::Duration::try_from(time).ok());
    let limit = configured.unwrap_or(lab.options.join_timeout).min(lab.options.join_timeout);
    let end = Instant::now() + limit;
    loop {
        match attempt(lab, plan, join) {
            Attempt::Found(cluster) => return Ok(cluster),
            Attempt::Refused(why) => return Err(format!("{DISCOVERY}: {why}")),
            Attempt::Again(why) if Instant::now() >= end => return Err(format!("{DISCOVERY}: {why}")),
            Attempt::Again(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

fn attempt(lab: &Lab, plan: &BootPlan, join: &Value) -> Attempt {
    let Some(discovery) = join.pointer("/discovery/bootstrapToken") else {
        let file = text(join, "/discovery/file/kubeConfigPath");
        return attempt_with_file(lab, plan, file);
    };
    let endpoint = text(discovery, "/apiServerEndpoint");
    let unreachable = |why: String| {
        Attempt::Again(format!(
            "failed to request the cluster-info ConfigMap: Get \"https://{endpoint}/api/v1/namespaces/kube-public/\
             configmaps/cluster-info?timeout=10s\": {why}"
        ))
    };
    let cluster = match reach(lab, endpoint) {
        Ok(cluster) => cluster,
        Err(why) => return unreachable(why),
    };
    match check_discovery(&cluster, discovery) {
        Ok(()) => Attempt::Found(cluster),
        Err((true, why)) => Attempt::Again(why),
        Err((false, why)) => Attempt::Refused(why),
    }
}

/// Returns the cluster that answers at the endpoint.
fn reach(lab: &Lab, endpoint: &str) -> Result<Arc<Cluster>, String> {
    let (_, address) = lab.endpoint(endpoint)?;
    if lock(&lab.faults).refuses_joins {
        return Err("net/http: TLS handshake timeout".to_owned());
    }
    let cluster = lab.cluster(address).filter(|cluster| cluster.is_listening());
    let cluster = cluster.ok_or_else(|| format!("dial tcp {address}: connect: connection refused"))?;
    if cluster.is_available() { Ok(cluster) } else { Err("etcdserver: request timed out".to_owned()) }
}

/// Checks the token and the pins. An error with `true` may go away.
fn check_discovery(cluster: &Cluster, discovery: &Value) -> Result<(), (bool, String)> {
    let written = text(discovery, "/token");
    let (id, secret) =
        written.split_once('.').ok_or_else(|| (false, format!("the token {written:?} is invalid")))?;
    let now = Timestamp::now();
    let known = token::find(&cluster.store, id).filter(|token| token.signs && !token.has_expired(now));
    let known = known.ok_or_else(|| {
        (true, format!("could not find a JWS signature in the cluster-info ConfigMap for token ID {id:?}"))
    })?;
    if known.secret != secret {
        let why =
            "failed to verify JWS signature of received cluster info object, can't trust this API Server";
        return Err((false, why.to_owned()));
    }
    let pins: Vec<&str> = list(discovery, "/caCertHashes").iter().filter_map(Value::as_str).collect();
    if pins.is_empty() && !flag(discovery, "/unsafeSkipCAVerification") {
        return Err((false, "using token-based discovery without caCertHashes can be unsafe".to_owned()));
    }
    let own = cluster.pki.ca.pins();
    if !pins.is_empty() && !own.iter().any(|pin| pins.contains(&pin.as_str())) {
        let why = format!(
            "cluster CA found in cluster-info ConfigMap is invalid: none of the public keys {:?} are pinned",
            own.join(":")
        );
        return Err((false, why));
    }
    if !known.authenticates || !known.groups.iter().any(|group| group == JOINING) {
        let why = format!(
            "configmaps \"kubeadm-config\" is forbidden: User \"system:bootstrap:{id}\" cannot get resource \
             \"configmaps\" in API group \"\" in the namespace \"kube-system\""
        );
        return Err((false, why));
    }
    Ok(())
}

/// Finds the cluster through a kubeconfig among the files.
fn attempt_with_file(lab: &Lab, plan: &BootPlan, path: &str) -> Attempt {
    use base64::Engine;
    let read = crate::boot::text_file(plan, path)
        .and_then(|file| serde_saphyr::from_str::<Value>(file).map_err(|error| error.to_string()));
    let config = match read {
        Ok(config) => config,
        Err(why) => return Attempt::Refused(format!("couldn't load the kubeconfig {path:?}: {why}")),
    };
    let entry = config.pointer("/clusters/0/cluster").unwrap_or(&Value::Null);
    let endpoint = text(entry, "/server").trim_start_matches("https://").trim_end_matches('/');
    let cluster = match reach(lab, endpoint) {
        Ok(cluster) => cluster,
        Err(why) => return Attempt::Again(why),
    };
    let authority =
        base64::engine::general_purpose::STANDARD.decode(text(entry, "/certificate-authority-data"));
    let trusted = authority
        .ok()
        .and_then(|pem| crate::pki::certificates(std::str::from_utf8(&pem).ok()?).ok())
        .is_some_and(|trusted| trusted.iter().any(|trusted| cluster.pki.ca.certificates.contains(trusted)));
    if trusted {
        Attempt::Found(cluster)
    } else {
        Attempt::Refused("x509: certificate signed by unknown authority".to_owned())
    }
}

/// Reads the configuration that `init` left in the cluster, as a kubeadm of this version does.
fn configuration(cluster: &Cluster, kubeadm: Option<&Version>) -> Result<Value, String> {
    let about = |why: String| {
        format!("error execution phase preflight: unable to fetch the kubeadm-config ConfigMap: {why}")
    };
    let map = cluster.store.get("configmaps", "kube-system", "kubeadm-config");
    let map = map.ok_or_else(|| about("configmaps \"kubeadm-config\" not found".to_owned()))?;
    let written = map.pointer("/data/ClusterConfiguration").and_then(Value::as_str);
    let written = written
        .ok_or_else(|| about("unexpected error when reading kubeadm-config ConfigMap: ClusterConfiguration key value pair missing".to_owned()))?;
    let parsed: Value = serde_saphyr::from_str(written).map_err(|error| about(error.to_string()))?;
    documents::check(&parsed, false).map_err(about)?;
    documents::check_version(&parsed, kubeadm).map_err(about)?;
    if text(&parsed, "/kind") != "ClusterConfiguration" {
        return Err(about("the key ClusterConfiguration holds another kind".to_owned()));
    }
    if cluster.store.get("configmaps", "kube-system", "kubelet-config").is_none() {
        return Err(about("configmaps \"kubelet-config\" not found".to_owned()));
    }
    Ok(parsed)
}

/// Returns an error if another running server is the node of this name.
fn check_name_is_free(
    lab: &Lab,
    cluster: &Cluster,
    server: &GuestServer,
    node: &Registration,
) -> Result<(), String> {
    let taken = lock(&cluster.nodes).values().any(|held| {
        held.name == node.name
            && held.server != server.id
            && held.running
            && !lab.is_kubelet_dead(&held.server)
    });
    if taken && cluster.store.get("nodes", "", &node.name).is_some() {
        return Err(format!(
            "error execution phase kubelet-start: a Node with name {:?} and status \"Ready\" already exists in the \
             cluster. You must delete the existing Node or change the name of this new joining Node",
            node.name
        ));
    }
    Ok(())
}

/// Adds the etcd member of a control plane node as a learner.
fn add_member(
    cluster: &Cluster,
    server: &GuestServer,
    join: &Value,
    node: &Registration,
) -> Result<Option<u64>, String> {
    if cluster.pki.etcd.is_none() {
        return Ok(None);
    }
    let advertised = registration::advertised(server, join, "/controlPlane/localAPIEndpoint");
    let added = lock(&cluster.etcd).add(&node.name, &advertised);
    added
        .map(Some)
        .map_err(|why| format!("error execution phase control-plane-join/etcd: error creating local etcd static pod manifest file: {why}"))
}
