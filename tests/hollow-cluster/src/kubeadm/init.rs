//! `kubeadm init`.

use std::sync::Arc;

use serde_json::{Value, json};
use tests_openstack_simulator::GuestServer;

use super::documents::Documents;
use super::versions::{Version, check_gates, check_skew, parse};
use super::{addons, certificates, registration, token};
use crate::boot::BootPlan;
use crate::cluster::Cluster;
use crate::faults::BootStep;
use crate::json::{list, text};
use crate::lab::Lab;
use crate::{kubelet, lock, real};

/// Phase of the certificates in error messages.
const PHASE: &str = "error execution phase certs";

/// Version of the control plane, and of the kubelet.
fn versions(cluster: &Value, kubeadm: Option<Version>) -> Result<(Version, Version), String> {
    let written = text(cluster, "/kubernetesVersion");
    let wanted = match (written, &kubeadm) {
        ("", Some(own)) => own.clone(),
        ("", None) => return Err("could not fetch a Kubernetes version from the internet".to_owned()),
        (written, _) => parse(written)?,
    };
    let kubelet = kubeadm.unwrap_or_else(|| wanted.clone());
    check_skew(&kubelet, &wanted)?;
    check_gates(&kubelet, cluster.get("featureGates").unwrap_or(&Value::Null))?;
    Ok((wanted, kubelet))
}

/// Makes the server the first node of a new cluster.
pub(super) async fn run(
    lab: &Arc<Lab>,
    server: &GuestServer,
    plan: &BootPlan,
    documents: &Documents,
    kubeadm: Option<Version>,
) -> Result<(), String> {
    if documents.join.is_some() {
        return Err("invalid configuration: a JoinConfiguration is not for init".to_owned());
    }
    let empty = json!({});
    let cluster = documents.cluster.as_ref().unwrap_or(&empty);
    let init = documents.init.as_ref().unwrap_or(&empty);
    let (version, kubelet_version) = versions(cluster, kubeadm)?;
    lab.console(server, &format!("[init] Using Kubernetes version: {}", version.text));
    lab.console(server, "[preflight] Running pre-flight checks");
    lab.check_fault(server, BootStep::Preflight)?;
    let pki = certificates::read(plan, cluster, PHASE)?;
    let own = json!({});
    let node = registration::of(
        &lab.options,
        server,
        init.get("nodeRegistration").unwrap_or(&own),
        true,
        &kubelet_version.text,
    )?;
    lab.console(server, "[certs] Using existing ca certificate authority");
    let endpoint = text(cluster, "/controlPlaneEndpoint");
    let (host, address) = lab.endpoint(endpoint)?;
    let hollow = Arc::new(Cluster::new(&host, address, &version.text, pki));
    if let Some(programs) = &lab.options.real {
        let key = certificates::service_account_key(plan, cluster)?;
        real::start(lab, &hollow, programs, key).await?;
    }
    let configuration = addons::completed(cluster, &version);
    addons::create(&hollow, &configuration, &version)?;
    create_tokens(&hollow, init)?;
    if hollow.pki.etcd.is_some() {
        let advertised = registration::advertised(server, init, "/localAPIEndpoint");
        lock(&hollow.etcd).add(&node.name, &advertised)?;
    }
    lab.check_fault(server, BootStep::Kubelet)?;
    lab.console(
        server,
        "[wait-control-plane] Waiting for the kubelet to boot up the control plane as static Pods",
    );
    kubelet::register(lab, &hollow, server, node);
    lab.add_cluster(Arc::clone(&hollow))?;
    wait_for_endpoint(lab, &hollow, server).await?;
    lab.console(server, "Your Kubernetes control-plane has initialized successfully!");
    Ok(())
}

fn create_tokens(cluster: &Cluster, init: &Value) -> Result<(), String> {
    let configured = list(init, "/bootstrapTokens");
    for configured in configured {
        token::create(&cluster.store, configured)?;
    }
    if configured.is_empty() {
        token::create(&cluster.store, &json!({"token": token::random()}))?;
    }
    Ok(())
}

/// Waits until the API answers at the control plane endpoint. The endpoint may become routed only now.
async fn wait_for_endpoint(
    lab: &Arc<Lab>,
    cluster: &Arc<Cluster>,
    server: &GuestServer,
) -> Result<(), String> {
    let listening = lab.until(lab.options.join_timeout, || cluster.is_listening().then_some(())).await;
    if listening.is_some() {
        return Ok(());
    }
    lab.remove_cluster(cluster);
    let why = lock(&cluster.listen_error).clone().unwrap_or_else(|| {
        format!("no route leads from {} to the server {}", cluster.address.ip(), server.name)
    });
    Err(format!(
        "error execution phase wait-control-plane: could not initialize a Kubernetes cluster: the API server does not \
         answer at https://{}: {why}",
        cluster.address
    ))
}
