//! Authenticator: identifies the user of a request by its credentials.

mod direct;
mod issuers;
mod observer;
mod request_headers;
mod shown_token;
mod sources;
mod token;
mod token_review;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::HeaderMap;

use crate::masters::SystemMasters;
use crate::network::Network;
use crate::peer::{Peer, PeerIdentity};
use crate::user::{self, AUTHENTICATED, MACHINES, Realm, User};
pub use issuers::Issuer;
use issuers::Issuers;
pub use observer::CertificateObserver;
pub(crate) use observer::LastReport;
pub use request_headers::RequestHeaders;
use request_headers::strip;
pub use shown_token::ShownToken;
pub use sources::{HostCertificates, MachineDirectory, ReviewFailed, TokenSource};
use token::KeystoneForms;

/// Only paths of requests without credentials, unless the authentication file says otherwise: those of health checks.
const ANONYMOUS_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Failed authentication: a credential was shown, and it identifies no user. A request without credentials is
/// anonymous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// The credential is not valid.
    #[error("Unauthorized")]
    Refused,
    /// The credential cannot be checked now.
    #[error(transparent)]
    ReviewFailed(#[from] ReviewFailed),
}

/// User of a request, as its credentials prove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// User.
    pub user: Arc<User>,
    /// Set if the host's front proxy has named the user, and the server believes it. Then the host authorizes the
    /// request. The certificate of the connection alone does not set this.
    pub is_proxied: bool,
}

/// Authenticator. It tries, in order: the front proxy's headers, the client certificate, a token, anonymous. On a
/// front proxy's connection it accepts nothing but the headers.
///
/// Each token goes to one source only, by its form and its issuer, so that no token is shown to a system that cannot have issued it.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Headers of front proxies, which are removed from all requests. Those of the peer's own pool say what is believed.
    removed: ArcSwap<RequestHeaders>,
    tokens: Option<Arc<dyn TokenSource>>,
    keystone: Option<Arc<dyn TokenSource>>,
    /// True if Keystone gets the JWTs that name no issuer.
    has_keystone_jws: bool,
    webhook: Option<Issuer>,
    issuers: Issuers,
    certificates: Option<Arc<dyn CertificateObserver>>,
    machines: Option<Arc<dyn MachineDirectory>>,
    host_certificates: Option<Arc<dyn HostCertificates>>,
    /// Networks that front proxies connect from. Empty: any.
    proxy_networks: Vec<Network>,
    masters: SystemMasters,
    /// Only paths of requests without credentials. `None` allows all.
    anonymous_paths: ArcSwapOption<Vec<String>>,
}

impl Authenticator {
    /// Creates an authenticator that removes these headers from all requests. The pools of CAs say which headers of a front
    /// proxy it believes. Without `tokens` it refuses every bearer token.
    pub fn new(removed: RequestHeaders, tokens: Option<Arc<dyn TokenSource>>) -> Self {
        Self { removed: ArcSwap::from_pointee(removed), tokens, ..Self::default() }
    }

    /// Accepts tokens of Keystone: in the header `X-Auth-Token`, or as a bearer token that has the form of one. Without
    /// this, the header is ignored.
    #[must_use]
    pub fn with_keystone(self, keystone: Option<Arc<dyn TokenSource>>) -> Self {
        Self { keystone, ..self }
    }

    /// Shows Keystone the bearer tokens that are JWTs and name no issuer, as its provider `jws` issues them. Default:
    /// false, and Keystone gets Fernet tokens only.
    #[must_use]
    pub fn with_keystone_jws(self, has_keystone_jws: bool) -> Self {
        Self { has_keystone_jws, ..self }
    }

    /// Accepts tokens that a webhook knows. It gets those that name no issuer of this authenticator, and that the host
    /// cluster cannot have issued. Without this, the host cluster gets them, if there is one.
    #[must_use]
    pub fn with_webhook(self, webhook: Option<Issuer>) -> Self {
        Self { webhook, ..self }
    }

    /// Reports the client certificates in use.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn CertificateObserver>) -> Self {
        Self { certificates: Some(observer), ..self }
    }

    /// Accepts the certificates of machines that the directory has. Without a directory, none is accepted.
    #[must_use]
    pub fn with_machines(self, machines: Arc<dyn MachineDirectory>) -> Self {
        Self { machines: Some(machines), ..self }
    }

    /// Accepts client certificates of the host cluster's users. Without this, none is accepted.
    #[must_use]
    pub fn with_host_certificates(self, host_certificates: Option<Arc<dyn HostCertificates>>) -> Self {
        Self { host_certificates, ..self }
    }

    /// Accepts front proxies only from these networks. Default: from any.
    #[must_use]
    pub fn with_proxy_networks(self, proxy_networks: Vec<Network>) -> Self {
        Self { proxy_networks, ..self }
    }

    /// Removes the group `system:masters` from users of the direct endpoint to whom it gives nothing, so that no binding
    /// gives them what the setting takes. A host decides itself about users that its front proxy names. Default: from none.
    #[must_use]
    pub fn with_masters(self, masters: SystemMasters) -> Self {
        Self { masters, ..self }
    }

    /// Accepts the tokens of an issuer. It comes before the issuers of the authentication file.
    #[must_use]
    pub fn with_issuer(mut self, issuer: Issuer) -> Self {
        self.issuers.add(issuer);
        self
    }

    /// Replaces the issuers of the authentication file, from the next request on.
    pub fn set_issuers(&self, issuers: Vec<Issuer>) {
        self.issuers.configure(issuers);
    }

    /// Restricts requests without credentials to these paths, from the next request on. `None` removes the restriction.
    pub fn set_anonymous_paths(&self, paths: Option<Vec<String>>) {
        self.anonymous_paths.store(paths.map(Arc::new));
    }

    /// Restricts requests without credentials to the paths of health checks and the version, from the next request on.
    pub fn set_default_anonymous_paths(&self) {
        self.set_anonymous_paths(Some(ANONYMOUS_PATHS.map(str::to_owned).to_vec()));
    }

    /// Returns true if a request for this path needs no credentials. Other requests get 401.
    pub fn admits_anonymous(&self, path: &str) -> bool {
        self.anonymous_paths.load().as_ref().is_none_or(|paths| paths.iter().any(|allowed| allowed == path))
    }

    /// Replaces the headers that are removed from all requests, from the next request on.
    pub fn remove_headers(&self, headers: RequestHeaders) {
        self.removed.store(Arc::new(headers));
    }

    /// Returns the user of a request of a client at this address. It removes credentials and identity headers from
    /// `headers`, accepted or not, so that no later code can trust them.
    ///
    /// # Errors
    /// [`Unauthenticated`] if a credential was shown that is not valid, or cannot be checked, and no other one is
    /// valid: a token is enough beside a certificate of an unknown CA. Beside a front proxy's certificate it is not: the
    /// front proxy would then act for a user that it has not authenticated.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        address: Option<IpAddr>,
        headers: &mut HeaderMap,
    ) -> Result<Authenticated, Unauthenticated> {
        let proxy = peer.identity().filter(|peer| peer.is_front_proxy);
        let proxied = proxy.and_then(|peer| {
            let rules = peer.headers.as_ref().filter(|rules| rules.allow(peer))?;
            rules.read(headers)
        });
        let credential = token::take(headers, self.keystone_forms());
        self.strip(proxy, headers);
        if proxy.is_some() {
            let user =
                proxied.filter(|_| self.admits_proxy(peer, address)).ok_or(Unauthenticated::Refused)?;
            return Ok(Authenticated { user: finished(user, Realm::Host), is_proxied: true });
        }
        let user = self.direct_user(peer, address, credential).await?;
        Ok(Authenticated { user, is_proxied: false })
    }

    /// Removes every header that could carry an identity, also those of a front proxy whose pool has older names.
    fn strip(&self, proxy: Option<&PeerIdentity>, headers: &mut HeaderMap) {
        let removed = self.removed.load();
        strip(&removed, headers);
        if let Some(rules) =
            proxy.and_then(|peer| peer.headers.as_ref()).filter(|rules| ***rules != **removed)
        {
            strip(rules, headers);
        }
    }

    /// Returns true if a front proxy may connect from this address.
    fn admits_proxy(&self, peer: &Peer, address: Option<IpAddr>) -> bool {
        let is_near = |address| self.proxy_networks.iter().any(|network| network.contains(address));
        if self.proxy_networks.is_empty() || address.is_some_and(is_near) {
            return true;
        }
        if peer.identity().is_some_and(|proxy| proxy.last_report.is_due()) {
            tracing::warn!(
                ?address,
                "a front proxy connects from outside host.proxyNetworks; its requests get 401"
            );
        }
        false
    }

    fn keystone_forms(&self) -> KeystoneForms {
        match &self.keystone {
            None => KeystoneForms::None,
            Some(_) if self.has_keystone_jws => KeystoneForms::FernetAndJws,
            Some(_) => KeystoneForms::Fernet,
        }
    }
}

/// Returns the user of a realm. It removes the groups that no certificate, header or token can claim: those of the
/// server's own identities, and the one of machines. Neither a host nor a webhook can set the attributes of this server.
fn finished(mut user: User, realm: Realm) -> Arc<User> {
    user.groups.retain(|group| !group.starts_with("system:capstan:"));
    if realm == Realm::Machine {
        // Whatever the certificate says: bindings for other groups are not for machines.
        user = User { groups: vec![MACHINES.to_owned(), AUTHENTICATED.to_owned()], ..user };
    } else {
        user.groups.retain(|group| group != MACHINES);
    }
    if matches!(realm, Realm::Host | Realm::Webhook) {
        user.extra.retain(|key, _| !key.starts_with(user::OWN_EXTRA) || key == user::UNVERIFIED);
    }
    Arc::new(user.in_realm(realm))
}

#[cfg(test)]
mod tests;
