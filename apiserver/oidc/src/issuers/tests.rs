//! Tests with an issuer over HTTPS: tokens, keys, and an issuer that is silent.

use apiserver_access::{ReviewFailed, User};
use async_trait::async_trait;
use serde_json::{Value, json};
use tests_oidc_issuer::{Issuer, SigningKey};
use tokio::time::advance;

use super::*;
use crate::keys::KeyCopy;

/// Issuer, and the verifier of its tokens.
struct Scene {
    issuer: Issuer,
    issuers: Arc<Issuers>,
    found: access::Issuer,
}

/// Returns the file for an issuer.
fn file(issuer: &Issuer) -> Configuration {
    let ca = issuer.ca().replace('\n', "\n      ");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    \
         audiences: [capstan, other]\n    audienceMatchPolicy: MatchAny\n    certificateAuthority: |\n      {ca}\n  \
         claimMappings:\n    username: {{claim: sub, prefix: 'oidc:'}}\n    groups: {{claim: groups, prefix: 'oidc:'}}\n",
        issuer.url()
    );
    Configuration::parse(&text, &[]).unwrap()
}

async fn scene(keys: Vec<(&str, SigningKey)>, settings: IssuerSettings) -> Scene {
    let issuer = Issuer::start(keys).await;
    let issuers = Arc::new(Issuers::default());
    let found = issuers.apply(file(&issuer), |_| settings.clone()).unwrap().pop().unwrap();
    Scene { issuer, issuers, found }
}

async fn plain() -> Scene {
    scene(vec![("k1", SigningKey::new("ES256"))], IssuerSettings::default()).await
}

impl Scene {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        self.found.verifier.review(token).await
    }

    /// Reviews a token of the key with these claims, and returns the name of the user.
    async fn name(&self, key: &str, claims: &Value) -> Option<String> {
        self.review(&self.issuer.token(key, claims)).await.unwrap().map(|user| user.name)
    }
}

fn alice() -> Value {
    json!({"sub": "alice"})
}

#[tokio::test]
async fn a_token_of_each_algorithm_has_its_user() {
    let names = ["RS256", "PS256", "ES256", "ES384", "ES512", "EdDSA"];
    let keys = names.map(|name| (name, SigningKey::new(name)));
    let algorithms = Algorithm::names().filter_map(Algorithm::named).collect();
    let scene = scene(keys.into(), IssuerSettings { algorithms, ..IssuerSettings::default() }).await;
    assert_eq!(scene.found.realm, Realm::Issuer(scene.issuer.url().into()));
    for name in names {
        assert_eq!(scene.name(name, &alice()).await.as_deref(), Some("oidc:alice"), "{name}");
    }
    assert_eq!(scene.issuer.fetches(), 1, "the keys are kept");
    let groups = json!({"sub": "alice", "groups": ["a", "b"], "aud": ["x", "other"], "jti": "j1"});
    let user = scene.review(&scene.issuer.token("ES256", &groups)).await.unwrap().unwrap();
    assert_eq!(user.groups, ["oidc:a", "oidc:b", "system:authenticated"]);
    assert_eq!(user.extra["authentication.kubernetes.io/credential-id"], ["JTI=j1"]);
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused() {
    let scene = plain().await;
    for bad in [
        json!({"sub": "alice", "exp": 1}),
        json!({"sub": "alice", "aud": "host"}),
        json!({"sub": "alice", "iss": "https://other.example"}),
        json!({"sub": "alice", "exp": null}),
        json!({"aud": "capstan"}),
    ] {
        assert_eq!(scene.name("k1", &bad).await, None, "{bad}");
    }
    let good = scene.issuer.token("k1", &alice());
    let (message, signature) = good.rsplit_once('.').unwrap();
    let (header, payload) = message.split_once('.').unwrap();
    let other = SigningKey::new("ES256").token(&json!({"alg": "ES256", "kid": "k1"}), &alice());
    let stolen = other.rsplit('.').next().unwrap().to_owned();
    let none = base64_of(r#"{"alg":"none","kid":"k1"}"#);
    for (case, bad) in [
        ("no signature", format!("{message}.")),
        ("a signature of another key", format!("{message}.{stolen}")),
        ("alg none", format!("{none}.{payload}.")),
        ("alg none with the signature", format!("{none}.{payload}.{signature}")),
        ("a changed header", format!("{}.{payload}.{signature}", base64_of(r#"{"alg":"ES256"}"#))),
        ("changed claims", format!("{header}.{}.{signature}", base64_of(r#"{"sub":"root"}"#))),
        ("four parts", format!("{good}.{signature}")),
        (
            "the wrong algorithm for the key",
            format!("{}.{payload}.{signature}", base64_of(r#"{"alg":"RS256","kid":"k1"}"#)),
        ),
    ] {
        assert_eq!(scene.review(&bad).await, Ok(None), "{case}");
    }
    assert!(scene.review(&good).await.unwrap().is_some());
}

fn base64_of(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

#[tokio::test]
async fn a_public_key_is_no_shared_secret() {
    let scene = scene(vec![("k1", SigningKey::new("RS256"))], IssuerSettings::default()).await;
    let public = scene.issuer.state().keys[0].1.public("k1");
    let message = format!(
        "{}.{}",
        base64_of(r#"{"alg":"HS256","kid":"k1"}"#),
        base64_of(&format!(
            r#"{{"iss":"{}","aud":"capstan","exp":9999999999,"sub":"root"}}"#,
            scene.issuer.url()
        ))
    );
    let secret = jsonwebtoken::EncodingKey::from_urlsafe_base64_secret(public["n"].as_str().unwrap());
    let with = secret
        .unwrap_or_else(|_| jsonwebtoken::EncodingKey::from_secret(public["n"].as_str().unwrap().as_bytes()));
    let signature =
        jsonwebtoken::crypto::sign(message.as_bytes(), &with, jsonwebtoken::Algorithm::HS256).unwrap();
    assert_eq!(scene.review(&format!("{message}.{signature}")).await, Ok(None));
}

#[tokio::test]
async fn a_new_key_is_found_at_once_but_invented_ids_do_not_flood_the_issuer() {
    let scene = plain().await;
    assert!(scene.name("k1", &alice()).await.is_some());
    tokio::time::pause();
    advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    scene.issuer.state().keys = vec![("k2".to_owned(), Arc::new(SigningKey::new("ES256")))];
    assert!(scene.name("k2", &alice()).await.is_some(), "the issuer has rotated its keys");
    assert_eq!(scene.issuer.fetches(), 2);
    let stranger = SigningKey::new("ES256");
    for id in 0..20 {
        let claims =
            json!({"iss": scene.issuer.url(), "aud": "capstan", "exp": 9_999_999_999_u64, "sub": "root"});
        let invented = stranger.token(&json!({"alg": "ES256", "kid": format!("x{id}")}), &claims);
        assert_eq!(scene.review(&invented).await, Ok(None));
    }
    assert_eq!(scene.issuer.fetches(), 2, "at most one attempt in ten seconds");
}

#[tokio::test]
async fn a_silent_issuer_is_no_reason_to_refuse_a_token() {
    let scene = plain().await;
    scene.issuer.state().is_silent = true;
    let token = scene.issuer.token("k1", &alice());
    let error = scene.review(&token).await.unwrap_err().0;
    assert!(error.contains("were never fetched") && error.contains(scene.issuer.url()), "{error}");
    scene.issuer.state().is_silent = false;
    let error = scene.review(&token).await.unwrap_err().0;
    assert!(error.contains("were never fetched"), "the next attempt is later: {error}");
    tokio::time::pause();
    advance(Duration::from_secs(10)).await;
    tokio::time::resume();
    assert!(scene.review(&token).await.unwrap().is_some());
    scene.issuer.state().is_silent = true;
    tokio::time::pause();
    advance(Duration::from_secs(23 * 3600)).await;
    tokio::time::resume();
    assert!(scene.review(&token).await.unwrap().is_some(), "the last keys stay in force");
    tokio::time::pause();
    advance(Duration::from_secs(2 * 3600)).await;
    tokio::time::resume();
    let error = scene.review(&token).await.unwrap_err().0;
    assert!(error.contains("are 25 h old"), "{error}");
}

#[tokio::test]
async fn a_discovery_document_of_another_issuer_is_not_used() {
    let scene = plain().await;
    let document =
        json!({"issuer": "https://evil.example", "jwks_uri": format!("{}/keys", scene.issuer.url())});
    let path = "/.well-known/openid-configuration".to_owned();
    scene.issuer.state().responses.insert(path, (200, document));
    let error = scene.review(&scene.issuer.token("k1", &alice())).await.unwrap_err().0;
    assert!(error.contains("its issuer is \"https://evil.example\""), "{error}");
}

#[tokio::test]
async fn an_issuer_keeps_its_keys_when_another_part_of_the_file_changes() {
    let scene = plain().await;
    assert!(scene.name("k1", &alice()).await.is_some());
    let again = scene.issuers.apply(file(&scene.issuer), |_| IssuerSettings {
        is_shared_with_host: true,
        ..IssuerSettings::default()
    });
    let again = again.unwrap().pop().unwrap();
    assert_eq!(again.realm, Realm::Host);
    scene.issuer.state().is_silent = true;
    let token = scene.issuer.token("k1", &alice());
    assert!(again.verifier.review(&token).await.unwrap().is_some());
}

#[tokio::test]
async fn the_keys_are_fetched_in_the_background() {
    let scene = plain().await;
    let shutdown = CancellationToken::new();
    let follow = Arc::clone(&scene.issuers).follow(shutdown.clone());
    let wait = async {
        while scene.issuer.fetches() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        shutdown.cancel();
    };
    tokio::join!(follow, wait);
}

/// Copies in memory.
#[derive(Debug, Default)]
struct Copies(Mutex<Option<KeyCopy>>);

#[async_trait]
impl KeyCopies for Copies {
    async fn read(&self, _: &str) -> Option<KeyCopy> {
        self.0.lock().unwrap().clone()
    }

    async fn write(&self, _: &str, copy: &KeyCopy) -> bool {
        *self.0.lock().unwrap() = Some(copy.clone());
        true
    }
}

#[tokio::test]
async fn another_process_uses_the_kept_keys_while_the_issuer_is_silent() {
    let scene = plain().await;
    let copies = Arc::new(Copies::default());
    let verifier = || {
        let issuers = Issuers::new(copies.clone(), KeyMetrics::default());
        issuers.apply(file(&scene.issuer), |_| IssuerSettings::default()).unwrap().pop().unwrap().verifier
    };
    let token = scene.issuer.token("k1", &alice());
    assert!(verifier().review(&token).await.unwrap().is_some());
    scene.issuer.state().is_silent = true;
    assert!(verifier().review(&token).await.unwrap().is_some());
    copies.0.lock().unwrap().as_mut().unwrap().at -= 25 * 3600;
    let error = verifier().review(&token).await.unwrap_err().0;
    assert!(error.contains("are 25 h old"), "{error}");
    copies.0.lock().unwrap().as_mut().unwrap().place = "https://other.example/".to_owned();
    let error = verifier().review(&token).await.unwrap_err().0;
    assert!(error.contains("were never fetched"), "{error}");
}

#[tokio::test]
async fn groups_come_from_another_place_of_the_issuer() {
    let scene = plain().await;
    let url = scene.issuer.url().to_owned();
    let groups = scene.issuer.token("k1", &json!({"groups": ["far"]}));
    scene.issuer.state().responses.insert("/groups".to_owned(), (200, json!(groups)));
    let of = |endpoint: String| json!({"sub": "alice", "_claim_names": {"groups": "s"}, "_claim_sources": {"s": {"endpoint": endpoint}}});
    let user = scene.review(&scene.issuer.token("k1", &of(format!("{url}/groups")))).await.unwrap().unwrap();
    assert_eq!(user.groups, ["oidc:far", "system:authenticated"]);
    let elsewhere = of("https://127.0.0.1:1/groups".to_owned());
    assert_eq!(scene.name("k1", &elsewhere).await, None);
    let error = scene.review(&scene.issuer.token("k1", &of(format!("{url}/none")))).await.unwrap_err().0;
    assert!(error.contains("404"), "{error}");
}

#[tokio::test]
async fn tm_19_no_redirect_of_an_issuer_is_followed() {
    for path in ["/.well-known/openid-configuration", "/keys", "/groups"] {
        let scene = plain().await;
        let url = scene.issuer.url().to_owned();
        scene.issuer.state().redirects.insert(path.to_owned(), format!("{url}/elsewhere"));
        let claims = json!({"sub": "alice", "_claim_names": {"groups": "s"},
            "_claim_sources": {"s": {"endpoint": format!("{url}/groups")}}});
        let error = scene.review(&scene.issuer.token("k1", &claims)).await.unwrap_err().0;
        assert!(error.contains(path) && error.contains("302"), "{path}: {error}");
        let log = scene.issuer.state().log.clone();
        assert!(!log.contains(&"GET /elsewhere".to_owned()), "{path}: {log:?}");
    }
}
