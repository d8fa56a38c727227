//! The program `capstan`, as a library: so that another program can be made of the very same parts,
//! as the conformance suite's server is.

mod assembly;
mod cli;
mod compaction;
mod config;
mod controllers;
mod election;
mod encryption;
mod host;
mod host_manifests;
mod host_wait;
mod kubeconfig;
mod output;
mod pki;
mod serve;
mod start_hooks;
mod storage;
mod tls;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::Parser;

pub use assembly::Assembly;

/// Does what a command line asks for. The first argument is the program's name.
///
/// # Errors
/// When it cannot be done; the words say what and where.
pub fn run(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    assembly: &Assembly,
) -> anyhow::Result<()> {
    let cli = cli::Cli::parse_from(arguments);
    // Exactly one provider is linked; rustls wants to be told once.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match cli.command {
        cli::Command::Serve(arguments) => serve::run(&arguments, assembly),
        cli::Command::Kubeconfig(arguments) => kubeconfig::run(&arguments),
        cli::Command::Host(cli::HostCommand::Manifests(arguments)) => {
            host_manifests::run(&arguments, assembly)
        }
        cli::Command::Host(cli::HostCommand::Wait(arguments)) => host_wait::run(&arguments, assembly),
        cli::Command::Version => version::run(),
    }
}

/// What a client needs to reach a server and be known there, in PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The CA of the server's certificate.
    pub ca: String,
    /// The client's certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Mints a client certificate of the CA in a data directory, which is made when it is not there.
///
/// # Errors
/// When the directory cannot be read or written.
pub fn credentials(data: &Path, user: &str, group: &str, lifetime: Duration) -> anyhow::Result<Credentials> {
    pki::private_directory(data)?;
    let authority = pki::Authority::open(data)?;
    let pair = authority.client(user, group, lifetime)?;
    Ok(Credentials { ca: authority.certificate().to_owned(), certificate: pair.certificate, key: pair.key })
}
