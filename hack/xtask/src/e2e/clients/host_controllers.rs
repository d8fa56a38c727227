//! Scenarios with the host's garbage collector and namespace controller, on objects of Capstan.

use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};

use super::HOST;
use crate::e2e::lab::{Lab, until};
use crate::e2e::process::Process;
use crate::prerequisites;

/// Outage of Capstan, long enough for the collector to read kinds and objects several times.
const OUTAGE: Duration = Duration::from_secs(40);

/// Number of restarts of Capstan after that.
const FLAPS: usize = 4;

/// Starts the garbage collector and the namespace controller of the host.
pub(in crate::e2e) fn start(lab: &Lab) -> anyhow::Result<Process> {
    let mut command = Command::new(prerequisites::kubernetes("kube-controller-manager")?);
    command.args(["--controllers=garbage-collector-controller,namespace-controller", "--leader-elect=false"]);
    command.args(["--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"]);
    command.arg(format!("--kubeconfig={}", HOST.kubeconfig(lab)));
    Process::start("kube-controller-manager", &mut command, &lab.directory("log").join("controllers.log"))
}

fn create(lab: &Lab, kind: &str, name: &str, owner: Option<&Value>) -> anyhow::Result<Value> {
    let owners: Vec<Value> = owner
        .map(|owner| {
            json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true, "controller": true})
        })
        .into_iter()
        .collect();
    let template = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"}});
    let labels = json!({"pool": "p"});
    let spec = match kind {
        "Machine" => template,
        "Cluster" => json!({"paused": true}),
        _ => json!({"clusterName": "c", "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template}}),
    };
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "spec": spec,
        "metadata": {"name": name, "namespace": "collected", "ownerReferences": owners,
            "annotations": {"cluster.x-k8s.io/paused": ""}}});
    let file = lab.file("owned.json", &object.to_string())?;
    let made = lab.kubectl(HOST.user, &["create", "-f", &file, "-o", "json"])?;
    Ok(serde_json::from_str(&made)?)
}

fn exists(lab: &Lab, kind: &str, name: &str) -> anyhow::Result<bool> {
    let (found, _, error) = lab.try_kubectl(HOST.user, &["get", kind, name, "-n", "collected"])?;
    ensure!(found || error.contains("not found"), "{error}");
    Ok(found)
}

/// Creates a MachineDeployment, its MachineSet and its Machine. The names of all end in `name`.
fn chain(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let deployment = create(lab, "MachineDeployment", &format!("md-{name}"), None)?;
    let set = create(lab, "MachineSet", &format!("ms-{name}"), Some(&deployment))?;
    create(lab, "Machine", &format!("m-{name}"), Some(&set)).map(|_| ())
}

pub(in crate::e2e) fn collects(lab: &Lab) -> anyhow::Result<()> {
    HOST.namespace(lab, "collected")?;
    let _controllers = start(lab)?;
    for (name, cascade) in [("back", "background"), ("front", "foreground")] {
        chain(lab, name)?;
        let flag = format!("--cascade={cascade}");
        lab.kubectl(
            HOST.user,
            &["delete", "machinedeployment", &format!("md-{name}"), "-n", "collected", &flag],
        )?;
        until("the dependents are deleted", || {
            Ok(!exists(lab, "machineset", &format!("ms-{name}"))?
                && !exists(lab, "machine", &format!("m-{name}"))?)
        })?;
    }
    chain(lab, "left")?;
    lab.kubectl(
        HOST.user,
        &["delete", "machinedeployment", "md-left", "-n", "collected", "--cascade=orphan"],
    )?;
    ensure!(exists(lab, "machineset", "ms-left")?, "the orphaned MachineSet was deleted");
    lab.kubectl(HOST.user, &["delete", "namespace", "collected", "--timeout=90s"])?;
    let left = lab.kubectl("direct", &["get", "machines,machinesets", "-n", "collected", "-o", "name"])?;
    ensure!(left.is_empty(), "the namespace is deleted, but it still has {left}");
    Ok(())
}

/// Checks that the collector keeps owned objects while Capstan is down or flaps, and collects objects without an owner
/// after that.
pub(in crate::e2e) fn outage(lab: &Lab) -> anyhow::Result<()> {
    HOST.namespace(lab, "collected")?;
    let _controllers = start(lab)?;
    chain(lab, "kept")?;
    chain(lab, "gone")?;
    lab.stop_capstan();
    std::thread::sleep(OUTAGE);
    lab.start_capstan()?;
    for _ in 0..FLAPS {
        std::thread::sleep(Duration::from_secs(2));
        lab.stop_capstan();
        std::thread::sleep(Duration::from_secs(1));
        lab.start_capstan()?;
    }
    until("the host reaches Capstan again", || {
        Ok(lab.try_kubectl(HOST.user, &["get", "machines", "-n", "collected"])?.0)
    })?;
    lab.kubectl(HOST.user, &["delete", "machinedeployment", "md-gone", "-n", "collected"])?;
    until("the dependents of the deleted owner are deleted", || Ok(!exists(lab, "machine", "m-gone")?))?;
    for (kind, name) in [("machinedeployment", "md-kept"), ("machineset", "ms-kept"), ("machine", "m-kept")] {
        ensure!(exists(lab, kind, name)?, "{kind} {name} was wrongly deleted");
    }
    lab.kubectl(HOST.user, &["delete", "namespace", "collected", "--timeout=90s"]).map(|_| ())
}
