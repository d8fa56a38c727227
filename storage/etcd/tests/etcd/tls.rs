//! Tests of TLS to etcd: with the client certificate it connects, without it does not.

use std::path::Path;
use std::time::Duration;

use crate::server::{Release, Server, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use storage_contract::Store;
use storage_etcd::{EtcdConfiguration, EtcdStore};

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "test-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn signed(issuer: &CertifiedIssuer<'static, KeyPair>) -> (String, String) {
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, issuer).unwrap().pem(), key.serialize_pem())
}

fn write(directory: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_requires_a_client_certificate() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let directory = tempfile::tempdir().unwrap();
    let ca = authority();
    let (certificate, key) = signed(&ca);
    let tls = Tls {
        certificate: write(directory.path(), "server.crt", &certificate),
        key: write(directory.path(), "server.key", &key),
        ca: write(directory.path(), "ca.crt", &ca.pem()),
    };
    let server = Server::start_tls(Release::Current, &tls);
    let with = |identity: Option<(String, String)>| EtcdConfiguration {
        endpoints: vec![server.endpoint()],
        ca: Some(ca.pem()),
        identity,
        deadline: Duration::from_secs(5),
        ..EtcdConfiguration::default()
    };
    let store = EtcdStore::connect(with(Some(signed(&ca)))).await.unwrap();
    store.current_revision().await.unwrap();
    EtcdStore::connect(with(None)).await.unwrap_err();
    EtcdStore::connect(with(Some(signed(&authority())))).await.unwrap_err();
}
