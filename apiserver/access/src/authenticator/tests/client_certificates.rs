//! Tests of client certificates: those of our own CAs, of the host cluster and of unknown CAs.

use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::pki_types::UnixTime;

use super::{authority, forged, leaf, renamed, with_token, world};
use crate::CertificatePools;
use crate::authenticator::{Authenticator, CertificateObserver, HostCertificates, Unauthenticated};
use crate::masters::SystemMasters;
use crate::peer::{Peer, PeerIdentity};
use crate::testing::block;
use crate::user::{BREAK_GLASS, REALM, Realm};

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
