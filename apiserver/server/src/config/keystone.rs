//! Settings of Keystone, whose users the server knows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use apiserver_access::TokenSource;
use apiserver_keystone::{KeystoneClient, KeystoneTokens, LONGEST_TTL, SERVICE_TYPE};
use serde::Deserialize;

use crate::cli;

/// Keystone whose tokens identify users.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Keystone {
    /// URL of Keystone, such as `https://keystone.example.org:5000/v3`.
    #[serde(rename = "authURL")]
    pub(crate) auth_url: String,
    /// CAs of its serving certificate, in PEM. Default: those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// True if the URL may begin with `http://`. Default: false, because all who can read the network see the tokens.
    #[serde(default, rename = "allowInsecureHTTP")]
    pub(crate) allow_insecure_http: bool,
    /// True if Keystone issues JWTs: its provider of tokens is `jws`. Then it gets the JWTs that name no issuer. Default:
    /// false, and it gets Fernet tokens only.
    #[serde(default)]
    pub(crate) jws: bool,
    /// Time for which an answer of Keystone is used, e.g. `30s`: the delay of a revocation. At most 60s. Default: 60s.
    #[serde(rename = "cacheTTL")]
    pub(crate) cache_ttl: Option<String>,
    /// Type of the service by which access rules of application credentials name Capstan. Default: `container-infra`.
    pub(crate) service_type: Option<String>,
    /// ClusterRole of each role of a project, in the namespaces of the project. Default: `reader: view`, `member: edit`,
    /// `manager: admin` and `admin: admin`.
    pub(crate) project_roles: Option<BTreeMap<String, String>>,
}

impl Keystone {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.auth_url.starts_with("http://") && !self.allow_insecure_http {
            bail!(
                "keystone.authURL: must begin with https://, because everybody who can read the network sees the tokens. For a \
                 test, set keystone.allowInsecureHTTP: true"
            );
        }
        let roles = self.project_roles.iter().flatten();
        if let Some((role, _)) = roles.clone().find(|(role, name)| role.is_empty() || name.is_empty()) {
            bail!("keystone.projectRoles: role {role:?}: the role and its ClusterRole must have names");
        }
        if self.service_type.as_ref().is_some_and(String::is_empty) {
            bail!("keystone.serviceType: must name a type of services, such as {SERVICE_TYPE}");
        }
        self.cache_ttl()?;
        KeystoneClient::new(&self.auth_url, None).map(drop).map_err(anyhow::Error::new)
    }

    fn cache_ttl(&self) -> anyhow::Result<Duration> {
        let Some(text) = &self.cache_ttl else { return Ok(LONGEST_TTL) };
        let found = cli::duration_or_none(text).map_err(|error| anyhow!("keystone.cacheTTL: {error}"))?;
        if found > LONGEST_TTL {
            bail!("keystone.cacheTTL: must be at most {}s", LONGEST_TTL.as_secs());
        }
        Ok(found)
    }

    /// Returns the source of the users.
    ///
    /// # Errors
    /// The file with the CAs cannot be used.
    pub(crate) fn tokens(&self) -> anyhow::Result<Arc<dyn TokenSource>> {
        let read = |path: &PathBuf| {
            std::fs::read(path).with_context(|| format!("keystone.caFile: {} cannot be read", path.display()))
        };
        let ca = self.ca_file.as_ref().map(read).transpose()?;
        let client = KeystoneClient::new(&self.auth_url, ca.as_deref())?;
        let tokens = KeystoneTokens::new(client).context("the system has no random numbers")?;
        let service_type = self.service_type.as_deref().unwrap_or(SERVICE_TYPE).to_owned();
        Ok(Arc::new(tokens.with_cache_ttl(self.cache_ttl()?).with_service_type(service_type)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn tokens_are_no_jwts_unless_the_setting_says_so() {
        let jws = |text: Value| serde_json::from_value::<Keystone>(text).unwrap().jws;
        assert!(!jws(json!({"authURL": "https://k"})));
        assert!(jws(json!({"authURL": "https://k", "jws": true})));
    }

    #[test]
    fn the_type_of_the_service_has_a_name() {
        let check = |service: Option<&str>| {
            let read = json!({"authURL": "https://k", "serviceType": service});
            serde_json::from_value::<Keystone>(read).unwrap().check()
        };
        assert!(check(None).is_ok() && check(Some("capstan")).is_ok());
        let error = check(Some("")).unwrap_err().to_string();
        assert!(error.starts_with("keystone.serviceType: "), "{error}");
    }

    #[test]
    fn an_answer_is_used_for_a_minute_at_most() {
        let ttl = |text: Option<&str>| {
            let read = json!({"authURL": "https://k", "cacheTTL": text});
            let keystone = serde_json::from_value::<Keystone>(read).unwrap();
            keystone.check().and_then(|()| keystone.cache_ttl()).map_err(|error| error.to_string())
        };
        assert_eq!(ttl(None), Ok(LONGEST_TTL));
        assert_eq!(ttl(Some("0s")), Ok(Duration::ZERO));
        assert_eq!(ttl(Some("5s")), Ok(Duration::from_secs(5)));
        assert_eq!(ttl(Some("61s")), Err("keystone.cacheTTL: must be at most 60s".to_owned()));
        let error = ttl(Some("soon")).unwrap_err();
        assert!(error.starts_with("keystone.cacheTTL: \"soon\""), "{error}");
    }
}
