//! Tests of the authenticator: client certificates, front-proxy headers and bearer tokens.

mod client_certificates;
mod front_proxies;
mod tokens;

use std::sync::Arc;

use async_trait::async_trait;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;

use super::{Authenticated, Authenticator, RequestHeaders, ReviewFailed, TokenSource, Unauthenticated};
use crate::CertificatePools;
use crate::peer::Peer;
use crate::testing::block;
use crate::user::{REALM, Realm, User};

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn leaf(issuer: &CertifiedIssuer<'static, KeyPair>, name: &str, group: &str) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, group);
    let key = KeyPair::generate().unwrap();
    params.signed_by(&key, issuer).unwrap().der().clone()
}

struct World {
    pools: CertificatePools,
    client: CertifiedIssuer<'static, KeyPair>,
    proxy: CertifiedIssuer<'static, KeyPair>,
}

fn world() -> World {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (client, proxy) = (authority("client-ca"), authority("proxy-ca"));
    let pools = CertificatePools::new(&[client.der().clone()], &[proxy.der().clone()]).unwrap();
    World { pools, client, proxy }
}

fn forged() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-remote-user", "root".parse().unwrap());
    headers.append("x-remote-group", "system:masters".parse().unwrap());
    headers.append("x-remote-group", "others".parse().unwrap());
    headers.insert("x-remote-extra-scopes.example%2fx", "a".parse().unwrap());
    headers.insert("x-remote-extra-capstan.dev%2frealm", "own".parse().unwrap());
    headers.insert("x-remote-extra-capstan.dev%2fbreak-glass", "forged".parse().unwrap());
    headers
}

/// Returns a CA certificate with another name and the same key.
fn renamed(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::try_from(authority.key().serialize_der()).unwrap();
    CertifiedIssuer::self_signed(params, key).unwrap()
}

/// Returns the usual headers, with one allowed name.
fn front_only() -> RequestHeaders {
    RequestHeaders { allowed_names: vec!["front".to_owned()], ..RequestHeaders::default() }
}

/// Knows the token `good`, refuses `bad`, and cannot be asked about others.
#[derive(Debug)]
struct Tokens;

#[async_trait]
impl TokenSource for Tokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        let groups = ["dev", "system:capstan:controllers", "system:machines"].map(str::to_owned);
        match token {
            "good" => Ok(Some(User::authenticated("carol", groups))),
            "bad" => Ok(None),
            _ => Err(ReviewFailed("ask again".to_owned())),
        }
    }
}

/// Returns the user of a request with a good token beside this certificate.
fn with_token(peer: &Peer, mut headers: HeaderMap) -> Result<Authenticated, Unauthenticated> {
    headers.insert(AUTHORIZATION, "Bearer good".parse().unwrap());
    block(Authenticator::new(RequestHeaders::default(), Some(Arc::new(Tokens))).authenticate(
        peer,
        None,
        &mut headers,
    ))
}

#[test]
fn each_realm_has_a_name_and_an_identity_has_that_of_its_realm() {
    for realm in [Realm::Own, Realm::Host, Realm::Keystone, Realm::Issuer("https://a".into()), Realm::Webhook]
    {
        assert_eq!(Realm::of_name(&realm.name()), Some(realm.clone()));
        assert_eq!(User::authenticated("a", []).in_realm(realm.clone()).extra[REALM], [realm.name()]);
    }
    assert_eq!(Realm::of_name("other"), None);
    let anonymous =
        block(Authenticator::default().authenticate(&Peer::Unidentified, None, &mut HeaderMap::new()));
    assert!(anonymous.unwrap().user.extra.is_empty());
}

#[test]
fn ia_03_health_and_the_version_need_no_credentials_by_default() {
    let authenticator = Authenticator::default();
    authenticator.set_default_anonymous_paths();
    for (path, expected) in [
        ("/livez", true),
        ("/readyz", true),
        ("/healthz", true),
        ("/version", true),
        ("/version/", false),
        ("/livez/ping", false),
        ("/apis", false),
        ("/", false),
        ("", false),
    ] {
        assert_eq!(authenticator.admits_anonymous(path), expected, "{path}");
    }
    authenticator.set_anonymous_paths(None);
    assert!(authenticator.admits_anonymous("/apis"));
}
