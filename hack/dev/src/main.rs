//! Program of `cargo xtask dev`: the server, a simulated OpenStack and a whole cluster, to try out Capstan.
//! The command builds this program and the server, and runs this program.

mod cloud;
mod home;
mod machines;
mod manifest;
mod server;
mod story;
mod tree;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use cloud::Cloud;
use home::Home;
use machines::Machines;
use manifest::Applied;
use server::CapstanProcess;
use story::{Story, say};
use tree::Scene;

/// File with the kubeconfig of the workload cluster.
const WORKLOAD_KUBECONFIG: &str = "workload.kubeconfig";

/// Starts Capstan and a simulated OpenStack, and creates a cluster of three control plane nodes and three workers
#[derive(Debug, Parser)]
#[command(name = "cargo xtask dev")]
pub(crate) struct Arguments {
    /// Port of the API server
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Delete the state of earlier runs first
    #[arg(long)]
    fresh: bool,
    /// Run without a terminal, and exit after the last step
    #[arg(long)]
    demo: bool,
    /// Create the cluster of this manifest instead, and change nothing
    #[arg(long, value_name = "FILE", conflicts_with = "demo")]
    template: Option<PathBuf>,
    /// Directory for all state
    #[arg(long, hide = true)]
    home: PathBuf,
    /// Path of the server's binary
    #[arg(long, hide = true)]
    binary: PathBuf,
    /// Paths of the example's manifests
    #[arg(long, hide = true, required = true)]
    manifest: Vec<PathBuf>,
    /// Path of the manifest with the class of the example
    #[arg(long, hide = true)]
    class: PathBuf,
}

fn main() -> ExitCode {
    // This cannot fail: no other provider is installed before.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let home = Home::take(&arguments.home, arguments.fresh)?;
    let address = format!("127.0.0.1:{}", arguments.port);
    home::is_free(&address, "or choose another port with --port")?;
    home::is_free(cloud::ADDRESS, "the example's credentials use this address, so it must be free")?;
    let mut terminate = signal(SignalKind::terminate())?;
    let cloud = Cloud::start(&home).await?;
    let mut server = CapstanProcess::start(&arguments.binary, &home, &address)?;
    let result = tokio::select! {
        result = session(arguments, &home, &mut server, &cloud) => result,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(anyhow::Error::from),
        _ = terminate.recv() => Ok(()),
    };
    server.stop().await;
    result.and(cloud.shutdown().await)
}

async fn session(
    arguments: &Arguments,
    home: &Home,
    server: &mut CapstanProcess,
    cloud: &Cloud,
) -> anyhow::Result<()> {
    let begun = Instant::now();
    let client = server.ready(home).await?;
    say(&format!(
        "Capstan      {}   (log: {})\nOpenStack    http://{}/v3 (simulated)\nkubeconfig   {}",
        server.url(),
        home.shown("capstan.log"),
        cloud::ADDRESS,
        home.shown("kubeconfig"),
    ))?;
    let files = arguments.template.as_ref().map_or(&arguments.manifest[..], std::slice::from_ref);
    let applied = manifest::apply(&client, files, &arguments.class).await?;
    let Applied { namespace, cluster, is_new } = applied;
    let in_place = Scene::is_terminal() && !arguments.demo;
    let mut scene = Scene { client, server, cloud, namespace, cluster, in_place };
    let mut story = Story::new(&mut scene);
    let workload = story.create(&home.path(WORKLOAD_KUBECONFIG), &home.shown(WORKLOAD_KUBECONFIG)).await?;
    if arguments.demo || (is_new && arguments.template.is_none()) {
        story.scale().await?;
        story.reboot(&workload).await?;
        story.upgrade(&workload).await?;
        story.delete(&workload).await?;
        say(&format!("\nAll steps succeeded after {:.0} s.", begun.elapsed().as_secs_f32()))?;
    }
    say(&suggestions(home, &scene).await?)?;
    if arguments.demo {
        return Ok(());
    }
    say("\nCtrl-C stops everything. The next start continues with the same state.")?;
    Err(scene.server.ended().await)
}

/// Returns commands to try, with names that exist.
async fn suggestions(home: &Home, scene: &Scene<'_>) -> anyhow::Result<String> {
    let Scene { namespace, cluster, .. } = scene;
    let (own, workload) = (home.shown("kubeconfig"), home.shown(WORKLOAD_KUBECONFIG));
    let machines = Machines::new(&scene.client, namespace, cluster);
    let scale = scaling(&machines, scene).await?;
    let workers = machines.workers().await?;
    let worker = workers.first().map(|worker| worker.name.as_str()).unwrap_or_default();
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/{worker}");
    Ok(format!(
        "\nThe cluster is ready. In another terminal, try:\n\n  \
         export KUBECONFIG={own}\n  \
         kubectl get kubeadmcontrolplanes,machinedeployments,machines,machineoperations -n {namespace}\n  \
         {scale}\n  \
         echo '{{\"type\": \"Hard\"}}' | kubectl create --raw {path}/reboot -f -\n  \
         kubectl delete cluster {cluster} -n {namespace}\n  \
         kubectl --kubeconfig {workload} get pods -A -o wide"
    ))
}

/// Returns the command that adds a worker. A topology would undo a change of its MachineDeployment.
async fn scaling(machines: &Machines, scene: &Scene<'_>) -> anyhow::Result<String> {
    let Scene { namespace, cluster, .. } = scene;
    let Some(topology) = machines.topology().await? else {
        let (deployment, replicas) = machines.deployment().await?;
        let replicas = replicas.saturating_add(1);
        return Ok(format!(
            "kubectl scale machinedeployment {deployment} -n {namespace} --replicas {replicas}"
        ));
    };
    let replicas = machines::first_group(&topology)?.replicas.unwrap_or(1).saturating_add(1);
    let path = "/spec/topology/workers/machineDeployments/0/replicas";
    let change = json!([{"op": "add", "path": path, "value": replicas}]);
    Ok(format!("kubectl patch cluster {cluster} -n {namespace} --type json -p '{change}'"))
}
