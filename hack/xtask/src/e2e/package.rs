//! Manifests and Helm chart: a real host cluster accepts each shape, and Capstan serves it from the rendered files.

mod addons;
mod components;
mod etcd;
mod monitoring;
mod permissions;
mod pod;
mod release;
mod rendered;
mod schemas;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use self::components::DIRECT;
use self::etcd::Members;
use self::pod::Pod;
use self::rendered::{Objects, Shape};
use super::lab::{Lab, ports, until};
use super::process::Process;
use crate::run;

/// Port in the manifests. The lab uses a free one instead.
const PORT: &str = "7443";

/// Scenario of this part.
type Scenario = (&'static str, fn(&Packaged<'_>) -> anyhow::Result<()>);

const SCENARIOS: [Scenario; 12] = [
    ("Helm renders the same objects as kustomize for each shape, and refuses unknown values", same_objects),
    (
        "Helm renders the same objects as kustomize for each shape with each component",
        components::same_objects,
    ),
    ("a kube-apiserver accepts each overlay, and each Pod under the restricted policy", accepted),
    ("a kube-apiserver accepts each component of each overlay, strictly", components::accepted),
    ("a kube-apiserver accepts each object of the add-ons for workload clusters, strictly", addons::accepted),
    (
        "a kube-apiserver with the Prometheus Operator's kinds accepts all monitors and alerts",
        addons::monitored,
    ),
    ("kubeconform finds no unknown field and no wrong type, by the schemas of the host", schemas::conform),
    ("a release of the chart moves from one replica to three and back", release::upgraded),
    ("Capstan's ServiceAccount has the permissions that Capstan needs, and no more", permissions::exact),
    ("Capstan serves the host from the files of overlay embedded", embedded),
    ("three replicas serve the host from the files of overlay ha-etcd, with TLS to three members", ha_etcd),
    ("three replicas serve the host from the files of overlay external-etcd", external_etcd),
];

/// Number of scenarios.
pub(super) const COUNT: usize = SCENARIOS.len();

/// Host cluster without Capstan, and a copy of the manifests with new keys.
struct Packaged<'a> {
    lab: &'a Lab,
    manifests: PathBuf,
    /// Members of the etcd, after the first scenario that needs them.
    etcd: RefCell<Option<Members>>,
}

/// Runs the scenarios in order. Each uses the objects of the one before.
pub(super) fn run(lab: &Lab) -> anyhow::Result<()> {
    let manifests = lab.directory("manifests");
    run::shown(Command::new("cp").arg("-a").arg(run::root()?.join("manifests")).arg(&manifests))?;
    let mut keys = Command::new(&lab.tools.capstan);
    run::output(keys.args(["keys", "create", "--etcd", "--output"]).arg(manifests.join("keys")))?;
    components::prepare(&lab.tools.capstan, &manifests)?;
    let packaged = Packaged { lab, manifests, etcd: RefCell::new(None) };
    for (name, scenario) in SCENARIOS {
        super::one(lab, name, || scenario(&packaged))?;
    }
    Ok(())
}

impl Packaged<'_> {
    fn overlay(&self, shape: &Shape) -> anyhow::Result<Objects> {
        let overlay = self.manifests.join("overlays").join(shape.overlay);
        rendered::kustomize(&self.lab.tools.kubectl, &overlay)
    }

    /// Applies objects in the host as the docs say.
    fn apply(&self, name: &str, objects: &Objects, options: &[&str]) -> anyhow::Result<()> {
        let file = self.lab.file(&format!("{name}.json"), &objects.list().to_string())?;
        self.lab.kubectl("admin", &[&["apply", "--server-side", "-f", &file], options].concat()).map(drop)
    }

    fn keys(&self) -> PathBuf {
        self.manifests.join("keys")
    }
}

fn same_objects(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    for shape in rendered::SHAPES {
        let overlay = packaged.overlay(&shape)?.normalized()?;
        let chart = rendered::helm(&packaged.manifests, &shape, &[])?.normalized()?;
        overlay.compare(&chart).with_context(|| format!("overlay {} and the chart differ", shape.overlay))?;
    }
    for (wrong, expected) in [
        ("mode=cluster", "mode"),
        ("replicas=1", "replicas"),
        ("imagee.tag=a", "imagee"),
        ("etcd.endpoints={}", "endpoints"),
        // The Service and the probes would lead to another port.
        ("config.listen=0.0.0.0:8443", "/config/listen"),
    ] {
        let error = rendered::helm(&packaged.manifests, &rendered::EXTERNAL, &["--set", wrong]).err();
        let error = format!("{:#}", error.with_context(|| format!("the chart accepts {wrong}"))?);
        ensure!(error.contains(expected), "{wrong}: {error}");
    }
    Ok(())
}

fn accepted(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    // A dry run creates no Namespace for the objects in it.
    let namespace = packaged.overlay(&rendered::EMBEDDED)?.only(&["Namespace"]);
    packaged.apply("namespace", &namespace, &[])?;
    for shape in rendered::SHAPES {
        let objects = packaged.overlay(&shape)?;
        packaged.apply("all", &objects, &["--dry-run=server", "--validate=strict"])?;
        for mut pod in objects.pods() {
            let name = pod.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
            create_pod(packaged.lab, &pod).with_context(|| format!("{} {name}", shape.overlay))?;
            // The policy is in force: a Pod that breaks it is refused.
            let path = "/spec/containers/0/securityContext/allowPrivilegeEscalation";
            *pod.pointer_mut(path).context("the container may escalate privileges")? = json!(true);
            let error = create_pod(packaged.lab, &pod).err().map(|error| format!("{error:#}"));
            let is_refused = error.is_some_and(|error| error.contains("violates PodSecurity"));
            ensure!(is_refused, "{} {name}: a Pod that breaks the policy is accepted", shape.overlay);
        }
    }
    Ok(())
}

fn create_pod(lab: &Lab, pod: &Value) -> anyhow::Result<()> {
    let file = lab.file("pod.json", &pod.to_string())?;
    lab.kubectl("admin", &["create", "--dry-run=server", "-f", &file]).map(drop)
}

fn embedded(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let objects = components::kustomize(packaged, &rendered::EMBEDDED, &[&DIRECT])?;
    let replicas = serve(packaged, &rendered::EMBEDDED, objects, 1)?;
    write_and_read(packaged, "embedded")?;
    // The part of the configuration is in force.
    let direct = format!("capstan.example.org:{}", packaged.lab.capstan_port);
    let (url, ca) = (format!("https://{direct}/readyz"), packaged.keys().join("pki/ca.crt"));
    let resolved = ["--resolve", &format!("{direct}:127.0.0.1")];
    ensure!(answers_ok(&url, Some(&ca), &resolved)?, "the certificate has no name of component direct");
    drop(replicas);
    Ok(())
}

fn ha_etcd(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let objects = packaged.overlay(&rendered::HA)?;
    let members = Members::start(packaged.lab, &objects).context("the etcd of overlay ha-etcd")?;
    *packaged.etcd.borrow_mut() = Some(members);
    let replicas = serve(packaged, &rendered::HA, objects, 3)?;
    write_and_read(packaged, "ha")?;
    // A replica on etcd serves for 30 s after SIGTERM.
    replicas.into_iter().try_for_each(Process::kill)
}

fn external_etcd(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let replicas = serve(packaged, &rendered::EXTERNAL, packaged.overlay(&rendered::EXTERNAL)?, 3)?;
    // Both shapes use the same etcd here.
    packaged.lab.kubectl("admin", &["get", "clusters.cluster.x-k8s.io", "ha", "-n", "default"])?;
    write_and_read(packaged, "external")?;
    replicas.into_iter().try_for_each(Process::kill)?;
    packaged.etcd.borrow_mut().take();
    Ok(())
}

/// Applies an overlay, and starts Capstan from its args, env and mounted files. Waits until the host serves all APIs.
fn serve(
    packaged: &Packaged<'_>,
    shape: &Shape,
    mut objects: Objects,
    replicas: u16,
) -> anyhow::Result<Vec<Process>> {
    let lab = packaged.lab;
    objects.replace_text(PORT, &lab.capstan_port.to_string())?;
    // The lab has no network of Pods.
    let outside = json!({"type": "ExternalName", "externalName": "127.0.0.1"});
    *objects.find_mut("Service", "capstan")?.pointer_mut("/spec").context("the Service has no spec")? =
        outside;
    if shape.overlay == "embedded" {
        packaged.apply(shape.overlay, &objects, &[])?;
    } else {
        // The first shape has the StatefulSet; an operator moves from one shape to another by a restored backup.
        lab.kubectl(
            "admin",
            &["delete", "statefulset", "capstan", "-n", "capstan-system", "--ignore-not-found"],
        )?;
        packaged.apply(shape.overlay, &objects, &[])?;
    }
    let list = lab.file("applied.json", &objects.list().to_string())?;
    lab.kubectl("admin", &["get", "-f", &list]).context("an object is missing after it was applied")?;
    let token = lab.kubectl("admin", &["create", "token", "capstan", "-n", "capstan-system"])?;
    let mut running = Vec::new();
    for replica in 0..replicas {
        let port = if replica == 0 { lab.capstan_port } else { ports::<1>()?[0] };
        running.push(start(packaged, shape, &objects, &token, port)?);
    }
    lab.host_wait("admin")?;
    Ok(running)
}

/// Starts one replica, and waits until its readiness probe succeeds.
fn start(
    packaged: &Packaged<'_>,
    shape: &Shape,
    objects: &Objects,
    token: &str,
    port: u16,
) -> anyhow::Result<Process> {
    let lab = packaged.lab;
    let pod = Pod::of(objects, "capstan")?;
    let root = lab.directory(&format!("pods/{}-{port}", shape.overlay));
    let mut replacements = vec![
        ("https://kubernetes.default.svc".to_owned(), format!("https://127.0.0.1:{}", lab.host_port)),
        (format!("0.0.0.0:{}", lab.capstan_port), format!("127.0.0.1:{port}")),
    ];
    if let Some(members) = packaged.etcd.borrow().as_ref() {
        replacements.extend(members.endpoints());
    }
    let ca = std::fs::read_to_string(lab.certificates.path("kube-ca.crt"))?;
    pod.mount(objects, &root, &replacements, &[("token", token.trim()), ("ca.crt", &ca)])?;
    let mut command = Command::new(&lab.tools.capstan);
    command.args(pod.arguments(&root, "args", "capstan")?).env_clear().envs(pod.environment("capstan-0")?);
    let name = format!("{}-{port}", shape.overlay);
    let log = root.with_extension("log");
    let mut process = Process::start(&name, &mut command, &log)?;
    let url = format!("https://127.0.0.1:{port}{}", pod.probe("readinessProbe")?);
    let ca = packaged.keys().join("pki/ca.crt");
    until("the readiness probe succeeds", || {
        process.check().with_context(|| log_of(lab, &log))?;
        answers_ok(&url, Some(&ca), &[])
    })
    .with_context(|| log_of(lab, &log))?;
    Ok(process)
}

fn log_of(lab: &Lab, log: &Path) -> String {
    lab.keep_logs();
    format!("its log is {}", log.display())
}

/// Reports whether a URL answers with 200.
fn answers_ok(url: &str, ca: Option<&Path>, options: &[&str]) -> anyhow::Result<bool> {
    let mut command = Command::new("curl");
    command.args(options);
    command.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]);
    if let Some(ca) = ca {
        command.arg("--cacert").arg(ca);
    }
    let output = command.arg(url).output().context("curl")?;
    Ok(output.stdout == b"200")
}

/// Writes an object through the host, and reads it and the state of the host on the direct endpoint.
fn write_and_read(packaged: &Packaged<'_>, name: &str) -> anyhow::Result<()> {
    let lab = packaged.lab;
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"paused": true}});
    let file = lab.file("cluster.json", &cluster.to_string())?;
    lab.kubectl("admin", &["create", "-f", &file])?;
    let mut kubeconfig = Command::new(&lab.tools.capstan);
    let server = format!("https://127.0.0.1:{}", lab.capstan_port);
    kubeconfig.args(["kubeconfig", "--server", &server, "--data-dir"]).arg(packaged.keys());
    run::output(kubeconfig.args(["--output", &lab.certificates.path("packaged.kubeconfig")]))?;
    lab.kubectl("packaged", &["get", "clusters.cluster.x-k8s.io", name, "-n", "default"])?;
    until("Capstan reaches the host with the token of its ServiceAccount", || {
        let metrics = lab.kubectl("packaged", &["get", "--raw", "/metrics"])?;
        Ok(metrics.lines().any(|line| line == "capstan_host_state{state=\"up\"} 1"))
    })
}
