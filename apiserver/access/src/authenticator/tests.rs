//! Tests of the authenticator: client certificates, front-proxy headers and bearer tokens.

use http::header::AUTHORIZATION;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, UnixTime};

use super::*;
use crate::peer::Peer;
use crate::testing::block;
use crate::user::{BREAK_GLASS, CREDENTIAL_ID, REALM};
use crate::{CertificatePools, PeerCertificate, ReloadablePools, Revocations};

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

/// Observer that counts the certificates for emergencies and all others.
#[derive(Debug, Default)]
struct Counted(std::sync::Mutex<Vec<Option<String>>>);

impl CertificateObserver for Counted {
    fn used(&self, certificate: &PeerIdentity) {
        self.0.lock().unwrap().push(certificate.break_glass_reason().map(str::to_owned));
    }
}

#[test]
fn the_use_of_a_certificate_is_reported_once_a_minute_and_emergencies_have_a_reason() {
    let world = world();
    let observer = Arc::new(Counted::default());
    let authenticator = Authenticator::default().with_observer(observer.clone());
    for (group, expected) in [("system:masters", Some("INC-7")), ("dev", None)] {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "eve");
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CustomDnType(vec![2, 5, 4, 13]), "INC-7");
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), &world.client).unwrap();
        let peer = world.pools.classify(&[certificate.der().clone()], UnixTime::now());
        let mut extra = None;
        for _ in 0..3 {
            let found = block(authenticator.authenticate(&peer, None, &mut HeaderMap::new())).unwrap();
            extra = found.user.extra.get(BREAK_GLASS).and_then(|values| values.first().cloned());
        }
        assert_eq!(extra.as_deref(), expected, "{group}");
        // A minute may begin between the requests.
        let reported = std::mem::take(&mut *observer.0.lock().unwrap());
        assert!((1..3).contains(&reported.len()), "{group}: {reported:?}");
        assert_eq!(reported[0].as_deref(), expected, "{group}");
    }
}

#[test]
fn a_client_certificate_cannot_claim_the_group_of_the_controllers() {
    let world = world();
    let certificate = leaf(&world.client, "system:capstan:garbage-collector", "system:capstan:controllers");
    let peer = world.pools.classify(&[certificate], UnixTime::now());
    let found = block(Authenticator::default().authenticate(&peer, None, &mut HeaderMap::new())).unwrap();
    assert_eq!(found.user.groups, ["system:authenticated"]);
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

#[test]
fn iz_03_the_group_of_administrators_is_removed_where_it_gives_nothing() {
    let world = world();
    let host = authority("host-ca");
    let [own, proxies, of_host] = [&world.client, &world.proxy, &host].map(|ca| [ca.der().clone()]);
    let pools = CertificatePools::with_host(&own, &proxies, &of_host).unwrap();
    for (masters, in_own, in_host) in [
        (SystemMasters::All, true, true),
        (SystemMasters::OwnOnly, true, false),
        (SystemMasters::Off, false, false),
    ] {
        let trust: Arc<dyn HostCertificates> = Arc::new(Trust { is_valid: true, masters: true });
        let authenticator =
            Authenticator::default().with_host_certificates(Some(trust)).with_masters(masters);
        let is_master = |issuer, name: &str| {
            let peer = pools.classify(&[leaf(issuer, name, "system:masters")], UnixTime::now());
            let found = block(authenticator.authenticate(&peer, None, &mut forged())).unwrap();
            found.user.is_in("system:masters")
        };
        assert_eq!(is_master(&world.client, "root"), in_own, "{masters:?}");
        assert_eq!(is_master(&host, "root"), in_host, "{masters:?}");
        assert!(is_master(&world.proxy, "front"), "the host decides about it: {masters:?}");
    }
}

#[test]
fn certificates_of_an_unknown_ca_and_invalid_tokens_are_refused() {
    let world = world();
    let stranger = authority("stranger-ca");
    let peer = world.pools.classify(&[leaf(&stranger, "eve", "system:masters")], UnixTime::now());
    assert_eq!(peer, Peer::Untrusted);
    let refused = block(Authenticator::default().authenticate(&peer, None, &mut forged()));
    assert_eq!(refused, Err(Unauthenticated::Refused));
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, "Bearer nope".parse().unwrap());
    let refused = block(Authenticator::default().authenticate(&Peer::Unidentified, None, &mut headers));
    assert_eq!(refused, Err(Unauthenticated::Refused));
    assert!(headers.is_empty());
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

#[test]
fn a_token_reviewer_names_the_user_but_never_a_controller() {
    let authenticator = Authenticator::new(RequestHeaders::default(), Some(Arc::new(Tokens)));
    let with = |token: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        let found = block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers));
        assert!(headers.is_empty(), "{headers:?}");
        found.map(|found| found.user)
    };
    let user = with("good").unwrap();
    assert_eq!(user.realm, Realm::Host);
    assert_eq!(
        (user.name.as_str(), user.groups.clone()),
        ("carol", vec!["dev".to_owned(), "system:authenticated".to_owned()])
    );
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, "Bearer good".parse().unwrap());
    let beside = block(authenticator.authenticate(&Peer::Untrusted, None, &mut headers));
    assert_eq!(beside.unwrap().user.name, "carol", "a token beside a stranger's certificate");
    assert_eq!(with("bad"), Err(Unauthenticated::Refused));
    assert_eq!(with("other").unwrap_err().to_string(), "ask again");
}

/// Returns the usual headers, with one allowed name.
fn front_only() -> RequestHeaders {
    RequestHeaders { allowed_names: vec!["front".to_owned()], ..RequestHeaders::default() }
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

/// Returns a CA certificate with another name and the same key.
fn renamed(authority: &CertifiedIssuer<'static, KeyPair>, name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::try_from(authority.key().serialize_der()).unwrap();
    CertifiedIssuer::self_signed(params, key).unwrap()
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

#[derive(Debug)]
struct Trust {
    is_valid: bool,
    masters: bool,
}

impl HostCertificates for Trust {
    fn are_valid(&self) -> bool {
        self.is_valid
    }

    fn trust_masters(&self) -> bool {
        self.masters
    }
}

/// Returns realm and groups of the user of a certificate.
fn of_host(peer: &Peer, trust: Option<Trust>) -> Result<(Realm, Vec<String>), Unauthenticated> {
    let mut authenticator = Authenticator::default();
    if let Some(trust) = trust {
        authenticator = authenticator.with_host_certificates(Some(Arc::new(trust)));
    }
    let found = block(authenticator.authenticate(peer, None, &mut HeaderMap::new()))?;
    assert!(!found.is_proxied && found.user.extra[REALM] == ["host"]);
    Ok((found.user.realm.clone(), found.user.groups.clone()))
}

#[test]
fn a_certificate_of_the_host_names_one_of_its_users_while_it_is_trusted() {
    let (world, users) = (world(), authority("capstan-machine-ca-1"));
    let [own, proxies, host] = [&world.client, &world.proxy, &users].map(|ca| [ca.der().clone()]);
    let pools = CertificatePools::with_host(&own, &proxies, &host).unwrap();
    let peer = || pools.classify(&[leaf(&users, "alice", "system:masters")], UnixTime::now());
    let trust = |is_valid, masters| Some(Trust { is_valid, masters });
    let groups = |all: &[&str]| all.iter().map(|group| (*group).to_owned()).collect();
    let plain = (Realm::Host, groups(&["system:authenticated"]));
    assert_eq!(of_host(&peer(), trust(true, false)), Ok(plain), "a CA with the name of one of machines");
    let masters = (Realm::Host, groups(&["system:masters", "system:authenticated"]));
    assert_eq!(of_host(&peer(), trust(true, true)), Ok(masters));
    assert_eq!(of_host(&peer(), trust(false, true)), Err(Unauthenticated::Refused));
    assert_eq!(of_host(&peer(), None), Err(Unauthenticated::Refused));
    let own = pools.classify(&[leaf(&world.client, "bob", "dev")], UnixTime::now());
    let own = block(Authenticator::default().authenticate(&own, None, &mut HeaderMap::new())).unwrap();
    assert_eq!(own.user.realm, Realm::Own);
}

#[test]
fn a_ca_of_the_host_with_the_key_of_its_front_proxy_signs_no_users() {
    let world = world();
    let [own, proxies] = [&world.client, &world.proxy].map(|ca| [ca.der().clone()]);
    let same_key = renamed(&world.proxy, "host-ca");
    let pools = CertificatePools::with_host(&own, &proxies, &[same_key.der().clone()]).unwrap();
    assert_eq!(pools.shared_names(), ["CN=host-ca"]);
    let peer = pools.classify(&[leaf(&same_key, "alice", "dev")], UnixTime::now());
    let trust = Some(Trust { is_valid: true, masters: false });
    assert_eq!(of_host(&peer, trust), Err(Unauthenticated::Refused));
    let front = pools.classify(&[leaf(&world.proxy, "front", "x")], UnixTime::now());
    let refused = block(Authenticator::default().authenticate(&front, None, &mut forged()));
    assert_eq!(refused, Err(Unauthenticated::Refused), "each user of the host could pose as its front proxy");
}

#[test]
fn a_certificate_without_a_readable_name_is_refused_and_not_anonymous() {
    let world = world();
    for name in [None, Some("")] {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        if let Some(name) = name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), &world.client).unwrap();
        let peer = world.pools.classify(&[certificate.der().clone()], UnixTime::now());
        let refused = block(Authenticator::default().authenticate(&peer, None, &mut HeaderMap::new()));
        assert_eq!(refused, Err(Unauthenticated::Refused), "{name:?}");
        assert_eq!(with_token(&peer, HeaderMap::new()).unwrap().user.name, "carol");
    }
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

/// Verifier that names the user of each token by the token's last part.
#[derive(Debug)]
struct Verifier(&'static str);

#[async_trait]
impl TokenSource for Verifier {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        let name = token.rsplit('.').next().unwrap_or_default();
        let groups = ["dev", "system:masters", "system:unauthenticated"].map(str::to_owned);
        Ok(Some(User::authenticated(format!("{}{name}", self.0), groups)))
    }
}

/// Returns the user of a token that names this issuer.
fn of_issuer(
    authenticator: &Authenticator,
    issuer: &str,
    signature: &str,
) -> Result<Arc<User>, Unauthenticated> {
    use base64::Engine;
    let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(format!(r#"{{"iss":"{issuer}"}}"#));
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, format!("Bearer e30.{payload}.{signature}").parse().unwrap());
    block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers)).map(|found| found.user)
}

#[test]
fn a_jwt_goes_to_the_verifier_of_its_issuer_alone() {
    let issuer = |url: &str, prefix, realm| Issuer {
        url: url.to_owned(),
        realm,
        verifier: Arc::new(Verifier(prefix)),
    };
    let foreign = || Realm::Issuer("https://b".into());
    let authenticator = Authenticator::new(RequestHeaders::default(), Some(Arc::new(Tokens)));
    let authenticator = authenticator.with_issuer(issuer("https://a", "system:serviceaccount:", Realm::Own));
    authenticator.set_issuers(vec![
        issuer("https://b", "b:", foreign()),
        issuer("https://a", "forged:", Realm::Issuer("https://a".into())),
        issuer("https://c", "system:", Realm::Issuer("https://c".into())),
    ]);
    let of = |url: &str| of_issuer(&authenticator, url, "x");
    let own = of("https://a").unwrap();
    assert_eq!((own.name.as_str(), own.realm.clone()), ("system:serviceaccount:x", Realm::Own));
    let user = of("https://b").unwrap();
    assert_eq!((user.name.as_str(), user.realm.clone()), ("b:x", foreign()));
    assert_eq!(user.groups, ["dev", "system:authenticated"], "reserved groups");
    assert_eq!(of("https://c"), Err(Unauthenticated::Refused), "a reserved name");
    assert_eq!(of("https://b/").unwrap_err().to_string(), "ask again", "another issuer: the host decides");
    authenticator.set_issuers(Vec::new());
    assert_eq!(of("https://b").unwrap_err().to_string(), "ask again");
}

#[test]
fn the_hosts_service_accounts_of_our_own_namespace_are_refused() {
    /// Host that knows a service account of each namespace.
    #[derive(Debug)]
    struct Accounts;

    #[async_trait]
    impl TokenSource for Accounts {
        async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
            Ok(Some(User::authenticated(format!("system:serviceaccount:{token}:robot"), [])))
        }
    }
    let host = || Authenticator::new(RequestHeaders::default(), Some(Arc::new(Accounts)));
    let verifier = Arc::new(Verifier(""));
    let own = Issuer { url: "https://a".to_owned(), realm: Realm::Own, verifier };
    for (authenticator, namespace, is_known) in [
        (host(), "capstan-system", true),
        (host().with_issuer(own.clone()), "capstan-system", false),
        (host().with_issuer(own), "team", true),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, format!("Bearer {namespace}").parse().unwrap());
        let found = block(authenticator.authenticate(&Peer::Unidentified, None, &mut headers));
        assert_eq!(found.is_ok(), is_known, "{namespace}");
    }
}

/// Host that issues the tokens of `https://host`, and refuses all. It notes what it was shown.
#[derive(Debug, Default)]
struct IssuingHost(std::sync::Mutex<Vec<String>>);

#[async_trait]
impl TokenSource for IssuingHost {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        self.0.lock().unwrap().push(token.to_owned());
        Ok(None)
    }

    async fn may_have_issued(&self, token: &str) -> bool {
        use base64::Engine;
        let payload = token.split('.').nth(1).unwrap_or_default();
        let payload = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(payload).unwrap_or_default();
        String::from_utf8_lossy(&payload).contains("https://host")
    }
}

/// Webhook that knows each token, and gives attributes of this server.
#[derive(Debug)]
struct Webhook(&'static str);

#[async_trait]
impl TokenSource for Webhook {
    async fn review(&self, _: &str) -> Result<Option<User>, ReviewFailed> {
        let mut user = User::authenticated(self.0, ["dev".to_owned(), "system:masters".to_owned()]);
        user.extra.insert(BREAK_GLASS.to_owned(), vec!["forged".to_owned()]);
        Ok(Some(user))
    }
}

#[test]
fn a_webhook_sees_only_tokens_that_no_other_source_can_have_issued() {
    let host = Arc::new(IssuingHost::default());
    let of = |realm, name| Issuer { url: "webhook".to_owned(), realm, verifier: Arc::new(Webhook(name)) };
    let with = |webhook: Issuer| {
        let host: Arc<dyn TokenSource> = Arc::<IssuingHost>::clone(&host);
        let authenticator = Authenticator::new(RequestHeaders::default(), Some(host));
        let known =
            Issuer { url: "https://a".to_owned(), realm: Realm::Own, verifier: Arc::new(Verifier("a:")) };
        authenticator.with_issuer(known).with_webhook(Some(webhook))
    };
    let authenticator = with(of(Realm::Webhook, "carol"));
    let user = of_issuer(&authenticator, "https://other", "x").unwrap();
    assert_eq!((user.name.as_str(), user.realm.clone()), ("carol", Realm::Webhook));
    assert_eq!(user.groups, ["dev", "system:authenticated"], "reserved groups");
    assert_eq!(user.extra[REALM], ["webhook"]);
    assert!(!user.extra.contains_key(BREAK_GLASS), "{:?}", user.extra);
    assert_eq!(of_issuer(&authenticator, "https://a", "x").unwrap().name, "a:x");
    assert!(host.0.lock().unwrap().is_empty(), "the host sees no token of others");
    assert_eq!(of_issuer(&authenticator, "https://host", "x"), Err(Unauthenticated::Refused));
    assert_eq!(host.0.lock().unwrap().len(), 1, "the host's own token goes to the host alone");
    let reserved = with(of(Realm::Webhook, "system:admin"));
    assert_eq!(of_issuer(&reserved, "https://other", "x"), Err(Unauthenticated::Refused));
    let shared = of_issuer(&with(of(Realm::Host, "alice")), "https://other", "x").unwrap();
    assert_eq!((shared.realm.clone(), shared.is_in("system:masters")), (Realm::Host, false));
}
