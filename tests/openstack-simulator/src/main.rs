//! Program `openstack-simulator`: the simulator as a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tests_openstack_simulator::{Simulator, SimulatorOptions};
use tokio::signal::unix::{SignalKind, signal};

/// Simulated OpenStack cloud in one process, for tests.
///
/// Keystone, Nova, Neutron, Glance, Cinder, Octavia and Manila on one address. Projects demo, demo2, tiny (with tiny
/// quotas) and admin, each with a user whose name and password are the project's name.
#[derive(Debug, Parser)]
#[command(name = "openstack-simulator", version)]
struct Flags {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15000")]
    listen: SocketAddr,
    /// JSON file for the state; without it the state is lost at the end
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Duration of each call, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    latency: u64,
    /// Time until servers become ACTIVE, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300)]
    boot_time: u64,
    /// Duration of reboots, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    reboot_time: u64,
    /// Duration of rebuilds, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500)]
    rebuild_time: u64,
    /// Duration of starts and stops, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300)]
    power_time: u64,
    /// Duration of the deletion of servers, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 300)]
    delete_time: u64,
    /// Duration of the creation and deletion of volumes, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    volume_time: u64,
    /// Duration of every change of a load balancer, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 200)]
    load_balancer_time: u64,
    /// Logins in a row with a wrong password after which Keystone locks the user; without it, it locks none
    #[arg(long, value_name = "NUMBER")]
    lockout_attempts: Option<u32>,
    /// Lifetime of tokens, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 14_400)]
    token_lifetime: u64,
    /// IPv4 range of the external network, for a new state
    #[arg(long, value_name = "CIDR", default_value = "172.24.0.0/20")]
    external_cidr: String,
    /// Print a clouds.yaml for this project on standard output
    #[arg(long, value_name = "PROJECT")]
    print_clouds_yaml: Option<String>,
}

impl Flags {
    fn options(&self) -> SimulatorOptions {
        SimulatorOptions {
            listen: self.listen,
            state_file: self.state.clone(),
            latency: Duration::from_millis(self.latency),
            build_time: Duration::from_millis(self.boot_time),
            reboot_time: Duration::from_millis(self.reboot_time),
            rebuild_time: Duration::from_millis(self.rebuild_time),
            power_time: Duration::from_millis(self.power_time),
            delete_time: Duration::from_millis(self.delete_time),
            volume_time: Duration::from_millis(self.volume_time),
            load_balancer_time: Duration::from_millis(self.load_balancer_time),
            lockout_attempts: self.lockout_attempts,
            token_lifetime: Duration::from_secs(self.token_lifetime),
            external_cidr: self.external_cidr.clone(),
            ..SimulatorOptions::default()
        }
    }
}

async fn run(flags: &Flags) -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let simulator = Simulator::start(flags.options()).await?;
    tracing::info!(address = %simulator.address(), auth_url = simulator.auth_url(), "simulator started");
    if let Some(project) = &flags.print_clouds_yaml {
        use std::io::Write;
        std::io::stdout().write_all(simulator.clouds_yaml(project).as_bytes())?;
    }
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    tracing::info!("stopping");
    simulator.shutdown().await
}

#[tokio::main]
async fn main() -> ExitCode {
    let flags = Flags::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run(&flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
