//! Client certificate of a connection, verified again when time or new CAs can change the result.
//!
//! A connection lives for days. A certificate that was valid in the handshake can expire, or its CA can be
//! removed, or it can be revoked. So each request compares the time, the pools and the revocations with those of the last
//! verification. Only if they differ, the chain is verified again.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::peer::{CertificatePools, Peer, PeerIdentity};
use crate::revocation::Revocations;

/// Source of the current time.
pub type Clock = Arc<dyn Fn() -> UnixTime + Send + Sync>;

/// Pools of client CAs that can be replaced while connections are open.
pub struct ReloadablePools {
    current: ArcSwap<CertificatePools>,
    /// `None` until the revocations have been read.
    revocations: ArcSwapOption<Revocations>,
    clock: Clock,
}

impl std::fmt::Debug for ReloadablePools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReloadablePools").field("current", &self.current).finish_non_exhaustive()
    }
}

impl ReloadablePools {
    /// Creates pools that verify certificates at the time of `clock`. Until [`ReloadablePools::revoke`] is called for the
    /// first time, each identity says that its certificate may be revoked.
    pub fn new(pools: CertificatePools, clock: Clock) -> Self {
        Self { current: ArcSwap::from_pointee(pools), revocations: ArcSwapOption::empty(), clock }
    }

    /// Returns the newest pools.
    pub fn current(&self) -> Arc<CertificatePools> {
        self.current.load_full()
    }

    /// Replaces the revocations, from the next request of every connection on.
    pub fn revoke(&self, revocations: Revocations) {
        self.revocations.store(Some(Arc::new(revocations)));
    }

    /// Returns true once the revocations have been read.
    pub fn has_revocations(&self) -> bool {
        self.revocations.load().is_some()
    }

    /// Verifies a chain now.
    fn verify(&self, chain: &[CertificateDer<'_>], ends: &[u64]) -> Verification {
        let (pools, revocations, now) =
            (self.current.load_full(), self.revocations.load_full(), (self.clock)());
        let peer = match pools.classify(chain, now) {
            Peer::Known(identity) => match &revocations {
                Some(revocations) if revocations.revokes(&identity.certificate()) => Peer::Untrusted,
                Some(_) => Peer::Known(identity),
                None => Peer::Known(Box::new(PeerIdentity { may_be_revoked: true, ..*identity })),
            },
            other => other,
        };
        // A certificate that has expired is no part of the verified chain, so its end changes nothing.
        let least = ends.iter().copied().filter(|end| *end >= now.as_secs()).min();
        let good_until = if peer.identity().is_some() { least.unwrap_or_default() } else { u64::MAX };
        Verification { peer: Arc::new(peer), pools, revocations, good_until }
    }

    /// Reports whether a verification would have the same result now.
    fn is_current(&self, last: &Verification) -> bool {
        Arc::ptr_eq(&last.pools, &self.current.load())
            && last.revocations.as_ref().map(Arc::as_ptr) == self.revocations.load().as_ref().map(Arc::as_ptr)
            && (self.clock)().as_secs() <= last.good_until
    }

    /// Replaces the pools, from the next request of every connection on.
    pub fn replace(&self, pools: CertificatePools) {
        self.current.store(Arc::new(pools));
    }
}

/// Client certificate of a connection, with its chain.
#[derive(Debug)]
pub struct PeerCertificate {
    chain: Vec<CertificateDer<'static>>,
    /// Ends of the validity of all certificates of the chain. Unit: seconds since 1970.
    ends: Vec<u64>,
    pools: Arc<ReloadablePools>,
    last: ArcSwap<Verification>,
}

/// Result of a verification, and what it depends on.
#[derive(Debug)]
struct Verification {
    peer: Arc<Peer>,
    pools: Arc<CertificatePools>,
    revocations: Option<Arc<Revocations>>,
    /// Last second in which the same pools give the same result. Unit: seconds since 1970.
    good_until: u64,
}

impl PeerCertificate {
    /// Verifies the chain of a new connection. It is empty for a client without a certificate.
    pub fn new(chain: &[CertificateDer<'_>], pools: Arc<ReloadablePools>) -> Self {
        let chain: Vec<_> = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        let ends: Vec<u64> = chain.iter().filter_map(end).collect();
        let last = ArcSwap::from_pointee(pools.verify(&chain, &ends));
        Self { chain, ends, pools, last }
    }

    /// Returns the SHA-256 of the certificate in base64url without padding, as a token that is bound to it names it, trusted or
    /// not. `None` for a certificate that the TLS library cannot parse: its client has not proved that it has the key.
    pub fn thumbprint(&self) -> Option<String> {
        let leaf = self.chain.first()?;
        ParsedCertificate::try_from(leaf).ok()?;
        Some(URL_SAFE_NO_PAD.encode(digest(&SHA256, leaf)))
    }

    /// Returns the peer that the certificate proves now.
    pub fn peer(&self) -> Arc<Peer> {
        let last = self.last.load();
        if self.pools.is_current(&last) {
            return Arc::clone(&last.peer);
        }
        let was_valid = matches!(*last.peer, Peer::Known(_) | Peer::Lapsed);
        let mut again = self.pools.verify(&self.chain, &self.ends);
        if was_valid && *again.peer == Peer::Untrusted {
            again.peer = Arc::new(Peer::Lapsed);
        }
        let peer = Arc::clone(&again.peer);
        self.last.store(Arc::new(again));
        peer
    }
}

/// Returns the end of a certificate's validity; `None` if the certificate is unreadable, so that no pool verifies it.
fn end(certificate: &CertificateDer<'_>) -> Option<u64> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
        KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
    };
    use rustls::pki_types::CertificateRevocationListDer;

    use super::*;
    use crate::revocation::Revocation;

    /// Last seconds of the validity of certificates that end in these years.
    const END_OF_2034: u64 = 2_051_222_400;
    const END_OF_2035: u64 = 2_082_758_400;

    type Issuer = CertifiedIssuer<'static, KeyPair>;

    fn params(name: &str, end_year: i32) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_after = date_time_ymd(end_year, 1, 1);
        params
    }

    fn ca_params(name: &str, end_year: i32) -> CertificateParams {
        let mut params = params(name, end_year);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    fn authority(name: &str) -> Issuer {
        CertifiedIssuer::self_signed(ca_params(name, 2100), KeyPair::generate().unwrap()).unwrap()
    }

    fn leaf(issuer: &Issuer, end_year: i32) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        params("alice", end_year).signed_by(&key, issuer).unwrap().der().clone()
    }

    /// Pools whose clock a test sets.
    fn pools(authority: &Issuer) -> (Arc<ReloadablePools>, Arc<AtomicU64>) {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let seconds = Arc::new(AtomicU64::new(END_OF_2034 - 100));
        let clock = {
            let seconds = Arc::clone(&seconds);
            move || UnixTime::since_unix_epoch(Duration::from_secs(seconds.load(Ordering::Relaxed)))
        };
        let trusted = CertificatePools::new(&[authority.der().clone()], &[]).unwrap();
        (Arc::new(ReloadablePools::new(trusted, Arc::new(clock))), seconds)
    }

    #[test]
    fn a_certificate_lapses_at_its_end() {
        let authority = authority("clients");
        let (pools, seconds) = pools(&authority);
        let certificate = PeerCertificate::new(&[leaf(&authority, 2035)], pools);
        seconds.store(END_OF_2034, Ordering::Relaxed);
        let first = certificate.peer();
        assert!(first.identity().is_some());
        assert!(Arc::ptr_eq(&first, &certificate.peer()), "nothing changed, and nothing is verified again");
        seconds.store(END_OF_2034 + 1, Ordering::Relaxed);
        assert_eq!(*certificate.peer(), Peer::Lapsed);
        assert_eq!(*certificate.peer(), Peer::Lapsed);
    }

    #[test]
    fn ia_52_a_certificate_has_a_thumbprint_whether_it_is_trusted_or_not() {
        let (own, stranger) = (authority("clients"), authority("strangers"));
        let (pools, _) = pools(&own);
        for issuer in [&own, &stranger] {
            let leaf = leaf(issuer, 2036);
            let hash = digest(&SHA256, &leaf);
            let certificate = PeerCertificate::new(&[leaf], Arc::clone(&pools));
            let decoded = URL_SAFE_NO_PAD.decode(certificate.thumbprint().unwrap()).unwrap();
            assert_eq!(decoded, hash.as_ref());
        }
        let unreadable = [CertificateDer::from(vec![1, 2, 3])];
        assert_eq!(PeerCertificate::new(&unreadable, pools).thumbprint(), None);
    }

    #[test]
    fn a_chain_lapses_with_its_intermediate_and_ignores_an_unused_one() {
        let root = authority("root");
        let key = KeyPair::generate().unwrap();
        let between = CertifiedIssuer::signed_by(ca_params("between", 2035), key, &root).unwrap();
        let stranger = CertifiedIssuer::self_signed(ca_params("x", 2030), KeyPair::generate().unwrap());
        let (pools, seconds) = pools(&root);
        let chain = [leaf(&between, 2036), between.der().clone(), stranger.unwrap().der().clone()];
        let certificate = PeerCertificate::new(&chain, pools);
        seconds.store(END_OF_2034, Ordering::Relaxed);
        assert!(certificate.peer().identity().is_some(), "the unused certificate ended long before");
        seconds.store(END_OF_2034 + 1, Ordering::Relaxed);
        assert_eq!(*certificate.peer(), Peer::Lapsed);
    }

    #[test]
    fn new_pools_decide_about_open_connections() {
        let (old, new) = (authority("old"), authority("new"));
        let (pools, seconds) = pools(&old);
        let certificate = PeerCertificate::new(&[leaf(&old, 2036)], Arc::clone(&pools));
        let stranger = PeerCertificate::new(&[leaf(&new, 2036)], Arc::clone(&pools));
        assert_eq!(*stranger.peer(), Peer::Untrusted);
        let trust = |authorities: &[&Issuer]| {
            let roots: Vec<_> = authorities.iter().map(|authority| authority.der().clone()).collect();
            pools.replace(CertificatePools::new(&roots, &[]).unwrap());
        };
        trust(&[&old, &new]);
        assert!(certificate.peer().identity().is_some() && stranger.peer().identity().is_some());
        trust(&[&new]);
        assert_eq!(*certificate.peer(), Peer::Lapsed, "its CA was removed");
        assert!(stranger.peer().identity().is_some());
        trust(&[&old]);
        assert!(certificate.peer().identity().is_some(), "its CA is back");
        seconds.store(END_OF_2035 + 1, Ordering::Relaxed);
        assert_eq!(*certificate.peer(), Peer::Lapsed);
    }

    #[test]
    fn a_revoked_certificate_lapses_and_one_that_is_revoked_before_the_handshake_is_untrusted() {
        let authority = authority("clients");
        let (pools, _) = pools(&authority);
        let chain = [leaf(&authority, 2036)];
        let certificate = PeerCertificate::new(&chain, Arc::clone(&pools));
        let serial = match &*certificate.peer() {
            Peer::Known(identity) => identity.serial_number.clone(),
            other => panic!("{other:?}"),
        };
        let revoke = |issuer: &str| {
            let revocation = Revocation::Serial { issuer: issuer.to_owned(), number: serial.clone() };
            pools.revoke([revocation].into_iter().collect());
        };
        revoke("others");
        assert!(certificate.peer().identity().is_some());
        revoke("clients");
        assert_eq!(*certificate.peer(), Peer::Lapsed);
        assert_eq!(*PeerCertificate::new(&chain, Arc::clone(&pools)).peer(), Peer::Untrusted);
        pools.revoke(Revocations::default());
        assert!(certificate.peer().identity().is_some(), "the revocation was deleted");
    }

    /// Returns a list of an issuer that revokes the certificate with this serial number. Its next update is overdue.
    fn crl(issuer: &Issuer, serial: &[u8]) -> CertificateRevocationListDer<'static> {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from_slice(serial),
            revocation_time: date_time_ymd(2030, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2030, 1, 1),
            next_update: date_time_ymd(2031, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(issuer).unwrap().der().clone()
    }

    #[test]
    fn a_revocation_list_applies_to_the_certificates_of_its_issuer() {
        let (own, other) = (authority("clients"), authority("others"));
        let (pools, _) = pools(&own);
        let chain = [leaf(&own, 2036)];
        let serial = X509Certificate::from_der(&chain[0]).unwrap().1.raw_serial().to_vec();
        let certificate = PeerCertificate::new(&chain, Arc::clone(&pools));
        let roots = [own.der().clone(), other.der().clone()];
        let apply = |crls: &[CertificateRevocationListDer<'static>]| {
            pools.replace(CertificatePools::with_crls(&roots, &[], &[], crls).unwrap());
        };
        apply(&[crl(&other, &serial)]);
        assert!(certificate.peer().identity().is_some(), "the list is of another CA");
        apply(&[crl(&other, &serial), crl(&own, &[5])]);
        assert!(certificate.peer().identity().is_some(), "the list names another certificate");
        apply(&[crl(&other, &serial), crl(&own, &serial)]);
        assert_eq!(*certificate.peer(), Peer::Lapsed);
        assert_eq!(*PeerCertificate::new(&chain, Arc::clone(&pools)).peer(), Peer::Untrusted);
        apply(&[]);
        assert!(certificate.peer().identity().is_some(), "the list was removed");
        let damaged = [CertificateRevocationListDer::from(vec![1])];
        let two = [crl(&own, &[5]), crl(&own, &serial)];
        for unusable in [&damaged[..], &two[..]] {
            let error = CertificatePools::with_crls(&roots, &[], &[], unusable).unwrap_err().to_string();
            assert!(error.starts_with("a certificate revocation list cannot be used: "), "{error}");
        }
    }

    #[test]
    fn a_certificate_may_be_revoked_until_the_revocations_are_read() {
        let authority = authority("clients");
        let (pools, _) = pools(&authority);
        let certificate = PeerCertificate::new(&[leaf(&authority, 2036)], Arc::clone(&pools));
        let may_be_revoked = || certificate.peer().identity().map(|identity| identity.may_be_revoked);
        assert!(!pools.has_revocations());
        assert_eq!(may_be_revoked(), Some(true));
        pools.revoke(Revocations::default());
        assert!(pools.has_revocations());
        assert_eq!(may_be_revoked(), Some(false));
        pools.revoke(
            [Revocation::User { name: "alice".to_owned(), issued_before: i64::MAX }].into_iter().collect(),
        );
        assert_eq!(*certificate.peer(), Peer::Lapsed);
    }
}
