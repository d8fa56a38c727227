//! Program of `cargo xtask dev`: the server, a simulated OpenStack and a cluster of three machines, to try out Capstan.
//! The command builds this program and the server, and runs this program.

mod demo;
mod home;
mod manifest;
mod server;
mod tree;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use home::Home;
use server::CapstanProcess;

/// Address of the simulated OpenStack, which the credentials of the example name.
const CLOUD: &str = "127.0.0.1:15000";

/// Starts Capstan and a simulated OpenStack, and creates the cluster of manifests/examples/quickstart.yaml
#[derive(Debug, Parser)]
#[command(name = "cargo xtask dev")]
pub(crate) struct Arguments {
    /// Port of the API server
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Delete the state of earlier runs first
    #[arg(long)]
    fresh: bool,
    /// Reboot one machine, upgrade another, check both results, and exit
    #[arg(long)]
    demo: bool,
    /// Directory for all state
    #[arg(long, hide = true)]
    home: PathBuf,
    /// Path of the server's binary
    #[arg(long, hide = true)]
    binary: PathBuf,
    /// Path of the manifest to apply
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
    home::is_free(CLOUD, "the example's credentials use this address, so it must be free")?;
    let options = SimulatorOptions {
        listen: CLOUD.parse()?,
        state_file: Some(home.path("openstack.json")),
        ..SimulatorOptions::default()
    };
    let cloud = Simulator::start(options).await.context("the simulated OpenStack cannot be started")?;
    let mut server = CapstanProcess::start(&arguments.binary, &home, &address)?;
    let result = tokio::select! {
        result = session(arguments, &home, &mut server, &cloud) => result,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(anyhow::Error::from),
    };
    server.stop().await;
    result.and(cloud.shutdown().await.context("the simulated OpenStack could not save its state"))
}

async fn session(
    arguments: &Arguments,
    home: &Home,
    server: &mut CapstanProcess,
    cloud: &Simulator,
) -> anyhow::Result<()> {
    let client = server.ready(home).await?;
    eprintln!(
        "Capstan      {}   (log: {})\nOpenStack    http://{CLOUD}/v3 (simulated)\nkubeconfig   {}\n",
        server.url(),
        home.shown("capstan.log"),
        home.shown("kubeconfig"),
    );
    manifest::apply(&client, &arguments.manifest).await?;
    let live = std::io::stderr().is_terminal() && !arguments.demo;
    tree::follow(&client, server, live).await?;
    if arguments.demo {
        return demo::run(&client, cloud).await;
    }
    eprintln!("\n{}\n", suggestions(&home.shown("kubeconfig")));
    Err(server.ended().await)
}

/// Returns three commands to try.
fn suggestions(kubeconfig: &str) -> String {
    let kubectl = format!("kubectl --kubeconfig {kubeconfig}");
    let machines = "/apis/cluster.x-k8s.io/v1beta2/namespaces/quickstart/machines";
    format!(
        "The cluster is ready. Ctrl-C stops everything; the next start continues with the same state. In another terminal, try:\n\n  \
         {kubectl} get machines,machineoperations -n quickstart\n  \
         echo '{{\"type\": \"Hard\"}}' | {kubectl} create --raw {machines}/worker-0/reboot -f -\n  \
         echo '{{\"version\": \"v1.30.0\"}}' | {kubectl} create --raw {machines}/worker-1/upgrade -f -"
    )
}
