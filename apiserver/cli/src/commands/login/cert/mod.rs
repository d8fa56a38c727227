//! Login by a client certificate of the direct endpoint.

mod kept;
mod key;
mod signing;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kube::config::Kubeconfig;
use kube::{Client, Config};
use x509_parser::pem::Pem;

use super::{ClientCertificate, absolute, file_failure, servers};
use crate::commands::duration;
use crate::connect::{ConnectionArguments, client_of};
use crate::error::{ExitCode, Failure};
use crate::output;
use kept::Kept;
use key::Key;

/// Lifetime of a certificate, unless `--before-outage` names another one. That of a day's work.
const LIFETIME: Duration = Duration::from_hours(12);

/// Shortest lifetime, by the API.
const SHORTEST: Duration = Duration::from_mins(10);

/// Longest lifetime, by the signer.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// Longest wait for the approval, unless `--timeout` names another one.
const PATIENCE: &str = "10m";

/// Arguments of `capstan login cert`.
#[derive(Debug, Clone, Args)]
pub struct CertArguments {
    /// Kubeconfig with the login that requests the certificate [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// URL of the direct endpoint; of several, separated by commas, the first that is ready
    /// [default: the server of the kubeconfig]
    #[arg(long = "server", value_name = "URL", value_delimiter = ',')]
    pub(super) servers: Vec<String>,
    /// CA of Capstan's serving certificate in PEM, for --server [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "servers")]
    pub(super) certificate_authority: Option<PathBuf>,
    /// Lifetime of the certificate, e.g. 7d, which is kept as with --keep; at most 365d [default: 12h]
    #[arg(long, value_name = "DURATION", value_parser = lifetime)]
    before_outage: Option<Duration>,
    /// Keep key and certificate in a file of this user, so that the next command needs no approval
    #[arg(long)]
    keep: bool,
    /// Longest time to wait for the approval, e.g. 30s or 10m
    #[arg(long, value_name = "DURATION", default_value = PATIENCE, value_parser = duration::parse)]
    timeout: Duration,
    /// Write a kubeconfig that runs this command to a file, and get no certificate
    #[arg(long, value_name = "FILE", requires = "servers", requires = "kubeconfig")]
    pub(super) write_kubeconfig: Option<PathBuf>,
}

impl CertArguments {
    /// Returns the arguments of the command in a kubeconfig.
    pub(super) fn of_kubeconfig(&self) -> Vec<String> {
        let mut all = ["login", "cert"].map(str::to_owned).to_vec();
        let servers = (!self.servers.is_empty()).then(|| self.servers.join(","));
        let timeout = Some(duration::text(self.timeout)).filter(|timeout| timeout != PATIENCE);
        let options = [
            ("--kubeconfig", self.kubeconfig.as_deref().map(absolute)),
            ("--context", self.context()),
            ("--server", servers),
            ("--certificate-authority", self.certificate_authority.as_deref().map(absolute)),
            ("--before-outage", self.before_outage.map(duration::text)),
            ("--timeout", timeout),
        ];
        for (name, value) in options {
            all.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        }
        all.extend(self.keep.then(|| "--keep".to_owned()));
        all
    }

    fn lifetime(&self) -> Duration {
        self.before_outage.unwrap_or(LIFETIME)
    }

    /// Returns the name of the context: the current one may be another user's at the next command.
    fn context(&self) -> Option<String> {
        let current = || {
            let read = match &self.kubeconfig {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            read.ok()?.current_context
        };
        self.context.clone().or_else(current)
    }

    /// Returns the file of the certificate. Logins of other contexts, and at other servers, have other ones.
    fn kept(&self) -> Result<Kept, Failure> {
        let variable = std::env::var_os("KUBECONFIG").map(PathBuf::from);
        let kubeconfig = self.kubeconfig.as_deref().or(variable.as_deref());
        let kubeconfig = kubeconfig.map(absolute).unwrap_or_default();
        let context = self.context().unwrap_or_default();
        Kept::find(&[&kubeconfig, &context, &self.servers.join(",")])
    }
}

/// Parses the lifetime of a certificate.
fn lifetime(text: &str) -> Result<Duration, String> {
    let found = duration::parse(text)?;
    let is_possible = (SHORTEST..=LONGEST).contains(&found);
    is_possible.then_some(found).ok_or_else(|| format!("{text:?} is not between 10m and 365d"))
}

/// Returns the certificate that an earlier login has kept, else requests one.
///
/// kubectl uses a kept certificate until its end. A person who runs the command prepares for an outage, and gets a new one
/// in the second half of its life.
pub(super) async fn log_in(arguments: &CertArguments, is_person: bool) -> Result<ClientCertificate, Failure> {
    if !arguments.keep && arguments.before_outage.is_none() {
        return Box::pin(requested(arguments)).await;
    }
    let half = if is_person { arguments.lifetime() / 2 } else { Duration::ZERO };
    let until = || {
        let now = Timestamp::now();
        now.saturating_add(half).unwrap_or(now)
    };
    let kept = arguments.kept()?;
    if let Some(certificate) = kept.certificate(until()) {
        return Ok(certificate);
    }
    let kept = kept.locked()?;
    if let Some(certificate) = kept.certificate(until()) {
        return Ok(certificate);
    }
    let certificate = Box::pin(requested(arguments)).await?;
    kept.write(&certificate)?;
    Ok(certificate)
}

/// Makes a key, and requests a certificate for it.
async fn requested(arguments: &CertArguments) -> Result<ClientCertificate, Failure> {
    let client = client(arguments).await?;
    signing::check_server(&client).await?;
    let user = signing::user(&client).await?;
    let key = Key::generate()?;
    let request = key.request(&user.name, &user.groups)?;
    let name = signing::create(&client, request, arguments.lifetime()).await?;
    output::note(&format!(
        "CertificateSigningRequest {name} of {} waits for an administrator, who approves it by\n  \
         kubectl certificate approve {name}\n",
        user.name
    ));
    key.with_certificate(signing::issued(&client, &name, arguments.timeout).await?)
}

/// Creates a client with the login of the kubeconfig.
async fn client(arguments: &CertArguments) -> Result<Client, Failure> {
    let connection = ConnectionArguments {
        namespace: None,
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    let mut config = connection.config().await?;
    if runs_itself(&config) {
        let summary = "cannot log in by a certificate: the user of the kubeconfig logs in by this command";
        return Err(Failure::new(ExitCode::Failed, summary)
            .next("give --kubeconfig with another login, such as one by capstan login oidc"));
    }
    if !arguments.servers.is_empty() {
        let ca = arguments.certificate_authority.as_deref();
        let server = servers::choose(&arguments.servers, ca).await?;
        direct(&mut config, &server, ca)?;
    }
    client_of(config)
}

/// Reports whether the kubeconfig runs this command for its credential, which would run it again, without an end.
fn runs_itself(config: &Config) -> bool {
    let args = config.auth_info.exec.as_ref().and_then(|exec| exec.args.as_deref()).unwrap_or_default();
    args.iter().map(String::as_str).take(2).eq(["login", "cert"])
}

/// Directs a login to another server. Settings that weaken TLS for the server of the kubeconfig do not apply to it.
fn direct(config: &mut Config, server: &str, ca: Option<&Path>) -> Result<(), Failure> {
    config.cluster_url = server.parse().map_err(|error: http::uri::InvalidUri| {
        Failure::new(ExitCode::Failed, format!("--server: {server:?} is no URL: {error}"))
    })?;
    config.root_cert = ca.map(certificates).transpose()?;
    config.root_cert_file = None;
    config.accept_invalid_certs = false;
    config.tls_server_name = None;
    Ok(())
}

/// Reads the certificates of a file.
fn certificates(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let text = std::fs::read(path).map_err(|error| file_failure("read", path, &error))?;
    let blocks: Result<Vec<Pem>, _> = Pem::iter_from_buffer(&text).collect();
    let blocks = blocks.unwrap_or_default().into_iter().filter(|block| block.label == "CERTIFICATE");
    let found: Vec<Vec<u8>> = blocks.map(|block| block.contents).collect();
    if found.is_empty() {
        let summary = format!("{}: holds no certificate in PEM", path.display());
        return Err(Failure::new(ExitCode::Failed, summary));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
