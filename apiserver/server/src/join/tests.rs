use std::net::IpAddr;
use std::sync::Arc;

use apiserver_http::TokenEndpoint;
use apiserver_machinery::encryption::{Encryption, Provider, Rules};
use jiff::{SignedDuration, Timestamp};
use storage_contract::{KeyRange, ListOptions, Store};
use storage_embedded::EmbeddedStore;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::service::JoinService;
use super::tokens::Rejected;
use super::*;
use crate::pki::{self, Authority};

/// Store with tokens, and a folder for keys of nodes.
struct Scene {
    home: tempfile::TempDir,
    store: Arc<EmbeddedStore>,
    tokens: JoinTokens,
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(EmbeddedStore::open(&home.path().join("store")).unwrap());
        // Without a rule, values are stored as they are, so that the test can read them.
        let tokens = JoinTokens::new(store.clone(), Arc::new(Encryption::new(Rules::new())));
        Self { home, store, tokens }
    }

    async fn token(&self, node: Option<&str>) -> Token {
        let token = Token::new("00".repeat(32)).unwrap();
        self.tokens.add(&token, node, Timestamp::now()).await.unwrap();
        token
    }

    fn request(&self, token: &Token, node: &str) -> JoinRequest {
        let key = NodeKey::open(&self.home.path().join(format!("{node}.key"))).unwrap();
        let mut request = JoinRequest {
            id: token.id.clone(),
            secret: token.secret.clone(),
            node: node.to_owned(),
            address: IpAddr::from([192, 0, 2, 1]),
            key: String::new(),
            signature: String::new(),
        };
        key.sign(&mut request).unwrap();
        request
    }

    async fn redeem(&self, token: &Token, node: &str) -> Result<(), Rejected> {
        self.tokens.redeem(&self.request(token, node), Timestamp::now()).await.unwrap()
    }
}

#[test]
fn a_token_is_read_again_and_other_texts_are_refused_without_being_repeated() {
    let token = Token::new("ab".repeat(32)).unwrap();
    assert_eq!(token.reveal().parse(), Ok(token.clone()));
    assert!(!format!("{token:?}").contains(&token.secret.0));
    let text = token.reveal();
    for bad in
        ["", "cap1", &text[1..], &text[..text.len() - 1], &text.replace("cap1", "cap2"), &text.to_uppercase()]
    {
        let error = bad.parse::<Token>().unwrap_err().to_string();
        assert!(!error.contains(&token.secret.0), "{bad}: {error}");
    }
}

#[tokio::test]
async fn a_token_is_for_one_node_which_may_repeat_its_request() {
    let scene = Scene::new();
    let token = scene.token(None).await;
    assert_eq!(scene.redeem(&token, "b").await, Ok(()));
    assert_eq!(scene.redeem(&token, "b").await, Ok(()));
    assert_eq!(scene.redeem(&token, "c").await, Err(Rejected::OtherNode("b".to_owned())));
    // The same name with another key is another node.
    std::fs::remove_file(scene.home.path().join("b.key")).unwrap();
    assert_eq!(scene.redeem(&token, "b").await, Err(Rejected::OtherNode("b".to_owned())));
}

#[tokio::test]
async fn of_two_nodes_at_the_same_time_one_gets_the_token() {
    let scene = Scene::new();
    for _ in 0..10 {
        let token = scene.token(None).await;
        let (one, other) = tokio::join!(scene.redeem(&token, "b"), scene.redeem(&token, "c"));
        assert!(one.is_ok() != other.is_ok(), "{one:?} {other:?}");
    }
}

#[tokio::test]
async fn wrong_secrets_late_requests_and_foreign_nodes_are_rejected() {
    let scene = Scene::new();
    let token = scene.token(Some("b")).await;
    assert_eq!(scene.redeem(&token, "c").await, Err(Rejected::OtherNode("b".to_owned())));
    let guess = Token { secret: Secret("00".repeat(16)), ..token.clone() };
    assert_eq!(scene.redeem(&guess, "b").await, Err(Rejected::Unknown));
    let unknown = Token { id: "../../secrets".to_owned(), ..token.clone() };
    assert_eq!(scene.redeem(&unknown, "b").await, Err(Rejected::Unknown));
    let later = Timestamp::now() + SignedDuration::try_from(LIFETIME).unwrap();
    let request = scene.request(&token, "b");
    assert_eq!(scene.tokens.redeem(&request, later).await.unwrap(), Err(Rejected::Expired));
}

/// Returns encryption with these keys, of which the first seals, and with plain values for old ones.
fn sealing(keys: &[u8]) -> Arc<Encryption> {
    let key = |number: &u8| Provider::aes_gcm(&format!("key{number}"), &[*number; 32]).unwrap();
    let providers = keys.iter().map(key).chain([Provider::Identity]).collect();
    Arc::new(Encryption::new(Rules::from([("secrets".to_owned(), providers)])))
}

#[tokio::test]
async fn hv_41_a_token_of_before_a_promotion_or_another_form_is_accepted_and_a_plain_one_is_not() {
    let scene = Scene::new();
    let encryption = sealing(&[1, 2]);
    let sealed = JoinTokens::new(scene.store.clone(), Arc::clone(&encryption));
    let add = async |tokens: &JoinTokens| {
        let token = Token::new("00".repeat(32)).unwrap();
        tokens.add(&token, None, Timestamp::now()).await.unwrap();
        token
    };
    let redeem =
        async |token: &Token| sealed.redeem(&scene.request(token, "b"), Timestamp::now()).await.unwrap();
    let first = add(&sealed).await;
    encryption.derive_keys(true);
    assert_eq!(redeem(&first).await, Ok(()), "a command may have sealed it in the older form");
    let second = add(&sealed).await;
    let promoted = encryption.opening_keys().into_iter().find(|it| !encryption.sealing_keys().contains(it));
    assert!(encryption.promote(promoted.as_deref()));
    assert_eq!(redeem(&second).await, Ok(()), "the key before still opens it");
    // Another program that can write to the store, but has no key, plants a token.
    let planted = add(&scene.tokens).await;
    assert_eq!(redeem(&planted).await, Err(Rejected::Unknown));
    let of_a_stranger = add(&JoinTokens::new(scene.store.clone(), sealing(&[3]))).await;
    assert_eq!(redeem(&of_a_stranger).await, Err(Rejected::Unknown));
}

#[tokio::test]
async fn the_store_has_no_secret_and_loses_expired_tokens() {
    let scene = Scene::new();
    let token = scene.token(None).await;
    let all = || async {
        let options = ListOptions { limit: 0, revision: None };
        scene.store.list(&KeyRange::prefix("/capstan/join-tokens/"), &options).await.unwrap().entries
    };
    let text = String::from_utf8(all().await[0].value.to_vec()).unwrap();
    assert!(!text.contains(&token.secret.0) && text.contains("hash"), "{text}");
    let later = Timestamp::now() + SignedDuration::try_from(LIFETIME).unwrap();
    let other = Token::new("00".repeat(32)).unwrap();
    scene.tokens.add(&other, None, later).await.unwrap();
    let left = all().await;
    assert!(left.len() == 1 && left[0].key.as_str().ends_with(&other.id), "{left:?}");
}

#[test]
fn a_changed_request_is_no_proof() {
    let home = tempfile::tempdir().unwrap();
    let key = NodeKey::open(&home.path().join("key")).unwrap();
    let mut request = JoinRequest {
        id: "1".to_owned(),
        secret: Secret::default(),
        node: "b".to_owned(),
        address: IpAddr::from([192, 0, 2, 1]),
        key: String::new(),
        signature: String::new(),
    };
    key.sign(&mut request).unwrap();
    assert!(proof::is_proved(&request));
    for change in [
        JoinRequest { node: "c".to_owned(), ..request.clone() },
        JoinRequest { address: IpAddr::from([192, 0, 2, 2]), ..request.clone() },
        JoinRequest { id: "2".to_owned(), ..request.clone() },
        JoinRequest { signature: String::new(), ..request.clone() },
    ] {
        assert!(!proof::is_proved(&change), "{change:?}");
    }
}

/// Data directory of an installation with an etcd that another program runs.
fn data(home: &std::path::Path) -> std::path::PathBuf {
    let data = home.join("data");
    let installation = crate::install::Installation {
        name: "lab".to_owned(),
        node: "a".to_owned(),
        address: IpAddr::from([192, 0, 2, 9]),
        port: 7443,
        endpoint: None,
        store: crate::install::StoreKind::ExternalEtcd,
        etcd_endpoints: vec!["https://192.0.2.20:2379".to_owned()],
        has_host: false,
        keystone: None,
        static_pods: None,
        issuer: "https://192.0.2.9:7443".to_owned(),
        peers: Vec::new(),
    };
    for name in installation.shared_files() {
        let path = data.join(name);
        pki::private_directory(path.parent().unwrap()).unwrap();
        std::fs::write(path, name).unwrap();
    }
    std::fs::write(data.join("installation.yaml"), installation.text().unwrap()).unwrap();
    data
}

#[tokio::test]
async fn a_node_gets_the_keys_and_the_sixth_failure_of_an_address_is_refused_unread() {
    let scene = Scene::new();
    let service = JoinService::new(data(scene.home.path()), scene.tokens.clone(), None);
    let token = scene.token(None).await;
    let body = serde_json::to_vec(&scene.request(&token, "b")).unwrap();
    let from = |last| Some(IpAddr::from([192, 0, 2, last]));
    let answer = service.post(from(2), &body).await.unwrap();
    let bundle: Bundle = serde_json::from_value(answer).unwrap();
    assert_eq!(bundle.files.get("encryption.yaml").map(|it| it.0.as_str()), Some("encryption.yaml"));
    assert!(bundle.files.contains_key("pki/ca.key") && bundle.members.is_empty());
    for _ in 0..5 {
        let error = service.post(from(3), b"{}").await.unwrap_err();
        assert_eq!(error.code, 403);
        assert!(error.message.contains("join-token create"), "{}", error.message);
    }
    assert_eq!(service.post(from(3), &body).await.unwrap_err().code, 429);
    service.post(from(2), &body).await.unwrap();
}

/// Server with a certificate of a new CA. Returns its port, the hash of its CA, and a task that ends with the bytes that
/// a client has sent after the handshake.
async fn server() -> (u16, String, tokio::task::JoinHandle<Vec<u8>>) {
    let home = tempfile::tempdir().unwrap();
    let authority = Authority::open(home.path()).unwrap();
    let pair = authority.serving(&["127.0.0.1".to_owned()]).unwrap();
    let chain = format!("{}{}", pair.certificate, authority.certificate());
    let chain = pki::certificates(&chain, "chain").unwrap();
    let key = pki::key(&pair.key, "key").unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let hash = hashes_of_cas(authority.certificate()).unwrap().remove(0);
    let received = apiserver_executor::spawn_joined(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let Ok(mut stream) = acceptor.accept(stream).await else { return Vec::new() };
        let mut bytes = vec![0; 65_536];
        let count = stream.read(&mut bytes).await.unwrap_or_default();
        bytes.truncate(count);
        bytes
    });
    (port, hash, received)
}

#[tokio::test]
async fn a_server_of_another_ca_is_sent_nothing() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let home = tempfile::tempdir().unwrap();
    let key = NodeKey::open(&home.path().join("key")).unwrap();
    for is_right in [false, true] {
        let (port, hash, received) = server().await;
        let token = Token::new(if is_right { hash } else { "00".repeat(32) }).unwrap();
        let server = format!("https://127.0.0.1:{port}");
        let error = join(&server, &token, "b", IpAddr::from([192, 0, 2, 1]), &key).await.unwrap_err();
        let received = received.await.unwrap();
        assert_eq!(!received.is_empty(), is_right, "{error:#}");
        let explained = error.to_string().contains("nothing was sent to it");
        assert_eq!(explained, !is_right, "{error:#}");
    }
}

#[tokio::test]
async fn the_hash_of_the_ca_alone_does_not_make_a_server_trusted() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    // The CA is public. A server that only shows it, and has a certificate of its own, is refused.
    let home = tempfile::tempdir().unwrap();
    let (right, wrong) = (home.path().join("right"), home.path().join("wrong"));
    let (right, wrong) = (Authority::open(&right).unwrap(), Authority::open(&wrong).unwrap());
    let pair = wrong.serving(&["127.0.0.1".to_owned()]).unwrap();
    let chain = format!("{}{}", pair.certificate, right.certificate());
    let chain = pki::certificates(&chain, "chain").unwrap();
    let key = pki::key(&pair.key, "key").unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let accepted = apiserver_executor::spawn_joined(async move {
        let (stream, _) = listener.accept().await.unwrap();
        TlsAcceptor::from(Arc::new(config)).accept(stream).await.is_ok()
    });
    let hash = hashes_of_cas(right.certificate()).unwrap();
    assert!(client(&hash).unwrap().get(&url).send().await.is_err());
    assert!(!accepted.await.unwrap());
}
