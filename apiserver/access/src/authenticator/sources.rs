//! Systems that the authenticator queries: sources of the users of tokens, the Machines, and the trust in the host's
//! certificates.

use std::net::IpAddr;

use async_trait::async_trait;

use crate::user::User;

/// A token that could not be reviewed; the text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewFailed(pub String);

/// Source of the users of tokens: the host cluster, Keystone, or the verifier of an issuer.
#[async_trait]
pub trait TokenSource: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the user of a token, or `None` if the token is not valid.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be reviewed now.
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed>;

    /// Returns the user of a token that a client at this address has shown. A source that limits its reviews can limit
    /// those of one address. Default: the address does not matter.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be reviewed now.
    async fn review_from(&self, token: &str, _address: Option<IpAddr>) -> Result<Option<User>, ReviewFailed> {
        self.review(token).await
    }

    /// Returns the user of a token that is for other programs, with those of their `audiences` that it is for. `None` if
    /// the token is not valid, or if this source knows no audiences.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be reviewed now.
    async fn review_for(
        &self,
        _token: &str,
        _audiences: &[String],
    ) -> Result<Option<(User, Vec<String>)>, ReviewFailed> {
        Ok(None)
    }

    /// Returns true if this source may have issued a token. No other source gets to see such a token.
    async fn may_have_issued(&self, _token: &str) -> bool {
        true
    }
}

/// Directory of the Machines, which says whether the one of a certificate exists.
#[async_trait]
pub trait MachineDirectory: Send + Sync + std::fmt::Debug + 'static {
    /// Returns true if this Machine exists with this uid. One that was deleted and made anew has another uid.
    ///
    /// # Errors
    /// [`ReviewFailed`] if storage does not answer.
    async fn has(&self, namespace: &str, name: &str, uid: &str) -> Result<bool, ReviewFailed>;
}

/// Trust in the client certificates of a host cluster.
pub trait HostCertificates: Send + Sync + std::fmt::Debug + 'static {
    /// Returns true if the copy of the host's CAs for clients counts now.
    fn are_valid(&self) -> bool;

    /// Returns true if such a certificate can give the group `system:masters`.
    fn trust_masters(&self) -> bool;
}
