//! Library of the program `capstan`. Another program can use the same parts, as the server of the conformance suite
//! does.

mod admission;
mod assembly;
mod audit;
mod authentication_file;
mod authorities;
mod authorization_file;
mod backup;
mod bootstrap_data;
mod ca;
mod certificate_signer;
mod certificate_uses;
mod cli;
mod compaction;
mod config;
mod controllers;
mod doctor;
mod election;
mod encryption;
mod encryption_keys;
mod etcd_files;
mod host;
mod host_admission;
mod host_copies;
mod host_credential;
mod host_manifests;
mod host_mirror;
mod host_objects;
mod host_outbox;
mod host_own_objects;
mod host_prune;
mod host_status;
mod host_wait;
mod host_watch;
mod install;
mod join;
mod key_rotation;
mod keys;
mod kms;
mod kubeconfig;
mod local_server;
mod machines;
mod manual;
mod orphans;
mod output;
mod phases;
mod pki;
mod planner;
mod quotas;
mod rbac;
mod read_changes;
mod recorded_time;
mod reload_health;
mod replicas;
mod report;
mod rereads;
mod revocations;
mod rewrite;
mod sealed_values;
mod serve;
mod service_accounts;
mod start_hooks;
mod storage;
mod storage_history;
mod storage_maintenance;
mod stored_form;
mod subject;
mod tls;
mod token_webhook;
mod upgrade;
mod version;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::Parser;

pub use assembly::Assembly;
pub use stored_form::UnreadableForm;

/// Runs the command of a command line. The first argument is the program's name.
///
/// # Errors
/// Returns the error of the command. It names the object or file, and the cause.
pub fn run(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    assembly: &Assembly,
) -> anyhow::Result<()> {
    let cli = cli::Cli::parse_from(arguments);
    // Exactly one provider is linked. rustls requires that the process installs it once.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    match cli.command {
        cli::Command::Serve(arguments) => serve::run(&arguments, assembly),
        cli::Command::Describe(command) => Ok(apiserver_cli::describe(&command)?),
        cli::Command::Explain(arguments) => Ok(apiserver_cli::explain(&arguments)?),
        cli::Command::ExplainAccess(arguments) => Ok(apiserver_cli::explain_access(&arguments)?),
        cli::Command::Plan(command) => Ok(apiserver_cli::plan(&command)?),
        cli::Command::Why(arguments) => Ok(apiserver_cli::why(&arguments)?),
        cli::Command::Login(command) => Ok(apiserver_cli::login(&command)?),
        cli::Command::Kubeconfig(arguments) => kubeconfig::run(&arguments),
        cli::Command::Host(cli::HostCommand::Manifests(arguments)) => {
            host_manifests::run(&arguments, assembly)
        }
        cli::Command::Host(cli::HostCommand::Wait(arguments)) => host_wait::run(&arguments, assembly),
        cli::Command::Host(cli::HostCommand::Status(arguments)) => {
            Ok(apiserver_cli::host_status(&arguments)?)
        }
        cli::Command::Host(cli::HostCommand::PruneNamespaces(arguments)) => {
            host_prune::run(&arguments, assembly)
        }
        cli::Command::Ca(command) => ca(&command),
        cli::Command::Encryption(command) => encryption(&command),
        cli::Command::Replicas(arguments) => replicas::run(&arguments),
        cli::Command::Upgrade(cli::UpgradeCommand::Plan(arguments)) => upgrade::plan(&arguments),
        cli::Command::Upgrade(cli::UpgradeCommand::Cluster(arguments)) => {
            Ok(apiserver_cli::upgrade_cluster(&arguments)?)
        }
        cli::Command::Certificates(cli::CertificatesCommand::List(arguments)) => {
            authorities::list(&arguments)
        }
        cli::Command::Backup(arguments) => backup::run(&arguments),
        cli::Command::Restore(arguments) => backup::restore(&arguments),
        cli::Command::Orphans(arguments) => orphans::run(&arguments),
        cli::Command::Audit(command) => audit::run(&command),
        cli::Command::Storage(command) => storage(&command),
        cli::Command::Init(arguments) => install::init(&arguments),
        cli::Command::Join(arguments) => install::join(&arguments),
        cli::Command::JoinToken(cli::JoinTokenCommand::Create(arguments)) => {
            install::create_token(&arguments)
        }
        cli::Command::Doctor(arguments) => doctor::doctor(&arguments),
        cli::Command::Leave(arguments) => install::leave(&arguments),
        cli::Command::Reset(arguments) => install::reset(&arguments),
        cli::Command::Keys(cli::KeysCommand::Create(arguments)) => keys::create(&arguments),
        cli::Command::Completion(arguments) => manual::completion(&arguments),
        cli::Command::Manual(arguments) => manual::pages(&arguments),
        cli::Command::Version => version::run(),
    }
}

fn storage(command: &cli::StorageCommand) -> anyhow::Result<()> {
    match command {
        cli::StorageCommand::Migrate(arguments) if arguments.from.is_none() => {
            stored_form::migrate(&arguments.store)
        }
        cli::StorageCommand::Migrate(arguments) => backup::migrate(arguments),
        cli::StorageCommand::Form(arguments) => stored_form::show(arguments),
        cli::StorageCommand::Commit(arguments) => stored_form::commit(arguments),
        cli::StorageCommand::Downgrade(arguments) => stored_form::downgrade(arguments),
        cli::StorageCommand::Check(arguments) => storage_maintenance::check(arguments),
        cli::StorageCommand::Defrag(arguments) => storage_maintenance::defragment(arguments),
        cli::StorageCommand::RecoverSpace(arguments) => storage_maintenance::recover_space(arguments),
    }
}

fn encryption(command: &cli::EncryptionCommand) -> anyhow::Result<()> {
    match command {
        cli::EncryptionCommand::Status(arguments) => key_rotation::status(arguments),
        cli::EncryptionCommand::Add(arguments) => key_rotation::add(arguments),
        cli::EncryptionCommand::Promote(arguments) => key_rotation::promote(arguments),
        cli::EncryptionCommand::Reencrypt(arguments) => key_rotation::reencrypt(arguments),
        cli::EncryptionCommand::Finish(arguments) => key_rotation::finish(arguments),
    }
}

fn ca(command: &cli::CaCommand) -> anyhow::Result<()> {
    match command {
        cli::CaCommand::Create(arguments) => ca::create(arguments),
        cli::CaCommand::Status(arguments) => authorities::status(arguments),
        cli::CaCommand::Start(arguments) => authorities::start(arguments),
        cli::CaCommand::Promote(arguments) => authorities::promote(arguments),
        cli::CaCommand::Finish(arguments) => authorities::finish(arguments),
    }
}

/// Credentials with which a client connects to a server, in PEM.
#[derive(Clone)]
pub struct Credentials {
    /// The CA of the server's certificate.
    pub ca: String,
    /// The certificate of the client.
    pub certificate: String,
    /// The key of the client.
    pub key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// Creates a client certificate, signed by the CA in a data directory. Creates the CA and the directory if needed. An
/// empty `group` is none.
///
/// # Errors
/// Returns an error if the directory cannot be read or written.
pub fn credentials(data: &Path, user: &str, group: &str, lifetime: Duration) -> anyhow::Result<Credentials> {
    pki::private_directory(data)?;
    let authority = pki::Authority::open(data)?;
    let groups: Vec<String> = [group].into_iter().filter(|it| !it.is_empty()).map(str::to_owned).collect();
    let pair = authority.client(user, &groups, None, lifetime)?;
    Ok(Credentials { ca: authority.certificate().to_owned(), certificate: pair.certificate, key: pair.key })
}
