//! Copies of the keys of OpenID Connect issuers. They lie beside those of the host, with the same seal: who writes such a
//! copy could pose as each user of the issuer.

use apiserver_oidc::{KeyCopies, KeyCopy};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{HostCopies, ISSUERS};

/// Returns the name of an issuer's copy. A URL has slashes, which part the keys of the store.
fn name(issuer: &str) -> String {
    URL_SAFE_NO_PAD.encode(issuer)
}

#[async_trait]
impl KeyCopies for HostCopies {
    async fn read(&self, issuer: &str) -> Option<KeyCopy> {
        let found = self.values.read(ISSUERS, &name(issuer)).await;
        found.unwrap_or_else(|error| {
            tracing::warn!(issuer, "the kept keys of the issuer cannot be read: {error:#}");
            None
        })
    }

    async fn write(&self, issuer: &str, copy: &KeyCopy) -> bool {
        let written = self.values.write(ISSUERS, &name(issuer), copy).await;
        if let Err(error) = &written {
            tracing::warn!(issuer, "the keys of the issuer cannot be kept in the store: {error:#}");
        }
        written.is_ok()
    }
}
