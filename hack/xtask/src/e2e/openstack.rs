//! Life cycle of a cluster in a real OpenStack: create, reboot, upgrade and delete, verified by the records of Nova and
//! Neutron.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::lab::{Lab, TIMEOUT, until};
use crate::run;
use crate::test::programs::Program;

/// Name of the cloud in `clouds.yaml` in which clusters are created.
pub(super) const CLOUD: &str = "lab";

/// Optional services of OpenStack that the scenarios use.
const SERVICES: &str = "cinder octavia";

/// Running OpenStack.
pub(super) struct OpenStack {
    home: PathBuf,
    scripts: PathBuf,
    /// True if this process started it, and so also stops it.
    is_started_here: bool,
}

impl OpenStack {
    /// Starts OpenStack, unless it runs already. If requested, it can also run real guests under emulation.
    pub(super) fn start(has_emulation: bool) -> anyhow::Result<Self> {
        let scripts = run::root()?.join("hack/openstack");
        let home = Self::home_of_cache()?;
        std::fs::create_dir_all(&home)?;
        let is_started_here = std::net::TcpStream::connect("127.0.0.1:5000").is_err();
        let openstack = Self { home, scripts, is_started_here };
        openstack.script("up.sh")?;
        if has_emulation {
            openstack.script("up-libvirt.sh")?;
        }
        Ok(openstack)
    }

    /// Returns true if OpenStack has run on this machine. Otherwise its first start installs hundreds of packages and
    /// creates the databases, which keeps both processors busy for minutes.
    pub(super) fn has_run() -> anyhow::Result<bool> {
        Ok(Self::home_of_cache()?.join("clouds.yaml").exists())
    }

    fn home_of_cache() -> anyhow::Result<PathBuf> {
        match std::env::var_os("OPENSTACK_HOME") {
            Some(home) => Ok(PathBuf::from(home)),
            None => Ok(run::cache()?.join("openstack-zed-octavia")),
        }
    }

    fn script(&self, name: &str) -> anyhow::Result<()> {
        let mut command = Command::new("bash");
        command.arg(self.scripts.join(name)).env("OPENSTACK_HOME", &self.home);
        command.env("OPENSTACK_SERVICES", SERVICES);
        let log = self.home.join(format!("{name}.log"));
        let file = std::fs::File::create(&log).with_context(|| format!("{}", log.display()))?;
        command.stdin(std::process::Stdio::null()).stdout(file.try_clone()?).stderr(file);
        ensure!(command.status()?.success(), "{name} failed; see {}", log.display());
        Ok(())
    }

    /// Returns the folder of its data.
    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the path of the `clouds.yaml` of the cloud.
    pub(super) fn clouds_yaml(&self) -> PathBuf {
        self.home.join("clouds.yaml")
    }

    /// Returns the `clouds.yaml` as a block of a manifest: JSON is YAML, and four spaces are its indentation.
    pub(super) fn clouds_block(&self) -> anyhow::Result<String> {
        let clouds = std::fs::read_to_string(self.clouds_yaml())?;
        Ok(clouds.lines().map(|line| format!("    {line}\n")).collect())
    }

    /// Makes an application credential of the user. It has the roles that the user has now.
    pub(super) fn credential(&self, name: &str) -> anyhow::Result<Value> {
        let made = self.records(&["credential", name])?;
        ensure!(!text(&made, "/secret").is_empty(), "Keystone returned no secret for {name}");
        Ok(made)
    }

    /// Returns the `clouds.yaml` with an application credential in place of the user's password.
    pub(super) fn clouds_with(&self, credential: &Value) -> anyhow::Result<String> {
        let mut clouds: Value = serde_json::from_str(&std::fs::read_to_string(self.clouds_yaml())?)?;
        let path = format!("/clouds/{CLOUD}");
        let cloud = clouds.pointer_mut(&path).and_then(Value::as_object_mut).context("no such cloud")?;
        let url = cloud.get("auth").map_or("", |it| text(it, "/auth_url")).to_owned();
        let auth = json!({
            "auth_url": url,
            "application_credential_id": text(credential, "/id"),
            "application_credential_secret": text(credential, "/secret"),
        });
        cloud.insert("auth".to_owned(), auth);
        cloud.insert("auth_type".to_owned(), json!("v3applicationcredential"));
        Ok(clouds.to_string())
    }

    /// Returns records of the cloud itself.
    pub(super) fn records(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(self.scripts.join("records.py")).arg(self.clouds_yaml()).arg(CLOUD).args(arguments);
        Ok(serde_json::from_str(&run::output(&mut command)?)?)
    }

    /// Returns how often Nova recorded an action on a server.
    pub(super) fn actions(&self, server: &str, action: &str) -> anyhow::Result<usize> {
        let actions = self.records(&["actions", server])?;
        let actions = actions.as_array().context("no list of actions")?;
        Ok(actions.iter().filter(|it| text(it, "/action") == action).count())
    }
}

impl Drop for OpenStack {
    fn drop(&mut self) {
        if self.is_started_here {
            let _ = self.script("down.sh");
        }
    }
}

/// Runs a test program against this cloud.
pub(super) fn run_program(
    openstack: &OpenStack,
    programs: &[Program],
    package: &str,
    name: &str,
) -> anyhow::Result<()> {
    let is_wanted = |it: &&Program| it.package == package && it.name == name;
    let program =
        programs.iter().find(is_wanted).with_context(|| format!("{package} {name} was not built"))?;
    let mut command = program.command();
    let output = command.env("CAPSTAN_OPENSTACK_CLOUDS", openstack.clouds_yaml()).output()?;
    if !output.status.success() {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        bail!("{}{}", text(&output.stdout), text(&output.stderr));
    }
    Ok(())
}

/// Returns a text inside a document, or an empty text if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Writes the manifest of the example, with another namespace and the credentials of the real cloud. Returns its path.
fn manifest(lab: &Lab, openstack: &OpenStack, namespace: &str) -> anyhow::Result<String> {
    let path = run::root()?.join("manifests/examples/machines.yaml");
    let example = std::fs::read_to_string(&path)?;
    let begin = example.find("    clouds:").context("the example has no credentials")?;
    let end = example
        .get(begin..)
        .and_then(|rest| rest.find("---"))
        .context("the example has no document after the credentials")?
        + begin;
    let clouds = openstack.clouds_block()?;
    let (head, tail) = (example.get(..begin).unwrap_or_default(), example.get(end..).unwrap_or_default());
    let text = format!("{head}{clouds}{tail}")
        .replace("cloudName: openstack", &format!("cloudName: {CLOUD}"))
        .replace("namespace: quickstart", &format!("namespace: {namespace}"));
    // The Namespace itself is the first document.
    let text =
        text.replacen("metadata:\n  name: quickstart\n", &format!("metadata:\n  name: {namespace}\n"), 1);
    lab.file(&format!("{namespace}.yaml"), &text)
}

/// Access to Capstan: a user with its kubeconfig, and a namespace.
pub(super) struct Access {
    pub(super) user: &'static str,
    pub(super) namespace: &'static str,
}

/// Access through the host, as its administrator.
pub(super) const HOST: Access = Access { user: "admin", namespace: "through-host" };

/// Direct access, with a certificate of Capstan's own CA.
pub(super) const DIRECT: Access = Access { user: "direct", namespace: "directly" };

/// Runs the whole life cycle of a cluster. No resource may be left in the cloud.
pub(super) fn life(lab: &Lab, openstack: &OpenStack, access: &Access) -> anyhow::Result<()> {
    let before = openstack.records(&["inventory"])?;
    create(lab, openstack, access).context("creating the cluster")?;
    reboot(lab, openstack, access).context("rebooting worker-0")?;
    power(lab, openstack, access).context("powering worker-0 off and on")?;
    upgrade(lab, openstack, access, "worker-0", "Rebuild").context("upgrading worker-0 by rebuild")?;
    upgrade(lab, openstack, access, "worker-1", "Replace").context("upgrading worker-1 by replacement")?;
    let kubectl =
        |arguments: &[&str]| lab.kubectl(access.user, &[&["-n", access.namespace], arguments].concat());
    kubectl(&["delete", "cluster", "--all", "--timeout=300s"])?;
    let left = kubectl(&["get", "clusters,machines,openstackclusters,openstackmachines", "-o", "name"])?;
    ensure!(left.trim().is_empty(), "objects still exist: {left}");
    until("the project has the same resources as before", || Ok(openstack.records(&["inventory"])? == before))
        .with_context(|| format!("{:#}", openstack.records(&["inventory"]).unwrap_or_default()))
}

/// Creates the cluster of the example, and checks its servers.
fn create(lab: &Lab, openstack: &OpenStack, access: &Access) -> anyhow::Result<()> {
    // With a host, namespaces are created there.
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {}}}\n", access.namespace);
    lab.kubectl("admin", &["apply", "-f", &lab.file("namespace.yaml", &namespace)?])?;
    let file = manifest(lab, openstack, access.namespace)?;
    until("the manifest is applied", || {
        let (applied, _, error) = lab.try_kubectl(access.user, &["apply", "-f", &file])?;
        let early = error.contains("not found");
        ensure!(applied || early, "{error}");
        Ok(applied)
    })?;
    for machine in ["control-plane-0", "worker-0", "worker-1"] {
        let wait = format!("machine/{machine}");
        let timeout = format!("--timeout={}s", TIMEOUT.as_secs() * 3);
        let arguments =
            ["-n", access.namespace, "wait", &wait, "--for=condition=InfrastructureReady", &timeout];
        let (ready, _, error) = lab.try_kubectl(access.user, &arguments)?;
        if !ready {
            let state = lab.kubectl(
                access.user,
                &["-n", access.namespace, "describe", "openstackcluster,openstackmachine"],
            )?;
            bail!("{machine}: {error}\n{state}");
        }
        let server = openstack.records(&["server", &server_of(lab, access, machine)?])?;
        ensure!(text(&server, "/status") == "ACTIVE", "{machine}: {server}");
        ensure!(text(&server, "/name") == machine, "{machine}: {server}");
    }
    let endpoint = get(lab, access, "cluster/quickstart", "{.spec.controlPlaneEndpoint.host}")?;
    ensure!(endpoint.starts_with("172.24."), "the endpoint is {endpoint:?}, not a floating IP");
    Ok(())
}

/// Requests one reboot. Nova must have recorded exactly one when the operation is Complete.
fn reboot(lab: &Lab, openstack: &OpenStack, access: &Access) -> anyhow::Result<()> {
    let server = server_of(lab, access, "worker-0")?;
    let before = openstack.actions(&server, "reboot")?;
    let operation = post(lab, access, "worker-0", "reboot", r#"{"type": "Hard"}"#)?;
    complete(lab, access, &operation)?;
    let after = openstack.actions(&server, "reboot")?;
    ensure!(after == before + 1, "Nova recorded {} reboots", after - before);
    ensure!(server_of(lab, access, "worker-0")? == server, "the server of the Machine has changed");
    Ok(())
}

/// Powers a server off and on. Nova must have recorded one `stop` and one `start`, and the server must be in the state.
fn power(lab: &Lab, openstack: &OpenStack, access: &Access) -> anyhow::Result<()> {
    let server = server_of(lab, access, "worker-0")?;
    for (action, recorded, status) in [("poweroff", "stop", "SHUTOFF"), ("poweron", "start", "ACTIVE")] {
        let before = openstack.actions(&server, recorded)?;
        let operation = post(lab, access, "worker-0", action, "{}")?;
        complete(lab, access, &operation)?;
        let after = openstack.actions(&server, recorded)?;
        ensure!(after == before + 1, "Nova recorded {} times {recorded}", after - before);
        let found = openstack.records(&["server", &server])?;
        ensure!(text(&found, "/status") == status, "after {action}: {found}");
    }
    Ok(())
}

/// Upgrades one machine with one strategy.
fn upgrade(
    lab: &Lab,
    openstack: &OpenStack,
    access: &Access,
    machine: &str,
    strategy: &str,
) -> anyhow::Result<()> {
    let before = openstack.records(&["server", &server_of(lab, access, machine)?])?;
    let addresses = |server: &str| -> anyhow::Result<Vec<String>> {
        let ports = openstack.records(&["ports", server])?;
        let ports = ports.as_array().context("no list of ports")?;
        Ok(ports.iter().map(|port| text(port, "/id").to_owned()).collect())
    };
    let ports = addresses(text(&before, "/id"))?;
    let body = format!(r#"{{"version": "v1.30.0", "strategy": "{strategy}"}}"#);
    let operation = post(lab, access, machine, "upgrade", &body)?;
    complete(lab, access, &operation)?;
    let id = server_of(lab, access, machine)?;
    let after = openstack.records(&["server", &id])?;
    ensure!(text(&after, "/status") == "ACTIVE", "{after}");
    ensure!(text(&after, "/image/id") != text(&before, "/image/id"), "the image has not changed");
    let same = text(&after, "/id") == text(&before, "/id");
    ensure!(same == (strategy == "Rebuild"), "{strategy}: {} became {id}", text(&before, "/id"));
    ensure!(addresses(&id)? == ports, "{strategy}: the ports changed");
    let version = get(lab, access, &format!("machine/{machine}"), "{.spec.version}")?;
    ensure!(version == "v1.30.0", "the Machine has version {version:?}");
    if strategy == "Rebuild" {
        ensure!(openstack.actions(&id, "rebuild")? == 1, "Nova did not record exactly one rebuild");
    }
    Ok(())
}

/// Posts an action on a Machine. Returns the name of the operation.
pub(super) fn post(
    lab: &Lab,
    access: &Access,
    machine: &str,
    action: &str,
    body: &str,
) -> anyhow::Result<String> {
    let path =
        format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/machines/{machine}/{action}", access.namespace);
    let answer =
        lab.kubectl(access.user, &["create", "--raw", &path, "-f", &lab.file("action.json", body)?])?;
    let answer: Value = serde_json::from_str(&answer)?;
    Ok(text(&answer, "/metadata/name").to_owned())
}

/// Waits until an operation is Complete.
pub(super) fn complete(lab: &Lab, access: &Access, operation: &str) -> anyhow::Result<()> {
    let name = format!("machineoperation/{operation}");
    let wait = ["-n", access.namespace, "wait", &name, "--for=condition=Complete", "--timeout=300s"];
    let (complete, _, error) = lab.try_kubectl(access.user, &wait)?;
    if !complete {
        bail!(
            "{error}\n{}",
            lab.kubectl(access.user, &["-n", access.namespace, "get", &name, "-o", "yaml"])?
        );
    }
    Ok(())
}

/// Returns a part of an object.
pub(super) fn get(lab: &Lab, access: &Access, object: &str, path: &str) -> anyhow::Result<String> {
    lab.kubectl(access.user, &["-n", access.namespace, "get", object, "-o", &format!("jsonpath={path}")])
}

/// Returns the id of a Machine's server.
pub(super) fn server_of(lab: &Lab, access: &Access, machine: &str) -> anyhow::Result<String> {
    let provider_id = get(lab, access, &format!("machine/{machine}"), "{.spec.providerID}")?;
    let id = provider_id.rsplit('/').next().filter(|id| !id.is_empty());
    Ok(id.with_context(|| format!("Machine {machine} has no providerID"))?.to_owned())
}
