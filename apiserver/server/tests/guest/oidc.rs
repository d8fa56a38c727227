//! Users of an OpenID Connect issuer, by the authentication file.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tests_oidc_issuer::{Issuer, SigningKey};

use crate::process::Capstan;
use crate::token_client::TokenClient;

/// Writes the authentication file and the configuration of the server. Returns the path of the latter.
fn configure(data: &Path, issuer: &Issuer, rest: &str) -> PathBuf {
    let ca = issuer.ca().replace('\n', "\n      ");
    let authentication = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer:\n    url: {}\n    \
         audiences: [capstan]\n    certificateAuthority: |\n      {ca}\n  claimMappings:\n    username: \
         {{expression: \"'oidc:' + claims.sub\"}}\n    groups: {{claim: groups, prefix: ''}}\n  \
         userValidationRules:\n  - {{expression: \"user.username != 'oidc:mallory'\", message: 'no'}}\n{rest}",
        issuer.url()
    );
    let [file, config] = ["authentication.yaml", "config.yaml"].map(|name| data.join(name));
    std::fs::write(&file, authentication).unwrap();
    let server = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\nauthenticationConfigFile: {}\n",
        file.display()
    );
    std::fs::write(&config, server).unwrap();
    config
}

async fn start(data: &Path, config: &Path) -> Capstan {
    let capstan = Capstan::start(data, &["--config", config.to_str().unwrap()]);
    capstan.ready().await;
    capstan
}

async fn review(client: &TokenClient, token: &str) -> (u16, Value) {
    client.review("Authorization", &format!("Bearer {token}")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_of_an_issuer_is_known_by_its_tokens_alone() {
    let issuer =
        Issuer::start(vec![("k1", SigningKey::new("RS256")), ("k2", SigningKey::new("ES256"))]).await;
    let data = tempfile::tempdir().unwrap();
    let config = configure(data.path(), &issuer, "");
    let capstan = start(data.path(), &config).await;
    let client = TokenClient::new(&capstan, data.path());
    let groups = ["dev", "system:masters", "system:authenticated"];
    for key in ["k1", "k2"] {
        let token = issuer.token(key, &json!({"sub": "alice", "groups": groups, "jti": "j1"}));
        let (code, user) = review(&client, &token).await;
        assert_eq!((code, &user["username"]), (201, &json!("oidc:alice")), "{key}: {user}");
        assert_eq!(user["groups"], json!(["dev", "system:authenticated"]), "no reserved groups");
        assert_eq!(user["extra"]["authentication.kubernetes.io/credential-id"], json!(["JTI=j1"]));
    }
    let good = issuer.token("k2", &json!({"sub": "alice"}));
    let unsigned = good.rsplit_once('.').unwrap().0.to_owned();
    for (case, bad) in [
        ("expired", issuer.token("k2", &json!({"sub": "alice", "exp": 1}))),
        ("another audience", issuer.token("k2", &json!({"sub": "alice", "aud": "host"}))),
        ("another issuer", issuer.token("k2", &json!({"sub": "alice", "iss": "https://other.example"}))),
        ("a rule", issuer.token("k2", &json!({"sub": "mallory"}))),
        (
            "an unknown key",
            SigningKey::new("ES256").token(
                &json!({"alg": "ES256", "kid": "k3"}),
                &json!({"iss": issuer.url(), "aud": "capstan", "exp": 9_999_999_999_u64, "sub": "alice"}),
            ),
        ),
        ("no signature", format!("{unsigned}.")),
        ("no JWT", "abc".to_owned()),
    ] {
        assert_eq!(review(&client, &bad).await.0, 401, "{case}");
    }
    issuer.state().is_silent = true;
    assert_eq!(review(&client, &good).await.0, 201, "the keys are known");
    drop(capstan);
    let capstan = start(data.path(), &config).await;
    let client = TokenClient::new(&capstan, data.path());
    assert_eq!(review(&client, &good).await.0, 201, "the keys are in the store");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_issuer_that_never_answered_gets_503() {
    let issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
    issuer.state().is_silent = true;
    let data = tempfile::tempdir().unwrap();
    let capstan = start(data.path(), &configure(data.path(), &issuer, "")).await;
    let token = issuer.token("k1", &json!({"sub": "alice"}));
    let (code, message) = review(&TokenClient::new(&capstan, data.path()), &token).await;
    assert!(code == 503 && message.to_string().contains("were never fetched"), "{code} {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_logs_in_with_the_plug_in() {
    let issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
    let data = tempfile::tempdir().unwrap();
    let capstan = start(data.path(), &configure(data.path(), &issuer, "")).await;
    let [ca, secret] = ["issuer.crt", "secret"].map(|name| data.path().join(name));
    std::fs::write(&ca, issuer.ca()).unwrap();
    std::fs::write(&secret, "s3cret").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["login", "oidc", "--issuer", issuer.url(), "--client-id", "capstan", "--keep"]);
    command.args(["--grant", "client-credentials", "--client-secret-file"]).arg(&secret);
    command.arg("--issuer-ca").arg(&ca).env("XDG_STATE_HOME", data.path()).env("NO_COLOR", "1");
    let mut log_in = || {
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{text}");
        let credential: Value = serde_json::from_slice(&output.stdout).unwrap();
        credential.pointer("/status/token").and_then(Value::as_str).unwrap().to_owned()
    };
    let token = log_in();
    let (code, user) = review(&TokenClient::new(&capstan, data.path()), &token).await;
    assert_eq!((code, &user["username"]), (201, &json!("oidc:alice")), "{user}");
    issuer.state().is_silent = true;
    assert_eq!(log_in(), token, "the token is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_requests_are_restricted_to_paths() {
    let issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
    let data = tempfile::tempdir().unwrap();
    let rest = "anonymous: {enabled: true, conditions: [{path: /livez}]}\n";
    let capstan = start(data.path(), &configure(data.path(), &issuer, rest)).await;
    let client = TokenClient::new(&capstan, data.path());
    for (path, expected) in [("/livez", 200), ("/readyz", 401), ("/apis", 401)] {
        assert_eq!(client.anonymous(path).await, expected, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_ends_the_start_with_its_field() {
    let issuer = Issuer::start(vec![("k1", SigningKey::new("ES256"))]).await;
    let data = tempfile::tempdir().unwrap();
    let config = configure(data.path(), &issuer, "- issuer: {}\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data.path());
    let output = command.arg("--config").arg(&config).env("NO_COLOR", "1").output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success() && text.contains("jwt[1].issuer.url: Required value"), "{text}");
}
