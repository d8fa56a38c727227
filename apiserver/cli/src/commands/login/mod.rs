//! Command `capstan login`: kubectl's plug-in for credentials of the direct endpoint.

mod cert;
mod exec_credential;
mod http_client;
mod keystone;
mod kubeconfig;
mod login_request;
mod oidc;
mod random;
mod servers;
mod settings;
mod state_file;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{ExitCode, Failure};
use crate::output;
pub use cert::CertArguments;
use exec_credential::{Credential, ExecCredential};
pub use oidc::OidcArguments;
use settings::Settings;

/// Time before its end at which kubectl gets another credential: a request must not begin with one that ends at once.
const EARLY: SignedDuration = SignedDuration::from_secs(60);

/// Token for kubectl.
struct Token {
    secret: String,
    /// Time at which kubectl needs another one, if the issuer says it.
    renew_at: Option<Timestamp>,
}

/// Client certificate for kubectl, in PEM. Not `Debug`: it has the key.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientCertificate {
    certificate: String,
    key: String,
    /// Time at which kubectl needs another one.
    renew_at: Timestamp,
}

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
    /// Get a token of an OpenID Connect issuer for kubectl
    ///
    /// kubectl runs this command when it needs a credential (client.authentication.k8s.io/v1). A person
    /// logs in with a browser on this machine (authorization code with PKCE), or on any machine with
    /// --grant device. A program logs in with --grant client-credentials.
    ///
    /// Without --keep, each kubectl command needs a login.
    ///
    /// Example: capstan login oidc --issuer https://id.example.org --client-id capstan --keep \
    ///            --write-kubeconfig capstan.kubeconfig --server https://capstan.example.org:7443
    #[command(verbatim_doc_comment)]
    #[allow(rustdoc::bare_urls, reason = "the help text is printed as it stands")]
    Oidc(OidcArguments),
    /// Get a client certificate for kubectl, which needs no host cluster and no issuer
    ///
    /// kubectl runs this command when it needs a credential (client.authentication.k8s.io/v1). The command
    /// makes a key, and creates a CertificateSigningRequest with the login of another kubeconfig. The
    /// certificate has the name and the groups of that user. An administrator must approve the request. The
    /// command prints how, and waits.
    ///
    /// With --before-outage, get the certificate while the host cluster or the issuer works. Until its end,
    /// kubectl takes it from a file of this user, and needs neither of them. If you run the command yourself
    /// in the second half of that time, it gets a new one. Without --before-outage and --keep, each kubectl
    /// command needs an approval.
    ///
    /// A kept certificate is that of the kubeconfig, the context and the servers of the command. Give the same
    /// ones with and without --write-kubeconfig.
    ///
    /// Example: capstan login cert --kubeconfig host.kubeconfig --before-outage 7d \
    ///            --write-kubeconfig outage.kubeconfig --certificate-authority ca.crt \
    ///            --server https://a.example.org:7443,https://b.example.org:7443
    /// Example: capstan login cert --kubeconfig host.kubeconfig --before-outage 7d \
    ///            --certificate-authority ca.crt \
    ///            --server https://a.example.org:7443,https://b.example.org:7443 > /dev/null
    #[command(verbatim_doc_comment)]
    #[allow(rustdoc::bare_urls, reason = "the help text is printed as it stands")]
    Cert(CertArguments),
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
    #[arg(long, value_name = "FILE", requires = "servers")]
    write_kubeconfig: Option<PathBuf>,
    /// URL of Capstan, for --write-kubeconfig; of several, separated by commas, the first that is ready
    #[arg(long = "server", value_name = "URL", value_delimiter = ',', requires = "write_kubeconfig")]
    servers: Vec<String>,
    /// CA of Capstan's serving certificate in PEM, for --write-kubeconfig [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "write_kubeconfig")]
    certificate_authority: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The login is not complete, it is refused, Keystone, the issuer or Capstan cannot be reached, or a file cannot be read or
/// written.
pub fn login(command: &LoginCommand) -> Result<(), Failure> {
    match command {
        LoginCommand::Keystone(arguments) => keystone_login(arguments),
        LoginCommand::Oidc(arguments) => oidc_login(arguments),
        LoginCommand::Cert(arguments) => cert_login(arguments),
    }
}

fn keystone_login(arguments: &KeystoneArguments) -> Result<(), Failure> {
    if let Some(file) = &arguments.write_kubeconfig {
        let ca = arguments.certificate_authority.as_deref();
        let mut login = ["login", "keystone"].map(str::to_owned).to_vec();
        login.extend(arguments.cloud.iter().flat_map(|cloud| ["--cloud".to_owned(), cloud.clone()]));
        return kubeconfig::write(file, &arguments.servers, ca, &login);
    }
    let settings = Settings::find(arguments.cloud.as_deref())?;
    let version = exec_credential::requested_version(info().as_deref())?;
    let request = login_request::body(&settings, arguments.passcode.as_deref())?;
    let token = super::block_on(keystone::log_in(&settings, &request))?;
    print(version, Credential::Token(token))
}

fn oidc_login(arguments: &OidcArguments) -> Result<(), Failure> {
    let ca = arguments.certificate_authority.as_deref();
    run(
        arguments.write_kubeconfig.as_deref(),
        |file| kubeconfig::write(file, &arguments.servers, ca, &arguments.of_kubeconfig()),
        async |info| Box::pin(oidc::log_in(arguments, info)).await.map(Credential::Token),
    )
}

fn cert_login(arguments: &CertArguments) -> Result<(), Failure> {
    let ca = arguments.certificate_authority.as_deref();
    run(
        arguments.write_kubeconfig.as_deref(),
        |file| kubeconfig::write(file, &arguments.servers, ca, &arguments.of_kubeconfig()),
        async |info| Box::pin(cert::log_in(arguments, info.is_none())).await.map(Credential::Certificate),
    )
}

/// Writes the kubeconfig, if there is a file for it. Else logs in, and prints the credential in the version that kubectl
/// requests.
fn run(
    file: Option<&Path>,
    write: impl FnOnce(&Path) -> Result<(), Failure>,
    log_in: impl AsyncFnOnce(Option<&str>) -> Result<Credential, Failure>,
) -> Result<(), Failure> {
    if let Some(file) = file {
        return write(file);
    }
    let info = info();
    let version = exec_credential::requested_version(info.as_deref())?;
    let credential = super::block_on(log_in(info.as_deref()))?;
    print(version, credential)
}

/// Returns what kubectl says about its request.
fn info() -> Option<String> {
    std::env::var("KUBERNETES_EXEC_INFO").ok()
}

/// Prints the answer to kubectl, and nothing else.
fn print(version: exec_credential::Version, credential: Credential) -> Result<(), Failure> {
    let text = ExecCredential { version, credential }.text();
    output::print(text.as_bytes())
}

/// Returns the path of a file for a kubeconfig: kubectl runs the command in the directory of the user.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Returns the failure of a file.
fn file_failure(verb: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Failed, format!("cannot {verb} {}: {error}", path.display()))
}
