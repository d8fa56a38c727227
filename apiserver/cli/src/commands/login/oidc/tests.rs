//! Tests with an issuer over HTTPS.

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use tests_oidc_issuer::{Issuer, SigningKey};

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: OidcArguments,
}

struct Scene {
    issuer: Issuer,
    directory: tempfile::TempDir,
}

async fn scene() -> Scene {
    let issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.crt"), issuer.ca()).unwrap();
    std::fs::write(directory.path().join("secret"), "s3cret\n").unwrap();
    Scene { issuer, directory }
}

impl Scene {
    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn arguments(&self, more: &[&str]) -> OidcArguments {
        let ca = self.path("ca.crt");
        let own = [
            "capstan",
            "--issuer",
            self.issuer.url(),
            "--client-id",
            "c",
            "--issuer-ca",
            &ca,
            "--no-browser",
        ];
        Command::try_parse_from(own.iter().chain(more)).unwrap().arguments
    }

    async fn endpoints(&self, arguments: &OidcArguments) -> Endpoints {
        let http = http_client(Some(Path::new(&self.path("ca.crt")))).unwrap();
        Endpoints::discover(http, arguments).await.unwrap()
    }
}

#[tokio::test]
async fn a_client_logs_in_with_its_secret() {
    let scene = scene().await;
    let secret = scene.path("secret");
    let arguments = scene.arguments(&["--grant", "client-credentials", "--client-secret-file", &secret]);
    let token = log_in(&arguments, None).await.unwrap();
    let claims = endpoints::claims(&token.secret).unwrap();
    assert_eq!((&claims["aud"], &claims["sub"]), (&json!("c"), &json!("alice")));
    let left = token.renew_at.unwrap().as_second() - Timestamp::now().as_second();
    assert!((530..=540).contains(&left), "{left}");
    std::fs::write(&secret, "wrong").unwrap();
    let failure = log_in(&arguments, None).await.err().unwrap().to_string();
    assert!(failure.contains("invalid_grant no") && !failure.contains("wrong"), "{failure}");
    let none = scene.arguments(&["--grant", "client-credentials"]);
    assert!(log_in(&none, None).await.err().unwrap().to_string().contains("--client-secret-file"));
}

#[tokio::test]
async fn a_device_waits_until_the_person_has_logged_in() {
    let scene = scene().await;
    scene.issuer.state().pending = 2;
    let token = log_in(&scene.arguments(&["--grant", "device"]), None).await.unwrap();
    assert!(endpoints::claims(&token.secret).is_some());
    let asked = scene.issuer.state().log.iter().filter(|line| *line == "POST /token").count();
    assert_eq!(asked, 3);
}

#[tokio::test]
async fn an_issuer_that_is_silent_for_a_moment_does_not_end_the_login_of_a_device() {
    let scene = scene().await;
    let code = json!({"device_code": "d3vice", "user_code": "A", "verification_uri": "https://id.example",
        "interval": 0, "expires_in": u64::MAX});
    let silent = (503, json!({"error": "temporarily_unavailable"}));
    scene.issuer.state().responses.insert("/device".to_owned(), (200, code));
    scene.issuer.state().responses.insert("/token".to_owned(), silent);
    let arguments = scene.arguments(&["--grant", "device"]);
    let recovery = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        scene.issuer.state().responses.remove("/token");
    };
    let (token, ()) = tokio::join!(log_in(&arguments, None), recovery);
    assert!(endpoints::claims(&token.unwrap().secret).is_some());
}

/// Logs in with a code, as the browser of a person does.
async fn with_browser(scene: &Scene) -> Result<Granted, Failure> {
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port().to_string()
    };
    let arguments = scene.arguments(&["--port", &port]);
    let endpoints = scene.endpoints(&arguments).await;
    let (show, shown) = tokio::sync::oneshot::channel();
    let browser = async {
        let url: String = shown.await.unwrap();
        let http = reqwest::Client::new();
        let back = format!("http://127.0.0.1:{port}/");
        let forged = format!("{back}?code=c0de&state=forged");
        let refused = http.get(&forged).send().await.unwrap();
        assert_eq!(refused.status().as_u16(), 400, "another page");
        let trusting = http_client(Some(Path::new(&scene.path("ca.crt")))).unwrap();
        let response = trusting.get(url).send().await.unwrap();
        let location = response.headers()["location"].to_str().unwrap().to_owned();
        assert!(location.starts_with(&back), "{location}");
        assert_eq!(http.get(location).send().await.unwrap().status().as_u16(), 200);
    };
    let (granted, ()) =
        tokio::join!(code::log_in(&arguments, &endpoints, |url| show.send(url.to_owned()).unwrap()), browser);
    granted
}

#[tokio::test]
async fn a_person_logs_in_with_a_browser() {
    let scene = scene().await;
    let granted = with_browser(&scene).await.unwrap();
    assert_eq!(endpoints::claims(&granted.token.secret).unwrap()["aud"], "c");
    scene.issuer.state().nonce = Some("replayed".to_owned());
    let failure = with_browser(&scene).await.err().unwrap().to_string();
    assert!(failure.contains("the nonce of the token is not that of this login"), "{failure}");
}

#[tokio::test]
async fn a_token_is_renewed_with_the_one_that_is_kept() {
    let scene = scene().await;
    let endpoints = scene.endpoints(&scene.arguments(&[])).await;
    let granted = endpoints.refresh("r3fresh").await.unwrap();
    assert_eq!(granted.refresh.as_deref(), Some("r3fresh"));
    assert!(endpoints.refresh("old").await.is_err());
}

#[tokio::test]
async fn only_a_decision_of_the_issuer_ends_what_is_kept() {
    let scene = scene().await;
    let endpoints = scene.endpoints(&scene.arguments(&[])).await;
    let kept = |refresh: &str| {
        let token = Token { secret: "old".to_owned(), renew_at: None };
        let kept = Kept::at(scene.directory.path().join(refresh)).locked().unwrap();
        kept.write(&Granted { token, refresh: Some(refresh.to_owned()) }).unwrap();
        Kept::at(scene.directory.path().join(refresh))
    };
    assert!(renewed(&endpoints, &kept("r3fresh")).await.unwrap().is_some());
    assert!(renewed(&endpoints, &kept("revoked")).await.unwrap().is_none(), "the person logs in again");
    scene.issuer.state().responses.insert("/token".to_owned(), (503, json!({})));
    let failure = renewed(&endpoints, &kept("r3fresh")).await.err().unwrap();
    assert_eq!(failure.code().number(), 6, "{failure}");
    scene.issuer.state().is_silent = true;
    let failure = renewed(&endpoints, &kept("r3fresh")).await.err().unwrap();
    assert!(failure.to_string().contains("it cannot be reached"), "{failure}");
}

#[tokio::test]
async fn an_endpoint_without_tls_gets_no_secret() {
    let scene = scene().await;
    let path = "/.well-known/openid-configuration".to_owned();
    let plain = json!({"issuer": scene.issuer.url(), "token_endpoint": format!("{}/token", scene.issuer.url()),
        "device_authorization_endpoint": "http://id.example/device"});
    scene.issuer.state().responses.insert(path, (200, plain));
    let failure = log_in(&scene.arguments(&["--grant", "device"]), None).await.err().unwrap().to_string();
    assert!(failure.contains("names http://id.example/device"), "{failure}");
    assert!(!scene.issuer.state().log.iter().any(|line| line.starts_with("POST ")));
}

#[tokio::test]
async fn the_document_is_that_of_the_issuer() {
    let scene = scene().await;
    let path = "/.well-known/openid-configuration".to_owned();
    let other = json!({"issuer": "https://evil.example", "token_endpoint": "https://evil.example/token"});
    scene.issuer.state().responses.insert(path, (200, other));
    let failure = log_in(&scene.arguments(&[]), None).await.err().unwrap().to_string();
    assert!(failure.contains("is that of \"https://evil.example\""), "{failure}");
}

#[test]
fn a_kubeconfig_repeats_the_arguments() {
    let parse = |words: &[&str]| Command::try_parse_from(words).unwrap().arguments;
    let plain = ["capstan", "--issuer", "https://i", "--client-id", "c"];
    let expected = ["login", "oidc", "--issuer", "https://i", "--client-id", "c"];
    assert_eq!(parse(&plain).of_kubeconfig(), expected);
    let more = ["--grant", "device", "--port", "8000", "--scope", "groups", "--no-browser", "--keep"];
    let words: Vec<&str> = plain.iter().chain(&more).copied().collect();
    let all: Vec<&str> = expected.iter().chain(&more).copied().collect();
    let arguments = parse(&words);
    assert_eq!(arguments.of_kubeconfig(), all);
    assert_eq!(arguments.scope(), "openid groups offline_access");
    let words: Vec<&str> = plain.iter().chain(&["--issuer-ca", "ca.crt"]).copied().collect();
    let here = std::env::current_dir().unwrap().join("ca.crt").display().to_string();
    let found = parse(&words).of_kubeconfig();
    assert_eq!(found.last(), Some(&here), "kubectl runs in any directory");
}
