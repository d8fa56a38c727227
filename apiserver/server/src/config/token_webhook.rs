//! Settings of the webhook that identifies users by their tokens.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use apiserver_host::TokenWebhookSettings;
use serde::Deserialize;

use crate::cli;

/// Default time limit of a review. A person waits for it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Longest time limit of a review, as for webhooks that authorize.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Default and longest lifetime of a cached answer: the delay after which a revoked token is refused.
const LONGEST_TTL: Duration = Duration::from_secs(60);

/// Default prefix. Without one, the webhook could name the users of other sources.
const PREFIX: &str = "webhook:";

/// Webhook that identifies users by TokenReviews.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TokenWebhook {
    /// Kubeconfig with the URL of the webhook and Capstan's credential for it, as in kube-apiserver's flag
    /// `--authentication-token-webhook-config-file`.
    kube_config_file: PathBuf,
    /// Version of the reviews: `v1`, the default.
    version: Option<String>,
    /// Time limit of a review, e.g. `3s`. At most 30s. Default: 3s.
    timeout: Option<String>,
    /// Lifetime of a cached answer, e.g. `30s`. At most 60s. Default: 60s.
    #[serde(rename = "cacheTTL")]
    cache_ttl: Option<String>,
    /// Audiences of the tokens that are for Capstan. Default: `[capstan]`.
    audiences: Option<Vec<String>>,
    /// Begin of all names and groups. Default: `webhook:`; none with `sharedWithHost`.
    prefix: Option<String>,
    /// True if the host cluster has the same webhook, so that its users are those of the host. Default: false.
    #[serde(default)]
    shared_with_host: bool,
}

impl TokenWebhook {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if let Some(version) = self.version.as_ref().filter(|version| *version != "v1") {
            bail!("authentication.webhook.version: must be v1, not {version:?}");
        }
        if self.timeout()?.is_zero() {
            bail!("authentication.webhook.timeout: must be longer than 0s");
        }
        self.cache_ttl()?;
        let audiences = self.audiences();
        if audiences.is_empty() || audiences.iter().any(String::is_empty) {
            bail!("authentication.webhook.audiences: must name at least one audience, and no empty one");
        }
        if self.shared_with_host && self.prefix.as_ref().is_some_and(|prefix| !prefix.is_empty()) {
            bail!(
                "authentication.webhook.prefix: must be empty with sharedWithHost: the host cluster does not know names \
                 with a prefix"
            );
        }
        Ok(())
    }

    /// Returns true if the users are those of the host cluster.
    pub(crate) fn is_shared_with_host(&self) -> bool {
        self.shared_with_host
    }

    /// Returns the settings of the client.
    ///
    /// # Errors
    /// A text that is no duration.
    pub(crate) fn settings(&self) -> anyhow::Result<TokenWebhookSettings> {
        let default_prefix = if self.shared_with_host { "" } else { PREFIX };
        Ok(TokenWebhookSettings {
            kubeconfig: self.kube_config_file.clone(),
            timeout: self.timeout()?,
            cache_ttl: self.cache_ttl()?,
            audiences: self.audiences(),
            prefix: self.prefix.clone().unwrap_or_else(|| default_prefix.to_owned()),
        })
    }

    fn timeout(&self) -> anyhow::Result<Duration> {
        duration("timeout", self.timeout.as_deref(), TIMEOUT, LONGEST_TIMEOUT)
    }

    fn cache_ttl(&self) -> anyhow::Result<Duration> {
        duration("cacheTTL", self.cache_ttl.as_deref(), LONGEST_TTL, LONGEST_TTL)
    }

    fn audiences(&self) -> Vec<String> {
        self.audiences.clone().unwrap_or_else(|| vec!["capstan".to_owned()])
    }
}

/// Returns the value of a field, or its default.
fn duration(
    name: &str,
    given: Option<&str>,
    default: Duration,
    longest: Duration,
) -> anyhow::Result<Duration> {
    let Some(text) = given else { return Ok(default) };
    let found =
        cli::duration_or_none(text).map_err(|error| anyhow!("authentication.webhook.{name}: {error}"))?;
    if found > longest {
        bail!("authentication.webhook.{name}: must be at most {}s", longest.as_secs());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TokenWebhook {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn a_webhook_with_a_kubeconfig_alone_has_the_defaults() {
        let defaults = read("kubeConfigFile: /a");
        defaults.check().unwrap();
        let settings = defaults.settings().unwrap();
        assert_eq!((settings.timeout, settings.cache_ttl), (TIMEOUT, LONGEST_TTL));
        assert_eq!((settings.audiences, settings.prefix), (vec!["capstan".to_owned()], PREFIX.to_owned()));
        let shared = read("{kubeConfigFile: /a, sharedWithHost: true, cacheTTL: 0s, timeout: 30s}");
        shared.check().unwrap();
        let settings = shared.settings().unwrap();
        assert_eq!((settings.prefix.as_str(), settings.cache_ttl), ("", Duration::ZERO));
    }

    #[test]
    fn an_invalid_value_is_refused_with_the_name_of_its_field() {
        for (bad, field) in [
            ("version: v1beta1", "version: must be v1"),
            ("timeout: 31s", "timeout: must be at most 30s"),
            ("timeout: 0s", "timeout: must be longer"),
            ("timeout: soon", "timeout: "),
            ("cacheTTL: 2m", "cacheTTL: must be at most 60s"),
            ("audiences: []", "audiences: "),
            ("audiences: ['']", "audiences: "),
            ("sharedWithHost: true, prefix: 'a:'", "prefix: must be empty"),
        ] {
            let error = read(&format!("{{kubeConfigFile: /a, {bad}}}")).check().unwrap_err().to_string();
            let expected = format!("authentication.webhook.{field}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
