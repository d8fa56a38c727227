//! Encryption at rest, configured as Kubernetes does: `apiserver.config.k8s.io/v1
//! EncryptionConfiguration`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use apiserver_machinery::encryption::{Encryption, Provider};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

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

/// Reads the file given, or the data directory's own, which is made with a fresh key on the first
/// start. Returns where it lies, too.
pub(crate) fn load(given: Option<&Path>, data: &Path) -> anyhow::Result<(Encryption, PathBuf)> {
    let path = given.map_or_else(|| data.join("encryption.yaml"), Path::to_owned);
    if given.is_none() && !path.exists() {
        pki::write_private(&path, &fresh()?)?;
    }
    let text = pki::read(&path)?;
    let encryption = parse(&text).with_context(|| format!("{}", path.display()))?;
    Ok((encryption, path))
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
fn parse(text: &str) -> anyhow::Result<Encryption> {
    let configuration: Configuration = serde_saphyr::from_str(text).map_err(|_| {
        anyhow::anyhow!("is not an EncryptionConfiguration: see the documentation for its form")
    })?;
    if configuration.api_version != "apiserver.config.k8s.io/v1"
        || configuration.kind != "EncryptionConfiguration"
    {
        bail!("expected apiVersion apiserver.config.k8s.io/v1 and kind EncryptionConfiguration");
    }
    let mut encryption = Encryption::default();
    for (index, rule) in configuration.resources.into_iter().enumerate() {
        for resource in rule.resources {
            let providers = providers(&rule.providers, index)?;
            encryption.rules.entry(resource).or_insert(providers);
        }
    }
    if !encryption.rules.contains_key("secrets") {
        bail!("resources: there is no rule for secrets, which must be encrypted at rest");
    }
    Ok(encryption)
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
    use super::*;

    #[test]
    fn a_fresh_configuration_seals_secrets() {
        let encryption = parse(&fresh().unwrap()).unwrap();
        let stored = encryption.seal("secrets", "/k", b"x".to_vec()).unwrap();
        assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:key1:"));
    }

    #[test]
    fn faults_name_the_field_and_no_key() {
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
