//! Authentication and authorization.

use std::sync::Arc;

use http::{Method, StatusCode};
use jiff::Timestamp;
use rustls::DigitallySignedStruct;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use serde_json::Value;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::failure::Failure;
use super::request::Request;
use crate::json::{list, text};
use crate::kubeadm::token;
use crate::pki::{Authority, provider};

use super::store::Store;

/// Group of the tokens that kubeadm lets join.
pub(crate) const JOINING: &str = "system:bootstrappers:kubeadm:default-node-token";

/// Paths that everybody may read, as the role `system:public-info-viewer` allows.
const PUBLIC: [&str; 4] = ["/livez", "/readyz", "/healthz", "/version"];

/// Path of the only object that everybody may read.
const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// Verifier that lets each client certificate pass the handshake. kube-apiserver, too, judges the certificate
/// later, and rejects an unknown one with 401.
#[derive(Debug)]
pub(crate) struct LaterVerifier {
    inner: Arc<dyn ClientCertVerifier>,
}

impl LaterVerifier {
    pub(crate) fn new(authority: &Authority) -> Result<Self, String> {
        let roots = Arc::new(authority.roots());
        let inner = WebPkiClientVerifier::builder_with_provider(roots, provider())
            .allow_unauthenticated()
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { inner })
    }

    /// Returns the user of a certificate, if the cluster's authority has signed it for clients.
    pub(crate) fn user(&self, chain: &[CertificateDer<'_>]) -> Option<User> {
        let (first, intermediates) = chain.split_first()?;
        self.inner.verify_client_cert(first, intermediates, UnixTime::now()).ok()?;
        let (_, parsed) = X509Certificate::from_der(first).ok()?;
        let subject = parsed.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
        Some(User { name, groups: groups.map(str::to_owned).collect() })
    }
}

impl ClientCertVerifier for LaterVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[rustls::DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Returns the user of a bearer token `id.secret`.
pub(crate) fn user_of_token(store: &Store, bearer: &str) -> Option<User> {
    let (id, secret) = bearer.split_once('.')?;
    let found = token::find(store, id)?;
    let valid = found.secret == secret && found.authenticates && !found.has_expired(Timestamp::now());
    let groups = std::iter::once("system:bootstrappers".to_owned()).chain(found.groups);
    valid.then(|| User { name: format!("system:bootstrap:{id}"), groups: groups.collect() })
}

/// Returns true if a request needs no credentials.
pub(crate) fn is_public(request: &Request) -> bool {
    let path = request.path.as_str();
    let health = PUBLIC
        .iter()
        .any(|public| path.strip_prefix(public).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
    request.method == Method::GET && (health || path == CLUSTER_INFO)
}

/// Returns an error unless the user may send the request.
pub(crate) fn authorize(store: &Store, user: &User, request: &Request) -> Result<(), Failure> {
    let is_member = |group: &str| user.groups.iter().any(|held| held == group);
    if is_member("system:masters") || is_public(request) {
        return Ok(());
    }
    let administers = |binding: &Value| {
        let subjects = list(binding, "/subjects");
        text(binding, "/roleRef/name") == "cluster-admin"
            && subjects.iter().any(|subject| match text(subject, "/kind") {
                "Group" => is_member(text(subject, "/name")),
                "User" => text(subject, "/name") == user.name,
                _ => false,
            })
    };
    let (bindings, _) = store.list("clusterrolebindings", None);
    if bindings.iter().any(|binding| administers(binding)) {
        return Ok(());
    }
    let discovery = ["/", "/api", "/apis"].contains(&request.path.as_str())
        || (request.target().is_err() && request.path.starts_with("/api"));
    if discovery && request.method == Method::GET {
        return Ok(());
    }
    if is_member(JOINING) && may_join(request) {
        return Ok(());
    }
    let message = format!("User {:?} cannot {} path {:?}", user.name, request.method, request.path);
    Err(Failure::new(StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {message}")))
}

/// Returns true for the requests of kubeadm while it joins a node.
fn may_join(request: &Request) -> bool {
    let path = request.path.as_str();
    let config = "/api/v1/namespaces/kube-system/configmaps/";
    match request.method {
        Method::GET => {
            path.starts_with("/api/v1/nodes/")
                || path.starts_with("/apis/certificates.k8s.io/v1/certificatesigningrequests/")
                || path
                    .strip_prefix(config)
                    .is_some_and(|name| ["kubeadm-config", "kubelet-config", "kube-proxy"].contains(&name))
        }
        Method::POST => path == "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        _ => false,
    }
}
