//! Configuration of the connection to etcd.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
use storage_contract::Key;

use crate::{LARGEST_VALUE, Seen};

/// Default of [`EtcdConfiguration::observation`]: many renewals of the Lease of the controllers, and one of each lock.
const OBSERVATION: Duration = Duration::from_secs(60);

/// Value that a server writes when it finds that the data of etcd were replaced by older or other ones of a store.
///
/// It is part of the transaction that begins the next incarnation. So it is there before anything else in that incarnation.
#[derive(Clone)]
pub struct ReplacementNote {
    /// Key of the value, with the prefix of the store.
    pub key: Key,
    /// Function that returns the value at the time of the write.
    pub value: Arc<dyn Fn() -> Bytes + Send + Sync>,
}

impl fmt::Debug for ReplacementNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplacementNote").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Configuration of the connection to etcd.
#[derive(Clone)]
pub struct EtcdConfiguration {
    /// Client URLs of its members, e.g. `https://192.0.2.1:2379`. Name all of them: a call that finds one dead goes
    /// to the next.
    pub endpoints: Vec<String>,
    /// CA of its serving certificates, PEM. Default: none, for plain http.
    pub ca: Option<String>,
    /// The server's client certificate and key, PEM. Default: none.
    pub identity: Option<(String, String)>,
    /// The server's user in etcd and its password, if etcd authenticates by passwords. Default: none.
    pub user: Option<(String, String)>,
    /// Longest time of a call. Default: 10 s, as long as a leader election plus a slow disk.
    pub deadline: Duration,
    /// Longest time to establish a connection. Default: 2 s.
    pub connect_timeout: Duration,
    /// Largest value in bytes. Default: [`LARGEST_VALUE`]. Set it with etcd's own
    /// `--max-request-bytes`, which also counts the key and some hundred bytes more.
    pub largest_value: usize,
    /// Prefix of all keys of the store. A user with the permission `readwrite` for it can do everything but compact.
    /// Default: `/capstan/`.
    pub prefix: String,
    /// Newest state of the store in an earlier run of this server. Default: none.
    pub seen: Option<Seen>,
    /// Time for which a store with data and without a record is observed: another program that writes then is a server of
    /// an older release, and the store is refused. Default: 60 s.
    pub observation: Duration,
    /// Uses a store again whose objects were migrated to another one. Default: false.
    pub accept_migrated: bool,
    /// Value that is written when the data were replaced. Default: none.
    pub note: Option<ReplacementNote>,
}

impl Default for EtcdConfiguration {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            ca: None,
            identity: None,
            user: None,
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            largest_value: LARGEST_VALUE,
            prefix: "/capstan/".to_owned(),
            seen: None,
            observation: OBSERVATION,
            accept_migrated: false,
            note: None,
        }
    }
}

/// Prints the configuration without the key and the password.
impl fmt::Debug for EtcdConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoints,
            ca,
            identity,
            user,
            deadline,
            connect_timeout,
            largest_value,
            prefix,
            seen,
            ..
        } = self;
        f.debug_struct("EtcdConfiguration")
            .field("endpoints", endpoints)
            .field("ca", ca)
            .field("certificate", &identity.as_ref().map(|(certificate, _)| certificate))
            .field("user", &user.as_ref().map(|(name, _)| name))
            .field("deadline", deadline)
            .field("connect_timeout", connect_timeout)
            .field("largest_value", largest_value)
            .field("prefix", prefix)
            .field("seen", seen)
            .finish_non_exhaustive()
    }
}

impl EtcdConfiguration {
    pub(crate) fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(self.connect_timeout)
            // A dead peer is detected within 13 s even without requests.
            .with_keep_alive(Duration::from_secs(10), Duration::from_secs(3))
            .with_keep_alive_while_idle(true)
            .with_require_leader(true);
        if let Some((name, password)) = &self.user {
            // etcd forgets a login after five minutes without a call, and all of them when it restarts.
            options = options.with_user(name, password).with_auto_token_refresh(true);
        }
        match self.tls() {
            Some(tls) => options.with_tls(tls),
            None => options,
        }
    }

    /// Returns the TLS of connections; `None` for plain http.
    pub(crate) fn tls(&self) -> Option<TlsOptions> {
        if self.ca.is_none() && self.identity.is_none() {
            return None;
        }
        let mut tls = TlsOptions::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca));
        }
        if let Some((certificate, key)) = &self.identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        Some(tls)
    }

    /// Returns true if another configuration has other certificates, or another user.
    pub fn has_other_credentials(&self, other: &Self) -> bool {
        (&self.ca, &self.identity, &self.user) != (&other.ca, &other.identity, &other.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_contains_neither_the_private_key_nor_the_password() {
        let identity = Some(("the certificate".to_owned(), "the secret".to_owned()));
        let user = Some(("the user".to_owned(), "the secret".to_owned()));
        let printed = format!("{:?}", EtcdConfiguration { identity, user, ..EtcdConfiguration::default() });
        assert!(printed.contains("the certificate") && printed.contains("the user"), "{printed}");
        assert!(!printed.contains("the secret"), "{printed}");
    }
}
