//! Tests of the CAs in a store.

use std::sync::Arc;

use apiserver_machinery::encryption::{Encryption, Provider, Rules};
use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;

use super::rotation::Phase;
use super::*;
use crate::certificate_uses::{self, Use};
use crate::cli::{CaFinishArguments, CaRotationArguments, StoreArguments};
use crate::pki;

fn encryption(key: u8) -> Arc<Encryption> {
    let provider = Provider::aes_gcm(&format!("k{key}"), &[key; 32]).unwrap();
    Arc::new(Encryption::new(Rules::from([("secrets".to_owned(), vec![provider])])))
}

fn embedded(data: &Path) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(&data.join("store.redb")).unwrap())
}

fn cas(data: &Path) -> String {
    pki::read(&data.join("pki/ca.crt")).unwrap()
}

#[tokio::test]
async fn the_ca_of_a_directory_is_taken_over_and_is_the_same_for_all_replicas() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = embedded(first.path());
    let of = |key: u8| AuthorityStore::new(Arc::clone(&store), encryption(key));
    Authority::open(first.path()).unwrap();
    let old = cas(first.path());
    let keeper = AuthorityKeeper::open(of(1), first.path(), true).await;
    let found = keeper.known().borrow().authorities.clone().unwrap();
    assert_eq!((found.bundle(Purpose::Serving), found.bundle(Purpose::Client)), (old.clone(), old.clone()));
    assert_ne!(found.bundle(Purpose::Machine), old, "machines have a CA of their own");
    assert!(!first.path().join("pki/client-ca.key").exists(), "ca.key signs clients");

    let replica = AuthorityKeeper::open(of(1), second.path(), false).await;
    assert_eq!(replica.known().borrow().authorities.as_ref(), Some(&found));
    assert_eq!(cas(second.path()), old, "clients on that machine trust the server");
    assert!(
        !second.path().join("pki/ca.key").exists(),
        "a replica with an etcd has no key of a CA in a file"
    );

    let stranger = AuthorityKeeper::open(of(2), second.path(), false).await;
    let known = stranger.known().borrow().clone();
    assert!(known.error.unwrap().contains("compare the encryption files") && known.authorities.is_none());
}

#[tokio::test]
async fn replicas_that_start_at_once_have_one_ca_and_one_of_them_its_files() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = embedded(first.path());
    let open = |data: &Path| {
        let (of, data) = (AuthorityStore::new(Arc::clone(&store), encryption(1)), data.to_owned());
        async move { AuthorityKeeper::open(of, &data, false).await.known().borrow().clone() }
    };
    let (one, other) = tokio::join!(open(first.path()), open(second.path()));
    assert_eq!(one, other);
    assert!(one.error.is_none() && one.has_answered);
    let has_key = |data: &Path| data.join("pki/ca.key").exists();
    assert!(has_key(first.path()) != has_key(second.path()), "the CA of the other one is nowhere trusted");
    assert_eq!(cas(first.path()), cas(second.path()));
}

#[tokio::test]
async fn values_are_sealed_with_the_newest_encryption_key() {
    let data = tempfile::tempdir().unwrap();
    let store = embedded(data.path());
    let encryption = |keys: &[u8]| {
        let providers = keys.iter().map(|key| Provider::aes_gcm(&format!("k{key}"), &[*key; 32]).unwrap());
        Arc::new(Encryption::new(Rules::from([("secrets".to_owned(), providers.collect())])))
    };
    let known = async |keys: &[u8]| {
        let of = AuthorityStore::new(Arc::clone(&store), encryption(keys));
        AuthorityKeeper::open(of, data.path(), true).await.known().borrow().clone()
    };
    let first = known(&[1]).await;
    assert!(first.authorities.is_some());
    assert_eq!(known(&[2, 1]).await, first);
    assert_eq!(known(&[2]).await, first, "the old key is not needed any more");
    assert!(known(&[1]).await.error.is_some());
}

#[tokio::test]
async fn a_ca_is_created_at_the_first_start_of_an_empty_store_alone() {
    let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = embedded(data.path());
    let of = || AuthorityStore::new(Arc::clone(&store), encryption(1));
    let namespace = Key::new("/capstan/core/namespaces/default").unwrap();
    let created = store.create(&namespace, "{}".into()).await.unwrap();
    let keeper = AuthorityKeeper::open(of(), data.path(), true).await;
    let error = keeper.known().borrow().error.clone().unwrap();
    assert!(error.contains("neither the store") && error.contains("capstan ca create"), "{error}");
    assert!(!data.path().join("pki").exists());
    store.delete(&namespace, created).await.unwrap();
    keeper.refresh().await;
    assert_eq!(keeper.known().borrow().error, None);

    // A generation that is lost is not made anew, and the last one stays in use.
    let before = keeper.known().borrow().authorities.clone();
    let lost = Key::new("/capstan/pki/client/00000000").unwrap();
    let entry = store.get(&lost).await.unwrap().unwrap();
    store.delete(&lost, entry.modified).await.unwrap();
    keeper.refresh().await;
    let known = keeper.known().borrow().clone();
    assert!(known.error.unwrap().contains("restore a backup"));
    assert_eq!(known.authorities, before);
    assert!(store.get(&lost).await.unwrap().is_none());
    let replica = AuthorityKeeper::open(of(), other.path(), false).await;
    assert!(replica.known().borrow().authorities.is_none());
}

/// Data directory of a stopped server.
struct Stopped(tempfile::TempDir);

impl Stopped {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let this = Self(directory);
        let mut file = crate::encryption::load(None, this.0.path()).unwrap();
        file.save().unwrap();
        this.restart().await;
        this
    }

    /// Reads the store as a server does when it starts. Returns what it knows.
    async fn restart(&self) -> Arc<Authorities> {
        let keeper = AuthorityKeeper::open(self.store(), self.0.path(), true).await;
        let known = keeper.known().borrow().clone();
        assert_eq!(known.error, None);
        known.authorities.unwrap()
    }

    fn store(&self) -> AuthorityStore {
        let encryption = crate::encryption::load(None, self.0.path()).unwrap().encryption;
        AuthorityStore::new(embedded(self.0.path()), encryption)
    }

    fn arguments(&self, ca: &[Purpose]) -> CaRotationArguments {
        let store = StoreArguments {
            config: None,
            data_dir: Some(self.0.path().to_owned()),
            etcd_endpoints: Vec::new(),
        };
        CaRotationArguments { ca: ca.to_vec(), store }
    }

    /// Runs a command of its own runtime.
    async fn run(
        &self,
        command: fn(&CaRotationArguments) -> anyhow::Result<()>,
        ca: &[Purpose],
    ) -> anyhow::Result<()> {
        let arguments = self.arguments(ca);
        tokio::task::spawn_blocking(move || command(&arguments)).await.unwrap()
    }

    async fn finish(&self, force: bool) -> anyhow::Result<()> {
        let arguments = CaFinishArguments { rotation: self.arguments(&[]), force };
        tokio::task::spawn_blocking(move || finish(&arguments)).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_keeps_old_certificates_until_it_ends_and_refuses_to_end_while_they_are_used() {
    let stopped = Stopped::new().await;
    let old = cas(stopped.0.path());
    let sign = |found: &Authorities| {
        found.signer(Purpose::Client, stopped.0.path()).unwrap().client("alice", &[], None, CLIENT).unwrap()
    };
    let before = sign(&*stopped.restart().await);
    for _ in 0..2 {
        stopped.run(start, &[]).await.unwrap();
        let found = stopped.restart().await;
        assert_eq!(found.serving.rotation.phase(), Phase::Started);
        let bundle = found.bundle(Purpose::Client);
        assert!(bundle.starts_with(&old) && bundle.len() > old.len());
        assert!(
            sign(&found).certificate != before.certificate && is_trusted(&old, &sign(&found).certificate)
        );
    }
    assert!(stopped.finish(false).await.unwrap_err().to_string().contains("serving CA"));
    stopped.run(promote, &[]).await.unwrap();
    stopped.run(promote, &[]).await.unwrap();
    let found = stopped.restart().await;
    let after = sign(&found);
    let bundle = found.bundle(Purpose::Client);
    assert!(!is_trusted(&old, &after.certificate));
    assert!(is_trusted(&bundle, &after.certificate) && is_trusted(&bundle, &before.certificate));
    assert_eq!(cas(stopped.0.path()), found.bundle(Purpose::Serving));
    let exported = Authority::read_named(stopped.0.path(), "client-ca").unwrap();
    assert!(bundle.ends_with(exported.certificate()), "kubeconfigs are signed by the new CA");

    let now = jiff::Timestamp::now().as_second();
    let used =
        Use { last_used: Some(now), ..Use::issued(&before.certificate, "capstan kubeconfig").unwrap() };
    stopped.store().record(&used).await.unwrap();
    certificate_uses::record(&stopped.store(), &Use { by: String::new(), ..used.clone() }).await.unwrap();
    assert_eq!(stopped.store().uses().await.unwrap(), [used], "a use keeps who has issued the certificate");
    let error = stopped.finish(false).await.unwrap_err().to_string();
    assert!(error.contains("alice") && error.contains("--force"), "{error}");
    stopped.finish(true).await.unwrap();
    stopped.finish(false).await.unwrap();
    let bundle = stopped.restart().await.bundle(Purpose::Client);
    assert!(is_trusted(&bundle, &after.certificate) && !is_trusted(&bundle, &before.certificate));
    let ended = now + 2 * i64::try_from(CLIENT.as_secs()).unwrap();
    certificate_uses::clean(&stopped.store(), ended).await.unwrap();
    assert_eq!(stopped.store().uses().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_token_names_the_ca_that_signs_servers_during_a_rotation() {
    let stopped = Stopped::new().await;
    let signing = async || stopped.store().signing_servers().await.unwrap().unwrap();
    let first = signing().await;
    stopped.run(start, &[Purpose::Serving]).await.unwrap();
    assert_eq!(signing().await, first);
    stopped.run(promote, &[Purpose::Serving]).await.unwrap();
    let second = signing().await;
    assert_ne!(second, first);
    let trusted = stopped.restart().await.bundle(Purpose::Serving);
    assert_eq!(trusted, format!("{first}{second}"), "a node that has joined trusts both");
    let hashes = crate::join::hashes_of_cas(&trusted).unwrap();
    assert_eq!(hashes.last(), crate::join::hashes_of_cas(&second).unwrap().first());
}

const CLIENT: std::time::Duration = std::time::Duration::from_secs(3600);

/// Reports whether CAs in PEM have signed a client certificate.
fn is_trusted(cas: &str, certificate: &str) -> bool {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let parse = |pem: &str| pki::certificates(pem, "test").unwrap();
    let pools = apiserver_access::CertificatePools::new(&parse(cas), &[]).unwrap();
    pools.classify(&parse(certificate), rustls::pki_types::UnixTime::now()).identity().is_some()
}
