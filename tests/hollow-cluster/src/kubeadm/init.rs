//! `kubeadm init`.

use std::sync::Arc;

use serde_json::{Value, json};
use tests_openstack_simulator::GuestServer;

use super::documents::Documents;
use super::versions::{Version, check_gates, check_skew, parse};
use super::{Programs, addons, certificates, registration, token};
use crate::boot::BootPlan;
use crate::cluster::Cluster;
use crate::faults::BootStep;
use crate::json::{list, text};
use crate::lab::Lab;
use crate::{kubelet, lock, real};

/// Phase of the certificates in error messages.
const PHASE: &str = "error execution phase certs";

/// Version of the control plane, and of the kubelet.
fn versions(cluster: &Value, programs: &Programs) -> Result<(Version, Version), String> {
    let written = text(cluster, "/kubernetesVersion");
    let wanted = match (written, &programs.kubeadm) {
        ("", Some(own)) => own.clone(),
        ("", None) => return Err("could not fetch a Kubernetes version from the internet".to_owned()),
        (written, _) => parse(written)?,
    };
    let kubeadm = programs.kubeadm.as_ref().unwrap_or(&wanted);
    check_skew(kubeadm, &wanted)?;
    check_gates(kubeadm, cluster.get("featureGates").unwrap_or(&Value::Null))?;
    let kubelet = programs.kubelet.clone().unwrap_or_else(|| wanted.clone());
    Ok((wanted, kubelet))
}

/// Makes the server the first node of a new cluster.
pub(super) async fn run(
    lab: &Arc<Lab>,
    server: &GuestServer,
    plan: &BootPlan,
    documents: &Documents,
    programs: &Programs,
) -> Result<(), String> {
    if documents.join.is_some() {
        return Err("invalid configuration: a JoinConfiguration is not for init".to_owned());
    }
    let empty = json!({});
    let cluster = documents.cluster.as_ref().unwrap_or(&empty);
    let init = documents.init.as_ref().unwrap_or(&empty);
    let (version, kubelet_version) = versions(cluster, programs)?;
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
    let configuration = addons::completed(cluster, &version);
    let advertised = registration::advertised(server, init, "/localAPIEndpoint");
    check_ip_versions(&configuration, &advertised)?;
    let hollow = Arc::new(Cluster::new(&host, address, &version.text, pki));
    if let Some(programs) = &lab.options.real {
        let key = certificates::service_account_key(plan, cluster)?;
        real::start(lab, &hollow, programs, key).await?;
    }
    addons::create(&hollow, &configuration, &version)?;
    create_tokens(&hollow, init)?;
    if hollow.pki.etcd.is_some() {
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

/// Returns the error with which kube-apiserver does not start, because its address and the first range of Services have
/// different IP versions.
fn check_ip_versions(configuration: &Value, advertised: &str) -> Result<(), String> {
    let services = text(configuration, "/networking/serviceSubnet").split(',').next().unwrap_or_default();
    if services.contains(':') == advertised.contains(':') {
        return Ok(());
    }
    Err(format!(
        "error execution phase wait-control-plane: kube-apiserver does not start: service IP family {services:?} must \
         match public address family {advertised:?}"
    ))
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
