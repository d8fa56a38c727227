//! Test server with all kinds behind TLS, and a few objects to protect.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apiserver_access::{Authenticator, Authorizer, Chain, LocalPolicy, RequestHeaders, Revocations};
use apiserver_host::HostAuthorizer;
use apiserver_http::{ApiServer, Identity, Parts, ReloadableTls, Supervisor, TlsMaterial};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::{ObjectStore, OwnNamespaces};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use serde_json::{Value, json};
use storage_embedded::EmbeddedStore;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::caller::{Caller, NAME, Protocol};
use crate::host::{self, ELSEWHERE, NeighbourRole};

/// Namespace of the objects that are protected.
pub(crate) const TEAM: &str = "team";

/// Name of each of them.
pub(crate) const NAME_OF_OBJECTS: &str = "m1";

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Issuer {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn leaf(
    issuer: &Issuer,
    names: &[&str],
    subject: &[(DnType, &str)],
) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    signed(issuer, &params(names, subject))
}

fn params(names: &[&str], subject: &[(DnType, &str)]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params
}

fn signed(issuer: &Issuer, params: &CertificateParams) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap().der().clone();
    (certificate, PrivateKeyDer::Pkcs8(key.serialize_der().into()))
}

pub(crate) struct World {
    pub(crate) registry: Arc<Registry>,
    port: u16,
    clients: Issuer,
    front_proxies: Issuer,
    servers: Issuer,
    tls: Arc<ReloadableTls>,
    /// Time that client certificates are verified at, if a test has set one. Unit: seconds since 1970.
    time: Arc<AtomicU64>,
    shutdown: CancellationToken,
    _directory: tempfile::TempDir,
}

fn material(servers: &Issuer, client_cas: &[&Issuer], front_proxies: &Issuer) -> TlsMaterial {
    let (certificate, key) = leaf(servers, &[NAME], &[]);
    TlsMaterial {
        chain: vec![certificate],
        key,
        named: Vec::new(),
        client_cas: client_cas.iter().map(|ca| ca.der().clone()).collect(),
        request_header_cas: vec![front_proxies.der().clone()],
        request_headers: RequestHeaders::default(),
        host_cas: Vec::new(),
        crls: Vec::new(),
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl World {
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (clients, front_proxies, servers) =
            (authority("clients"), authority("proxies"), authority("servers"));
        let time = Arc::new(AtomicU64::new(0));
        let clock = {
            let time = Arc::clone(&time);
            move || match time.load(Ordering::Relaxed) {
                0 => UnixTime::now(),
                seconds => UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
            }
        };
        let material = material(&servers, &[&clients], &front_proxies);
        let tls = Arc::new(ReloadableTls::with_clock(material, Arc::new(clock)).unwrap());
        tls.revoke(Revocations::default());
        let directory = tempfile::tempdir().unwrap();
        let registry = Arc::new(apiserver_registry::registry());
        let shutdown = CancellationToken::new();
        let supervisor = Supervisor::new(shutdown.clone());
        let objects = Arc::new(ObjectStore::open(
            Arc::clone(&registry),
            Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap()),
            Arc::new(Encryption::default()),
            Arc::new(OwnNamespaces),
            &supervisor,
            CancellationToken::new(),
        ));
        let local: Arc<dyn Authorizer> = Arc::new(LocalPolicy::default());
        let by_host: Arc<dyn Authorizer> = Arc::new(HostAuthorizer::new(host::client()));
        let server = Arc::new(ApiServer::new(Parts {
            objects: Arc::clone(&objects),
            authenticator: Arc::new(Authenticator::default()),
            authorizer: Arc::new(Chain(vec![Arc::clone(&local), Arc::new(NeighbourRole)])),
            hosted_authorizer: Arc::new(Chain(vec![local, by_host])),
            identity: Identity { git_version: "v1.36.0".to_owned(), address: NAME.to_owned() },
            checks: Vec::new(),
            supervisor,
        }));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let grace = Duration::from_millis(100);
        tokio::spawn(apiserver_http::serve(server, listener, Arc::clone(&tls), shutdown.clone(), grace));
        while !objects.is_ready() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let _directory = directory;
        let world = Self { registry, port, clients, front_proxies, servers, tls, time, shutdown, _directory };
        world.seed().await;
        world
    }

    async fn seed(&self) {
        let admin = self.admin(Protocol::Http2);
        let core =
            |kind: &str, name: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": NAME_OF_OBJECTS, "finalizers": ["a/b"]},
            "spec": {"clusterName": "c", "version": "v1.30.2", "bootstrap": {"dataSecretName": "s"},
                "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine",
                    "name": NAME_OF_OBJECTS}}});
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": NAME_OF_OBJECTS}, "spec": {}});
        let in_team = |root: &str, plural: &str| format!("{root}/namespaces/{TEAM}/{plural}");
        for (path, object) in [
            ("/api/v1/namespaces".to_owned(), core("Namespace", TEAM)),
            ("/api/v1/namespaces".to_owned(), core("Namespace", ELSEWHERE)),
            (in_team("/api/v1", "secrets"), core("Secret", NAME_OF_OBJECTS)),
            (in_team("/apis/cluster.x-k8s.io/v1beta2", "machines"), machine),
            (in_team("/apis/coordination.k8s.io/v1", "leases"), lease),
        ] {
            let json = [("content-type", "application/json")];
            let answer = admin.send("POST", &path, &json, object.to_string()).await;
            assert_eq!(answer.code, 201, "{path}: {}", answer.json());
        }
    }

    fn tls(
        &self,
        identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> rustls::ClientConfig {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.servers.der().clone()).unwrap();
        let config = rustls::ClientConfig::builder().with_root_certificates(roots);
        match identity {
            Some((certificate, key)) => config.with_client_auth_cert(vec![certificate], key).unwrap(),
            None => config.with_no_client_auth(),
        }
    }

    /// Returns a caller who shows no credentials.
    pub(crate) fn anonymous(&self, protocol: Protocol) -> Caller {
        Caller::new(self.port, &self.tls(None), protocol)
    }

    /// Returns a caller with a client certificate.
    pub(crate) fn user(&self, name: &str, protocol: Protocol) -> Caller {
        let identity = leaf(&self.clients, &[], &[(DnType::CommonName, name)]);
        Caller::new(self.port, &self.tls(Some(identity)), protocol)
    }

    /// Returns a caller with a client certificate that ends with the year before this one.
    pub(crate) fn user_until(&self, name: &str, year: i32, protocol: Protocol) -> Caller {
        let mut params = params(&[], &[(DnType::CommonName, name)]);
        params.not_after = date_time_ymd(year, 1, 1);
        Caller::new(self.port, &self.tls(Some(signed(&self.clients, &params))), protocol)
    }

    /// Sets the time that client certificates are verified at.
    pub(crate) fn set_year(&self, year: i32) {
        let seconds = date_time_ymd(year, 6, 1).unix_timestamp();
        self.time.store(seconds.try_into().unwrap(), Ordering::Relaxed);
    }

    /// Reloads the TLS settings, with the CA of clients or without it.
    pub(crate) fn trust_clients(&self, is_trusted: bool) {
        let client_cas = is_trusted.then_some(&self.clients);
        let client_cas: Vec<&Issuer> = client_cas.into_iter().collect();
        self.tls.replace(material(&self.servers, &client_cas, &self.front_proxies)).unwrap();
    }

    /// Returns a caller who may do everything.
    pub(crate) fn admin(&self, protocol: Protocol) -> Caller {
        let subject = [(DnType::CommonName, "admin"), (DnType::OrganizationName, "system:masters")];
        Caller::new(self.port, &self.tls(Some(leaf(&self.clients, &[], &subject))), protocol)
    }

    /// Returns the host's front proxy, which names no user.
    pub(crate) fn front_proxy(&self, protocol: Protocol) -> Caller {
        let identity = leaf(&self.front_proxies, &[], &[(DnType::CommonName, "front-proxy-client")]);
        Caller::new(self.port, &self.tls(Some(identity)), protocol)
    }

    /// Returns a caller through the host: the front proxy, with the user that it has authenticated.
    pub(crate) fn hosted(&self, user: &str, group: &str, protocol: Protocol) -> Caller {
        self.front_proxy(protocol).with("x-remote-user", user).with("x-remote-group", group)
    }

    /// Returns all objects of all kinds, by path, and the store's revision.
    pub(crate) async fn state(&self) -> BTreeMap<String, Value> {
        let admin = self.admin(Protocol::Http2);
        let mut state = BTreeMap::new();
        for resource in self.registry.stored() {
            let root = match resource.group.as_str() {
                "" => "/api".to_owned(),
                group => format!("/apis/{group}"),
            };
            let path = format!("{root}/{}/{}", resource.version, resource.plural);
            let answer = admin.get(&path).await;
            assert_eq!(answer.code, 200, "{path}");
            state.insert(path, answer.json());
        }
        state
    }
}
