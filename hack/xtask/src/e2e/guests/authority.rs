//! Scenario of the cluster's authority: another one takes its place, in three rollouts, while the API server responds.

use anyhow::{Context, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE, is_true, names};
use super::nodes::{ready, web_responds};
use super::probe::Probe;
use super::upgrade::LONGEST_GAP;
use crate::e2e::openstack::text;

/// Secret with the one certificate that signs the certificates of kubelets, and with the old authority signed by the new
/// one. kube-controller-manager accepts no second certificate in the first file.
const SIGNER: &str = "guests-signer";

/// Administrator of the host. A Secret that Capstan has not made is read there.
const HOST: &str = "admin";

/// User of the direct endpoint, whose Secrets are those that Capstan has made. The host has only copies of them.
const DIRECT: &str = "direct";

/// Name of the new authority.
const NEW: &str = "guests-second-ca";

/// Certificates and key of the authority in one step of the rotation.
struct Authority<'a> {
    certificates: &'a [&'a str],
    key: &'a str,
}

/// Replaces the authority: all nodes trust the new one, then it signs, and then the old one is not trusted any more. In each
/// step, the template of the control plane or a date replaces all Machines.
pub(super) fn rotated(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let count = cluster.machines()?.len();
    let secret = cluster.host_json(&["get", "secret", "guests-ca"])?;
    let read = |key: &str| -> anyhow::Result<String> {
        let data = STANDARD.decode(text(&secret, &format!("/data/{key}")))?;
        Ok(String::from_utf8(data)?)
    };
    let (old, old_key) = (read("tls.crt")?, read("tls.key")?);
    let certificates = &cluster.lab.certificates;
    certificates.authority(NEW)?;
    let new = std::fs::read_to_string(certificates.path(&format!("{NEW}.crt")))?;
    let new_key = std::fs::read_to_string(certificates.path(&format!("{NEW}.key")))?;
    let earlier = cluster.kubeconfig()?.with_extension("earlier");
    std::fs::copy(cluster.kubeconfig()?, &earlier).context("the kubeconfig cannot be copied")?;
    let crossed = certificates.cross_sign(NEW, &old, &old_key)?;
    sign_with_file(cluster, &old, &crossed)?;
    for step in [
        Authority { certificates: &[&old, &new], key: &old_key },
        Authority { certificates: &[&new, &old], key: &new_key },
        Authority { certificates: &[&new], key: &new_key },
    ] {
        take(cluster, &step, &crossed)?;
        roll(cluster)?;
        ready(cluster, count)?;
        web_responds(cluster)?;
    }
    let info = cluster.workload_json(&["-n", "kube-public", "get", "configmap", "cluster-info"])?;
    let trusted = STANDARD.encode(&new);
    ensure!(
        text(&info, "/data/kubeconfig").contains(&trusted),
        "cluster-info has other certificates: {info}"
    );
    std::fs::rename(&earlier, cluster.kubeconfig()?)?;
    let refused = cluster.workload(&["get", "nodes"]);
    std::fs::remove_file(cluster.kubeconfig()?)?;
    ensure!(refused.is_err(), "a kubeconfig of the old authority still works");
    ready(cluster, count)
}

/// Has kube-controller-manager sign with the certificate in a file of its own, and API servers send the old authority as the
/// new one has signed it: the administrator's kubeconfig that kubeadm makes trusts only the first certificate of the
/// authority, and a Machine joins with it through the API servers that exist. The files come from a Secret.
fn sign_with_file(cluster: &Cluster<'_>, certificate: &str, crossed: &str) -> anyhow::Result<()> {
    write(cluster, HOST, SIGNER, &json!({"tls.crt": certificate, "cross.crt": crossed}))?;
    let file = |name: &str, key: &str| {
        json!({"path": format!("/etc/kubernetes/pki/{name}"), "permissions": "0600",
            "contentFrom": {"secret": {"name": SIGNER, "key": key}}})
    };
    let signer = json!([{"name": "cluster-signing-cert-file", "value": "/etc/kubernetes/pki/signer.crt"}]);
    let patch = json!({"spec": {"kubeadmConfigSpec": {
        "clusterConfiguration": {"controllerManager": {"extraArgs": signer}},
        "files": [file("signer.crt", "tls.crt"), file("cross.crt", "cross.crt")],
        "postKubeadmCommands": ["cat /etc/kubernetes/pki/cross.crt >>/etc/kubernetes/pki/apiserver.crt"],
    }}});
    let name = "guests-control-plane";
    cluster.host(&["patch", "kubeadmcontrolplane", name, "--type=merge", "-p", &patch.to_string()]).map(drop)
}

/// Writes the Secrets of a step. The file with the workload's kubeconfig is read again.
fn take(cluster: &Cluster<'_>, step: &Authority<'_>, crossed: &str) -> anyhow::Result<()> {
    let first = step.certificates.first().context("no certificate")?;
    write(cluster, HOST, SIGNER, &json!({"tls.crt": first, "cross.crt": crossed}))?;
    let pair = json!({"tls.crt": step.certificates.concat(), "tls.key": step.key});
    write(cluster, DIRECT, "guests-ca", &pair)?;
    // Secrets are not watched: a change of the control plane brings the next look at once, and not after ten minutes.
    let look = format!("example.org/authority={}", jiff::Timestamp::now().as_second());
    cluster.host(&["annotate", "--overwrite", "kubeadmcontrolplane", "guests-control-plane", &look])?;
    let wanted = STANDARD.encode(step.certificates.concat());
    cluster.until("the kubeconfig has the certificates of the step", || {
        let secret = cluster.host_json(&["get", "secret", "guests-kubeconfig"])?;
        let kubeconfig = STANDARD.decode(text(&secret, "/data/value"))?;
        Ok(String::from_utf8_lossy(&kubeconfig).contains(&wanted))
    })?;
    let file = cluster.kubeconfig()?;
    std::fs::remove_file(&file).with_context(|| file.display().to_string())
}

/// Writes a Secret, as a user of the host or of the direct endpoint.
fn write(cluster: &Cluster<'_>, user: &str, name: &str, data: &Value) -> anyhow::Result<()> {
    let kind = "cluster.x-k8s.io/secret";
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": "guests"}},
        "stringData": data});
    let file = cluster.lab.file("authority.json", &secret.to_string())?;
    cluster.lab.kubectl(user, &["apply", "--server-side", "--force-conflicts", "-f", &file])?;
    // The file has a private key.
    std::fs::remove_file(&file).context(file)
}

/// Replaces all Machines, those of the control plane first.
fn roll(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let probe = Probe::start(cluster)?;
    let before = names(&cluster.machines()?);
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
    let patch = json!({"spec": {"rollout": {"after": now.to_string()}}}).to_string();
    for (kind, name) in
        [("kubeadmcontrolplane", "guests-control-plane"), ("machinedeployment", "guests-md-0")]
    {
        cluster.host(&["patch", kind, name, "--type=merge", "-p", &patch])?;
        cluster.until(&format!("{kind} {name} has rolled out"), || {
            let found = cluster.host_json(&["get", kind, name])?;
            let seen = found.pointer("/metadata/generation") == found.pointer("/status/observedGeneration");
            Ok(seen && is_true(&found, "MachinesUpToDate") && !is_true(&found, "RollingOut"))
        })?;
    }
    cluster.until("all Machines are others", || {
        let now = names(&cluster.machines()?);
        Ok(!now.iter().any(|name| before.contains(name)))
    })?;
    let seen = probe.end()?;
    eprintln!("  {} answers, longest gap {:.1} s", seen.answered, seen.longest_gap.as_secs_f64());
    ensure!(seen.longest_gap <= LONGEST_GAP, "the API server did not answer for {:?}", seen.longest_gap);
    Ok(())
}
