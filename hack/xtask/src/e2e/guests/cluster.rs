//! The cluster under test, as its two API servers and Nova show it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::build::Image;
use crate::e2e::lab::Lab;
use crate::e2e::openstack::{OpenStack, text};
use crate::run;

/// Namespace of all objects in the host.
pub(super) const NAMESPACE: &str = "guests";

/// Longest wait for one change on a busy machine. On a quiet one, a server becomes a Ready node in half a minute.
const TIMEOUT: Duration = Duration::from_mins(5);

/// Interval of observations. Each one starts a process, which costs 50 ms of CPU time.
const INTERVAL: Duration = Duration::from_millis(700);

/// Number of console lines that explain a failure.
const CONSOLE_LINES: usize = 25;

/// Cluster under test.
pub(super) struct Cluster<'a> {
    pub(super) lab: &'a Lab,
    pub(super) openstack: &'a OpenStack,
    pub(super) image: Image,
    /// Name of the Cluster.
    pub(super) name: &'static str,
    /// Resources of the project before the first scenario.
    pub(super) before: Value,
}

impl Cluster<'_> {
    /// Runs kubectl in the namespace of the host, as its administrator.
    pub(super) fn host(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.lab.kubectl("admin", &[&["-n", NAMESPACE], arguments].concat())
    }

    /// Returns a JSON document of the host.
    pub(super) fn host_json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.host(&[arguments, &["-o", "json"]].concat())?)?)
    }

    /// Returns the file with the kubeconfig of the workload cluster, which the host has in a Secret.
    pub(super) fn kubeconfig(&self) -> anyhow::Result<PathBuf> {
        let file = self.lab.directory(&format!("workload-{}.kubeconfig", self.name));
        if !file.exists() {
            let template = "go-template={{.data.value|base64decode}}";
            let secret = format!("{}-kubeconfig", self.name);
            let kubeconfig = self.host(&["get", "secret", &secret, "-o", template])?;
            std::fs::write(&file, kubeconfig)?;
        }
        Ok(file)
    }

    /// Runs kubectl in the workload cluster.
    pub(super) fn workload(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let file = self.kubeconfig()?;
        let mut command = Command::new(&self.lab.tools.kubectl);
        command.arg("--kubeconfig").arg(&file).arg("--cache-dir").arg(self.lab.directory("workload-cache"));
        command.arg("--request-timeout=10s").args(arguments);
        let output = command.stdin(Stdio::null()).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {} in the workload cluster: {error}", arguments.join(" "));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns a JSON document of the workload cluster.
    pub(super) fn workload_json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.workload(&[arguments, &["-o", "json"]].concat())?)?)
    }

    /// Returns the items of a list of the workload cluster.
    pub(super) fn workload_items(&self, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
        items(self.workload_json(arguments)?)
    }

    /// Returns all Machines of the cluster, without the planted failure.
    pub(super) fn machines(&self) -> anyhow::Result<Vec<Value>> {
        let machines = items(self.host_json(&["get", "machines"])?)?;
        Ok(machines.into_iter().filter(|it| text(it, "/metadata/name") != super::failure::NAME).collect())
    }

    /// Returns the workers, sorted by name.
    pub(super) fn workers(&self) -> anyhow::Result<Vec<Value>> {
        let is_worker = |it: &Value| it.pointer("/metadata/labels/cluster.x-k8s.io~1control-plane").is_none();
        Ok(self.machines()?.into_iter().filter(is_worker).collect())
    }

    /// Scales the MachineDeployment of the workers, by its scale subresource.
    pub(super) fn scale_workers(&self, replicas: usize) -> anyhow::Result<()> {
        let replicas = format!("--replicas={replicas}");
        self.host(&["scale", "machinedeployment", "guests-md-0", &replicas]).map(|_| ())
    }

    /// Applies documents in the workload cluster.
    pub(super) fn apply_in_workload(&self, name: &str, documents: &str) -> anyhow::Result<()> {
        let file = self.lab.file(name, documents)?;
        self.workload(&["apply", "-f", &file]).map(|_| ())
    }

    /// Waits until a condition is met. An error counts as not met, because API servers start and end.
    pub(super) fn until(
        &self,
        condition: &str,
        mut is_met: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + TIMEOUT;
        let mut last = String::new();
        while Instant::now() < end {
            match is_met() {
                Ok(true) => return Ok(()),
                Ok(false) => last.clear(),
                Err(error) => last = format!("{error:#}"),
            }
            std::thread::sleep(INTERVAL);
        }
        bail!("timed out after {} s, waiting until {condition}\n{last}\n{}", TIMEOUT.as_secs(), self.state())
    }

    /// Describes the state for the message of a failure: objects of the host, Nodes, and consoles of servers.
    pub(super) fn state(&self) -> String {
        let kinds = "clusters,kubeadmcontrolplanes,machinedeployments,machinesets,machines,openstackmachines";
        let mut parts = vec![
            self.host(&["get", kinds]),
            self.conditions(),
            self.host(&["get", "events", "--sort-by=.lastTimestamp"]).map(|events| tail(&events)),
            self.workload(&["get", "nodes,pods", "-A", "-o", "wide"]),
        ];
        for machine in self.machines().unwrap_or_default() {
            let name = text(&machine, "/metadata/name").to_owned();
            parts.push(
                self.console(&machine).map(|console| format!("console of {name}:\n{}", tail(&console))),
            );
        }
        let parts = parts.into_iter().map(|part| part.unwrap_or_else(|error| format!("{error:#}")));
        parts.collect::<Vec<_>>().join("\n")
    }

    /// Lists the conditions that are not True.
    fn conditions(&self) -> anyhow::Result<String> {
        let kinds =
            "clusters,openstackclusters,kubeadmcontrolplanes,machinedeployments,machines,kubeadmconfigs";
        let mut lines = Vec::new();
        for object in items(self.host_json(&["get", kinds])?)? {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            for condition in conditions.into_iter().flatten().filter(|it| text(it, "/status") != "True") {
                lines.push(format!(
                    "{}/{}: {}={} {}: {}",
                    text(&object, "/kind"),
                    text(&object, "/metadata/name"),
                    text(condition, "/type"),
                    text(condition, "/status"),
                    text(condition, "/reason"),
                    text(condition, "/message")
                ));
            }
        }
        Ok(lines.join("\n"))
    }

    /// Returns the console log of a Machine's server, as Nova returns it.
    pub(super) fn console(&self, machine: &Value) -> anyhow::Result<String> {
        let console = self.openstack.records(&["console", server_of(machine)?])?;
        Ok(text(&console, "").to_owned())
    }

    /// Returns a manifest with versions and image of nodes before the upgrade.
    pub(super) fn filled(&self, manifest: &str) -> String {
        manifest
            .replace("KUBERNETES_VERSION", &self.image.earlier)
            .replace("ETCD_VERSION", self.image.etcd.trim_start_matches('v'))
            .replace("IMAGE", &self.image.earlier_name)
    }

    /// Returns the manifest of the cluster: the template with the overlay, and the credentials.
    pub(super) fn manifest(&self) -> anyhow::Result<String> {
        let mut kustomize = Command::new(&self.lab.tools.kubectl);
        kustomize.arg("kustomize").arg(run::root()?.join("hack/guests/cluster"));
        Ok(format!("{}---\n{}", self.credentials()?, self.filled(&run::output(&mut kustomize)?)))
    }

    /// Returns the manifest of the namespace and of the Secret with the credentials.
    pub(super) fn credentials(&self) -> anyhow::Result<String> {
        let clouds = self.openstack.clouds_block()?;
        // clusterctl moves a Secret without an owner only with this label.
        let label = r#"{clusterctl.cluster.x-k8s.io/move: "true"}"#;
        Ok(format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n---\napiVersion: v1\nkind: Secret\n\
             metadata: {{name: guests-cloud-config, namespace: {NAMESPACE}, labels: {label}}}\nstringData:\n  \
             clouds.yaml: |\n{clouds}"
        ))
    }
}

/// Returns the items of a list.
pub(super) fn items(list: Value) -> anyhow::Result<Vec<Value>> {
    match list {
        Value::Object(mut list) => match list.remove("items") {
            Some(Value::Array(items)) => Ok(items),
            _ => bail!("the document is no list"),
        },
        _ => bail!("the document is no object"),
    }
}

/// Returns true if a condition of an object is True.
pub(super) fn is_true(object: &Value, condition: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|it| text(it, "/type") == condition && text(it, "/status") == "True")
}

/// Returns the names of objects.
pub(super) fn names(objects: &[Value]) -> Vec<String> {
    objects.iter().map(|it| text(it, "/metadata/name").to_owned()).collect()
}

/// Returns the id of a Machine's server.
pub(super) fn server_of(machine: &Value) -> anyhow::Result<&str> {
    let id = text(machine, "/spec/providerID").rsplit('/').next().filter(|id| !id.is_empty());
    id.with_context(|| format!("Machine {} has no providerID", text(machine, "/metadata/name")))
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines.get(lines.len().saturating_sub(CONSOLE_LINES)..).unwrap_or_default().join("\n")
}
