//! Tokens of Capstan's own service accounts, by which programs log in on the direct endpoint: they are issued by
//! `kubectl create token`, signed by keys in the store, and valid while their service account exists.

mod action;
mod bound;
mod claims;
mod documents;
mod host_namespaces;
mod keys;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{Issuer, Realm};
use apiserver_machinery::action::ActionHandler;
use apiserver_machinery::store::ObjectStore;
use jiff::Timestamp;

use claims::Claims;
use keys::SigningKeys;

pub(crate) use action::LONGEST;
pub(crate) use host_namespaces::HostNamespaces;

use crate::sealed_values::{FOLDERS, SealedValues};

/// Namespace of the service accounts of a server with a host cluster. Those of all other namespaces are the host's.
pub(crate) const SYSTEM_NAMESPACE: &str = "capstan-system";

/// First part of the keys of the store. No API group has this name.
const FOLDER: &str = FOLDERS[1];

/// Issuer of the tokens. Clones share its keys.
#[derive(Debug, Clone)]
pub(crate) struct TokenIssuer {
    keys: Arc<SigningKeys>,
    /// URL of the issuer, which is also the default audience.
    url: Arc<str>,
    /// Longest lifetime of a token.
    longest: Duration,
}

impl TokenIssuer {
    pub(crate) fn new(
        store: Arc<dyn storage_contract::Store>,
        encryption: Arc<apiserver_machinery::encryption::Encryption>,
        url: &str,
        longest: Duration,
    ) -> Self {
        let values = SealedValues::new(store, encryption, FOLDER);
        Self { keys: Arc::new(SigningKeys::new(values, longest)), url: url.into(), longest }
    }

    /// Returns the URL that the tokens name as their issuer.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the handler of `serviceaccounts/token`.
    pub(crate) fn action(&self) -> Arc<dyn ActionHandler> {
        Arc::new(action::TokenAction::new(self.clone()))
    }

    /// Returns the issuer for the authenticator, with the verifier of these tokens.
    pub(crate) fn as_issuer(&self, objects: Arc<ObjectStore>) -> Issuer {
        let verifier = Arc::new(source::ServiceAccountTokens::new(self.clone(), objects));
        Issuer { url: self.url().to_owned(), realm: Realm::Own, verifier }
    }

    /// Returns the documents by which other programs verify the tokens.
    pub(crate) fn documents(&self) -> Arc<dyn apiserver_http::IssuerDocuments> {
        Arc::new(documents::Documents::new(self.clone()))
    }

    /// Keeps the signing keys until `shutdown`: creates the first one and later ones in time, and removes old ones.
    pub(crate) async fn follow(self, shutdown: tokio_util::sync::CancellationToken) {
        self.keys.follow(shutdown).await;
    }

    /// Signs claims.
    ///
    /// # Errors
    /// The keys cannot be read from the store.
    async fn sign(&self, claims: &Claims) -> anyhow::Result<String> {
        self.keys.sign(claims, Timestamp::now()).await
    }
}
