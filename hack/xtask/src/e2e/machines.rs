//! Two machines on the direct endpoint of a whole server, with certificates that an administrator approves.

use anyhow::ensure;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::lab::{Lab, until};

const NAMESPACE: &str = "team";

/// Machines of the scenario. No controller changes what is paused.
const MACHINES: [&str; 2] = ["alpha", "beta"];

/// Each machine reads what belongs to its own Machine, and nothing of the other one. A Machine that is made anew refuses
/// the certificate of the earlier one.
pub(super) fn own_objects(lab: &Lab) -> anyhow::Result<()> {
    let file = lab.file("machines.json", &objects().to_string())?;
    lab.kubectl("direct", &["apply", "-f", &file])?;
    let mut own = Vec::new();
    for machine in MACHINES {
        certificate(lab, machine, machine)?;
        own.push(own_of(machine, &operation(lab, machine)?));
    }
    for ((machine, own), other) in MACHINES.into_iter().zip(&own).zip(own.iter().rev()) {
        reads_its_own(lab, machine, own, other)?;
        reads_no_collection(lab, machine)?;
    }
    made_anew(lab, &file)?;
    for machine in MACHINES {
        for name in [machine.to_owned(), format!("{machine}-again")] {
            lab.kubectl("direct", &["delete", "csr", &name, "--ignore-not-found"])?;
        }
    }
    // One of a deleted Machine may be gone, and one of a paused Machine may wait.
    let operations = own.iter().filter_map(|own| own.last()).map(|(_, name)| name.as_str());
    let delete = ["delete", "machineoperation", "-n", NAMESPACE, "--wait=false", "--ignore-not-found"];
    lab.kubectl("direct", &delete.into_iter().chain(operations).collect::<Vec<_>>())?;
    lab.kubectl("direct", &["delete", "-f", &file, "--timeout=60s"]).map(|_| ())
}

/// Returns the Machines, and what belongs to each of them.
fn objects() -> Value {
    let paused = |name: String| json!({"name": name, "namespace": NAMESPACE, "annotations": {"cluster.x-k8s.io/paused": ""}});
    let (bootstrap, infrastructure) = ("bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io");
    let of_machine = |name: &str| {
        let [config, server, data] = ["config", "server", "data"].map(|part| format!("{name}-{part}"));
        let bootstrap_spec = json!({"dataSecretName": data,
            "configRef": {"apiGroup": bootstrap, "kind": "KubeadmConfig", "name": config}});
        let infrastructure_ref =
            json!({"apiGroup": infrastructure, "kind": "OpenStackMachine", "name": server});
        vec![
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": paused(name.to_owned()), "spec": {"clusterName": "c1",
                    "bootstrap": bootstrap_spec, "infrastructureRef": infrastructure_ref}}),
            json!({"apiVersion": format!("{bootstrap}/v1beta2"), "kind": "KubeadmConfig",
                "metadata": paused(config), "spec": {"format": "cloud-config"}}),
            json!({"apiVersion": format!("{infrastructure}/v1beta2"), "kind": "OpenStackMachine",
                "metadata": paused(server),
                "spec": {"flavor": {"id": "f-1"}, "image": {"imageRef": {"name": "ubuntu"}}}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": paused(data),
                "stringData": {"value": "of a machine"}}),
        ]
    };
    let items: Vec<Value> = MACHINES.into_iter().flat_map(of_machine).collect();
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// Declares a reboot, which waits for the end of the pause: the action itself is refused for a Machine that is paused.
/// Returns the name of the operation.
fn operation(lab: &Lab, machine: &str) -> anyhow::Result<String> {
    let path = "jsonpath={.metadata.uid}";
    let uid = lab.kubectl("direct", &["get", "machine", machine, "-n", NAMESPACE, "-o", path])?;
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": machine,
        "uid": uid.trim()});
    let name = format!("{machine}-reboot");
    let object = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineOperation",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "spec": {"machineName": machine, "action": "Reboot", "reboot": {"type": "Hard"}}});
    let file = lab.file("reboot.json", &object.to_string())?;
    lab.kubectl("direct", &["create", "-f", &file])?;
    Ok(name)
}

/// Returns kinds and names of what belongs to a machine, the operation last.
fn own_of(machine: &str, operation: &str) -> Vec<(&'static str, String)> {
    vec![
        ("machines.cluster.x-k8s.io", machine.to_owned()),
        ("kubeadmconfigs.bootstrap.cluster.x-k8s.io", format!("{machine}-config")),
        ("openstackmachines.infrastructure.cluster.x-k8s.io", format!("{machine}-server")),
        ("secrets", format!("{machine}-data")),
        ("machineoperations.capstan.dev", operation.to_owned()),
    ]
}

/// Requests a certificate of a machine, approves the request with kubectl, and writes a kubeconfig with the certificate.
fn certificate(lab: &Lab, machine: &str, request: &str) -> anyhow::Result<()> {
    let subject = format!("/O=system:machines/CN=system:machine:{NAMESPACE}:{machine}");
    let pem = std::fs::read(lab.certificates.request(machine, &subject)?)?;
    let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": request}, "spec": {"request": STANDARD.encode(pem), "usages": ["client auth"],
            "signerName": "capstan.dev/machine"}});
    let file = lab.file("request.json", &object.to_string())?;
    lab.kubectl("direct", &["create", "-f", &file])?;
    lab.kubectl("direct", &["certificate", "approve", request])?;
    let mut certificate = String::new();
    until("the machine has a certificate", || {
        let path = "jsonpath={.status.certificate}";
        certificate = lab.kubectl("direct", &["get", "csr", request, "-o", path])?;
        Ok(!certificate.is_empty())
    })?;
    let path = |end: &str| lab.certificates.path(&format!("{machine}.{end}"));
    std::fs::write(path("crt"), STANDARD.decode(certificate.trim())?)?;
    let server = format!("https://127.0.0.1:{}", lab.capstan_port);
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c",
            "cluster": {"server": server, "certificate-authority": lab.data().join("pki/ca.crt")}}],
        "users": [{"name": "u", "user": {"client-certificate": path("crt"), "client-key": path("key")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    std::fs::write(path("kubeconfig"), kubeconfig.to_string())?;
    Ok(())
}

/// A machine reads the Cluster and each of its own objects, and none of the other machine.
fn reads_its_own(
    lab: &Lab,
    machine: &str,
    own: &[(&'static str, String)],
    other: &[(&'static str, String)],
) -> anyhow::Result<()> {
    lab.kubectl(machine, &["get", "cluster", "c1", "-n", NAMESPACE])?;
    for (kind, name) in own {
        lab.kubectl(machine, &["get", kind, name, "-n", NAMESPACE])?;
        let selector = format!("metadata.name={name}");
        let found = lab
            .kubectl(machine, &["get", kind, "-n", NAMESPACE, "--field-selector", &selector, "-o", "name"])?;
        ensure!(found.lines().count() == 1 && found.trim().ends_with(&format!("/{name}")), "{found}");
    }
    for (kind, name) in other {
        refused(lab, machine, &["get", kind, name, "-n", NAMESPACE])?;
        refused(lab, machine, &["delete", kind, name, "-n", NAMESPACE, "--dry-run=server"])?;
    }
    Ok(())
}

/// A machine lists no kind, also not by a selector that only looks like the name of its own object.
fn reads_no_collection(lab: &Lab, machine: &str) -> anyhow::Result<()> {
    for kind in ["machines", "secrets", "machineoperations", "kubeadmconfigs", "events", "csr"] {
        refused(lab, machine, &["get", kind, "-n", NAMESPACE])?;
        refused(lab, machine, &["get", kind, "--all-namespaces"])?;
    }
    let disguised = format!("fieldSelector=type!%3D%5C%2Cmetadata.name%3D{machine}-data");
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets?{disguised}");
    refused(lab, machine, &["get", "--raw", &path])
}

fn refused(lab: &Lab, machine: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let (succeeded, out, error) = lab.try_kubectl(machine, arguments)?;
    ensure!(!succeeded && error.contains("orbidden"), "{machine}: {}: {out}{error}", arguments.join(" "));
    Ok(())
}

/// Deletes a Machine and creates it under the same name. Its first certificate is refused before and after, and a new one is
/// accepted.
fn made_anew(lab: &Lab, file: &str) -> anyhow::Result<()> {
    let machine = MACHINES[0];
    let get = ["get", "machines", machine, "-n", NAMESPACE];
    let is_refused = || -> anyhow::Result<()> {
        let (succeeded, out, error) = lab.try_kubectl(machine, &get)?;
        ensure!(!succeeded && error.contains("Unauthorized"), "{out}{error}");
        Ok(())
    };
    lab.kubectl("direct", &["delete", "machine", machine, "-n", NAMESPACE, "--timeout=60s"])?;
    is_refused()?;
    lab.kubectl("direct", &["apply", "-f", file])?;
    is_refused()?;
    certificate(lab, machine, &format!("{machine}-again"))?;
    lab.kubectl(machine, &get).map(|_| ())
}
