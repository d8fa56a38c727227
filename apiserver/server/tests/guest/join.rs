//! Tests of the endpoint by which nodes join, on a server of `capstan init`.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::etcd::free_port;
use crate::process::Capstan;

const PATH: &str = "/capstan/v1/join";

/// Runs `capstan init` below a folder, and returns the data directory.
fn init(root: &Path) -> std::path::PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.args(["init", "--yes", "--no-start", "--store", "embedded", "--address", "192.0.2.1"]);
    command.args(["--node-name", "a", "--root"]).arg(root).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    root.join("var/lib/capstan")
}

/// Client that trusts the CA of a server, and has no certificate.
struct Stranger {
    http: reqwest::Client,
    url: String,
}

impl Stranger {
    fn new(server: &Capstan, data: &Path) -> Self {
        let ca = std::fs::read(data.join("pki/ca.crt")).unwrap();
        let ca = reqwest::Certificate::from_pem(&ca).unwrap();
        let http = reqwest::Client::builder().tls_certs_only([ca]).http1_only().build().unwrap();
        Self { http, url: format!("https://127.0.0.1:{}{PATH}", server.port) }
    }

    async fn post(&self, body: String) -> (u16, Value) {
        let answer = self.http.post(&self.url).body(body).send().await.unwrap();
        let code = answer.status().as_u16();
        (code, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap_or_default())
    }
}

#[tokio::test]
async fn a_stranger_reaches_the_endpoint_of_joins_and_gets_nothing_without_a_token() {
    let root = tempfile::tempdir().unwrap();
    let data = init(root.path());
    let server = Capstan::start_on(free_port(), &data, &[]);
    server.ready().await;
    let stranger = Stranger::new(&server, &data);
    // The other methods of the path, and the paths beside it, need a user.
    assert_eq!(stranger.http.get(&stranger.url).send().await.unwrap().status(), 401);
    let beside = format!("{}/", stranger.url);
    assert_eq!(stranger.http.post(&beside).send().await.unwrap().status(), 401);
    assert_eq!(stranger.post("x".repeat(20_000)).await.0, 413);
    let request = json!({"id": "00".repeat(8), "secret": "00".repeat(16), "node": "b", "address": "192.0.2.2",
        "key": "", "signature": ""});
    for _ in 0..5 {
        let (code, answer) = stranger.post(request.to_string()).await;
        assert_eq!(code, 403, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("the join token is not valid"), "{answer}");
    }
    assert_eq!(stranger.post(request.to_string()).await.0, 429);
    let log = std::fs::read_to_string(data.join(format!("{}.log", server.port))).unwrap();
    assert!(log.contains("a join was refused") && !log.contains(&"00".repeat(16)), "{log}");
}

#[tokio::test]
async fn a_server_that_init_has_not_made_has_no_endpoint_of_joins() {
    let data = tempfile::tempdir().unwrap();
    let server = Capstan::start(data.path(), &[]);
    server.ready().await;
    let stranger = Stranger::new(&server, data.path());
    assert_eq!(stranger.post(String::new()).await.0, 401);
    assert_eq!(server.client().get(PATH).await.unwrap().code, 404);
}
