//! Tests of the headers of front proxies.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::UnixTime;

use super::{authority, forged, front_only, leaf, renamed, with_token, world};
use crate::authenticator::{Authenticator, RequestHeaders, Unauthenticated};
use crate::peer::Peer;
use crate::testing::block;
use crate::user::{CREDENTIAL_ID, REALM, Realm};
use crate::{CertificatePools, PeerCertificate, ReloadablePools, Revocations};

#[test]
fn the_identity_headers_of_the_front_proxy_are_trusted() {
    let world = world();
    let peer = world.pools.classify(&[leaf(&world.proxy, "front", "x")], UnixTime::now());
    let mut headers = forged();
    let found = block(Authenticator::default().authenticate(&peer, None, &mut headers)).unwrap();
    assert!(found.is_proxied && found.user.realm == Realm::Host);
    let user = found.user;
    assert_eq!(user.name, "root");
    assert_eq!(user.groups, ["system:masters", "others", "system:authenticated"]);
    assert_eq!(user.extra.get("scopes.example/x"), Some(&vec!["a".to_owned()]));
    assert_eq!(user.extra[REALM], ["host"], "the host cannot set the realm");
    assert!(!user.extra.contains_key("capstan.dev/break-glass"), "{:?}", user.extra);
    assert!(headers.is_empty(), "{headers:?}");
}

#[test]
fn identity_headers_are_utf8_and_anonymous_stays_anonymous() {
    let world = world();
    let peer = world.pools.classify(&[leaf(&world.proxy, "front", "x")], UnixTime::now());
    let read = |user: &[u8], group: &[u8]| {
        let mut headers = HeaderMap::new();
        headers.insert("x-remote-user", HeaderValue::from_bytes(user).unwrap());
        headers.insert("x-remote-group", HeaderValue::from_bytes(group).unwrap());
        block(Authenticator::default().authenticate(&peer, None, &mut headers)).map(|found| found.user)
    };
    let known = read("jürgen".as_bytes(), "größe".as_bytes()).unwrap();
    assert_eq!((known.name.as_str(), known.groups[0].as_str()), ("jürgen", "größe"));
    let anonymous = read(b"system:anonymous", b"system:unauthenticated").unwrap();
    assert_eq!(
        (anonymous.is_anonymous(), anonymous.groups.as_slice()),
        (true, ["system:unauthenticated".to_owned()].as_slice())
    );
    assert!(read(b"j\xfcrgen", b"dev").is_err());
    assert!(read(b"bob", b"gr\xf6\xdfe").is_err());
}

#[test]
fn identity_headers_of_other_clients_are_ignored() {
    let world = world();
    let peer = world.pools.classify(&[leaf(&world.client, "bob", "dev")], UnixTime::now());
    let mut headers = forged();
    let found = block(Authenticator::default().authenticate(&peer, None, &mut headers)).unwrap();
    assert!(!found.is_proxied && found.user.realm == Realm::Own);
    let user = found.user;
    assert_eq!(user.name, "bob");
    assert_eq!(user.groups, ["dev", "system:authenticated"]);
    assert_eq!(user.extra[REALM], ["own"]);
    assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="), "{:?}", user.extra);
    assert!(headers.is_empty(), "{headers:?}");
}

#[test]
fn a_proxy_certificate_with_another_name_is_refused() {
    let world = world();
    let pools = world.pools.with_request_headers(front_only());
    let peer = pools.classify(&[leaf(&world.proxy, "other", "x")], UnixTime::now());
    let refused = block(Authenticator::default().authenticate(&peer, None, &mut forged()));
    assert_eq!(refused, Err(Unauthenticated::Refused));
}

#[test]
fn tm_03_a_front_proxy_is_believed_from_its_networks_alone() {
    let world = world();
    let front = world.pools.classify(&[leaf(&world.proxy, "front", "x")], UnixTime::now());
    let client = world.pools.classify(&[leaf(&world.client, "bob", "dev")], UnixTime::now());
    let networks = vec!["192.0.2.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
    let limited = Authenticator::default().with_proxy_networks(networks);
    for (address, is_near) in [
        (Some("192.0.2.7"), true),
        (Some("2001:db8::7"), true),
        (Some("198.51.100.7"), false),
        (Some("127.0.0.1"), false),
        (None, false),
    ] {
        let address: Option<IpAddr> = address.map(|text| text.parse().unwrap());
        let found = block(limited.authenticate(&front, address, &mut forged()));
        assert_eq!(
            found.map(|found| found.is_proxied),
            is_near.then_some(true).ok_or(Unauthenticated::Refused)
        );
        let any = block(Authenticator::default().authenticate(&front, address, &mut forged()));
        assert!(any.is_ok_and(|found| found.is_proxied), "{address:?}");
        let direct = block(limited.authenticate(&client, address, &mut HeaderMap::new()));
        assert_eq!(direct.unwrap().user.name, "bob", "{address:?}");
    }
}

#[test]
fn no_other_credential_is_accepted_on_a_connection_of_a_front_proxy() {
    let world = world();
    let pools = world.pools.with_request_headers(front_only());
    let other = pools.classify(&[leaf(&world.proxy, "other", "x")], UnixTime::now());
    let front = pools.classify(&[leaf(&world.proxy, "front", "x")], UnixTime::now());
    for (case, peer, headers) in [
        ("a name that is not allowed", &other, forged()),
        ("a name that is not allowed, and no headers", &other, HeaderMap::new()),
        ("an allowed name without headers", &front, HeaderMap::new()),
    ] {
        assert_eq!(with_token(peer, headers), Err(Unauthenticated::Refused), "{case}");
    }
    let believed = with_token(&front, forged()).unwrap();
    assert_eq!((believed.user.name.as_str(), believed.is_proxied), ("root", true));
    let direct = with_token(&Peer::Unidentified, forged()).unwrap();
    assert_eq!((direct.user.name.as_str(), direct.is_proxied), ("carol", false));
}

#[test]
fn ia_20_the_headers_are_those_of_the_pool_that_has_verified_the_front_proxy() {
    let world = world();
    let of_user =
        |header: &str| RequestHeaders { username: vec![header.to_owned()], ..RequestHeaders::default() };
    let old = world.pools.clone().with_request_headers(of_user("X-Old"));
    let pools = Arc::new(ReloadablePools::new(old, Arc::new(UnixTime::now)));
    pools.revoke(Revocations::default());
    let front = PeerCertificate::new(&[leaf(&world.proxy, "front", "x")], Arc::clone(&pools));
    let authenticator = Authenticator::new(of_user("X-Old"), None);
    let user = || {
        let mut headers = HeaderMap::new();
        headers.insert("x-old", HeaderValue::from_static("old"));
        headers.insert("x-new", HeaderValue::from_static("new"));
        let found = block(authenticator.authenticate(&front.peer(), None, &mut headers)).unwrap();
        (found.user.name.clone(), headers.len())
    };
    assert_eq!(user(), ("old".to_owned(), 1));
    authenticator.remove_headers(of_user("X-New"));
    assert_eq!(user(), ("old".to_owned(), 0), "the CA of the new headers is not in force yet");
    pools.replace(world.pools.clone().with_request_headers(of_user("X-New")));
    assert_eq!(user(), ("new".to_owned(), 1), "nothing reads the old one");
}

#[test]
fn a_certificate_of_both_pools_is_a_front_proxy_and_no_client() {
    let world = world();
    let between = {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "between");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &world.proxy).unwrap()
    };
    let pools = CertificatePools::new(&[between.der().clone()], &[world.proxy.der().clone()]).unwrap();
    let chain = [leaf(&between, "front", "system:masters"), between.der().clone()];
    let peer = pools.classify(&chain, UnixTime::now());
    let refused = block(Authenticator::default().authenticate(&peer, None, &mut HeaderMap::new()));
    assert_eq!(refused, Err(Unauthenticated::Refused));
}

#[test]
fn a_ca_key_in_both_pools_signs_front_proxies_and_no_clients() {
    let world = world();
    let same_key = renamed(&world.client, "proxy-ca");
    for (case, front_proxies) in [("the same CA", &world.client), ("the same key", &same_key)] {
        let own = authority("own-ca");
        let client_cas = [own.der().clone(), world.client.der().clone()];
        let pools = CertificatePools::new(&client_cas, &[front_proxies.der().clone()]).unwrap();
        assert_eq!(pools.shared_names(), ["CN=client-ca"], "{case}");
        let find = |issuer, name: &str, rules: RequestHeaders, mut headers: HeaderMap| {
            let pools = pools.clone().with_request_headers(rules);
            let peer = pools.classify(&[leaf(issuer, name, "system:masters")], UnixTime::now());
            block(Authenticator::default().authenticate(&peer, None, &mut headers))
                .map(|found| found.user.name.clone())
        };
        let (any, front) = (RequestHeaders::default, front_only);
        let refused = Err(Unauthenticated::Refused);
        assert_eq!(find(&world.client, "bob", front(), HeaderMap::new()), refused, "{case}: as a client");
        assert_eq!(find(&world.client, "bob", front(), forged()), refused, "{case}: with headers");
        assert_eq!(find(front_proxies, "front", any(), forged()), refused, "{case}: any name is allowed");
        assert_eq!(find(front_proxies, "front", front(), forged()).as_deref(), Ok("root"), "{case}");
        assert_eq!(find(&own, "bob", any(), forged()).as_deref(), Ok("bob"), "{case}: another client CA");
    }
    assert!(world.pools.shared_names().is_empty());
}

#[test]
fn identity_headers_are_removed_in_every_spelling() {
    let rules = RequestHeaders {
        username: vec!["X_Real-User".to_owned()],
        extra_prefix: vec!["X-Attribute-".to_owned()],
        ..RequestHeaders::default()
    };
    let removed = [
        "x_remote_user",
        "X-Remote_Group",
        "x-remote-anything",
        "x-real-user",
        "X_REAL_USER",
        "x_attribute_a",
        "authorization",
        "proxy-authorization",
        "x-auth-token",
        "x_subject_token",
        "x-service-token",
        "x-forwarded-client-cert",
        "x-client-cert",
        "x-client-cert-dn",
        "ssl_client_s_dn",
    ];
    let kept =
        ["cookie", "x-remote", "x-client", "accept", "x-attribute", "x-real-users", "impersonate-user"];
    let mut headers = HeaderMap::new();
    for name in removed.iter().chain(&kept) {
        headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static("x"));
    }
    block(Authenticator::new(rules, None).authenticate(&Peer::Unidentified, None, &mut headers)).unwrap();
    let mut left: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    left.sort_unstable();
    let mut kept = kept;
    kept.sort_unstable();
    assert_eq!(left, kept);
}
