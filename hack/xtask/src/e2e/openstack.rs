//! A cluster in a real OpenStack: made, rebooted, upgraded and taken away, with Nova's and Neutron's
//! own records as evidence.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use super::lab::{Lab, PATIENCE, until};
use crate::run;

/// The cloud of `clouds.yaml` in which clusters are made.
const CLOUD: &str = "lab";

/// A running OpenStack.
pub(super) struct OpenStack {
    home: PathBuf,
    scripts: PathBuf,
    /// Whether it was started here, and so is ended here.
    ours: bool,
}

impl OpenStack {
    /// Brings it up, unless it runs already, also for real guests under emulation.
    pub(super) fn start() -> anyhow::Result<Self> {
        let scripts = run::root()?.join("hack/openstack");
        let home = match std::env::var_os("OPENSTACK_HOME") {
            Some(home) => PathBuf::from(home),
            None => run::cache()?.join("openstack-zed"),
        };
        std::fs::create_dir_all(&home)?;
        let ours = std::net::TcpStream::connect("127.0.0.1:5000").is_err();
        let openstack = Self { home, scripts, ours };
        openstack.script("up.sh")?;
        openstack.script("up-libvirt.sh")?;
        Ok(openstack)
    }

    fn script(&self, name: &str) -> anyhow::Result<()> {
        let mut command = Command::new("bash");
        command.arg(self.scripts.join(name)).env("OPENSTACK_HOME", &self.home);
        let log = self.home.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).with_context(|| format!("{}", log.display()))?;
        command.stdin(std::process::Stdio::null()).stdout(file.try_clone()?).stderr(file);
        ensure!(command.status()?.success(), "{name} failed; see {}", log.display());
        Ok(())
    }

    /// The `clouds.yaml` of the cloud.
    pub(super) fn clouds_yaml(&self) -> PathBuf {
        self.home.join("clouds.yaml")
    }

    /// What the cloud's own records say.
    pub(super) fn records(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(self.scripts.join("records.py")).arg(self.clouds_yaml()).arg(CLOUD).args(arguments);
        Ok(serde_json::from_str(&run::output(&mut command)?)?)
    }

    /// How often Nova noted an action on a server, and how the last one ended.
    pub(super) fn actions(&self, server: &str, action: &str) -> anyhow::Result<usize> {
        let actions = self.records(&["actions", server])?;
        let actions = actions.as_array().context("no list of actions")?;
        Ok(actions.iter().filter(|it| text(it, "/action") == action).count())
    }
}

impl Drop for OpenStack {
    fn drop(&mut self) {
        if self.ours {
            let _ = self.script("down.sh");
        }
    }
}

/// What every provider passes, against this cloud; the simulator passes the same.
pub(super) fn suite(openstack: &OpenStack) -> anyhow::Result<()> {
    let test = [
        "test",
        "--quiet",
        "--locked",
        "--package",
        "controllers-infrastructure-openstack",
        "--test",
        "openstack",
    ];
    let mut command = run::cargo(&test)?;
    let output = command.env("CAPSTAN_OPENSTACK_CLOUDS", openstack.clouds_yaml()).output()?;
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        bail!("{}{}", text(&output.stdout), text(&output.stderr));
    }
    Ok(())
}

/// A text inside a document; empty when there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The example's manifest in a namespace of its own, with the real cloud's credentials.
fn manifest(lab: &Lab, openstack: &OpenStack, namespace: &str) -> anyhow::Result<String> {
    let path = run::root()?.join("manifests/examples/quickstart.yaml");
    let example = std::fs::read_to_string(&path)?;
    let begin = example.find("    clouds:").context("the example has no credentials")?;
    let end =
        example.get(begin..).and_then(|rest| rest.find("---")).context("the example ends there")? + begin;
    let clouds = std::fs::read_to_string(openstack.clouds_yaml())?;
    // JSON is YAML, so the lab's file fits into one line of a block.
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    let (head, tail) = (example.get(..begin).unwrap_or_default(), example.get(end..).unwrap_or_default());
    let text = format!("{head}{clouds}{tail}")
        .replace("cloudName: openstack", &format!("cloudName: {CLOUD}"))
        .replace("namespace: quickstart", &format!("namespace: {namespace}"));
    // The Namespace itself is the first document.
    let text =
        text.replacen("metadata:\n  name: quickstart\n", &format!("metadata:\n  name: {namespace}\n"), 1);
    lab.file(&format!("{namespace}.yaml"), &text)
}

/// One face of Capstan: who speaks, and in which namespace.
pub(super) struct Face {
    pub(super) user: &'static str,
    pub(super) namespace: &'static str,
}

/// Through the host, as its administrator.
pub(super) const HOST: Face = Face { user: "admin", namespace: "through-host" };

/// Directly, with a certificate of Capstan's own.
pub(super) const DIRECT: Face = Face { user: "direct", namespace: "directly" };

/// The whole life of a cluster: nothing is left behind of it.
pub(super) fn life(lab: &Lab, openstack: &OpenStack, face: &Face) -> anyhow::Result<()> {
    let before = openstack.records(&["inventory"])?;
    create(lab, openstack, face).context("creating the cluster")?;
    reboot(lab, openstack, face).context("rebooting worker-0")?;
    upgrade(lab, openstack, face, "worker-0", "Rebuild").context("upgrading worker-0 by rebuild")?;
    upgrade(lab, openstack, face, "worker-1", "Replace").context("upgrading worker-1 by replacement")?;
    let kubectl = |arguments: &[&str]| lab.kubectl(face.user, &[&["-n", face.namespace], arguments].concat());
    kubectl(&["delete", "cluster", "--all", "--timeout=300s"])?;
    let left = kubectl(&["get", "clusters,machines,openstackclusters,openstackmachines", "-o", "name"])?;
    ensure!(left.trim().is_empty(), "objects are left: {left}");
    until("the project is as it was found", || Ok(openstack.records(&["inventory"])? == before))
        .with_context(|| format!("{:#}", openstack.records(&["inventory"]).unwrap_or_default()))
}

/// The example makes servers.
fn create(lab: &Lab, openstack: &OpenStack, face: &Face) -> anyhow::Result<()> {
    // Namespaces are the host's where there is one.
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n", face.namespace);
    lab.kubectl("admin", &["apply", "-f", &lab.file("namespace.yaml", &namespace)?])?;
    let file = manifest(lab, openstack, face.namespace)?;
    until("the manifest is applied", || {
        let (applied, _, error) = lab.try_kubectl(face.user, &["apply", "-f", &file])?;
        let early = error.contains("not found");
        ensure!(applied || early, "{error}");
        Ok(applied)
    })?;
    for machine in ["control-plane-0", "worker-0", "worker-1"] {
        let wait = format!("machine/{machine}");
        let timeout = format!("--timeout={}s", PATIENCE.as_secs() * 3);
        let arguments =
            ["-n", face.namespace, "wait", &wait, "--for=condition=InfrastructureReady", &timeout];
        let (ready, _, error) = lab.try_kubectl(face.user, &arguments)?;
        if !ready {
            let state = lab.kubectl(
                face.user,
                &["-n", face.namespace, "describe", "openstackcluster,openstackmachine"],
            )?;
            bail!("{machine}: {error}\n{state}");
        }
        let server = openstack.records(&["server", &server_of(lab, face, machine)?])?;
        ensure!(text(&server, "/status") == "ACTIVE", "{machine}: {server}");
        ensure!(text(&server, "/name") == machine, "{machine}: {server}");
    }
    let endpoint = get(lab, face, "cluster/quickstart", "{.spec.controlPlaneEndpoint.host}")?;
    ensure!(endpoint.starts_with("172.24."), "the endpoint is {endpoint:?}, not a floating IP");
    Ok(())
}

/// One reboot is asked for, Nova notes one, and Complete says what Nova says.
fn reboot(lab: &Lab, openstack: &OpenStack, face: &Face) -> anyhow::Result<()> {
    let server = server_of(lab, face, "worker-0")?;
    let before = openstack.actions(&server, "reboot")?;
    let operation = post(lab, face, "worker-0", "reboot", r#"{"type": "Hard"}"#)?;
    complete(lab, face, &operation)?;
    let after = openstack.actions(&server, "reboot")?;
    ensure!(after == before + 1, "Nova noted {} reboots", after - before);
    ensure!(server_of(lab, face, "worker-0")? == server, "the server is another");
    Ok(())
}

/// Upgrades one machine in one way.
fn upgrade(
    lab: &Lab,
    openstack: &OpenStack,
    face: &Face,
    machine: &str,
    strategy: &str,
) -> anyhow::Result<()> {
    let before = openstack.records(&["server", &server_of(lab, face, machine)?])?;
    let addresses = |server: &str| -> anyhow::Result<Vec<String>> {
        let ports = openstack.records(&["ports", server])?;
        let ports = ports.as_array().context("no list of ports")?;
        Ok(ports.iter().map(|port| text(port, "/id").to_owned()).collect())
    };
    let ports = addresses(text(&before, "/id"))?;
    let body = format!(r#"{{"version": "v1.30.0", "strategy": "{strategy}"}}"#);
    let operation = post(lab, face, machine, "upgrade", &body)?;
    complete(lab, face, &operation)?;
    let id = server_of(lab, face, machine)?;
    let after = openstack.records(&["server", &id])?;
    ensure!(text(&after, "/status") == "ACTIVE", "{after}");
    ensure!(text(&after, "/image/id") != text(&before, "/image/id"), "the image is the same");
    let same = text(&after, "/id") == text(&before, "/id");
    ensure!(same == (strategy == "Rebuild"), "{strategy}: {} became {id}", text(&before, "/id"));
    ensure!(addresses(&id)? == ports, "{strategy}: the ports are others");
    let version = get(lab, face, &format!("machine/{machine}"), "{.spec.version}")?;
    ensure!(version == "v1.30.0", "the Machine says {version:?}");
    if strategy == "Rebuild" {
        ensure!(openstack.actions(&id, "rebuild")? == 1, "Nova did not note one rebuild");
    }
    Ok(())
}

/// Posts a verb; the name of the operation.
pub(super) fn post(lab: &Lab, face: &Face, machine: &str, verb: &str, body: &str) -> anyhow::Result<String> {
    let path =
        format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/machines/{machine}/{verb}", face.namespace);
    let answer = lab.kubectl(face.user, &["create", "--raw", &path, "-f", &lab.file("verb.json", body)?])?;
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(text(&answer, "/metadata/name").to_owned())
}

/// Waits until an operation is Complete.
pub(super) fn complete(lab: &Lab, face: &Face, operation: &str) -> anyhow::Result<()> {
    let name = format!("machineoperation/{operation}");
    let wait = ["-n", face.namespace, "wait", &name, "--for=condition=Complete", "--timeout=300s"];
    let (complete, _, error) = lab.try_kubectl(face.user, &wait)?;
    if !complete {
        bail!("{error}\n{}", lab.kubectl(face.user, &["-n", face.namespace, "get", &name, "-o", "yaml"])?);
    }
    Ok(())
}

/// A part of an object.
pub(super) fn get(lab: &Lab, face: &Face, object: &str, path: &str) -> anyhow::Result<String> {
    lab.kubectl(face.user, &["-n", face.namespace, "get", object, "-o", &format!("jsonpath={path}")])
}

/// The id of a Machine's server.
pub(super) fn server_of(lab: &Lab, face: &Face, machine: &str) -> anyhow::Result<String> {
    let provider_id = get(lab, face, &format!("machine/{machine}"), "{.spec.providerID}")?;
    let id = provider_id.rsplit('/').next().filter(|id| !id.is_empty());
    Ok(id.with_context(|| format!("Machine {machine} has no providerID"))?.to_owned())
}
