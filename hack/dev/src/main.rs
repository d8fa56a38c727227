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

use cloud::Cloud;
use home::Home;
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
    /// Scale, reboot, upgrade and delete workers, check each step, and exit
    #[arg(long)]
    demo: bool,
    /// Manifest of another cluster to create
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Directory for all state
    #[arg(long, hide = true)]
    home: PathBuf,
    /// Path of the server's binary
    #[arg(long, hide = true)]
    binary: PathBuf,
    /// Path of the example's manifest
    #[arg(long, hide = true)]
    manifest: PathBuf,
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
    let cloud = Cloud::start(&home).await?;
    let mut server = CapstanProcess::start(&arguments.binary, &home, &address)?;
    let result = tokio::select! {
        result = session(arguments, &home, &mut server, &cloud) => result,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(anyhow::Error::from),
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
    let applied =
        manifest::apply(&client, arguments.template.as_ref().unwrap_or(&arguments.manifest)).await?;
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
    if arguments.demo {
        return Ok(());
    }
    say(&suggestions(home, &scene))?;
    Err(scene.server.ended().await)
}

/// Returns commands to try.
fn suggestions(home: &Home, scene: &Scene<'_>) -> String {
    let Scene { namespace, cluster, .. } = scene;
    let (own, workload) = (home.shown("kubeconfig"), home.shown(WORKLOAD_KUBECONFIG));
    format!(
        "\nCtrl-C stops everything; the next start continues with the same state. In another terminal, try:\n\n  \
         export KUBECONFIG={own}\n  \
         kubectl get clusters,kubeadmcontrolplanes,machinedeployments,machines -n {namespace}\n  \
         kubectl patch kubeadmcontrolplane {cluster}-control-plane -n {namespace} --type merge -p \
         '{{\"spec\": {{\"replicas\": 1}}}}'\n  \
         kubectl delete cluster {cluster} -n {namespace}\n  \
         kubectl --kubeconfig {workload} get pods -A -o wide"
    )
}
