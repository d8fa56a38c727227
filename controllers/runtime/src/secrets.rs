//! Secrets that controllers read and create.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};

use crate::CredentialChange;
use crate::credential_changes;

/// Longest name of an object, in bytes.
const LONGEST_NAME: usize = 253;

/// Returns true if an object can have this name. References of users name Secrets, and a name becomes a part of a URL.
/// Another text, such as `../../tenant-b/secrets/a`, could lead to a Secret of another namespace behind a proxy that
/// normalizes paths.
pub fn is_object_name(text: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let has_ends =
            [bytes.first(), bytes.last()].into_iter().all(|end| end.is_some_and(|it| is_alphanumeric(*it)));
        has_ends && bytes.iter().all(|byte| is_alphanumeric(*byte) || *byte == b'-')
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

/// Secrets of our own API, or of a host cluster.
#[async_trait]
pub trait SecretSource: Send + Sync + Debug + 'static {
    /// Reads one Secret; `None` if it does not exist, or if no object can have this name.
    ///
    /// # Errors
    /// The source cannot be read.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error>;

    /// Reads one Secret as [`secret`](Self::secret) does, with the age of the copy if a copy stands for it: the time since
    /// its source has returned it. A source without copies reports zero.
    ///
    /// # Errors
    /// The source cannot be read.
    async fn aged_secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(Secret, Duration)>, kube::Error> {
        Ok(self.secret(namespace, name).await?.map(|secret| (secret, Duration::ZERO)))
    }

    /// Reads one Namespace, whose labels decide on the use of shared credentials; `None` if it does not exist.
    ///
    /// # Errors
    /// The source cannot be read.
    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error>;

    /// Returns true if a host cluster has lost a Namespace during an outage, and may get it back, for example from a newer
    /// backup. Without a host cluster, none is.
    fn is_uncertain(&self, _namespace: &str) -> bool {
        false
    }

    /// Returns the changes of Secrets and of the labels of Namespaces from now on. A source without a permission to
    /// list Secrets reports none; their readers then notice a change at their next pass.
    fn changes(&self) -> BoxStream<'static, CredentialChange> {
        futures::stream::pending().boxed()
    }

    /// Creates a Secret. Its metadata has namespace and name.
    ///
    /// # Errors
    /// A conflict (409), if it exists; the failure of the API otherwise.
    async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error>;

    /// Replaces a Secret that was read before. Its revision guards the write.
    ///
    /// # Errors
    /// A conflict (409), if another client has written since; the failure of the API otherwise.
    async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error>;
}

/// Secrets of our own API.
#[derive(Clone)]
pub struct ApiSecrets(pub Client);

impl Debug for ApiSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ApiSecrets")
    }
}

impl ApiSecrets {
    fn of(&self, secret: &Secret) -> Api<Secret> {
        Api::namespaced(self.0.clone(), &secret.namespace().unwrap_or_default())
    }
}

#[async_trait]
impl SecretSource for ApiSecrets {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        if !is_object_name(name) {
            return Ok(None);
        }
        Api::namespaced(self.0.clone(), namespace).get_opt(name).await
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error> {
        Api::all(self.0.clone()).get_opt(name).await
    }

    fn changes(&self) -> BoxStream<'static, CredentialChange> {
        credential_changes::of(&self.0)
    }

    async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        self.of(secret).create(&PostParams::default(), secret).await
    }

    async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        self.of(secret).replace(&secret.name_any(), &PostParams::default(), secret).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_to_another_object() {
        for name in ["openrc", "a.b-c.0", "0"] {
            assert!(is_object_name(name), "{name}");
        }
        let long = "a".repeat(LONGEST_NAME + 1);
        for name in [
            "",
            ".",
            "..",
            "../../tenant-b/secrets/openrc",
            "..%2F..%2Ftenant-b%2Fsecrets%2Fopenrc",
            "tenant-b/openrc",
            "openrc?x=y",
            "openrc#",
            "Openrc",
            "-a",
            "a-",
            "a..b",
            &long,
        ] {
            assert!(!is_object_name(name), "{name}");
        }
    }
}
