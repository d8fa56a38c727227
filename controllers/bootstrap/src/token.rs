//! Bootstrap tokens: a joining node authenticates with one to the workload cluster.
//!
//! A token is a Secret in the workload cluster. It expires soon, and its deadline is moved until the machine has joined.

use std::collections::BTreeMap;
use std::fmt::{Debug, Formatter};
use std::time::Duration;

use apiserver_types::BootstrapToken;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Characters of ids and secrets.
const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Length of an id, by Kubernetes.
const ID: usize = 6;

/// Length of a secret, by Kubernetes.
const SECRET: usize = 16;

/// Namespace of the Secrets. The workload's authenticator reads no other one.
pub const NAMESPACE: &str = "kube-system";

/// Type of the Secrets, by Kubernetes.
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// Group of nodes that authenticate with a token. `kubeadm init` gives it the permissions of a join.
pub const GROUP: &str = "system:bootstrappers:kubeadm:default-node-token";

/// Group without permissions, for a token that no node joins with.
const NO_NODE: &str = "system:bootstrappers:capstan:no-node";

/// Lifetime of a token that no node joins with, in seconds. `kubeadm init` is over by then.
const NO_NODE_LIFETIME: i32 = 900;

/// Key of the Secret with the time at which the token expires.
const EXPIRATION: &str = "expiration";

/// Start of the description of a Secret that was made here. Kind and name of its holder follow.
const MADE_FOR: &str = "token of Capstan for ";

/// Annotation of the Secrets with the Machine or MachinePool whose servers may join.
const MACHINE: &str = "capstan.dev/machine";

/// Bootstrap token. `Debug` does not print the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: String,
}

impl Debug for Token {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Error of a token. No message contains the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// A text is no token.
    #[error(
        "the token does not have the form of Kubernetes: 6 characters, a dot, and 16 characters of a-z and 0-9"
    )]
    Form,
    /// The random source failed.
    #[error("no token was generated, because the random source of the system failed")]
    Random,
}

impl Token {
    /// Generates a token.
    ///
    /// # Errors
    /// The random source of the system failed.
    pub fn generate() -> Result<Self, TokenError> {
        Ok(Self { id: random(ID)?, secret: random(SECRET)? })
    }

    /// Parses a token of the form `id.secret`.
    ///
    /// # Errors
    /// The text has another form.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let (id, secret) = text.split_once('.').ok_or(TokenError::Form)?;
        let fits = |part: &str, length| part.len() == length && part.bytes().all(|it| ALPHABET.contains(&it));
        if !fits(id, ID) || !fits(secret, SECRET) {
            return Err(TokenError::Form);
        }
        Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// Returns the token in the form `id.secret`.
    pub fn text(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// Returns the name of the Secret in the workload cluster.
    pub fn secret_name(&self) -> String {
        format!("bootstrap-token-{}", self.id)
    }

    /// Returns the user that authenticates with the token.
    pub fn user(&self) -> String {
        format!("system:bootstrap:{}", self.id)
    }

    /// Returns the Secret for the workload cluster. `holder` is the kind and the name of the object whose servers may
    /// join, for people, and `group` is that of a joining node.
    pub fn secret(&self, holder: (&str, &str), group: &str, expiration: Timestamp) -> Secret {
        let (kind, name) = holder;
        let data = [
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.clone()),
            (EXPIRATION, time(expiration)),
            ("usage-bootstrap-signing", "true".to_owned()),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("auth-extra-groups", group.to_owned()),
            ("description", format!("{MADE_FOR}{kind} {name}")),
        ];
        let data = data.into_iter().map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())));
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret_name()),
                namespace: Some(NAMESPACE.to_owned()),
                annotations: Some([(MACHINE.to_owned(), name.to_owned())].into()),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            data: Some(data.collect()),
            ..Secret::default()
        }
    }

    /// Returns true if a Secret was made here for an object of a kind and a name. A user may have made one that several
    /// machines join with.
    pub fn is_made_for(secret: &Secret, kind: &str, name: &str) -> bool {
        let description = secret.data.as_ref().and_then(|data| data.get("description"));
        let text = description.map(|it| String::from_utf8_lossy(&it.0)).unwrap_or_default();
        let mut holder = text.strip_prefix(MADE_FOR).unwrap_or_default().split(' ');
        (holder.next(), holder.next()) == (Some(kind), Some(name))
    }

    /// Returns true if a Secret of the workload cluster is of this very token.
    pub fn is_in(&self, secret: &Secret) -> bool {
        let stored = secret.data.as_ref().and_then(|data| data.get("token-secret"));
        stored.is_some_and(|stored| stored.0 == self.secret.as_bytes())
    }
}

/// Generates the token of the first node's configuration. Without one, `kubeadm init` makes a token that can join nodes for
/// a day, and prints it to the console. With this one, no node can join.
///
/// # Errors
/// The random source of the system failed.
pub fn for_init() -> Result<BootstrapToken, TokenError> {
    Ok(BootstrapToken {
        token: Token::generate()?.text(),
        ttl_seconds: Some(NO_NODE_LIFETIME),
        usages: Some(vec!["authentication".to_owned()]),
        groups: Some(vec![NO_NODE.to_owned()]),
        description: Some("of Capstan for kubeadm init; no node joins with it".to_owned()),
        ..BootstrapToken::default()
    })
}

fn random(length: usize) -> Result<String, TokenError> {
    // A byte above the last multiple of 36 is not used: it would make the first characters more probable.
    let usable = 252;
    let mut text = String::with_capacity(length);
    while text.len() < length {
        let mut bytes = [0; SECRET];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| TokenError::Random)?;
        let characters = bytes.iter().filter(|byte| **byte < usable);
        let characters = characters.filter_map(|byte| ALPHABET.get(usize::from(byte % 36)));
        text.extend(characters.take(length - text.len()).map(|character| char::from(*character)));
    }
    Ok(text)
}

/// Returns a time as Kubernetes writes it into the Secret: whole seconds, UTC.
fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns the time at which the token of a Secret expires. `None` if the Secret has no such time.
pub fn expiration(secret: &Secret) -> Option<Timestamp> {
    let stored = secret.data.as_ref()?.get(EXPIRATION)?;
    std::str::from_utf8(&stored.0).ok()?.parse().ok()
}

/// Returns the data of a merge patch that sets the time at which the token expires.
pub fn with_expiration(expiration: Timestamp) -> BTreeMap<String, ByteString> {
    BTreeMap::from([(EXPIRATION.to_owned(), ByteString(time(expiration).into_bytes()))])
}

/// Next action for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// Nothing.
    Nothing,
    /// Another time at which it expires.
    Extend(Timestamp),
    /// A Secret with the same id and secret, because the machine has them in its user data.
    Recreate(Timestamp),
    /// The deletion of its Secret: the machine has joined.
    Delete,
}

/// State of a token's Secret in the workload cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// There is none.
    Missing,
    /// It expires at this time, if it has one.
    Until(Option<Timestamp>),
}

/// Decides what the token of a Machine needs now. `lifetime` is the time that a token has from each extension on.
pub fn care(joined: bool, stored: Stored, lifetime: Duration, now: Timestamp) -> Care {
    let until = now.saturating_add(lifetime).unwrap_or(now);
    let enough = now.saturating_add(lifetime / 6 * 5).unwrap_or(now);
    match (joined, stored) {
        (true, Stored::Missing) => Care::Nothing,
        (true, Stored::Until(_)) => Care::Delete,
        (false, Stored::Missing) => Care::Recreate(until),
        (false, Stored::Until(Some(time))) if time > enough => Care::Nothing,
        (false, Stored::Until(_)) => Care::Extend(until),
    }
}

/// Next action for the token of a MachinePool, whose servers join one after another with the same data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolCare {
    /// Nothing.
    Nothing,
    /// Another time at which it expires.
    Extend(Timestamp),
    /// Another token, and data with it. Servers that exist have joined, or cannot join with the old one.
    Replace,
}

/// Decides what the token of a MachinePool needs now. While servers are missing, one may just join with the token.
pub fn care_for_pool(is_complete: bool, stored: Stored, lifetime: Duration, now: Timestamp) -> PoolCare {
    let half = now.saturating_add(lifetime / 2).unwrap_or(now);
    match (is_complete, stored) {
        (_, Stored::Missing) => PoolCare::Replace,
        (true, Stored::Until(Some(time))) if time > half => PoolCare::Nothing,
        (true, Stored::Until(_)) => PoolCare::Replace,
        (false, Stored::Until(_)) => match care(false, stored, lifetime, now) {
            Care::Extend(until) => PoolCare::Extend(until),
            _ => PoolCare::Nothing,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIFETIME: Duration = Duration::from_mins(15);

    fn at(minute: i64) -> Timestamp {
        "2026-11-26T10:00:00Z".parse::<Timestamp>().unwrap() + Duration::from_secs(minute.unsigned_abs() * 60)
    }

    #[test]
    fn a_token_is_extended_recreated_or_deleted() {
        let until = |minute| Stored::Until(Some(at(minute)));
        let table = [
            (false, Stored::Missing, Care::Recreate(at(15))),
            (false, Stored::Until(None), Care::Extend(at(15))),
            (false, until(13), Care::Nothing),
            (false, until(12), Care::Extend(at(15))),
            (false, until(0), Care::Extend(at(15))),
            (true, until(13), Care::Delete),
            (true, Stored::Missing, Care::Nothing),
        ];
        for (joined, stored, expected) in table {
            assert_eq!(care(joined, stored, LIFETIME, at(0)), expected, "{joined} {stored:?}");
        }
    }

    #[test]
    fn the_token_of_a_pool_is_extended_while_servers_are_missing_and_replaced_afterwards() {
        let until = |minute| Stored::Until(Some(at(minute)));
        let table = [
            (false, until(13), PoolCare::Nothing),
            (false, until(12), PoolCare::Extend(at(15))),
            (false, Stored::Until(None), PoolCare::Extend(at(15))),
            (false, Stored::Missing, PoolCare::Replace),
            (true, until(8), PoolCare::Nothing),
            (true, until(7), PoolCare::Replace),
            (true, Stored::Until(None), PoolCare::Replace),
            (true, Stored::Missing, PoolCare::Replace),
        ];
        for (complete, stored, expected) in table {
            assert_eq!(care_for_pool(complete, stored, LIFETIME, at(0)), expected, "{complete} {stored:?}");
        }
    }

    #[test]
    fn a_secret_has_the_form_of_kubernetes_and_only_its_own_token() {
        let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
        let secret = token.secret(("Machine", "default/m (uid u)"), GROUP, at(15));
        assert_eq!(secret.metadata.name.as_deref(), Some("bootstrap-token-k3v9qz"));
        assert_eq!(secret.type_.as_deref(), Some("bootstrap.kubernetes.io/token"));
        let data = secret.data.as_ref().unwrap();
        assert_eq!(data["expiration"].0, b"2026-11-26T10:15:00Z");
        assert_eq!(data["usage-bootstrap-signing"].0, b"true");
        assert_eq!(data["auth-extra-groups"].0, GROUP.as_bytes());
        assert_eq!(expiration(&secret), Some(at(15)));
        assert!(token.is_in(&secret));
        assert!(Token::is_made_for(&secret, "Machine", "default/m"));
        assert!(!Token::is_made_for(&secret, "MachinePool", "default/m"));
        assert!(!Token::parse("k3v9qz.0000000000000000").unwrap().is_in(&secret));
        assert!(!format!("{token:?}").contains("1x5w8m2c7r4t6y0p"));
    }

    #[test]
    fn generated_tokens_differ_and_have_the_form_of_kubernetes() {
        let (one, other) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_ne!(one, other);
        assert_eq!(Token::parse(&one.text()), Ok(one));
        for text in
            ["", "k3v9qz", "k3v9qz.1x5w8m2c7r4t6y0", "K3v9qz.1x5w8m2c7r4t6y0p", "k3v9q.1x5w8m2c7r4t6y0pp"]
        {
            assert_eq!(Token::parse(text), Err(TokenError::Form), "{text}");
        }
    }

    proptest! {
        /// A token that is looked at every third of its lifetime, with any two looks in a row missed, never expires.
        #[test]
        fn a_token_of_a_machine_that_has_not_joined_does_not_expire(misses in prop::collection::vec(0_i64..2, 1..50)) {
            let mut expires = at(15);
            let mut now = 0;
            for missed in misses {
                now += 5 * (1 + missed);
                prop_assert!(expires > at(now), "expired at {expires} before {}", at(now));
                if let Care::Extend(until) = care(false, Stored::Until(Some(expires)), LIFETIME, at(now)) {
                    expires = until;
                }
            }
        }
    }
}
