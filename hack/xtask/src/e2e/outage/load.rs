//! Program with the cluster, the load and the verdict, and the users that it needs.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::json;

use crate::e2e::lab::{Lab, until};
use crate::run;

/// Namespace of the objects that all users write.
const NAMESPACE: &str = "team";

/// Users, the realm of each, and the subject of its binding on the direct endpoint.
const USERS: [(&str, &str, &str); 7] = [
    ("carol", "own", "--user=carol"),
    ("robot", "own", "--serviceaccount=capstan-system:robot"),
    ("olga", "own", "--user=oidc:olga"),
    ("kay", "own", "--user=keystone:Default/demo"),
    ("dave", "denied", ""),
    ("hostbot", "host", ""),
    ("alice", "aggregated", ""),
];

/// Line that ends a rollout.
const ROLLED: &str = "rolled";

/// Running program.
pub(super) struct Load {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// A rollout has ended, which nothing has waited for.
    has_rolled: bool,
}

impl Load {
    /// Starts the program, and waits until its cloud runs.
    pub(super) fn start(lab: &Lab, cloud: u16) -> anyhow::Result<Self> {
        let home = lab.directory("load");
        std::fs::create_dir_all(&home)?;
        let example = std::fs::read_to_string(run::root()?.join("manifests/examples/cluster.yaml"))?;
        ensure!(example.contains("127.0.0.1:15000"), "the example has another cloud");
        let manifest = lab.file(
            "load/cluster.yaml",
            &example
                .replace("127.0.0.1:15000", &format!("127.0.0.1:{cloud}"))
                .replace("  replicas: 3\n  selector", "  replicas: 4\n  selector"),
        )?;
        let mut command = Command::new(run::target()?.join("debug/outage"));
        command.args(["--cloud", &format!("127.0.0.1:{cloud}"), "--manifest", &manifest, "--home"]);
        command.arg(&home).args(["--admin", &lab.certificates.path("direct.kubeconfig")]);
        for (user, realm, _) in USERS {
            let path = lab.certificates.path(&format!("{user}.kubeconfig"));
            command.args(["--identity", &format!("{user}:{realm}:{path}")]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().context("the load cannot be started")?;
        let commands = child.stdin.take().context("the load has no input")?;
        let answers = BufReader::new(child.stdout.take().context("the load has no output")?).lines();
        let mut load = Self { child, commands, answers, has_rolled: false };
        load.wait("cloud")?;
        Ok(load)
    }

    /// Waits for a line. The end of a rollout may come before it.
    pub(super) fn wait(&mut self, expected: &str) -> anyhow::Result<()> {
        if expected == ROLLED && std::mem::take(&mut self.has_rolled) {
            return Ok(());
        }
        loop {
            let line =
                self.answers.next().with_context(|| format!("the load ended before {expected:?}"))??;
            if line == expected {
                return Ok(());
            }
            ensure!(line == ROLLED, "the load says {line:?} instead of {expected:?}");
            self.has_rolled = true;
        }
    }

    /// Sends a command, and waits until it is done.
    pub(super) fn ask(&mut self, command: &str, answer: &str) -> anyhow::Result<()> {
        writeln!(self.commands, "{command}")?;
        self.wait(answer)
    }

    /// Records the time of an event.
    pub(super) fn mark(&mut self, text: &str) -> anyhow::Result<()> {
        eprintln!("        {text}");
        self.ask(&format!("mark {text}"), "mark")
    }

    /// Orders a rollout.
    pub(super) fn roll(&mut self) -> anyhow::Result<()> {
        self.ask("roll", "roll")
    }

    /// Waits for the end of a rollout.
    pub(super) fn wait_for_rollout(&mut self) -> anyhow::Result<()> {
        self.wait(ROLLED)?;
        eprintln!("        the rollout is complete");
        Ok(())
    }

    /// Ends the load. Returns its report.
    pub(super) fn end(mut self) -> anyhow::Result<String> {
        writeln!(self.commands, "end")?;
        let mut report = String::new();
        for line in &mut self.answers {
            report.push_str("        ");
            report.push_str(&line?);
            report.push('\n');
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "{report}the load has found violations, which are above");
        Ok(report)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Creates the namespace, the users and their permissions, and waits until these are in force.
pub(super) fn identities(lab: &Lab, cloud: u16) -> anyhow::Result<()> {
    for namespace in [NAMESPACE, "quickstart"] {
        lab.kubectl("admin", &["create", "namespace", namespace])?;
        lab.let_write_secrets(namespace)?;
    }
    let role = "--clusterrole=capstan:edit";
    lab.kubectl("admin", &["create", "rolebinding", "alice", "-n", NAMESPACE, role, "--user=alice"])?;
    lab.kubectl("admin", &["create", "serviceaccount", "hostbot", "-n", NAMESPACE])?;
    let account = format!("--serviceaccount={NAMESPACE}:hostbot");
    lab.kubectl("admin", &["create", "rolebinding", "hostbot", "-n", NAMESPACE, role, &account])?;
    for (user, _, subject) in USERS.into_iter().filter(|(_, _, subject)| !subject.is_empty()) {
        let create = ["create", "rolebinding", user, "-n", NAMESPACE, role, subject];
        until("Capstan knows the namespace of the host", || Ok(lab.try_kubectl("direct", &create)?.0))?;
    }
    lab.kubectl("direct", &["create", "serviceaccount", "robot", "-n", "capstan-system"])?;
    let robot = ["create", "token", "robot", "-n", "capstan-system", "--duration=2h"];
    with_token(lab, "robot", &lab.kubectl("direct", &robot)?)?;
    let hostbot = ["create", "token", "hostbot", "-n", NAMESPACE, "--duration=2h"];
    with_token(lab, "hostbot", &lab.kubectl("admin", &hostbot)?)?;
    with_token(lab, "olga", &std::fs::read_to_string(lab.directory("load").join("issuer.token"))?)?;
    with_token(lab, "kay", &keystone_token(cloud)?)?;
    for (user, realm, _) in USERS.into_iter().filter(|(_, realm, _)| *realm != "denied") {
        let mut last = String::new();
        let is_allowed = || {
            let (ok, _, error) = lab.try_kubectl(user, &["get", "machinedrainrules", "-n", NAMESPACE])?;
            last = error;
            Ok(ok)
        };
        until(&format!("{user} ({realm}) has permissions"), is_allowed).context(last)?;
    }
    Ok(())
}

/// Writes a kubeconfig for the direct endpoint.
fn with_token(lab: &Lab, user: &str, token: &str) -> anyhow::Result<()> {
    let server = format!("https://127.0.0.1:{}", lab.capstan_port);
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "capstan",
        "clusters": [{"name": "capstan", "cluster": {
            "server": server, "certificate-authority": lab.data().join("pki/ca.crt").display().to_string()}}],
        "users": [{"name": user, "user": {"token": token.trim()}}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": user}}]});
    Ok(std::fs::write(lab.certificates.path(&format!("{user}.kubeconfig")), document.to_string())?)
}

/// Logs in to the simulated Keystone as the user of the example.
fn keystone_token(cloud: u16) -> anyhow::Result<String> {
    let domain = json!({"name": "Default"});
    let login = json!({"auth": {
        "identity": {"methods": ["password"],
            "password": {"user": {"name": "demo", "password": "demo", "domain": domain}}},
        "scope": {"project": {"name": "demo", "domain": domain}}}});
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--include", "--header", "Content-Type: application/json"]);
    command.args(["--data", &login.to_string(), &format!("http://127.0.0.1:{cloud}/v3/auth/tokens")]);
    let mut answer = String::new();
    let output = run::output(&mut command)?;
    output.as_bytes().read_to_string(&mut answer)?;
    let header = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-subject-token").then(|| value.trim().to_owned())
    });
    header.with_context(|| format!("Keystone gives no token: {answer}"))
}
