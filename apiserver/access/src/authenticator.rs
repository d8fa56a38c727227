//! Authenticator: identifies the user of a request by its credentials.

mod issuers;
mod observer;
mod token;

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use async_trait::async_trait;
use http::{HeaderMap, HeaderValue};

use crate::masters::SystemMasters;
use crate::network::Network;
use crate::peer::{Peer, PeerIdentity};
use crate::user::{self, AUTHENTICATED, MACHINES, MASTERS, Realm, User};
pub use issuers::Issuer;
use issuers::Issuers;
pub use observer::CertificateObserver;
pub(crate) use observer::LastReport;
use token::{Credential, KeystoneForms};

/// Only paths of requests without credentials, unless the authentication file says otherwise: those of health checks.
const ANONYMOUS_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// Begin of the names of the service accounts that a server with a host has itself.
const OWN_ACCOUNTS: &str = "system:serviceaccount:capstan-system:";

/// Headers with credentials, of Kubernetes, of OpenStack and of proxies. No code after the authenticator needs them.
const IDENTITY_HEADERS: [&str; 6] = [
    "authorization",
    "proxy-authorization",
    "x-auth-token",
    "x-forwarded-client-cert",
    "x-service-token",
    "x-subject-token",
];

/// Prefixes of headers in which proxies name a user.
const IDENTITY_PREFIXES: [&str; 3] = ["ssl-client-", "x-client-cert", "x-remote-"];

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

/// A token that could not be reviewed; the text says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewFailed(pub String);

/// Headers in which the front proxy names the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeaders {
    /// Common names the proxy's certificate may have; empty allows any, if the CA is in the request-header pool alone.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name, in order of preference.
    pub username: Vec<String>,
    /// Headers with the user's id.
    pub uid: Vec<String>,
    /// Headers with the user's groups.
    pub group: Vec<String>,
    /// Prefixes of headers with extra attributes of the user.
    pub extra_prefix: Vec<String>,
}

impl Default for RequestHeaders {
    fn default() -> Self {
        let one = |name: &str| vec![name.to_owned()];
        Self {
            allowed_names: Vec::new(),
            username: one("X-Remote-User"),
            uid: one("X-Remote-Uid"),
            group: one("X-Remote-Group"),
            extra_prefix: one("X-Remote-Extra-"),
        }
    }
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

    /// Returns the user of a request that no front proxy has sent.
    async fn direct_user(
        &self,
        peer: &Peer,
        address: Option<IpAddr>,
        credential: Credential,
    ) -> Result<Arc<User>, Unauthenticated> {
        if let Some(client) = peer.identity() {
            if client.is_of_host {
                return self.user_of_host(client);
            }
            if let Some(observer) = self.certificates.as_ref().filter(|_| client.last_report.is_due()) {
                observer.used(client);
            }
            let realm = if client.is_machine() { Realm::Machine } else { Realm::Own };
            let user = client.user.get_or_init(|| self.direct(user_of_certificate(client), realm));
            self.check_machine(user).await?;
            return Ok(Arc::clone(user));
        }
        match credential {
            Credential::None if peer.is_refused() => Err(Unauthenticated::Refused),
            Credential::None => Ok(Arc::new(User::anonymous())),
            shown => self.user_of_token(shown, address).await,
        }
    }

    /// Returns the user of a client certificate of the host cluster.
    fn user_of_host(&self, client: &PeerIdentity) -> Result<Arc<User>, Unauthenticated> {
        let trust = self.host_certificates.as_ref().filter(|trust| trust.are_valid());
        let trust = trust.ok_or(Unauthenticated::Refused)?;
        let user = client.user.get_or_init(|| {
            let mut user = user_of_certificate(client);
            user.groups.retain(|group| group != MASTERS || trust.trust_masters());
            self.direct(user, Realm::Host)
        });
        if self.has_account(&user.name) { Err(Unauthenticated::Refused) } else { Ok(Arc::clone(user)) }
    }

    /// Checks that the Machine of a machine's user exists.
    async fn check_machine(&self, user: &User) -> Result<(), Unauthenticated> {
        if user.realm != Realm::Machine {
            return Ok(());
        }
        let (Some((namespace, name)), Some(uid), Some(machines)) =
            (user.machine(), &user.uid, &self.machines)
        else {
            return Err(Unauthenticated::Refused);
        };
        match machines.has(namespace, name, uid).await? {
            true => Ok(()),
            false => Err(Unauthenticated::Refused),
        }
    }

    fn keystone_forms(&self) -> KeystoneForms {
        match &self.keystone {
            None => KeystoneForms::None,
            Some(_) if self.has_keystone_jws => KeystoneForms::FernetAndJws,
            Some(_) => KeystoneForms::Fernet,
        }
    }

    /// Returns the user of a token that another program, at this address, has received; `None` if the token is not valid.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be checked now.
    pub async fn review(
        &self,
        token: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<User>>, ReviewFailed> {
        let credential = token::classify(token.to_owned(), self.keystone_forms());
        match self.user_of_token(credential, address).await {
            Ok(user) => Ok(Some(user)),
            Err(Unauthenticated::Refused) => Ok(None),
            Err(Unauthenticated::ReviewFailed(why)) => Err(why),
        }
    }

    /// Returns the user of a token that another program has received and that is for other programs, with those of their
    /// `audiences` that it is for. Only issuers know audiences.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be checked now.
    pub async fn review_for(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<(Arc<User>, Vec<String>)>, ReviewFailed> {
        let Some(issuer) = self.issuers.of(token) else { return Ok(None) };
        let found = issuer.verifier.review_for(token, audiences).await?;
        // Another issuer's names would need the checks of a login.
        let found = found.filter(|_| issuer.realm == Realm::Own);
        Ok(found.map(|(user, audiences)| (finished(user, issuer.realm), audiences)))
    }

    async fn user_of_token(
        &self,
        credential: Credential,
        address: Option<IpAddr>,
    ) -> Result<Arc<User>, Unauthenticated> {
        let (token, source, realm) = match credential {
            Credential::Token(token) => match self.issuer_of(&token).await {
                Some(issuer) => return of_issuer(&issuer, &token, address).await,
                None => (token, self.tokens.clone(), Realm::Host),
            },
            Credential::Keystone(token) => (token, self.keystone.clone(), Realm::Keystone),
            Credential::Malformed | Credential::None => return Err(Unauthenticated::Refused),
        };
        let source = source.ok_or(Unauthenticated::Refused)?;
        let user = source.review_from(&token, address).await?.ok_or(Unauthenticated::Refused)?;
        if realm == Realm::Host && self.has_account(&user.name) {
            return Err(Unauthenticated::Refused);
        }
        Ok(self.direct(user, realm))
    }

    /// Returns the user of a credential of the direct endpoint.
    fn direct(&self, mut user: User, realm: Realm) -> Arc<User> {
        if !self.masters.admit(&realm) {
            user.groups.retain(|group| group != MASTERS);
            user.extra.remove(user::BREAK_GLASS);
        }
        finished(user, realm)
    }

    /// Returns the issuer of a token, or the webhook. `None` leaves the token to the host cluster.
    async fn issuer_of(&self, token: &str) -> Option<Issuer> {
        if let Some(issuer) = self.issuers.of(token) {
            return Some(issuer);
        }
        let webhook = self.webhook.as_ref()?;
        let is_of_host = match &self.tokens {
            Some(host) => host.may_have_issued(token).await,
            None => false,
        };
        (!is_of_host).then(|| webhook.clone())
    }

    /// Returns true for a service account of the namespace in which the server has its own. The host's account of the
    /// same name is another identity, which would get the permissions of ours.
    fn has_account(&self, name: &str) -> bool {
        self.issuers.has_own() && name.starts_with(OWN_ACCOUNTS)
    }
}

/// Returns the user of a token of an issuer. Only this server itself may give names that Kubernetes reserves.
async fn of_issuer(
    issuer: &Issuer,
    token: &str,
    address: Option<IpAddr>,
) -> Result<Arc<User>, Unauthenticated> {
    let mut user = issuer.verifier.review_from(token, address).await?.ok_or(Unauthenticated::Refused)?;
    if issuer.realm != Realm::Own {
        let name = user.name.clone();
        user = user.without_reserved_names().ok_or_else(|| {
            tracing::warn!(
                issuer = issuer.url,
                user = name,
                "a token is refused: names that begin with \"system:\" belong to Kubernetes. Set a prefix: in \
                 claimMappings.username of the issuer, or in authentication.webhook.prefix"
            );
            Unauthenticated::Refused
        })?;
    }
    Ok(finished(user, issuer.realm.clone()))
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

fn user_of_certificate(peer: &PeerIdentity) -> User {
    let mut user = User::authenticated(&peer.common_name, peer.organizations.clone());
    user.uid = peer.uid.as_deref().filter(|_| peer.is_machine()).map(str::to_owned);
    let credential = format!("X509SHA256={}", peer.fingerprint);
    user.extra.insert(user::CREDENTIAL_ID.to_owned(), vec![credential]);
    if let Some(reason) = peer.break_glass_reason() {
        user.extra.insert(user::BREAK_GLASS.to_owned(), vec![reason.to_owned()]);
    }
    user
}

/// Removes every header that could carry an identity. Programs between a client and this server may write `_` for `-`.
fn strip(rules: &RequestHeaders, headers: &mut HeaderMap) {
    let names = || [&rules.username, &rules.uid, &rules.group].into_iter().flatten().map(String::as_str);
    let prefixes = || IDENTITY_PREFIXES.into_iter().chain(rules.extra_prefix.iter().map(String::as_str));
    let removed: Vec<_> = headers
        .keys()
        .filter(|key| {
            let key = key.as_str().as_bytes();
            prefixes().any(|prefix| key.get(..prefix.len()).is_some_and(|start| is_same(start, prefix)))
                || IDENTITY_HEADERS.into_iter().chain(names()).any(|name| is_same(key, name))
        })
        .cloned()
        .collect();
    for key in removed {
        headers.remove(key);
    }
}

/// Compares header names, without case, and with `_` as `-`.
fn is_same(found: &[u8], name: &str) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    found.len() == name.len() && found.iter().map(plain).eq(name.as_bytes().iter().map(plain))
}

impl RequestHeaders {
    /// Returns true if a front proxy may have the name of this certificate. An empty list allows every name, but not to
    /// the certificates of a CA that signs clients, too.
    fn allow(&self, peer: &PeerIdentity) -> bool {
        if self.allowed_names.is_empty() {
            return !peer.has_shared_ca;
        }
        self.allowed_names.contains(&peer.common_name)
    }

    /// Returns the user, or `None` if the headers name none or are not UTF-8: a user without an unreadable group would
    /// be another one.
    fn read(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[String]| {
            let mut values = names.iter().filter_map(|name| headers.get(name.as_str()));
            values.find(|value| !value.is_empty()).map(text)
        };
        let groups = self.group.iter().flat_map(|name| headers.get_all(name.as_str()));
        let groups: Vec<String> = groups.map(text).collect::<Option<_>>()?;
        let mut user = User::authenticated(first(&self.username)??, groups);
        user.uid = match first(&self.uid) {
            Some(uid) => Some(uid?),
            None => None,
        };
        for prefix in &self.extra_prefix {
            let prefix = prefix.to_ascii_lowercase();
            for (name, value) in headers {
                if let Some(key) = name.as_str().strip_prefix(&prefix) {
                    user.extra.entry(percent_decode(key)).or_default().push(text(value)?);
                }
            }
        }
        Some(user)
    }
}

/// Decodes a header value: names are not ASCII alone.
fn text(value: &HeaderValue) -> Option<String> {
    std::str::from_utf8(value.as_bytes()).ok().map(str::to_owned)
}

/// Decodes a header's name: names cannot carry every character, and the proxy escapes the others.
fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests;
