//! kubectl, of this minor and of one four minors older: everything its users do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use super::{DIRECT, Face, HOST};
use crate::e2e::lab::Lab;
use crate::prerequisites;

pub(in crate::e2e) fn current(lab: &Lab) -> anyhow::Result<()> {
    walks(lab, &lab.tools.kubectl, "current")
}

pub(in crate::e2e) fn older(lab: &Lab) -> anyhow::Result<()> {
    walks(lab, &prerequisites::older_kubectl()?, "older")
}

fn walks(lab: &Lab, binary: &Path, name: &str) -> anyhow::Result<()> {
    for face in [&HOST, &DIRECT] {
        let namespace = format!("kubectl-{name}");
        face.namespace(lab, &namespace)?;
        let walk = Walk {
            lab,
            face,
            binary: binary.to_owned(),
            namespace,
            cache: lab.directory(&format!("cache/{name}")),
        };
        for (what, part) in PARTS {
            part(&walk).with_context(|| format!("{what}, as {}", face.user))?;
        }
    }
    Ok(())
}

type Part = fn(&Walk<'_>) -> anyhow::Result<()>;

const PARTS: [(&str, Part); 9] = [
    ("discovery and explain", discovery),
    ("apply from the client", client_side),
    ("apply by the server", server_side),
    ("patch, label, annotate, edit, replace", changes),
    ("tables, selectors, sorting", tables),
    ("scale", scale),
    ("wait", wait),
    ("prune and apply sets", prune),
    ("delete in all orders", deletion),
];

/// One kubectl, one way in, one namespace.
struct Walk<'a> {
    lab: &'a Lab,
    face: &'a Face,
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

impl Walk<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(["--kubeconfig", &self.face.kubeconfig(self.lab), "--namespace", &self.namespace]);
        command.arg("--cache-dir").arg(self.cache.join(self.face.user)).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    fn attempt(&self, command: &mut Command) -> anyhow::Result<(i32, String)> {
        let output = command.output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((output.status.code().unwrap_or(-1), text(&output.stdout) + &text(&output.stderr)))
    }

    fn does(&self, arguments: &[&str]) -> anyhow::Result<String> {
        match self.attempt(&mut self.command(arguments))? {
            (0, text) => Ok(text),
            (code, text) => bail!("kubectl {} ended with {code}: {text}", arguments.join(" ")),
        }
    }

    /// The command succeeds, and prints this.
    fn says(&self, arguments: &[&str], wanted: &str) -> anyhow::Result<()> {
        let text = self.does(arguments)?;
        ensure!(text.contains(wanted), "kubectl {} says {text:?}, not {wanted:?}", arguments.join(" "));
        Ok(())
    }

    /// The command fails, and prints this.
    fn fails(&self, arguments: &[&str], wanted: &str) -> anyhow::Result<()> {
        let (code, text) = self.attempt(&mut self.command(arguments))?;
        ensure!(
            code != 0 && text.contains(wanted),
            "kubectl {} ended with {code}: {text:?}",
            arguments.join(" ")
        );
        Ok(())
    }

    fn file(&self, name: &str, content: &str) -> anyhow::Result<String> {
        self.lab.file(&format!("{}-{}-{name}", self.namespace, self.face.user), content)
    }
}

fn discovery(walk: &Walk<'_>) -> anyhow::Result<()> {
    walk.says(
        &["api-resources", "--api-group=cluster.x-k8s.io", "-o", "name"],
        "machinedeployments.cluster.x-k8s.io",
    )?;
    walk.says(&["api-versions"], "cluster.x-k8s.io/v1beta2")?;
    walk.says(&["explain", "cluster.spec.topology", "--recursive"], "machineDeployments")?;
    walk.says(&["explain", "md.spec.replicas"], "<integer>")?;
    walk.says(&["explain", "machine", "--api-version=cluster.x-k8s.io/v1beta1"], "v1beta1")?;
    walk.says(&["version"], "Server Version: v1.")?;
    walk.says(&["auth", "can-i", "delete", "machines.cluster.x-k8s.io"], "yes")
}

fn client_side(walk: &Walk<'_>) -> anyhow::Result<()> {
    let (first, second) = (
        walk.file("a.json", &cluster("a", "10.0.0.0/16"))?,
        walk.file("b.json", &cluster("a", "10.9.0.0/16"))?,
    );
    walk.says(&["apply", "-f", &first], "created")?;
    walk.says(&["apply", "-f", &first], "unchanged")?;
    let (code, text) = walk.attempt(&mut walk.command(&["diff", "-f", &second]))?;
    ensure!(code == 1 && text.contains("10.9.0.0/16"), "diff ended with {code}: {text}");
    walk.says(&["apply", "-f", &second, "--dry-run=server"], "configured (server dry run)")?;
    walk.says(&["apply", "-f", &second], "configured")?;
    let misspelt = walk.file("bad.json", &cluster("x", "10.0.0.0/16").replace("paused", "pausd"))?;
    walk.fails(&["apply", "-f", &misspelt], "unknown field \"spec.pausd\"")?;
    let list = list(&[cluster("listed", "10.0.0.0/16")]);
    walk.says(&["apply", "-f", &walk.file("list.json", &list)?], "created")
}

fn server_side(walk: &Walk<'_>) -> anyhow::Result<()> {
    let file = walk.file("c.json", &cluster("a", "10.5.0.0/16"))?;
    walk.says(&["apply", "--server-side", "-f", &file], "serverside-applied")?;
    walk.says(&["get", "cluster", "a", "--show-managed-fields", "-o", "yaml"], "operation: Apply")?;
    let other = walk.file("d.json", &cluster("a", "10.6.0.0/16"))?;
    walk.fails(
        &["apply", "--server-side", "--field-manager=other", "-f", &other],
        "conflict with \"kubectl\"",
    )?;
    walk.says(
        &["apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", &other],
        "serverside-applied",
    )?;
    let (code, text) =
        walk.attempt(&mut walk.command(&["diff", "--server-side", "--field-manager=other", "-f", &other]))?;
    ensure!(code == 0, "diff of what was applied ended with {code}: {text}");
    Ok(())
}

fn changes(walk: &Walk<'_>) -> anyhow::Result<()> {
    walk.says(&["label", "cluster", "a", "tier=gold"], "labeled")?;
    walk.says(&["annotate", "cluster", "a", "note=x"], "annotated")?;
    walk.says(&["patch", "cluster", "a", "--type=merge", "-p", r#"{"spec":{"paused":true}}"#], "no change")?;
    let json = r#"[{"op":"add","path":"/metadata/labels/json","value":"yes"}]"#;
    walk.says(&["patch", "cluster", "a", "--type=json", "-p", json], "patched")?;
    walk.fails(&["patch", "cluster", "a", "-p", "{}"], "application/json-patch+json")?;
    let mut edit = walk.command(&["edit", "cluster", "a"]);
    let (code, text) = walk.attempt(edit.env("KUBE_EDITOR", "sed -i s/tier:.gold/tier:\\ silver/"))?;
    ensure!(code == 0 && text.contains("edited"), "edit ended with {code}: {text}");
    walk.says(&["get", "cluster", "a", "-o", "jsonpath={.metadata.labels.tier}"], "silver")?;
    let read = walk.does(&["get", "cluster", "a", "-o", "json"])?;
    let file = walk.file("replace.json", &read.replace("silver", "bronze"))?;
    walk.says(&["replace", "-f", &file], "replaced")?;
    walk.fails(&["replace", "-f", &file], "the object has been modified")
}

fn tables(walk: &Walk<'_>) -> anyhow::Result<()> {
    walk.says(&["get", "cl", "-l", "app=walk", "-o", "wide"], "CP CURRENT")?;
    walk.says(&["get", "cluster", "--sort-by=.metadata.name"], "listed")?;
    walk.says(
        &["get", "clusters", "--field-selector", "metadata.name=a", "-o", "name"],
        "cluster.cluster.x-k8s.io/a",
    )?;
    walk.says(&["get", "clusters", "--chunk-size=1", "-o", "name"], "listed")?;
    walk.says(&["get", "clusters", "-A", "-o", "yaml"], "kind: List")?;
    walk.says(&["describe", "cluster", "a"], "Cidr Blocks")?;
    walk.fails(&["get", "clusters", "--field-selector", "spec.paused=true"], "field label not supported")?;
    walk.fails(&["get", "cluster", "nobody"], "\"nobody\" not found")
}

fn scale(walk: &Walk<'_>) -> anyhow::Result<()> {
    let file = walk.file("md.yaml", &DEPLOYMENT.replace("REPLICAS", "1"))?;
    walk.says(&["create", "-f", &file], "created")?;
    walk.says(&["scale", "md", "pool", "--replicas=3", "--current-replicas=1"], "scaled")?;
    walk.says(&["get", "md", "pool", "-o", "jsonpath={.spec.replicas}"], "3")?;
    walk.fails(
        &["scale", "md", "pool", "--replicas=4", "--current-replicas=1"],
        "Expected replicas to be 1, was 3",
    )?;
    walk.fails(&["rollout", "status", "md/pool"], "no kind")?;
    let wrong = walk.file("wrong.yaml", &DEPLOYMENT.replace("REPLICAS", "many"))?;
    walk.fails(&["apply", "-f", &wrong], "spec.replicas")
}

fn wait(walk: &Walk<'_>) -> anyhow::Result<()> {
    let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Available","status":"True","reason":"Walked",
        "message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}"#;
    walk.says(&["patch", "md", "pool", "--subresource=status", "--type=merge", "-p", status], "patched")?;
    walk.says(&["wait", "md/pool", "--for=condition=Available", "--timeout=20s"], "condition met")?;
    walk.says(
        &["wait", "md/pool", "--for=jsonpath={.status.phase}=Running", "--timeout=20s"],
        "condition met",
    )?;
    walk.fails(&["wait", "md/pool", "--for=condition=Never", "--timeout=1s"], "timed out")?;
    walk.does(&["delete", "md", "pool", "--wait=false"])?;
    walk.does(&["wait", "md/pool", "--for=delete", "--timeout=20s"]).map(|_| ())
}

fn prune(walk: &Walk<'_>) -> anyhow::Result<()> {
    let member = |name| cluster(name, "10.0.0.0/16").replace("walk", "set");
    let both = walk.file("both.json", &list(&[member("kept"), member("pruned")]))?;
    let one = walk.file("one.json", &member("kept"))?;
    let allowed = "--prune-allowlist=cluster.x-k8s.io/v1beta2/Cluster";
    walk.says(
        &["apply", "-f", &both, "--prune", "-l", "app=set", allowed],
        "cluster.cluster.x-k8s.io/pruned created",
    )?;
    walk.says(
        &["apply", "-f", &one, "--prune", "-l", "app=set", allowed],
        "cluster.cluster.x-k8s.io/pruned pruned",
    )?;
    let set = ["apply", "--prune", "--server-side", "--applyset=secret/set", "-f"];
    for (file, wanted) in [(&both, "pruned serverside-applied"), (&one, "pruned pruned")] {
        let mut command = walk.command(&[&set[..], &[file.as_str()], &["--force-conflicts"]].concat());
        let (code, text) = walk.attempt(command.env("KUBECTL_APPLYSET", "true"))?;
        ensure!(code == 0 && text.contains(wanted), "the apply set ended with {code}: {text}");
    }
    Ok(())
}

fn deletion(walk: &Walk<'_>) -> anyhow::Result<()> {
    for (name, cascade) in [("a", "background"), ("listed", "foreground"), ("kept", "orphan")] {
        walk.says(&["delete", "cluster", name, &format!("--cascade={cascade}"), "--timeout=30s"], "deleted")?;
    }
    walk.says(&["delete", "clusters", "--all"], "No resources found")?;
    walk.does(&["delete", "secret", "--all"]).map(|_| ())
}
