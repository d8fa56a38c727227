//! Server of the test, with a host in one situation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver_access::rbac::{Binding, Policy, RbacAuthorizer, Role, RoleRef, Snapshot, Subject};
use apiserver_access::{
    Authenticator, Authorizer, CertificatePools, Chain, Issuer, LocalPolicy, OfRealm, Peer, Realm,
    RequestHeaders, ReviewFailed, Rule, TokenSource, User,
};
use apiserver_http::{ApiServer, Connection, Identity, InProcess, Parts, Settings, Supervisor, handle};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::ObjectStore;
use async_trait::async_trait;
use http::Request;
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::UnixTime;
use serde_json::{Value, json};
use storage_embedded::EmbeddedStore;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::Situation;
use super::calls::{Call, Reads, Who};
use super::host::{self, HostTokensOfTest};
use super::kinds::kinds;
use crate::audiences::Audiences;
use crate::authorizer::HostAuthorizer;
use crate::certificates::HostUserCertificates;
use crate::connection::cut_off;
use crate::fake::Fake;
use crate::health::{HostHealth, HostState};
use crate::metrics::HostMetrics;
use crate::mirror::{Bounds, Cautious, HostMirror, MirroredAuthorizer};
use crate::namespaces::HostNamespaces;
use crate::tokens::{HostKeys, HostTokens};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Time since the last contact of a host that has just returned or was replaced.
const MOMENT: u64 = 1;

/// Server, its host and its certificate authorities.
pub(super) struct Scene {
    pub(super) host: Fake,
    pub(super) tokens: HostTokensOfTest,
    server: Arc<ApiServer>,
    pools: CertificatePools,
    own: Authority,
    front_proxy: Authority,
    stranger: Authority,
    of_host: Authority,
    _directory: tempfile::TempDir,
}

/// Returns a client of the host that sends nothing to a host that is down, as that of the server.
fn connected(host: &Fake, health: &HostHealth) -> Client {
    let (client, health) = (host.client(), health.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, health) = (client.clone(), health.clone());
        async move {
            if health.state().is_cut_off() {
                return Err(cut_off());
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

/// Source that names one user for each token.
#[derive(Debug)]
struct Names(&'static str);

#[async_trait]
impl TokenSource for Names {
    async fn review(&self, _: &str) -> Result<Option<User>, ReviewFailed> {
        Ok(Some(User::authenticated(self.0, [])))
    }
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns the roles of the server itself, which give the same to the users of each realm.
fn own_roles() -> Snapshot {
    let rule = Rule {
        verbs: vec!["*".to_owned()],
        groups: vec!["cluster.x-k8s.io".to_owned()],
        resources: vec!["machines".to_owned()],
        ..Rule::default()
    };
    let names = ["ada", "system:serviceaccount:capstan-system:robot", "oidc:olga", "keystone:Default/kay"];
    let binding = Binding {
        name: "own".to_owned(),
        role: RoleRef { is_cluster_role: true, name: "own".to_owned() },
        subjects: names.map(|name| Subject::User(name.to_owned())).to_vec(),
        ..Binding::default()
    };
    let role = Role { namespace: String::new(), name: "own".to_owned(), rules: vec![rule] };
    Snapshot::new(Policy { roles: vec![role], bindings: vec![binding] })
}

/// Parts that know the host.
struct OfHost {
    client: Client,
    health: HostHealth,
    mirror: HostMirror,
    keys: HostKeys,
    namespaces: HostNamespaces,
}

impl OfHost {
    fn new(host: &Fake) -> Self {
        let health = HostHealth::new(HostMetrics::default());
        let client = connected(host, &health);
        Self {
            mirror: HostMirror::new(health.clone(), Bounds::default(), Timestamp::UNIX_EPOCH),
            keys: HostKeys::new(client.clone(), health.clone()),
            namespaces: HostNamespaces::new(client.clone()).with_health(health.clone()),
            client,
            health,
        }
    }

    fn authenticator(&self) -> Authenticator {
        let audiences = Audiences { own: vec!["capstan".to_owned()], accepts_host: false };
        let tokens = HostTokens::new(self.client.clone(), audiences, false).unwrap().reviewing_unknown(true);
        let tokens = tokens.with_health(self.health.clone());
        let tokens = Arc::new(tokens.with_mirror(self.keys.clone(), self.mirror.clone()));
        let issuer =
            |url: &str, realm, name| Issuer { url: url.to_owned(), realm, verifier: Arc::new(Names(name)) };
        let authenticator = Authenticator::new(RequestHeaders::default(), Some(tokens))
            .with_host_certificates(Some(Arc::new(HostUserCertificates::new(self.health.clone(), false))))
            .with_keystone(Some(Arc::new(Names("keystone:Default/kay"))))
            .with_issuer(issuer("https://own", Realm::Own, "system:serviceaccount:capstan-system:robot"))
            .with_issuer(issuer("https://olga", Realm::Issuer("https://olga".into()), "oidc:olga"));
        authenticator.set_default_anonymous_paths();
        authenticator
    }

    /// Returns the authorizers of the direct endpoint and of requests through the host, in the order of the server.
    fn authorizers(&self) -> [Arc<dyn Authorizer>; 2] {
        let reviews = Arc::new(HostAuthorizer::new(self.client.clone()).with_health(self.health.clone()));
        let own = RbacAuthorizer::default();
        own.set(own_roles());
        let deciding = MirroredAuthorizer::deciding(Arc::clone(&reviews), self.mirror.clone());
        let of_host = OfRealm { realm: Realm::Host, authorizer: Arc::new(deciding) };
        let local = || -> Arc<dyn Authorizer> { Arc::new(LocalPolicy::default()) };
        let direct = Chain(vec![local(), Arc::new(own), Arc::new(of_host)]);
        let comparing = MirroredAuthorizer::comparing(reviews, self.mirror.clone());
        [Arc::new(Cautious(Arc::new(direct))), Arc::new(Chain(vec![local(), Arc::new(comparing)]))]
    }

    /// Brings the host into a situation. `kept` are its keys.
    fn enter(&self, situation: Situation, kept: crate::tokens::KeptKeys) {
        if situation == Situation::NeverSeen {
            return self.health.set(HostState::Down);
        }
        let age = match situation {
            Situation::Down(age) => age,
            _ => MOMENT,
        };
        // The store keeps whole seconds. The next one makes no copy older than this.
        let now = Timestamp::from_second(Timestamp::now().as_second() + 1).unwrap();
        let contact = now - Duration::from_secs(age);
        self.health.restore_contact(contact);
        self.mirror.restore_contact(contact);
        self.mirror.set_permissions(host::permissions());
        self.mirror.set_accounts(HashMap::from([("team/ci".to_owned(), "u1".to_owned())]));
        self.keys.restore(crate::tokens::KeptKeys { at: contact.as_second(), ..kept });
        let known = [("team", "Active"), ("leaving", "Terminating")];
        let known = known.map(|(name, phase)| (name.to_owned(), host::namespace(name, phase)));
        self.namespaces.restore(HashMap::from(known));
        self.health.set(match situation {
            Situation::Answers(state) => state,
            Situation::Silent => HostState::Up,
            Situation::Down(_) | Situation::NeverSeen => HostState::Down,
            Situation::Returned => HostState::Probation,
            Situation::Other => HostState::Other,
        });
        if self.health.state() == HostState::Up {
            self.mirror.synchronized();
        }
    }
}

impl Scene {
    /// Starts a server with some objects. Then the host comes into the situation.
    pub(super) async fn start(situation: Situation) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let [own, front_proxy, stranger, users] = ["own", "front-proxy", "other-host", "host"].map(authority);
        let fake = Fake::new((404, Value::Null));
        let (tokens, kept) = host::tokens(Timestamp::now());
        host::answer(&fake, Situation::Answers(HostState::Up), &tokens.good);
        let of_host = OfHost::new(&fake);
        let directory = tempfile::tempdir().unwrap();
        let server = serve(&directory, &of_host).await;
        create_objects(&server).await;
        host::answer(&fake, situation, &tokens.good);
        let [own_pool, front_proxies, of_users] = [&own, &front_proxy, &users].map(|ca| [ca.der().clone()]);
        let pools = CertificatePools::with_host(&own_pool, &front_proxies, &of_users).unwrap();
        of_host.enter(situation, kept);
        let of_host = users;
        Self { host: fake, tokens, server, pools, own, front_proxy, stranger, of_host, _directory: directory }
    }

    fn peer(&self, authority: &Authority, name: &str, group: &str) -> Peer {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let leaf = params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap();
        self.pools.classify(&[leaf.der().clone()], UnixTime::now())
    }

    /// Returns the peer and the headers of a caller.
    fn credentials(&self, who: &Who) -> (Peer, Vec<(&'static str, String)>) {
        match who {
            Who::Proxied(user) => {
                (self.peer(&self.front_proxy, "front", "x"), vec![("x-remote-user", (*user).to_owned())])
            }
            Who::Certificate(name, group) => (self.peer(&self.own, name, group), Vec::new()),
            Who::OfHost(name) => (self.peer(&self.of_host, name, "system:masters"), Vec::new()),
            Who::Stranger => (self.peer(&self.stranger, "alice", "system:masters"), Vec::new()),
            Who::Token(token) => (Peer::Unidentified, vec![("authorization", format!("Bearer {token}"))]),
            Who::Forged => (
                Peer::Unidentified,
                vec![("x-remote-user", "admin".to_owned()), ("x-remote-group", "system:masters".to_owned())],
            ),
            Who::Nobody => (Peer::Unidentified, Vec::new()),
        }
    }

    /// Sends a call. Returns its code.
    pub(super) async fn answer(&self, call: &Call) -> u16 {
        let (peer, headers) = self.credentials(&call.who);
        let mut request = Request::builder().method(call.method).uri(&call.path);
        let media = if call.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        request = request.header("content-type", media);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let body = if call.body.is_null() { String::new() } else { call.body.to_string() };
        let request = request.body(Full::new(bytes::Bytes::from(body))).unwrap();
        let connection = Connection { peer: Arc::new(peer), ..Connection::default() };
        let answer = handle(&self.server, request, &connection).await;
        let (code, has_retry) = (answer.status().as_u16(), answer.headers().contains_key("retry-after"));
        assert!(code != 503 || has_retry, "{}: a client learns when to try again", call.title);
        if call.reads == Reads::Code {
            return code;
        }
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        match (code, &review["status"]) {
            (201, status) if status["allowed"] == json!(true) => 200,
            (201, status) if status.get("evaluationError").is_some() => 503,
            (201, _) => 403,
            (other, _) => other,
        }
    }
}

async fn serve(directory: &tempfile::TempDir, of_host: &OfHost) -> Arc<ApiServer> {
    let store = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
    let objects = Arc::new(ObjectStore::open(
        Arc::new(Registry::new(kinds())),
        store,
        Arc::new(Encryption::default()),
        Arc::new(of_host.namespaces.clone()),
        &Supervisor::default(),
        CancellationToken::new(),
    ));
    let [authorizer, hosted_authorizer] = of_host.authorizers();
    let parts = Parts {
        objects: Arc::clone(&objects),
        authenticator: Arc::new(of_host.authenticator()),
        authorizer,
        hosted_authorizer,
        identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
        checks: Vec::new(),
        supervisor: Supervisor::new(CancellationToken::new()),
    };
    let settings = Settings { has_host: true, ..Settings::default() };
    let server = Arc::new(ApiServer::with_settings(parts, settings));
    while !objects.is_ready() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server
}

/// Creates the objects of the calls, as the server itself. The host has not answered yet, so the Namespace is provisional.
async fn create_objects(server: &Arc<ApiServer>) {
    let master = User::authenticated("tester", ["system:masters".to_owned()]);
    let mut client = InProcess::new(Arc::clone(server), master);
    for (path, version, kind, name) in [
        ("/api/v1/namespaces", "v1", "Namespace", "fresh"),
        (
            "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines",
            "cluster.x-k8s.io/v1beta2",
            "Machine",
            "m1",
        ),
        ("/api/v1/namespaces/team/secrets", "v1", "Secret", "s1"),
    ] {
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.body(Full::new(bytes::Bytes::from(object.to_string()))).unwrap();
        assert_eq!(client.call(request).await.unwrap().status(), 201, "{path}");
    }
}
