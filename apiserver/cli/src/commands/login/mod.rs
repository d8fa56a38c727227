//! Command `capstan login`: kubectl's plug-in for credentials of the direct endpoint.

mod exec_credential;
mod keystone;
mod kubeconfig;
mod login_request;
mod settings;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use crate::error::{ExitCode, Failure};
use crate::output;
use exec_credential::ExecCredential;
use settings::Settings;

/// Commands of `capstan login`.
#[derive(Debug, Subcommand)]
pub enum LoginCommand {
    /// Get a token of Keystone for kubectl
    ///
    /// kubectl runs this command when it needs a credential (client.authentication.k8s.io/v1). The
    /// login comes from clouds.yaml, or from the OS_* variables of an openrc file. It can be a password,
    /// a password with a TOTP code, a token, or an application credential.
    ///
    /// With --write-kubeconfig, the command writes a kubeconfig that runs it.
    ///
    /// Example: capstan login keystone --cloud mycloud --write-kubeconfig capstan.kubeconfig \
    ///            --server https://capstan.example.org:7443 --certificate-authority ca.crt
    #[command(verbatim_doc_comment)]
    #[allow(rustdoc::bare_urls, reason = "the help text is printed as it stands")]
    Keystone(KeystoneArguments),
}

/// Arguments of `capstan login keystone`.
#[derive(Debug, Args)]
pub struct KeystoneArguments {
    /// Entry in clouds.yaml [default: the OS_* variables]
    #[arg(long, value_name = "NAME", env = "OS_CLOUD")]
    cloud: Option<String>,
    /// TOTP code, if Keystone requires one beside the password
    #[arg(long, value_name = "CODE")]
    passcode: Option<String>,
    /// Write a kubeconfig that runs this command to a file, and get no token
    #[arg(long, value_name = "FILE", requires = "server")]
    write_kubeconfig: Option<PathBuf>,
    /// URL of Capstan, for --write-kubeconfig
    #[arg(long, value_name = "URL", requires = "write_kubeconfig")]
    server: Option<String>,
    /// CA of Capstan's serving certificate in PEM, for --write-kubeconfig [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "write_kubeconfig")]
    certificate_authority: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The login is not complete, Keystone refuses it or cannot be reached, or a file cannot be read or written.
pub fn login(command: &LoginCommand) -> Result<(), Failure> {
    let LoginCommand::Keystone(arguments) = command;
    if let (Some(file), Some(server)) = (&arguments.write_kubeconfig, &arguments.server) {
        let ca = arguments.certificate_authority.as_deref();
        return kubeconfig::write(file, server, ca, arguments.cloud.as_deref());
    }
    let settings = Settings::find(arguments.cloud.as_deref())?;
    let version = exec_credential::requested_version(std::env::var("KUBERNETES_EXEC_INFO").ok().as_deref())?;
    let request = login_request::body(&settings, arguments.passcode.as_deref())?;
    let token = super::block_on(keystone::log_in(&settings, &request))?;
    let text = ExecCredential { version, token: &token }.text();
    output::print(text.as_bytes())
        .map_err(|error| Failure::new(ExitCode::Failed, format!("cannot write the output: {error}")))
}

/// Returns the failure of a file.
fn file_failure(verb: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Failed, format!("cannot {verb} {}: {error}", path.display()))
}
