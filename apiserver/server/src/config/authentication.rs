//! Settings under `authentication`: what the authentication file has no fields for.

use std::time::Duration;

use anyhow::bail;
use apiserver_oidc::{Algorithm, IssuerSettings};
use serde::Deserialize;

use super::token_webhook::TokenWebhook;
use crate::cli;

/// Settings of the users of issuers and of a webhook.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Authentication {
    /// Settings of single issuers of the authentication file. Default: none.
    pub(crate) issuers: Vec<OfIssuer>,
    /// Webhook that identifies users by other tokens. Default: none.
    pub(crate) webhook: Option<TokenWebhook>,
}

/// Settings of one issuer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct OfIssuer {
    /// The issuer's URL in the authentication file.
    pub(crate) url: String,
    /// True if the host cluster has the same issuer with the same names, so that its users are those of the host.
    /// Default: false.
    #[serde(default)]
    pub(crate) shared_with_host: bool,
    /// Longest age of the issuer's keys while it is silent. Default: 24h.
    pub(crate) stale_keys: Option<String>,
    /// Accepted signature algorithms. Default: all of kube-apiserver, which are all but EdDSA.
    pub(crate) algorithms: Option<Vec<String>>,
}

impl Authentication {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.webhook.as_ref().map_or(Ok(()), TokenWebhook::check)?;
        for (index, issuer) in self.issuers.iter().enumerate() {
            if self.issuers.iter().take(index).any(|before| before.url == issuer.url) {
                bail!("authentication.issuers[{index}].url: {:?} has settings already", issuer.url);
            }
            if issuer.stale_keys().is_none() {
                let given = issuer.stale_keys.as_deref().unwrap_or_default();
                bail!("authentication.issuers[{index}].staleKeys: {given:?} is not a duration such as 24h");
            }
            let given = issuer.algorithms.iter().flatten();
            if let Some(bad) = given.clone().find(|name| Algorithm::named(name).is_none()) {
                let known: Vec<_> = Algorithm::names().collect();
                bail!(
                    "authentication.issuers[{index}].algorithms: {bad:?} is not supported; use some of {}",
                    known.join(", ")
                );
            }
            if issuer.algorithms.as_ref().is_some_and(Vec::is_empty) {
                bail!("authentication.issuers[{index}].algorithms: must name at least one algorithm");
            }
        }
        Ok(())
    }

    /// Returns the settings of an issuer.
    pub(crate) fn of(&self, url: &str) -> IssuerSettings {
        let defaults = IssuerSettings::default();
        let Some(found) = self.issuers.iter().find(|issuer| issuer.url == url) else { return defaults };
        let algorithms = found.algorithms.as_ref();
        IssuerSettings {
            is_shared_with_host: found.shared_with_host,
            stale_keys: found.stale_keys().unwrap_or(defaults.stale_keys),
            algorithms: algorithms.map_or(defaults.algorithms, |names| {
                names.iter().filter_map(|name| Algorithm::named(name)).collect()
            }),
        }
    }
}

impl OfIssuer {
    fn stale_keys(&self) -> Option<Duration> {
        match &self.stale_keys {
            None => Some(IssuerSettings::default().stale_keys),
            Some(text) => cli::duration_or_none(text).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_has_its_own_settings() {
        let text = "issuers:\n- {url: 'https://a', sharedWithHost: true, staleKeys: 2h, algorithms: [ES256, EdDSA]}\n- {url: 'https://b'}\n";
        let read: Authentication = serde_saphyr::from_str(text).unwrap();
        read.check().unwrap();
        let found = read.of("https://a");
        assert!(found.is_shared_with_host && found.stale_keys == Duration::from_secs(7200));
        assert_eq!(found.algorithms, [Algorithm::Es256, Algorithm::EdDsa]);
        for other in ["https://b", "https://c"] {
            assert_eq!(read.of(other), IssuerSettings::default());
        }
        for (bad, expected) in [
            ("issuers: [{url: a}, {url: a}]", "authentication.issuers[1].url: "),
            ("issuers: [{url: a, staleKeys: soon}]", "authentication.issuers[0].staleKeys: "),
            ("issuers: [{url: a, algorithms: [HS256]}]", "authentication.issuers[0].algorithms: \"HS256\""),
            ("issuers: [{url: a, algorithms: []}]", "authentication.issuers[0].algorithms: "),
        ] {
            let read: Authentication = serde_saphyr::from_str(bad).unwrap();
            let error = read.check().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
