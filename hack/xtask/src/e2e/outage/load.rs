//! Program with the cluster, the load and the verdict, and the users that it needs.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::extent::Extent;
use crate::e2e::lab::{Lab, until};
use crate::e2e::workflows;
use crate::run;

/// Namespace of the objects that all users write.
const NAMESPACE: &str = "team";

/// Name of the cluster in the example, and of its namespace.
const EXAMPLE: &str = "quickstart";

/// Role of all users but one.
const ROLE: &str = "--clusterrole=capstan:edit";

/// User with its realm, its number of writers and of readers, and the subject of its binding on the direct endpoint.
struct User {
    name: &'static str,
    realm: &'static str,
    tasks: usize,
    subject: &'static str,
}

const fn user(name: &'static str, realm: &'static str, tasks: usize, subject: &'static str) -> User {
    User { name, realm, tasks, subject }
}

/// Six identities with permissions have eight writers and eight readers on the direct endpoint, and one has four of each through the
/// host.
const USERS: [User; 8] = [
    user("carol", "own", 2, "--user=carol"),
    user("robot", "own", 2, "--serviceaccount=capstan-system:robot"),
    user("olga", "own", 1, "--user=oidc:olga"),
    user("kay", "own", 1, "--user=keystone:Default/demo"),
    user("hostbot", "host", 1, ""),
    user("harry", "host", 1, ""),
    user("dave", "denied", 1, ""),
    user("alice", "aggregated", 4, ""),
];

/// Time for which certificates and tokens are good. During the run, the clocks of the replicas are set forward by hours.
const LIFETIME: &str = "12h";

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
    pub(super) fn start(lab: &Lab, cloud: u16, extent: &Extent) -> anyhow::Result<Self> {
        let home = lab.directory("load");
        std::fs::create_dir_all(&home)?;
        let mut command = Command::new(run::target()?.join("debug/outage"));
        command.args(["--cloud", &format!("127.0.0.1:{cloud}"), "--pace", &extent.pace.to_string()]);
        command.arg("--home").arg(&home).args(["--admin", &lab.certificates.path("direct.kubeconfig")]);
        for manifest in manifests(lab, cloud, extent)? {
            command.args(["--manifest", &manifest]);
        }
        for User { name, realm, tasks, .. } in USERS {
            let path = lab.certificates.path(&format!("{name}.kubeconfig"));
            command.args(["--identity", &format!("{name}:{realm}:{tasks}:{path}")]);
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

/// Returns the name of the namespace and of the cluster in each manifest. The workers of the first one are rolled.
fn clusters(extent: &Extent) -> impl Iterator<Item = String> {
    std::iter::once(EXAMPLE.to_owned()).chain((1..=extent.others).map(|number| format!("fleet-{number}")))
}

/// Writes the manifests of all clusters. All but the first one are as small as clusters can be.
fn manifests(lab: &Lab, cloud: u16, extent: &Extent) -> anyhow::Result<Vec<String>> {
    const CLOUD: &str = "127.0.0.1:15000";
    const NODES: &str = "  replicas: 3\n  version";
    const WORKERS: &str = "  replicas: 3\n  selector";
    let example = std::fs::read_to_string(run::root()?.join("manifests/examples/cluster.yaml"))?;
    let has_all = [CLOUD, NODES, WORKERS].iter().all(|text| example.contains(text));
    ensure!(has_all, "the example has another cloud, or other replicas");
    let example = example.replace(CLOUD, &format!("127.0.0.1:{cloud}"));
    let manifest = |name: String| {
        let (nodes, workers) = if name == EXAMPLE { (3, extent.workers) } else { (1, 1) };
        let text = example.replace(NODES, &format!("  replicas: {nodes}\n  version"));
        let text = text.replace(WORKERS, &format!("  replicas: {workers}\n  selector"));
        lab.file(&format!("load/{name}.yaml"), &text.replace(EXAMPLE, &name))
    };
    clusters(extent).map(manifest).collect()
}

/// Creates the certificates of Capstan's own users.
pub(super) fn certificates(lab: &Lab) -> anyhow::Result<()> {
    for (user, group) in [("direct", "system:masters"), ("carol", "carols"), ("dave", "daves")] {
        workflows::mint_for(LIFETIME, lab, user, group)?;
    }
    Ok(())
}

/// Creates the namespaces, the users and their permissions, and waits until these are in force.
pub(super) fn identities(lab: &Lab, cloud: u16, extent: &Extent) -> anyhow::Result<()> {
    for namespace in std::iter::once(NAMESPACE.to_owned()).chain(clusters(extent)) {
        lab.kubectl("admin", &["create", "namespace", &namespace])?;
        lab.let_write_secrets(&namespace)?;
    }
    lab.kubectl("admin", &["create", "serviceaccount", "hostbot", "-n", NAMESPACE])?;
    let account = format!("--serviceaccount={NAMESPACE}:hostbot");
    let of_the_host = [("alice", "--user=alice"), ("harry", "--user=harry"), ("hostbot", account.as_str())];
    for (user, subject) in of_the_host {
        lab.kubectl("admin", &["create", "rolebinding", user, "-n", NAMESPACE, ROLE, subject])?;
    }
    for User { name, subject, .. } in USERS.into_iter().filter(|user| !user.subject.is_empty()) {
        let create = ["create", "rolebinding", name, "-n", NAMESPACE, ROLE, subject];
        until("Capstan knows the namespace of the host", || Ok(lab.try_kubectl("direct", &create)?.0))?;
    }
    credentials(lab, cloud, &format!("--duration={LIFETIME}"))?;
    for User { name, realm, .. } in USERS.into_iter().filter(|user| user.realm != "denied") {
        let mut last = String::new();
        let is_allowed = || {
            let (ok, _, error) = lab.try_kubectl(name, &["get", "machinedrainrules", "-n", NAMESPACE])?;
            last = error;
            Ok(ok)
        };
        until(&format!("{name} ({realm}) has permissions"), is_allowed).context(last)?;
    }
    Ok(())
}

/// Writes the kubeconfigs of the users that have none yet.
fn credentials(lab: &Lab, cloud: u16, duration: &str) -> anyhow::Result<()> {
    lab.kubectl("direct", &["create", "serviceaccount", "robot", "-n", "capstan-system"])?;
    let robot = ["create", "token", "robot", "-n", "capstan-system", duration];
    with_token(lab, "robot", &lab.kubectl("direct", &robot)?)?;
    let hostbot = ["create", "token", "hostbot", "-n", NAMESPACE, "--audience=capstan", duration];
    with_token(lab, "hostbot", &lab.kubectl("admin", &hostbot)?)?;
    with_token(lab, "olga", &std::fs::read_to_string(lab.directory("load").join("issuer.token"))?)?;
    with_token(lab, "kay", &keystone_token(cloud)?)?;
    lab.certificates.user("harry")?;
    let file = |end: &str| lab.certificates.path(&format!("harry.{end}"));
    let certificate = json!({"client-certificate": file("crt"), "client-key": file("key")});
    with_credential(lab, "harry", &certificate)
}

fn with_token(lab: &Lab, user: &str, token: &str) -> anyhow::Result<()> {
    with_credential(lab, user, &json!({"token": token.trim()}))
}

/// Writes a kubeconfig for the direct endpoint.
fn with_credential(lab: &Lab, user: &str, credential: &Value) -> anyhow::Result<()> {
    let server = format!("https://127.0.0.1:{}", lab.capstan_port);
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "capstan",
        "clusters": [{"name": "capstan", "cluster": {
            "server": server, "certificate-authority": lab.data().join("pki/ca.crt").display().to_string()}}],
        "users": [{"name": user, "user": credential}],
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
