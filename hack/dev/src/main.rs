//! A Capstan to play with: the server, a simulated OpenStack, and a cluster of three machines.
//! `cargo xtask dev` builds both and runs this.

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
use server::Server;

/// Where the simulated OpenStack answers: the credentials of the example name it.
const CLOUD: &str = "127.0.0.1:15000";

/// Starts Capstan and a simulated OpenStack, and makes the cluster of manifests/examples/quickstart.yaml.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask dev")]
pub(crate) struct Arguments {
    /// Port of the API server
    #[arg(long, default_value_t = 7443)]
    port: u16,
    /// Throw the state of earlier runs away first
    #[arg(long)]
    fresh: bool,
    /// Reboot a machine and upgrade another, check what came of it, and end
    #[arg(long)]
    demo: bool,
    /// Directory for all state
    #[arg(long, hide = true)]
    home: PathBuf,
    /// The server's binary
    #[arg(long, hide = true)]
    binary: PathBuf,
    /// The manifest to apply
    #[arg(long, hide = true)]
    manifest: PathBuf,
}

fn main() -> ExitCode {
    // Cannot fail: nobody has installed another before.
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
    home::is_free(&address, "give another with --port")?;
    home::is_free(CLOUD, "the example's credentials lead there, so it must be free")?;
    let options = SimulatorOptions {
        listen: CLOUD.parse()?,
        state_file: Some(home.path("openstack.json")),
        ..SimulatorOptions::default()
    };
    let cloud = Simulator::start(options).await.context("the simulated OpenStack cannot be started")?;
    let mut server = Server::start(&arguments.binary, &home, &address)?;
    let result = tokio::select! {
        result = session(arguments, &home, &mut server, &cloud) => result,
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(anyhow::Error::from),
    };
    server.stop().await;
    result.and(cloud.shutdown().await.context("the simulated OpenStack did not keep its state"))
}

async fn session(
    arguments: &Arguments,
    home: &Home,
    server: &mut Server,
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

/// Three things to try.
fn suggestions(kubeconfig: &str) -> String {
    let kubectl = format!("kubectl --kubeconfig {kubeconfig}");
    let machines = "/apis/cluster.x-k8s.io/v1beta2/namespaces/quickstart/machines";
    format!(
        "Everything is up; Ctrl-C ends it, and the next start finds it again. In another terminal, try:\n\n  \
         {kubectl} get machines,machineoperations -n quickstart\n  \
         echo '{{\"type\": \"Hard\"}}' | {kubectl} create --raw {machines}/worker-0/reboot -f -\n  \
         echo '{{\"version\": \"v1.30.0\"}}' | {kubectl} create --raw {machines}/worker-1/upgrade -f -"
    )
}
