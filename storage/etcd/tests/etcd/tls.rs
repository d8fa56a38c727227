//! Tests of TLS to etcd: with the client certificate it connects, without it does not.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{Certificate, Client, ConnectOptions, Identity, Permission, TlsOptions};
use futures::StreamExt;

use crate::server::{Release, Server, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};
use storage_contract::{Key, KeyRange, ListOptions, Store, StoreError};
use storage_etcd::{EtcdConfiguration, EtcdStore, Maintenance};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "test-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(issuer: &CertifiedIssuer<'static, KeyPair>) -> (String, String) {
    signed_for(issuer, "etcd")
}

/// Signs a certificate with this common name, which etcd takes as the user.
fn signed_for(issuer: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

fn write(directory: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn start(release: Release, directory: &Path, ca: &CertifiedIssuer<'static, KeyPair>) -> Server {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (certificate, key) = signed(ca);
    let tls = Tls {
        certificate: write(directory, "server.crt", &certificate),
        key: write(directory, "server.key", &key),
        ca: write(directory, "ca.crt", &ca.pem()),
    };
    Server::start_tls(release, &tls)
}

fn configuration(server: &Server, ca: String, identity: Option<(String, String)>) -> EtcdConfiguration {
    let (endpoints, deadline) = (vec![server.endpoint()], Duration::from_secs(5));
    EtcdConfiguration { endpoints, ca: Some(ca), identity, deadline, ..EtcdConfiguration::default() }
}

/// Permits the user `capstan` only the keys below `/capstan/`.
async fn restrict(server: &Server, ca: String, (certificate, key): (String, String)) {
    let tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
    let tls = tls.identity(Identity::from_pem(certificate, key));
    let options = ConnectOptions::new().with_tls(tls);
    enable_authentication(Client::connect([server.endpoint()], Some(options)).await.unwrap()).await;
}

/// Creates the users `root` and `capstan`, and permits the second only the keys below `/capstan/`.
async fn enable_authentication(mut client: Client) {
    for name in ["root", "capstan"] {
        client.user_add(name, "a password", None).await.unwrap();
        client.role_add(name).await.unwrap();
        client.user_grant_role(name, name).await.unwrap();
    }
    let permission = Permission::read_write("/capstan/").with_prefix();
    client.role_grant_permission("capstan", permission).await.unwrap();
    client.auth_enable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn df_23_a_role_for_the_prefix_of_the_store_is_enough() {
    for release in [Release::Distribution, Release::Current] {
        let (directory, ca) = (tempfile::tempdir().unwrap(), authority());
        let server = start(release, directory.path(), &ca);
        restrict(&server, ca.pem(), signed_for(&ca, "root")).await;
        let identity = Some(signed_for(&ca, "capstan"));
        let restricted = configuration(&server, ca.pem(), identity);
        let store = EtcdStore::connect(restricted.clone()).await.unwrap();
        let key = Key::new("/capstan/a").unwrap();
        let all = KeyRange::prefix("/capstan/");
        let start = store.current_revision().await.unwrap();
        let mut watch = store.watch(&all, start.next()).await.unwrap();
        let created = store.create(&key, Bytes::from("1")).await.unwrap();
        assert_eq!(store.get(&key).await.unwrap().unwrap().modified, created);
        assert_eq!(store.list(&all, &ListOptions::default()).await.unwrap().entries.len(), 2);
        assert!(store.current_revision().await.unwrap() >= created);
        watch.next().await.unwrap().unwrap();
        let updated = store.update(&key, created, Bytes::from("2")).await.unwrap();
        // The attempt removes nothing: the next compaction of an old release would fail otherwise.
        let may_compact = Maintenance::new(restricted).may_compact().await.unwrap();
        let compacted = store.compact(updated).await;
        // A current etcd needs the role root for it; an old one compacts for every user.
        match release {
            Release::Distribution => {
                assert!(may_compact, "it says what is so");
                compacted.unwrap();
            }
            Release::Current => {
                assert!(!may_compact, "it says what is so");
                assert!(matches!(compacted, Err(StoreError::Refused { .. })), "{compacted:?}")
            }
        }
        // Anything else is refused.
        store.create(&Key::new("/other").unwrap(), Bytes::from("1")).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_requires_a_client_certificate() {
    let (directory, ca) = (tempfile::tempdir().unwrap(), authority());
    let server = start(Release::Current, directory.path(), &ca);
    let with = |identity| configuration(&server, ca.pem(), identity);
    let store = EtcdStore::connect(with(Some(signed(&ca)))).await.unwrap();
    store.current_revision().await.unwrap();
    EtcdStore::connect(with(None)).await.unwrap_err();
    EtcdStore::connect(with(Some(signed(&authority())))).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn df_10_renewed_certificates_are_used_by_new_connections() {
    let (directory, old, new) = (tempfile::tempdir().unwrap(), authority(), authority());
    let server = start(Release::Current, directory.path(), &old);
    let first = configuration(&server, old.pem(), Some(signed(&old)));
    let store = EtcdStore::connect(first).await.unwrap();
    let key = Key::new("/capstan/a").unwrap();
    let created = store.create(&key, Bytes::from("1")).await.unwrap();
    let mut watch = store.watch(&KeyRange::prefix("/capstan/"), created.next()).await.unwrap();
    // etcd gets other certificates, which it trusts alone.
    let (certificate, private) = signed(&new);
    write(directory.path(), "server.crt", &certificate);
    write(directory.path(), "server.key", &private);
    write(directory.path(), "ca.crt", &new.pem());
    server.kill();
    server.restart();
    let error = store.get(&key).await.unwrap_err().to_string();
    let second = configuration(&server, new.pem(), Some(signed(&new)));
    let identity = Some(("no certificate".to_owned(), "no key".to_owned()));
    let broken = EtcdConfiguration { identity, ..second.clone() };
    store.renew(&broken).await.unwrap_err();
    store.renew(&second).await.unwrap();
    let begun = std::time::Instant::now();
    let updated = loop {
        match store.update(&key, created, Bytes::from("2")).await {
            Ok(updated) => break updated,
            Err(failed) => assert!(begun.elapsed() < Duration::from_secs(20), "{error}; then {failed}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(updated > created);
    let event = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
    event.expect("the watch resumes by itself").unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn df_10_a_user_logs_in_again_and_with_a_changed_password() {
    for release in [Release::Distribution, Release::Current] {
        let server = Server::start_with(release, &["--auth-token-ttl=1"]);
        enable_authentication(Client::connect([server.endpoint()], None).await.unwrap()).await;
        let with = |password: &str| EtcdConfiguration {
            endpoints: vec![server.endpoint()],
            user: Some(("capstan".to_owned(), password.to_owned())),
            deadline: Duration::from_secs(5),
            ..EtcdConfiguration::default()
        };
        let error = format!("{:?}", EtcdStore::connect(with("wrong")).await.unwrap_err());
        assert!(error.contains("invalid user ID or password"), "{error}");
        let store = EtcdStore::connect(with("a password")).await.unwrap();
        let key = Key::new("/capstan/a").unwrap();
        let created = store.create(&key, Bytes::from("1")).await.unwrap();
        // The login ends; the next call renews it.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let updated = store.update(&key, created, Bytes::from("2")).await.unwrap();
        let options = ConnectOptions::new().with_user("root", "a password");
        let mut root = Client::connect([server.endpoint()], Some(options)).await.unwrap();
        root.user_change_password("capstan", "another").await.unwrap();
        store.renew(&with("wrong")).await.unwrap_err();
        store.renew(&with("another")).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let updated = store.update(&key, updated, Bytes::from("3")).await.unwrap();
        assert_eq!(store.get(&key).await.unwrap().unwrap().modified, updated);
    }
}
