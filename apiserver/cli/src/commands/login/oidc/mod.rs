//! Login to an OpenID Connect issuer.

mod code;
mod device;
mod endpoints;
mod kept;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::exec_credential::server_of;
use super::http_client::http_client;
use super::{Token, absolute};
use crate::error::{ExitCode, Failure};
use endpoints::{Endpoints, Granted};
use kept::Kept;

/// Arguments of `capstan login oidc`.
#[derive(Debug, Clone, Args)]
pub struct OidcArguments {
    /// URL of the issuer, as in the server's authentication file
    #[arg(long, value_name = "URL")]
    issuer: String,
    /// Id of the client at the issuer
    #[arg(long, value_name = "ID")]
    client_id: String,
    /// File with the client's secret, if it has one
    #[arg(long, value_name = "FILE")]
    client_secret_file: Option<PathBuf>,
    /// Way to log in
    #[arg(long, value_enum, default_value_t = Grant::Code)]
    grant: Grant,
    /// Requested scope, repeatable [default: openid]
    #[arg(long = "scope", value_name = "NAME")]
    scopes: Vec<String>,
    /// CA of the issuer in PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    issuer_ca: Option<PathBuf>,
    /// Port of this machine to which the issuer sends the browser back [default: any free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the URL only, and do not start a browser
    #[arg(long)]
    no_browser: bool,
    /// Keep the tokens in a file of this user, so that the next command needs no login
    #[arg(long)]
    keep: bool,
    /// Write a kubeconfig that runs this command to a file, and get no token
    #[arg(long, value_name = "FILE", requires = "servers")]
    pub(super) write_kubeconfig: Option<PathBuf>,
    /// URL of Capstan, for --write-kubeconfig; of several, separated by commas, the first that is ready
    #[arg(long = "server", value_name = "URL", value_delimiter = ',', requires = "write_kubeconfig")]
    pub(super) servers: Vec<String>,
    /// CA of Capstan's serving certificate in PEM, for --write-kubeconfig [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "write_kubeconfig")]
    pub(super) certificate_authority: Option<PathBuf>,
}

/// Way to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Grant {
    /// In a browser on this machine
    Code,
    /// In a browser on any machine, with a short code
    Device,
    /// With the client's secret, for programs
    ClientCredentials,
}

impl OidcArguments {
    /// Returns the arguments of the command in a kubeconfig.
    pub(super) fn of_kubeconfig(&self) -> Vec<String> {
        let mut all = vec!["login".to_owned(), "oidc".to_owned()];
        let grant = self.grant.to_possible_value().map(|it| it.get_name().to_owned());
        let port = (self.port != 0).then(|| self.port.to_string());
        let options = [
            ("--issuer", Some(self.issuer.clone())),
            ("--client-id", Some(self.client_id.clone())),
            ("--client-secret-file", self.client_secret_file.as_deref().map(absolute)),
            ("--grant", grant.filter(|_| self.grant != Grant::Code)),
            ("--issuer-ca", self.issuer_ca.as_deref().map(absolute)),
            ("--port", port),
        ];
        let scopes = self.scopes.iter().map(|scope| ("--scope", Some(scope.clone())));
        for (name, value) in options.into_iter().chain(scopes) {
            all.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        }
        let flags = [("--no-browser", self.no_browser), ("--keep", self.keep)];
        all.extend(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name.to_owned()));
        all
    }

    /// Returns the scopes of a request, separated by spaces.
    fn scope(&self) -> String {
        let mut all: Vec<&str> = self.scopes.iter().map(String::as_str).collect();
        let is_of_person = self.grant != Grant::ClientCredentials;
        if is_of_person && !all.contains(&"openid") {
            all.insert(0, "openid");
        }
        if is_of_person && self.keep && !all.contains(&"offline_access") {
            all.push("offline_access");
        }
        all.join(" ")
    }
}

/// Logs in, or renews what an earlier login has kept.
pub(super) async fn log_in(arguments: &OidcArguments, info: Option<&str>) -> Result<Token, Failure> {
    if !arguments.issuer.starts_with("https://") {
        let summary = format!("--issuer: {:?} must begin with https://", arguments.issuer);
        return Err(Failure::new(ExitCode::Failed, summary));
    }
    if !arguments.keep {
        return Ok(grant(arguments, &discover(arguments).await?).await?.token);
    }
    let kept = Kept::find([&arguments.issuer, &arguments.client_id, &server_of(info)])?;
    kept_or_new(arguments, kept).await
}

/// Returns the token that an earlier login has kept, else renews it, else logs in. Keeps the new one.
async fn kept_or_new(arguments: &OidcArguments, kept: Kept) -> Result<Token, Failure> {
    if let Some(token) = kept.token(Timestamp::now()) {
        return Ok(token);
    }
    let kept = kept.locked()?;
    if let Some(token) = kept.token(Timestamp::now()) {
        return Ok(token);
    }
    let endpoints = discover(arguments).await?;
    let granted = match renewed(&endpoints, &kept).await? {
        Some(granted) => granted,
        None => grant(arguments, &endpoints).await?,
    };
    kept.write(&granted)?;
    Ok(granted.token)
}

async fn discover(arguments: &OidcArguments) -> Result<Endpoints, Failure> {
    Endpoints::discover(http_client(arguments.issuer_ca.as_deref())?, arguments).await
}

/// Renews the token. Returns `None` if nothing was kept, or if the issuer refuses it: it has ended or was revoked, and the
/// person logs in again.
///
/// # Errors
/// The issuer did not decide. A login would not succeed either, and the token may still be good.
async fn renewed(endpoints: &Endpoints, kept: &Kept) -> Result<Option<Granted>, Failure> {
    let Some(refresh) = kept.refresh_token() else { return Ok(None) };
    match endpoints.refresh(&refresh).await {
        Ok(granted) => Ok(Some(granted)),
        Err(refused) if refused.is_undecided => Err(refused.failure),
        Err(_) => Ok(None),
    }
}

async fn grant(arguments: &OidcArguments, endpoints: &Endpoints) -> Result<Granted, Failure> {
    match arguments.grant {
        Grant::Code => {
            let open = |url: &str| code::open(url, !arguments.no_browser);
            code::log_in(arguments, endpoints, open).await
        }
        Grant::Device => device::log_in(arguments, endpoints).await,
        Grant::ClientCredentials => endpoints.client_credentials(&arguments.scope()).await,
    }
}

#[cfg(test)]
mod tests;
