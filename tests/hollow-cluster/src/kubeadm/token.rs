//! Bootstrap tokens: Secrets in kube-system.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::api::store::Store;
use crate::json::{text, time};

/// Lifetime of a token for which kubeadm's configuration gives none.
const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// Type of the Secrets.
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// One token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) expiration: Option<Timestamp>,
    /// True if it signs `cluster-info`, so that kubeadm can trust that object.
    pub(crate) signs: bool,
    /// True if it is a credential.
    pub(crate) authenticates: bool,
    pub(crate) groups: Vec<String>,
}

impl Token {
    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expiration.is_some_and(|expiration| expiration <= now)
    }
}

/// Returns a text of the Secret's data.
fn datum(secret: &Value, key: &str) -> Option<String> {
    let bytes = STANDARD.decode(secret.get("data")?.get(key)?.as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

/// Reads a token from its Secret. Returns `None` for a Secret that the API server would not accept as a token.
fn read(secret: &Value) -> Option<Token> {
    let name = text(secret, "/metadata/name");
    let id = datum(secret, "token-id")?;
    if text(secret, "/type") != TYPE || name != format!("bootstrap-token-{id}") {
        return None;
    }
    let expiration = match datum(secret, "expiration") {
        Some(written) => Some(written.parse().ok()?),
        None => None,
    };
    let is_true = |key: &str| datum(secret, key).as_deref() == Some("true");
    let groups = datum(secret, "auth-extra-groups").unwrap_or_default();
    Some(Token {
        secret: datum(secret, "token-secret")?,
        expiration,
        signs: is_true("usage-bootstrap-signing"),
        authenticates: is_true("usage-bootstrap-authentication"),
        groups: groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect(),
    })
}

/// Returns the token with this id.
pub(crate) fn find(store: &Store, id: &str) -> Option<Token> {
    read(&*store.get("secrets", "kube-system", &format!("bootstrap-token-{id}"))?)
}

/// Removes expired tokens, as the token cleaner of kube-controller-manager does. Returns the time at which the next one
/// expires.
pub(crate) fn sweep(store: &Store, now: Timestamp) -> Option<Timestamp> {
    let (secrets, _) = store.list("secrets", Some("kube-system"));
    let mut next = None;
    for secret in secrets.iter().filter(|secret| text(secret, "/type") == TYPE) {
        let Some(token) = read(secret) else { continue };
        if token.has_expired(now) {
            store.remove("secrets", "kube-system", text(secret, "/metadata/name"));
        } else {
            next = next.into_iter().chain(token.expiration).min();
        }
    }
    next
}

/// Creates the Secret of a token in an InitConfiguration.
pub(crate) fn create(store: &Store, configured: &Value) -> Result<(), String> {
    let written = text(configured, "/token");
    let (id, secret) = written
        .split_once('.')
        .filter(|(id, secret)| id.len() == 6 && secret.len() == 16)
        .ok_or("the bootstrap token was not of the form \"\\A([a-z0-9]{6})\\.([a-z0-9]{16})\\z\"")?;
    let lifetime = match configured.get("ttl").and_then(Value::as_str) {
        Some(ttl) => super::duration::parse(ttl)?,
        None => LIFETIME,
    };
    let expires = configured.get("expires").and_then(Value::as_str).map(str::to_owned);
    let expiration =
        expires.unwrap_or_else(|| time(Timestamp::now().checked_add(lifetime).unwrap_or(Timestamp::MAX)));
    let groups = match configured.get("groups").and_then(Value::as_array) {
        Some(groups) => groups.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","),
        None => crate::api::access::JOINING.to_owned(),
    };
    let usages: Vec<&str> = match configured.get("usages").and_then(Value::as_array) {
        Some(usages) => usages.iter().filter_map(Value::as_str).collect(),
        None => vec!["signing", "authentication"],
    };
    let mut data = json!({
        "token-id": id, "token-secret": secret, "expiration": expiration, "auth-extra-groups": groups,
        "description": text(configured, "/description"),
    });
    for usage in usages {
        crate::json::set(&mut data, &[&format!("usage-bootstrap-{usage}")], "true");
    }
    let secret = json!({
        "metadata": {"name": format!("bootstrap-token-{id}")}, "type": TYPE, "stringData": data,
    });
    store.seed("secrets", "kube-system", secret);
    Ok(())
}

/// Returns a new random token.
pub(crate) fn random() -> String {
    let text = uuid::Uuid::new_v4().simple().to_string();
    format!("{}.{}", text.get(..6).unwrap_or_default(), text.get(6..22).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_removes_expired_tokens_and_returns_when_the_next_one_expires() {
        let store = Store::default();
        let at = |hour: u8| format!("2026-01-01T{hour:02}:00:00Z").parse::<Timestamp>().unwrap();
        for (id, hour) in [("aaaaaa", 3), ("bbbbbb", 1), ("cccccc", 2)] {
            let expires = time(at(hour));
            create(&store, &json!({"token": format!("{id}.0123456789abcdef"), "expires": expires})).unwrap();
        }
        assert_eq!(sweep(&store, at(0)), Some(at(1)));
        assert_eq!(sweep(&store, at(1)), Some(at(2)));
        assert!(find(&store, "bbbbbb").is_none() && find(&store, "cccccc").is_some());
        assert_eq!(sweep(&store, at(3)), None, "none is left");
    }
}
