//! Encryption at rest, configured as Kubernetes does: `apiserver.config.k8s.io/v1
//! EncryptionConfiguration`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_machinery::encryption::{Encryption, Provider, Rules};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::pki;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Configuration {
    api_version: String,
    kind: String,
    resources: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Rule {
    resources: Vec<String>,
    providers: Vec<BTreeMap<String, Option<Keys>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Keys {
    #[serde(default)]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Key {
    name: String,
    secret: String,
}

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// The rules in force, and the file they come from.
pub(crate) struct Followed {
    pub(crate) encryption: Arc<Encryption>,
    pub(crate) path: PathBuf,
    last: String,
}

/// Reads the file given, or the data directory's own, which is made with a fresh key on the first
/// start.
pub(crate) fn load(given: Option<&Path>, data: &Path) -> anyhow::Result<Followed> {
    let path = given.map_or_else(|| data.join("encryption.yaml"), Path::to_owned);
    if given.is_none() && !path.exists() {
        pki::write_private(&path, &fresh()?)?;
    }
    let last = pki::read(&path)?;
    let rules = parse(&last).with_context(|| format!("{}", path.display()))?;
    Ok(Followed { encryption: Arc::new(Encryption::new(rules)), path, last })
}

impl Followed {
    /// Keeps up with the file until `shutdown`. What cannot be used leaves things as they are.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            match self.look() {
                Ok(false) => {}
                Ok(true) => tracing::info!(
                    file = %self.path.display(),
                    "the encryption configuration has changed; what is written from now on is sealed by it"
                ),
                Err(error) => tracing::error!(
                    "the encryption configuration cannot be used, the last one stays: {error:#}"
                ),
            }
        }
    }

    /// Takes what is new; whether there was anything. The same error is told once.
    fn look(&mut self) -> anyhow::Result<bool> {
        let text = pki::read(&self.path)?;
        if text == self.last {
            return Ok(false);
        }
        self.last.clone_from(&text);
        let rules = parse(&text).with_context(|| format!("{}", self.path.display()))?;
        self.encryption.replace(rules);
        Ok(true)
    }
}

fn fresh() -> anyhow::Result<String> {
    let mut key = [0_u8; 32];
    aws_lc_rs::rand::fill(&mut key).map_err(|_| anyhow::anyhow!("the system gives no randomness"))?;
    let secret = STANDARD.encode(key);
    Ok(format!(
        "# The key that Secrets are encrypted with. Without it they cannot be read: back it up,\n\
         # apart from the store. To rotate, put a new key first and keep the old one behind it.\n\
         apiVersion: apiserver.config.k8s.io/v1\n\
         kind: EncryptionConfiguration\n\
         resources:\n\
         - resources: [secrets]\n\
         \x20 providers:\n\
         \x20 - aesgcm:\n\
         \x20     keys:\n\
         \x20     - name: key1\n\
         \x20       secret: {secret}\n\
         \x20 - identity: {{}}\n"
    ))
}

/// Errors name the field, never a key.
fn parse(text: &str) -> anyhow::Result<Rules> {
    let configuration: Configuration = serde_saphyr::from_str(text).map_err(|_| {
        anyhow::anyhow!("is not an EncryptionConfiguration: see the documentation for its form")
    })?;
    if configuration.api_version != "apiserver.config.k8s.io/v1"
        || configuration.kind != "EncryptionConfiguration"
    {
        bail!("expected apiVersion apiserver.config.k8s.io/v1 and kind EncryptionConfiguration");
    }
    let mut rules = Rules::new();
    for (index, rule) in configuration.resources.into_iter().enumerate() {
        for resource in rule.resources {
            let providers = providers(&rule.providers, index)?;
            rules.entry(resource).or_insert(providers);
        }
    }
    if !rules.contains_key("secrets") {
        bail!("resources: there is no rule for secrets, which must be encrypted at rest");
    }
    Ok(rules)
}

fn providers(list: &[BTreeMap<String, Option<Keys>>], index: usize) -> anyhow::Result<Vec<Provider>> {
    let mut providers = Vec::new();
    for (number, entry) in list.iter().enumerate() {
        let at = format!("resources[{index}].providers[{number}]");
        for (kind, keys) in entry {
            match kind.as_str() {
                "identity" => providers.push(Provider::Identity),
                "aesgcm" => {
                    let keys = keys.as_ref().map(|keys| keys.keys.as_slice()).unwrap_or_default();
                    if keys.is_empty() {
                        bail!("{at}.aesgcm.keys: must hold at least one key");
                    }
                    for key in keys {
                        let bytes = STANDARD.decode(key.secret.trim());
                        let bytes = bytes.map_err(|_| {
                            anyhow::anyhow!("{at}.aesgcm.keys: the secret of {:?} is not base64", key.name)
                        })?;
                        let provider = Provider::aes_gcm(&key.name, &bytes);
                        providers.push(provider.with_context(|| format!("{at}.aesgcm.keys"))?);
                    }
                }
                other => bail!("{at}: provider {other:?} is not offered; aesgcm and identity are"),
            }
        }
    }
    if providers.is_empty() {
        bail!("resources[{index}].providers: must hold at least one provider");
    }
    Ok(providers)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn a_fresh_configuration_seals_secrets() {
        let encryption = Encryption::new(parse(&fresh().unwrap()).unwrap());
        let stored = encryption.seal("secrets", "/k", Bytes::from("x")).unwrap();
        assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    }

    #[test]
    fn a_key_is_rotated_without_a_restart_and_a_broken_file_changes_nothing() {
        let data = tempfile::tempdir().unwrap();
        let mut followed = load(None, data.path()).unwrap();
        let encryption = Arc::clone(&followed.encryption);
        let old = encryption.seal("secrets", "/k", Bytes::from("x")).unwrap();
        assert!(!followed.look().unwrap());
        let text = std::fs::read_to_string(&followed.path).unwrap();
        let (head, keys) = text.split_at(text.find("      - name: key1").unwrap());
        let secret = STANDARD.encode([7; 32]);
        let rotated = format!("{head}      - name: key2\n        secret: {secret}\n{keys}");
        std::fs::write(&followed.path, "kind: Nothing").unwrap();
        assert!(followed.look().is_err());
        assert!(!followed.look().unwrap(), "told once");
        assert_eq!(encryption.open("secrets", "/k", &old).unwrap(), "x");
        std::fs::write(&followed.path, rotated).unwrap();
        assert!(followed.look().unwrap());
        let new = encryption.seal("secrets", "/k", Bytes::from("x")).unwrap();
        assert!(new.starts_with(b"k8s:enc:aesgcm:v1:key2:"));
        assert_eq!(encryption.open("secrets", "/k", &old).unwrap(), "x");
    }

    #[test]
    fn errors_name_the_field_and_no_key() {
        let with = |providers: &str| {
            format!(
                "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers: {providers}\n"
            )
        };
        let table = [
            (
                with("[{aesgcm: {keys: [{name: k, secret: hunter2!}]}}]"),
                "resources[0].providers[0].aesgcm.keys",
            ),
            (
                with("[{aesgcm: {keys: [{name: k, secret: aHVudGVyMg==}]}}]"),
                "resources[0].providers[0].aesgcm.keys",
            ),
            (with("[{kms: {}}]"), "\"kms\" is not offered"),
            (with("[]"), "resources[0].providers"),
        ];
        for (text, expected) in table {
            let error = format!("{:#}", parse(&text).map(|_| ()).unwrap_err());
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
        }
    }
}
