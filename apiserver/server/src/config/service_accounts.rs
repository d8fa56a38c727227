//! Settings under `serviceAccounts`: tokens of Capstan's own service accounts.

use std::time::Duration;

use anyhow::{anyhow, bail};
use serde::Deserialize;

use crate::cli;
use crate::service_accounts::LONGEST;

/// Shortest limit: a request cannot name a shorter lifetime either.
const LEAST: Duration = Duration::from_mins(10);

/// Settings of the tokens.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct ServiceAccounts {
    /// URL that the tokens name as their issuer and their audience. All replicas must have the same. If it changes, all
    /// tokens end. Default: `https://` with the first of `serverNames`, or `localhost`, and the port of `listen`.
    pub(crate) issuer: Option<String>,
    /// Longest lifetime of a token, at least 10m. Longer requests get this one. Default: 24h.
    pub(crate) max_token_lifetime: Option<String>,
}

impl ServiceAccounts {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.longest()? < LEAST {
            bail!("serviceAccounts.maxTokenLifetime: must be at least 10m");
        }
        match self.issuer.as_deref() {
            Some(url) if !url.starts_with("https://") || url.len() == "https://".len() => {
                bail!("serviceAccounts.issuer: must be a URL that begins with https://, not {url:?}")
            }
            _ => Ok(()),
        }
    }

    /// Returns the longest lifetime of a token.
    pub(crate) fn longest(&self) -> anyhow::Result<Duration> {
        let Some(text) = self.max_token_lifetime.as_deref() else { return Ok(LONGEST) };
        cli::duration_or_none(text).map_err(|error| anyhow!("serviceAccounts.maxTokenLifetime: {error}"))
    }

    /// Returns the URL of the issuer of a server with these names and this address.
    pub(crate) fn issuer(&self, server_names: &[String], listen: &str) -> String {
        if let Some(url) = &self.issuer {
            return url.clone();
        }
        let name = server_names.first().map_or("localhost", String::as_str);
        let name = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
        match listen.rsplit_once(':').map(|(_, port)| port) {
            None | Some("0" | "443") => format!("https://{name}"),
            Some(port) => format!("https://{name}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issuer_is_the_first_name_of_the_server_with_its_port() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let default = ServiceAccounts::default();
        assert_eq!(
            default.issuer(&names(&["api.example.org", "b"]), "0.0.0.0:7443"),
            "https://api.example.org:7443"
        );
        assert_eq!(default.issuer(&names(&["fd00::1"]), "[::]:443"), "https://[fd00::1]");
        assert_eq!(default.issuer(&[], "127.0.0.1:0"), "https://localhost");
        let given = ServiceAccounts { issuer: Some("https://issuer".to_owned()), ..default };
        assert_eq!(given.issuer(&names(&["a"]), "0.0.0.0:7443"), "https://issuer");
    }
}
