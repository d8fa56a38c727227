//! Edit of an encryption configuration: one more key behind the others.

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Returns the configuration with one more key for AES-GCM in each rule that seals values. The key only opens values: it
/// is behind all others. Comments at the beginning stay.
///
/// # Errors
/// A text that is no configuration; one without a rule that has keys.
pub(super) fn with_key(text: &str, name: &str, key: &[u8; 32]) -> anyhow::Result<String> {
    let mut configuration: Value =
        serde_saphyr::from_str(text).map_err(|_| anyhow::anyhow!("not a valid EncryptionConfiguration"))?;
    let rules = configuration.get_mut("resources").and_then(Value::as_array_mut);
    let rules = rules.context("resources: must be a list")?;
    let key = json!({"name": name, "secret": STANDARD.encode(key)});
    let mut added = 0;
    for providers in rules.iter_mut().filter_map(|rule| rule.get_mut("providers")?.as_array_mut()) {
        added += usize::from(add(providers, &key));
    }
    if added == 0 {
        bail!("no rule has a provider aesgcm, aescbc or kms: there is no key to rotate");
    }
    let comments: String =
        text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    Ok(comments + &serde_saphyr::to_string(&configuration)?)
}

/// Adds a key to the providers of a rule. Returns false if none of them seals.
fn add(providers: &mut Vec<Value>, key: &Value) -> bool {
    let last = |providers: &[Value], kind| providers.iter().rposition(|it| it.get(kind).is_some());
    if let Some(at) = last(providers, "aesgcm")
        && let Some(keys) = providers[at].pointer_mut("/aesgcm/keys").and_then(Value::as_array_mut)
    {
        keys.push(key.clone());
        return true;
    }
    let Some(at) = last(providers, "aescbc").max(last(providers, "kms")) else { return false };
    providers.insert(at + 1, json!({"aesgcm": {"keys": [key]}}));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# Key that encrypts Secrets.\napiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n";

    fn edited(rules: &str) -> Value {
        let text = with_key(&format!("{HEAD}{rules}"), "new", &[7; 32]).unwrap();
        assert!(text.starts_with("# Key that encrypts Secrets.\n"), "{text}");
        serde_saphyr::from_str(&text).unwrap()
    }

    #[test]
    fn the_new_key_is_behind_the_others_and_before_no_writer() {
        let text = "- resources: [secrets]\n  providers:\n  - aesgcm: {keys: [{name: old, secret: AAAA}]}\n  - identity: {}\n";
        let value = edited(text);
        let keys = &value["resources"][0]["providers"][0]["aesgcm"]["keys"];
        assert_eq!((&keys[0]["name"], &keys[1]["name"]), (&json!("old"), &json!("new")));
        let after_kms = "- resources: [secrets]\n  providers: [{kms: {apiVersion: v2, name: k, endpoint: 'unix:///s'}}, {identity: {}}]\n";
        let value = edited(after_kms);
        assert_eq!(value["resources"][0]["providers"][1]["aesgcm"]["keys"][0]["name"], "new");
        assert!(value["resources"][0]["providers"][2].get("identity").is_some());
    }

    #[test]
    fn a_configuration_without_keys_is_refused() {
        let text = format!("{HEAD}- resources: [secrets]\n  providers: [{{identity: {{}}}}]\n");
        assert!(with_key(&text, "new", &[7; 32]).unwrap_err().to_string().contains("no key to rotate"));
    }
}
