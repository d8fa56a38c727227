//! `capstan`: the management plane for Kubernetes clusters on OpenStack.

mod cli;
mod compaction;
mod config;
mod controllers;
mod election;
mod encryption;
mod host;
mod host_manifests;
mod kubeconfig;
mod pki;
mod serve;
mod start_hooks;
mod storage;
mod tls;
mod version;

use std::process::ExitCode;

use clap::Parser;

/// Many short-lived allocations of very different sizes, from many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // Exactly one provider is linked; rustls wants to be told once.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let result = match cli.command {
        cli::Command::Serve(arguments) => serve::run(&arguments),
        cli::Command::Kubeconfig(arguments) => kubeconfig::run(&arguments),
        cli::Command::Host(cli::HostCommand::Manifests(arguments)) => host_manifests::run(&arguments),
        cli::Command::Version => version::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("capstan: {error:#}");
            ExitCode::FAILURE
        }
    }
}
