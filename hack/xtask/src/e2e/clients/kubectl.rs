//! Scenarios with kubectl, of the current minor version and of one four minors older: all commands that users need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use super::{DIRECT, Endpoint, HOST};
use crate::e2e::lab::{Lab, until};
use crate::prerequisites;

pub(in crate::e2e) fn current(lab: &Lab) -> anyhow::Result<()> {
    check(lab, &lab.tools.kubectl, "current")
}

pub(in crate::e2e) fn older(lab: &Lab) -> anyhow::Result<()> {
    check(lab, &prerequisites::older_kubectl()?, "older")
}

fn check(lab: &Lab, binary: &Path, name: &str) -> anyhow::Result<()> {
    for endpoint in [&HOST, &DIRECT] {
        let namespace = format!("kubectl-{name}");
        endpoint.namespace(lab, &namespace)?;
        let session = Session {
            lab,
            endpoint,
            binary: binary.to_owned(),
            namespace,
            cache: lab.directory(&format!("cache/{name}")),
        };
        for (what, part) in PARTS {
            part(&session).with_context(|| format!("{what}, as {}", endpoint.user))?;
        }
    }
    Ok(())
}

type Part = fn(&Session<'_>) -> anyhow::Result<()>;

const PARTS: [(&str, Part); 9] = [
    ("discovery and explain", discovery),
    ("client-side apply", client_side),
    ("server-side apply", server_side),
    ("patch, label, annotate, edit, replace", changes),
    ("tables, selectors, sorting", tables),
    ("scale", scale),
    ("wait", wait),
    ("prune and apply sets", prune),
    ("delete with each propagation policy", deletion),
];

/// One kubectl with one endpoint and one namespace.
struct Session<'a> {
    lab: &'a Lab,
    endpoint: &'a Endpoint,
    binary: PathBuf,
    namespace: String,
    cache: PathBuf,
}

const DEPLOYMENT: &str = "
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: pool, labels: {app: walk}, annotations: {cluster.x-k8s.io/paused: ''}}
spec:
  clusterName: c
  replicas: REPLICAS
  selector: {matchLabels: {pool: pool}}
  template:
    metadata: {labels: {pool: pool}}
    spec:
      clusterName: c
      version: v1.33.0
      bootstrap: {dataSecretName: s}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachineTemplate, name: t}
";

fn cluster(name: &str, pods: &str) -> String {
    format!(
        "{{\"apiVersion\": \"cluster.x-k8s.io/v1beta2\", \"kind\": \"Cluster\", \"metadata\": {{\"name\": \"{name}\", \
         \"labels\": {{\"app\": \"walk\"}}}}, \"spec\": {{\"paused\": true, \"clusterNetwork\": {{\"pods\": \
         {{\"cidrBlocks\": [\"{pods}\"]}}}}}}}}"
    )
}

fn list(items: &[String]) -> String {
    format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}]}}", items.join(", "))
}

impl Session<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["--kubeconfig", &self.endpoint.kubeconfig(self.lab), "--namespace", &self.namespace]);
        command.arg("--cache-dir").arg(self.cache.join(self.endpoint.user)).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    fn attempt(&self, command: &mut Command) -> anyhow::Result<(i32, String)> {
        let output = command.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr)))
    }

    fn runs(&self, arguments: &[&str]) -> anyhow::Result<String> {
        match self.attempt(&mut self.command(arguments))? {
            (0, text) => Ok(text),
            (code, text) => bail!("kubectl {} ended with {code}: {text}", arguments.join(" ")),
        }
    }

    /// Checks that the command succeeds and prints a text.
    fn prints(&self, arguments: &[&str], expected: &str) -> anyhow::Result<()> {
        let text = self.runs(arguments)?;
        ensure!(text.contains(expected), "kubectl {} prints {text:?}, not {expected:?}", arguments.join(" "));
        Ok(())
    }

    /// Checks that the command fails and prints a text.
    fn fails(&self, arguments: &[&str], expected: &str) -> anyhow::Result<()> {
        let (code, text) = self.attempt(&mut self.command(arguments))?;
        ensure!(
            code != 0 && text.contains(expected),
            "kubectl {} ended with {code}: {text:?}",
            arguments.join(" ")
        );
        Ok(())
    }

    fn file(&self, name: &str, content: &str) -> anyhow::Result<String> {
        self.lab.file(&format!("{}-{}-{name}", self.namespace, self.endpoint.user), content)
    }
}

fn discovery(session: &Session<'_>) -> anyhow::Result<()> {
    session.prints(
        &["api-resources", "--api-group=cluster.x-k8s.io", "-o", "name"],
        "machinedeployments.cluster.x-k8s.io",
    )?;
    session.prints(&["api-versions"], "cluster.x-k8s.io/v1beta2")?;
    session.prints(&["explain", "cluster.spec.topology", "--recursive"], "machineDeployments")?;
    // A kube-apiserver that was started again reads the documents of Capstan within a minute. Until then, it has those of
    // the CRD objects, which have no fields.
    let field = ["explain", "md.spec.replicas"];
    until("kubectl explain knows the fields", || Ok(session.prints(&field, "<integer>").is_ok()))?;
    session.prints(&["explain", "machine", "--api-version=cluster.x-k8s.io/v1beta1"], "v1beta1")?;
    session.prints(&["version"], "Server Version: v1.")?;
    session.prints(&["auth", "can-i", "delete", "machines.cluster.x-k8s.io"], "yes")
}

fn client_side(session: &Session<'_>) -> anyhow::Result<()> {
    let (first, second) = (
        session.file("a.json", &cluster("a", "10.0.0.0/16"))?,
        session.file("b.json", &cluster("a", "10.9.0.0/16"))?,
    );
    session.prints(&["apply", "-f", &first], "created")?;
    session.prints(&["apply", "-f", &first], "unchanged")?;
    let (code, text) = session.attempt(&mut session.command(&["diff", "-f", &second]))?;
    ensure!(code == 1 && text.contains("10.9.0.0/16"), "diff ended with {code}: {text}");
    session.prints(&["apply", "-f", &second, "--dry-run=server"], "configured (server dry run)")?;
    session.prints(&["apply", "-f", &second], "configured")?;
    let misspelt = session.file("bad.json", &cluster("x", "10.0.0.0/16").replace("paused", "pausd"))?;
    session.fails(&["apply", "-f", &misspelt], "unknown field \"spec.pausd\"")?;
    let list = list(&[cluster("listed", "10.0.0.0/16")]);
    session.prints(&["apply", "-f", &session.file("list.json", &list)?], "created")
}

fn server_side(session: &Session<'_>) -> anyhow::Result<()> {
    let file = session.file("c.json", &cluster("a", "10.5.0.0/16"))?;
    session.prints(&["apply", "--server-side", "-f", &file], "serverside-applied")?;
    session.prints(&["get", "cluster", "a", "--show-managed-fields", "-o", "yaml"], "operation: Apply")?;
    let other = session.file("d.json", &cluster("a", "10.6.0.0/16"))?;
    session.fails(
        &["apply", "--server-side", "--field-manager=other", "-f", &other],
        "conflict with \"kubectl\"",
    )?;
    session.prints(
        &["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", &other],
        "serverside-applied",
    )?;
    let (code, text) = session.attempt(&mut session.command(&[
        "diff",
        "--server-side",
        "--field-manager=other",
        "-f",
        &other,
    ]))?;
    ensure!(code == 0, "diff after apply ended with {code}: {text}");
    Ok(())
}

fn changes(session: &Session<'_>) -> anyhow::Result<()> {
    session.prints(&["label", "cluster", "a", "tier=gold"], "labeled")?;
    session.prints(&["annotate", "cluster", "a", "note=x"], "annotated")?;
    session.prints(
        &["patch", "cluster", "a", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#],
        "no change",
    )?;
    let json = r#"[{"op":"add","path":"/metadata/labels/json","value":"yes"}]"#;
    session.prints(&["patch", "cluster", "a", "--type=json", "-p", json], "patched")?;
    session.fails(&["patch", "cluster", "a", "-p", "{}"], "application/json-patch+json")?;
    let mut edit = session.command(&["edit", "cluster", "a"]);
    let (code, text) = session.attempt(edit.env("KUBE_EDITOR", "sed -i s/tier:.gold/tier:\\ silver/"))?;
    ensure!(code == 0 && text.contains("edited"), "edit ended with {code}: {text}");
    session.prints(&["get", "cluster", "a", "-o", "jsonpath={.metadata.labels.tier}"], "silver")?;
    let read = session.runs(&["get", "cluster", "a", "-o", "json"])?;
    let file = session.file("replace.json", &read.replace("silver", "bronze"))?;
    session.prints(&["replace", "-f", &file], "replaced")?;
    session.fails(&["replace", "-f", &file], "the object has been modified")
}

fn tables(session: &Session<'_>) -> anyhow::Result<()> {
    session.prints(&["get", "cl", "-l", "app=walk", "-o", "wide"], "CP CURRENT")?;
    session.prints(&["get", "cluster", "--sort-by=.metadata.name"], "listed")?;
    session.prints(
        &["get", "clusters", "--field-selector", "metadata.name=a", "-o", "name"],
        "cluster.cluster.x-k8s.io/a",
    )?;
    session.prints(&["get", "clusters", "--chunk-size=1", "-o", "name"], "listed")?;
    session.prints(&["get", "clusters", "-A", "-o", "yaml"], "kind: List")?;
    session.prints(&["describe", "cluster", "a"], "Cidr Blocks")?;
    session
        .fails(&["get", "clusters", "--field-selector", "spec.paused=true"], "field label not supported")?;
    session.fails(&["get", "cluster", "nobody"], "\"nobody\" not found")
}

fn scale(session: &Session<'_>) -> anyhow::Result<()> {
    let file = session.file("md.yaml", &DEPLOYMENT.replace("REPLICAS", "1"))?;
    session.prints(&["create", "-f", &file], "created")?;
    session.prints(&["scale", "md", "pool", "--replicas=3", "--current-replicas=1"], "scaled")?;
    session.prints(&["get", "md", "pool", "-o", "jsonpath={.spec.replicas}"], "3")?;
    session.fails(
        &["scale", "md", "pool", "--replicas=4", "--current-replicas=1"],
        "Expected replicas to be 1, was 3",
    )?;
    session.fails(&["rollout", "status", "md/pool"], "no kind")?;
    let wrong = session.file("wrong.yaml", &DEPLOYMENT.replace("REPLICAS", "many"))?;
    session.fails(&["apply", "-f", &wrong], "spec.replicas")
}

fn wait(session: &Session<'_>) -> anyhow::Result<()> {
    let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Available","status":"True","reason":"Walked",
        "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    session
        .prints(&["patch", "md", "pool", "--subresource=status", "--type=merge", "-p", status], "patched")?;
    session.prints(&["wait", "md/pool", "--for=condition=Available", "--timeout=20s"], "condition met")?;
    session.prints(
        &["wait", "md/pool", "--for=jsonpath={.status.phase}=Running", "--timeout=20s"],
        "condition met",
    )?;
    session.fails(&["wait", "md/pool", "--for=condition=Never", "--timeout=1s"], "timed out")?;
    session.runs(&["delete", "md", "pool", "--wait=false"])?;
    session.runs(&["wait", "md/pool", "--for=delete", "--timeout=20s"]).map(|_| ())
}

fn prune(session: &Session<'_>) -> anyhow::Result<()> {
    let member = |name| cluster(name, "10.0.0.0/16").replace("walk", "set");
    let both = session.file("both.json", &list(&[member("kept"), member("pruned")]))?;
    let one = session.file("one.json", &member("kept"))?;
    let allowed = "--prune-allowlist=cluster.x-k8s.io/v1beta2/Cluster";
    session.prints(
        &["apply", "-f", &both, "--prune", "-l", "app=set", allowed],
        "cluster.cluster.x-k8s.io/pruned created",
    )?;
    session.prints(
        &["apply", "-f", &one, "--prune", "-l", "app=set", allowed],
        "cluster.cluster.x-k8s.io/pruned pruned",
    )?;
    let set = ["apply", "--prune", "--server-side", "--applyset=secret/set", "-f"];
    for (file, expected) in [(&both, "pruned serverside-applied"), (&one, "pruned pruned")] {
        let mut command = session.command(&[&set[..], &[file.as_str()], &["--force-conflicts"]].concat());
        let (code, text) = session.attempt(command.env("KUBECTL_APPLYSET", "true"))?;
        ensure!(code == 0 && text.contains(expected), "apply with an ApplySet ended with {code}: {text}");
    }
    Ok(())
}

fn deletion(session: &Session<'_>) -> anyhow::Result<()> {
    for (name, cascade) in [("a", "background"), ("listed", "foreground"), ("kept", "orphan")] {
        session.prints(
            &["delete", "cluster", name, &format!("--cascade={cascade}"), "--timeout=30s"],
            "deleted",
        )?;
    }
    session.prints(&["delete", "clusters", "--all"], "No resources found")?;
    session.runs(&["delete", "secret", "--all"]).map(|_| ())
}
