//! Scenarios of a Cluster of a class: the shipped class with what this lab changes, an upgrade by two minors, and another
//! class.

use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, NAMESPACE, is_true, items, names};
use super::control_plane::has_members;
use super::nodes::ready;
use super::probe::Probe;
use super::upgrade::{LONGEST_GAP, add_ons, has_release};
use crate::e2e::clusterctl::clusterctl;
use crate::e2e::lab::{Lab, ports, until};
use crate::e2e::openstack::text;
use crate::e2e::process::Process;
use crate::run;

/// Name of the Cluster.
pub(super) const NAME: &str = "classy";

/// Label that only the workers of the other class give their Nodes.
const LABEL: &str = "example.org/class";

/// Number of Machines: one of the control plane, and one worker.
pub(super) const MACHINES: usize = 2;

/// Number of workers in the Cluster, as a JSON pointer.
pub(super) const WORKERS: &str = "/spec/topology/workers/machineDeployments/0/replicas";

const CLUSTER: &str = r"
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: NAME, namespace: NAMESPACE}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}, serviceDomain: cluster.local}
  topology:
    classRef: {name: openstack}
    version: RELEASE
    controlPlane: {replicas: 1}
    workers:
      machineDeployments: [{class: worker, name: md-0, replicas: 1, failureDomain: guests}]
    variables:
      - {name: identityRef, value: {name: guests-cloud-config, cloudName: lab}}
      - {name: imageName, value: IMAGE}
      - {name: apiServerLoadBalancer, value: {enabled: false}}
      - {name: controlPlaneAvailabilityZones, value: [guests]}
      - {name: externalNetwork, value: public}
      - {name: dnsNameservers, value: [192.0.2.53]}
";

/// Applies the class and the Cluster. Both nodes must have the first release.
pub(super) fn first(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let file = cluster.lab.file("class.yaml", &manifest(cluster)?)?;
    cluster.until("the class and its Cluster are applied", || {
        cluster.lab.kubectl("admin", &["apply", "-f", &file]).map(|_| true)
    })?;
    cluster.lab.let_write_secrets(NAMESPACE)?;
    ready(cluster, MACHINES)?;
    has_release(cluster, &cluster.image.kubernetes)
}

/// Returns the manifest: the namespace, the credentials, the class and the Cluster.
fn manifest(cluster: &Cluster<'_>) -> anyhow::Result<String> {
    let image = &cluster.image;
    let releases = [std::slice::from_ref(&image.kubernetes), image.minors.as_slice()].concat();
    let mut kustomize = Command::new(&cluster.lab.tools.kubectl);
    kustomize.args(["kustomize", "--load-restrictor", "LoadRestrictionsNone"]);
    let class = run::output(kustomize.arg(run::root()?.join("hack/guests/class")))?
        .replace("RELEASES", &format!("[{}]", releases.join(", ")));
    let base = image.name.trim_end_matches(&format!("-{}", image.kubernetes));
    let object = CLUSTER
        .replace("NAMESPACE", NAMESPACE)
        .replace("NAME", NAME)
        .replace("RELEASE", &image.kubernetes)
        .replace("IMAGE", base);
    Ok(format!("{}---\n{}---{object}", cluster.credentials()?, cluster.filled(&class)))
}

/// Requests the newest release. The control plane passes the minor in between, and the API server responds throughout.
pub(super) fn upgraded(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let [between, target] = cluster.image.minors.as_slice() else { bail!("the image has no later minors") };
    let probe = Probe::start(cluster)?;
    let patch = json!({"spec": {"topology": {"version": target}}}).to_string();
    cluster.host(&["patch", "cluster", NAME, "--type=merge", "-p", &patch])?;
    cluster.until(&format!("the control plane has {between}"), || {
        Ok(text(&control_plane(cluster)?, "/status/version") == *between)
    })?;
    cluster.until(&format!("the control plane has {target}"), || {
        let found = control_plane(cluster)?;
        Ok(text(&found, "/status/version") == *target && is_true(&found, "MachinesUpToDate"))
    })?;
    cluster.until(&format!("the kubelets have {target}"), || Ok(has_release(cluster, target).is_ok()))?;
    ready(cluster, MACHINES)?;
    let seen = probe.end()?;
    eprintln!("  {} answers, longest gap {:.1} s", seen.answered, seen.longest_gap.as_secs_f64());
    ensure!(seen.longest_gap <= LONGEST_GAP, "the API server did not answer for {:?}", seen.longest_gap);
    has_members(cluster, 1)?;
    add_ons(cluster, target)
}

/// Gives the Cluster a class whose workers have one label more. Only the worker is replaced.
pub(super) fn other_class(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let mut template = cluster.host_json(&["get", "kubeadmconfigtemplate", "openstack-worker"])?;
    let arguments = "/spec/template/spec/joinConfiguration/nodeRegistration/kubeletExtraArgs";
    let arguments = template.pointer_mut(arguments).and_then(Value::as_array_mut);
    let label = json!({"name": "node-labels", "value": format!("{LABEL}=other")});
    arguments.context("the template has no arguments of kubelet")?.push(label);
    let mut class = cluster.host_json(&["get", "clusterclass", "openstack"])?;
    let reference = class.pointer_mut("/spec/workers/machineDeployments/0/bootstrap/templateRef/name");
    *reference.context("the class has no workers")? = json!("other-worker");
    for (object, name) in [(&mut template, "other-worker"), (&mut class, "other")] {
        let copy = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
            "metadata": {"name": name}, "spec": object["spec"]});
        let file = cluster.lab.file(&format!("{name}.json"), &copy.to_string())?;
        cluster.host(&["apply", "-f", &file])?;
    }
    let before = names(&cluster.machines()?);
    let patch = json!({"spec": {"topology": {"classRef": {"name": "other"}}}}).to_string();
    cluster.host(&["patch", "cluster", NAME, "--type=merge", "-p", &patch])?;
    cluster.until("the worker has the label of the other class", || {
        let labelled = cluster.workload_items(&["get", "nodes", "-l", LABEL])?;
        Ok(labelled.len() == 1 && cluster.workload_items(&["get", "nodes"])?.len() == MACHINES)
    })?;
    ready(cluster, MACHINES)?;
    let after = names(&cluster.machines()?);
    let kept: Vec<&String> = before.iter().filter(|name| after.contains(name)).collect();
    ensure!(kept.len() == 1, "of the Machines {before:?}, {kept:?} are left");
    Ok(())
}

/// Has the real clusterctl move the Cluster to a second Capstan, which scales the workers, and back. No server is replaced.
pub(super) fn moved(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let second = Second::start(cluster.lab)?;
    let before = servers(cluster)?;
    moves(cluster.lab, HOST, Second::USER)?;
    ensure!(cluster.machines()?.is_empty(), "the first Capstan still has Machines");
    second.until_running(cluster, MACHINES)?;
    ensure!(servers(cluster)? == before, "servers changed: {before} became {}", servers(cluster)?);
    for replicas in [2, 1] {
        let patch = json!([{"op": "replace", "path": WORKERS, "value": replicas}]).to_string();
        second.kubectl(cluster.lab, &["patch", "cluster", NAME, "--type=json", "-p", &patch])?;
        second.until_running(cluster, 1 + replicas)?;
    }
    moves(cluster.lab, Second::USER, HOST)?;
    ready(cluster, MACHINES)
}

/// Administrator of the host of the first Capstan. The Secret with the credentials is in the host, and so are copies of the
/// certificates: the direct endpoint does not have the former.
pub(super) const HOST: &str = "admin";

/// Has the real clusterctl move all Clusters of the namespace.
pub(super) fn moves(lab: &Lab, from: &str, to: &str) -> anyhow::Result<()> {
    clusterctl(lab, from, &["move", "-n", NAMESPACE, "--to-kubeconfig", &kubeconfig(lab, to)]).map(drop)
}

/// Returns the servers of the project, with ids and names.
pub(super) fn servers(cluster: &Cluster<'_>) -> anyhow::Result<Value> {
    Ok(cluster.openstack.records(&["inventory"])?["servers"].take())
}

/// Returns true if there are this many Machines, and all are Running and Ready.
pub(super) fn are_running(machines: &[Value], count: usize) -> bool {
    let is_ready = |it: &&Value| text(it, "/status/phase") == "Running" && is_true(it, "Ready");
    machines.len() == count && machines.iter().filter(is_ready).count() == count
}

/// Returns the path of a user's kubeconfig.
pub(super) fn kubeconfig(lab: &Lab, user: &str) -> String {
    lab.certificates.path(&format!("{user}.kubeconfig"))
}

/// A Capstan without a host, with the embedded store. Stops when dropped.
struct Second {
    _process: Process,
}

impl Second {
    /// Name of its administrator's kubeconfig.
    const USER: &'static str = "second";

    fn start(lab: &Lab) -> anyhow::Result<Self> {
        let [port] = ports()?;
        let (listen, data) = (format!("127.0.0.1:{port}"), lab.directory("second"));
        let mut command = Command::new(&lab.tools.capstan);
        command.args(["serve", "--listen", &listen, "--data-dir"]).arg(&data);
        let process = Process::start("second", &mut command, &lab.directory("log/second.log"))?;
        let mut command = Command::new(&lab.tools.capstan);
        command.args(["kubeconfig", "--server", &format!("https://{listen}"), "--data-dir"]).arg(&data);
        until("the second Capstan has a CA", || Ok(data.join("pki/ca.crt").exists()))?;
        std::fs::write(kubeconfig(lab, Self::USER), run::output(&mut command)?)?;
        let ready = ["get", "--raw", "/readyz"];
        until("the second Capstan is ready", || Ok(lab.try_kubectl(Self::USER, &ready)?.0))?;
        lab.kubectl(Self::USER, &["create", "namespace", NAMESPACE])?;
        Ok(Self { _process: process })
    }

    fn kubectl(&self, lab: &Lab, arguments: &[&str]) -> anyhow::Result<String> {
        lab.kubectl(Self::USER, &[&["-n", NAMESPACE], arguments].concat())
    }

    fn until_running(&self, cluster: &Cluster<'_>, count: usize) -> anyhow::Result<()> {
        cluster.until(&format!("the second Capstan has {count} Running Machines"), || {
            let found = self.kubectl(cluster.lab, &["get", "machines", "-o", "json"])?;
            Ok(are_running(&items(serde_json::from_str(&found)?)?, count))
        })
    }
}

fn control_plane(cluster: &Cluster<'_>) -> anyhow::Result<Value> {
    cluster.host_json(&["get", "kubeadmcontrolplane", &format!("{NAME}-control-plane")])
}
