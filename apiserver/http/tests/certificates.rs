//! Tests of requests and watches whose client certificate or token lapses while the connection is open, of machines that lose
//! their permissions, and of users whose host cluster is replaced.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use apiserver_access::{
    Attributes, Authenticator, Authorizer, CertificatePools, Chain, Decision, LocalPolicy, PeerCertificate,
    Realm, ReloadablePools, RequestHeaders, ReviewFailed, Revocations, TokenSource, User, Verdict,
};
use apiserver_http::{Connection, KnownHost, ResponseBody, Settings};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, RETRY_AFTER};
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::UnixTime;
use server::{Server, Setup};

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

/// Time of 2036: the certificate of the test has expired.
const AFTER_THE_END: Duration = Duration::from_secs(2_082_758_400);

/// Client certificate of an administrator, which expires when the flag is set.
fn certificate() -> (Arc<PeerCertificate>, Arc<AtomicBool>) {
    let (certificate, is_over, pools) = unread_certificate();
    pools.revoke(Revocations::default());
    (certificate, is_over)
}

/// The same before the revocations are read, with the pools that wait for them.
fn unread_certificate() -> (Arc<PeerCertificate>, Arc<AtomicBool>, Arc<ReloadablePools>) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "admin");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.not_after = date_time_ymd(2035, 1, 1);
    let leaf = params.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let clock = {
        let is_over = Arc::clone(&is_over);
        move || match is_over.load(Ordering::Relaxed) {
            true => UnixTime::since_unix_epoch(AFTER_THE_END),
            false => UnixTime::now(),
        }
    };
    let pools = CertificatePools::new(&[authority.der().clone()], &[]).unwrap();
    let pools = Arc::new(ReloadablePools::new(pools, Arc::new(clock)));
    let certificate = PeerCertificate::new(&[leaf.der().clone()], Arc::clone(&pools));
    (Arc::new(certificate), is_over, pools)
}

/// Sends a request on the connection of this certificate.
async fn send(
    server: &Server,
    path: &str,
    version: Version,
    certificate: &Arc<PeerCertificate>,
) -> (Response<ResponseBody>, Connection) {
    let certificate = Some(Arc::clone(certificate));
    let peer = certificate.as_ref().map(|certificate| certificate.peer()).unwrap();
    let connection = Connection { peer, certificate, ..Connection::default() };
    let request = Request::get(path).version(version).body(Empty::<Bytes>::new()).unwrap();
    (apiserver_http::handle(&server.server, request, &connection).await, connection)
}

#[tokio::test]
async fn a_lapsed_certificate_gets_401_and_the_connection_closes() {
    let server = Server::start().await;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let (certificate, is_over) = certificate();
        let (answer, connection) = send(&server, GADGETS, version, &certificate).await;
        assert_eq!(answer.status(), 200, "{version:?}");
        assert!(answer.headers().get(CONNECTION).is_none() && !connection.close.is_cancelled());
        is_over.store(true, Ordering::Relaxed);
        let (answer, connection) = send(&server, GADGETS, version, &certificate).await;
        assert_eq!(answer.status(), 401, "{version:?}");
        let says_close = answer.headers().get(CONNECTION).is_some_and(|value| value == "close");
        assert_eq!(says_close, version == Version::HTTP_11);
        let is_closed = connection.close.is_cancelled() && connection.in_flight.is_closed();
        assert_eq!(is_closed, version == Version::HTTP_2);
    }
}

#[tokio::test]
async fn a_certificate_gives_objects_once_the_revocations_are_read() {
    let server = Server::start().await;
    let (certificate, _, pools) = unread_certificate();
    for (path, expected) in [(GADGETS, 503_u16), ("/metrics", 503), ("/apis", 200), ("/livez", 200)] {
        let (answer, connection) = send(&server, path, Version::HTTP_2, &certificate).await;
        assert_eq!(answer.status(), expected, "{path}");
        assert_eq!(answer.headers().contains_key(RETRY_AFTER), expected == 503, "{path}");
        assert!(!connection.close.is_cancelled(), "the client sends it again");
    }
    pools.revoke(Revocations::default());
    let (answer, _) = send(&server, GADGETS, Version::HTTP_2, &certificate).await;
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_watch_ends_within_a_minute_after_its_certificate_lapses() {
    let server = Server::start().await;
    let (certificate, is_over) = certificate();
    let path = format!("{GADGETS}?watch=true");
    let (answer, _connection) = send(&server, &path, Version::HTTP_2, &certificate).await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    let mut ends_within = async |time| {
        let rest = async { while body.frame().await.is_some() {} };
        tokio::time::timeout(time, rest).await.is_ok()
    };
    tokio::time::pause();
    assert!(!ends_within(Duration::from_secs(50)).await, "a valid certificate ends nothing");
    is_over.store(true, Ordering::Relaxed);
    assert!(ends_within(Duration::from_secs(60)).await);
}

/// Authorizer with one decision about all requests.
#[derive(Debug)]
struct Always(Arc<Mutex<Decision>>);

#[async_trait::async_trait]
impl Authorizer for Always {
    async fn judge(&self, _: &Attributes) -> Verdict {
        Verdict::of(self.0.lock().unwrap().clone(), self.name())
    }
}

#[tokio::test]
async fn iz_31_a_watch_of_a_machine_ends_within_a_minute_after_its_permission() {
    let decision = Arc::new(Mutex::new(Decision::Allow));
    let decide = |new: Decision| *decision.lock().unwrap() = new;
    let always: Arc<dyn Authorizer> = Arc::new(Always(Arc::clone(&decision)));
    let authorizer = Arc::new(Chain(vec![Arc::new(LocalPolicy::default()), always]));
    let server = Server::start_with(Setup { authorizer, ..Setup::default() }).await;
    for (realm, ends) in [(Realm::Machine, true), (Realm::Own, false)] {
        decide(Decision::Allow);
        let user = User::authenticated("system:machine:default:m", []).in_realm(realm.clone());
        let path = format!("{GADGETS}?watch=true");
        let answer = server.as_user(user).request("GET", &path, &[], "").await;
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        let mut ends_within = async |seconds| {
            let rest = async { while body.frame().await.is_some() {} };
            tokio::time::timeout(Duration::from_secs(seconds), rest).await.is_ok()
        };
        tokio::time::pause();
        assert!(!ends_within(50).await, "{realm:?}: the permission holds");
        decide(Decision::Error("the store does not answer".to_owned()));
        assert!(!ends_within(120).await, "{realm:?}: nothing says that the permission has ended");
        decide(Decision::Deny("the Machine does not exist any more".to_owned()));
        assert_eq!(ends_within(60).await, ends, "{realm:?}");
        tokio::time::resume();
    }
}

/// Source of tokens with one answer about all of them.
#[derive(Debug)]
struct OneAnswer(Arc<Mutex<Result<Option<User>, ReviewFailed>>>);

#[async_trait::async_trait]
impl TokenSource for OneAnswer {
    async fn review(&self, _: &str) -> Result<Option<User>, ReviewFailed> {
        self.0.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn a_watch_ends_within_a_minute_after_its_token() {
    let answer = Arc::new(Mutex::new(Ok(Some(User::authenticated("robot", [])))));
    let answers = |new: Result<Option<User>, ReviewFailed>| *answer.lock().unwrap() = new;
    let source: Arc<dyn TokenSource> = Arc::new(OneAnswer(Arc::clone(&answer)));
    let authenticator = Authenticator::new(RequestHeaders::default(), Some(source));
    let authorizer = Arc::new(Chain(vec![
        Arc::new(LocalPolicy::default()),
        Arc::new(Always(Arc::new(Mutex::new(Decision::Allow)))),
    ]));
    let server = Server::start_with(Setup { authenticator, authorizer, ..Setup::default() }).await;
    let request = Request::get(format!("{GADGETS}?watch=true")).header(AUTHORIZATION, "Bearer abc");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let opened = apiserver_http::handle(&server.server, request, &Connection::default()).await;
    assert_eq!(opened.status(), 200);
    let mut body = opened.into_body();
    let mut ends_within = async |seconds| {
        let rest = async { while body.frame().await.is_some() {} };
        tokio::time::timeout(Duration::from_secs(seconds), rest).await.is_ok()
    };
    tokio::time::pause();
    assert!(!ends_within(120).await, "a valid token ends nothing");
    answers(Err(ReviewFailed("the source does not answer".to_owned())));
    assert!(!ends_within(120).await, "nothing says that the token has ended");
    answers(Ok(None));
    assert!(ends_within(60).await);
}

/// Host cluster that is the known one until the flag is set.
#[derive(Debug)]
struct ReplacedHost(Arc<AtomicBool>);

impl KnownHost for ReplacedHost {
    fn is_known(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn c5_a_watch_of_a_host_user_ends_within_a_minute_after_another_cluster_answers() {
    for (realm, ends) in [(Realm::Host, true), (Realm::Own, false)] {
        let is_replaced = Arc::new(AtomicBool::new(false));
        let settings =
            Settings { host: Some(Arc::new(ReplacedHost(Arc::clone(&is_replaced)))), ..Settings::default() };
        let always = Always(Arc::new(Mutex::new(Decision::Allow)));
        let authorizer = Arc::new(Chain(vec![Arc::new(LocalPolicy::default()), Arc::new(always)]));
        let server = Server::start_with(Setup { settings, authorizer, ..Setup::default() }).await;
        let user = User::authenticated("alice", []).in_realm(realm.clone());
        let path = format!("{GADGETS}?watch=true");
        let answer = server.as_user(user).request("GET", &path, &[], "").await;
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        let mut ends_within = async |seconds| {
            let rest = async { while body.frame().await.is_some() {} };
            tokio::time::timeout(Duration::from_secs(seconds), rest).await.is_ok()
        };
        tokio::time::pause();
        assert!(!ends_within(120).await, "{realm:?}: the host is the known one");
        is_replaced.store(true, Ordering::Relaxed);
        assert_eq!(ends_within(60).await, ends, "{realm:?}");
        tokio::time::resume();
    }
}
