//! Encryption at rest, configured by an `apiserver.config.k8s.io/v1 EncryptionConfiguration` as in Kubernetes.

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

/// Interval at which the file is checked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Encryption rules in force, and the file that they come from.
pub(crate) struct EncryptionFile {
    pub(crate) encryption: Arc<Encryption>,
    pub(crate) path: PathBuf,
    last: String,
}

/// Reads the given file, or else the one in the data directory. The first start creates that one with a new key.
pub(crate) fn load(given: Option<&Path>, data: &Path) -> anyhow::Result<EncryptionFile> {
    let path = given.map_or_else(|| data.join("encryption.yaml"), Path::to_owned);
    if given.is_none() && !path.exists() {
        pki::write_private(&path, &generate()?)?;
    }
    let last = pki::read(&path)?;
    let rules = parse(&last).with_context(|| format!("{}", path.display()))?;
    Ok(EncryptionFile { encryption: Arc::new(Encryption::new(rules)), path, last })
}

impl EncryptionFile {
    /// Reloads the file after each change, until `shutdown`. An invalid file leaves the rules in force unchanged.
    pub(crate) async fn follow(mut self, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
            match self.reload() {
                Ok(false) => {}
                Ok(true) => tracing::info!(
                    file = %self.path.display(),
                    "encryption configuration reloaded; new writes use it"
                ),
                Err(error) => tracing::error!(
                    "encryption configuration is invalid; the last one stays in force: {error:#}"
                ),
            }
        }
    }

    /// Applies the file if it changed. Returns true if it did. The same error is returned once.
    fn reload(&mut self) -> anyhow::Result<bool> {
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

fn generate() -> anyhow::Result<String> {
    let mut key = [0_u8; 32];
    aws_lc_rs::rand::fill(&mut key)
        .map_err(|_| anyhow::anyhow!("cannot generate an encryption key: the system has no randomness"))?;
    let secret = STANDARD.encode(key);
    Ok(format!(
        "# Key that encrypts Secrets. Without it, they cannot be read: back it up, apart from the\n\
         # store. To rotate, add a new key before the old one, and keep the old one.\n\
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

/// Parses a configuration. Errors name the field, never a key.
fn parse(text: &str) -> anyhow::Result<Rules> {
    let configuration: Configuration = serde_saphyr::from_str(text).map_err(|_| {
        anyhow::anyhow!(
            "not a valid EncryptionConfiguration; see the Kubernetes documentation for its format"
        )
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
        bail!("resources: must have a rule for secrets, because they must be encrypted at rest");
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
                other => bail!("{at}: provider {other:?} is not supported; use aesgcm or identity"),
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
    fn a_generated_configuration_encrypts_secrets() {
        let encryption = Encryption::new(parse(&generate().unwrap()).unwrap());
        let stored = encryption.seal("secrets", "/k", Bytes::from("x")).unwrap();
        assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    }

    #[test]
    fn a_key_is_rotated_without_a_restart_and_a_broken_file_changes_nothing() {
        let data = tempfile::tempdir().unwrap();
        let mut file = load(None, data.path()).unwrap();
        let encryption = Arc::clone(&file.encryption);
        let old = encryption.seal("secrets", "/k", Bytes::from("x")).unwrap();
        assert!(!file.reload().unwrap());
        let text = std::fs::read_to_string(&file.path).unwrap();
        let (head, keys) = text.split_at(text.find("      - name: key1").unwrap());
        let secret = STANDARD.encode([7; 32]);
        let rotated = format!("{head}      - name: key2\n        secret: {secret}\n{keys}");
        std::fs::write(&file.path, "kind: Nothing").unwrap();
        assert!(file.reload().is_err());
        assert!(!file.reload().unwrap(), "the same error is returned once");
        assert_eq!(encryption.open("secrets", "/k", &old).unwrap(), "x");
        std::fs::write(&file.path, rotated).unwrap();
        assert!(file.reload().unwrap());
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
            (with("[{kms: {}}]"), "\"kms\" is not supported"),
            (with("[]"), "resources[0].providers"),
        ];
        for (text, expected) in table {
            let error = format!("{:#}", parse(&text).map(|_| ()).unwrap_err());
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2") && !error.contains("aHVudGVyMg"), "{error}");
        }
    }
}
