//! Tests of the kubeconfig that is followed.

use std::io::{Read, Write};
use std::net::TcpListener;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::*;
use crate::health::HostState;

/// Starts a host that records the header `Authorization` of each request. Returns its address.
fn recorder() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut buffer = [0; 8192];
            let read = stream.read(&mut buffer).unwrap();
            let text = String::from_utf8_lossy(&buffer[..read]).to_lowercase();
            let token =
                text.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
            all.lock().unwrap().push(token.to_owned());
            let body = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}"#;
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
            write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    });
    (address, seen)
}

fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{{user}}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

#[tokio::test]
async fn the_error_of_a_damaged_kubeconfig_names_the_line_and_quotes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let good = kubeconfig("http://127.0.0.1:1", "token: hunter2");
    for damaged in
        [format!("{good}\""), good.replace("user: {token", "user: {[token"), "users: hunter2".to_owned()]
    {
        std::fs::write(&file, &damaged).unwrap();
        let error = connect(&file).await.err().expect(&damaged).to_string();
        assert!(error.contains("kubeconfig in YAML at line ") && !error.contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_renewed_credential_is_used_without_a_restart() {
    let (server, seen) = recorder();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, kubeconfig(&server, "token: old")).unwrap();
    let connection = HostConnection::open(&file, HostMetrics::default()).await.unwrap();
    let api: Api<Namespace> = Api::all(connection.client());
    api.get("a").await.unwrap();
    assert!(!connection.reload().await.unwrap(), "nothing changed");
    std::fs::write(&file, "half a file").unwrap();
    assert!(connection.reload().await.is_err());
    api.get("a").await.unwrap();
    std::fs::write(&file, kubeconfig(&server, "token: new")).unwrap();
    assert!(connection.reload().await.unwrap());
    api.get("a").await.unwrap();
    Api::<Namespace>::all(connection.watching()).get("a").await.unwrap();
    assert_eq!(*seen.lock().unwrap(), ["bearer old", "bearer old", "bearer new", "bearer new"]);
}

#[tokio::test]
async fn no_request_waits_for_a_host_that_is_down() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", silent.local_addr().unwrap());
    std::fs::write(&file, kubeconfig(&server, "token: t")).unwrap();
    let connection = HostConnection::open(&file, HostMetrics::default()).await.unwrap();
    let api: Api<Namespace> = Api::all(connection.client());
    let patience = TIMED_OUT + Duration::from_millis(100);
    while connection.health().state() != HostState::Down {
        assert!(tokio::time::timeout(patience, api.get("a")).await.is_err(), "the host is silent");
    }
    let begun = Instant::now();
    for api in [api, Api::all(connection.watching())] {
        let error = api.get("a").await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 503), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_millis(200), "{:?}", begun.elapsed());
    let probing: Api<Namespace> = Api::all(connection.probing());
    assert!(tokio::time::timeout(patience, probing.get("a")).await.is_err(), "the prober asks the host");
}

/// Returns a client certificate and its key, which end at the begin of a year.
fn identity(year: i32) -> (String, String) {
    let mut params = rcgen::CertificateParams::default();
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

#[tokio::test]
async fn a_renewed_client_certificate_is_noticed_in_its_own_file_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |(certificate, key): &(String, String)| {
        std::fs::write(path("tls.crt"), certificate).unwrap();
        std::fs::write(path("tls.key"), key).unwrap();
    };
    write(&identity(2034));
    let user =
        format!("client-certificate: {0}/tls.crt, client-key: {0}/tls.key", directory.path().display());
    std::fs::write(path("kubeconfig"), kubeconfig("https://127.0.0.1:1", &user)).unwrap();
    let connection = HostConnection::open(&path("kubeconfig"), HostMetrics::default()).await.unwrap();
    let end = |connection: &HostConnection| connection.credential().end.unwrap().to_string();
    assert_eq!(end(&connection), "2034-01-01T00:00:00Z");
    write(&identity(2035));
    assert!(connection.reload().await.unwrap());
    assert_eq!(end(&connection), "2035-01-01T00:00:00Z");
    let (certificate, key) = identity(2036);
    let [certificate, key] = [certificate, key].map(|text| STANDARD.encode(text));
    let user = format!("client-certificate-data: {certificate}, client-key-data: {key}");
    std::fs::write(path("kubeconfig"), kubeconfig("https://127.0.0.1:1", &user)).unwrap();
    assert!(connection.reload().await.unwrap());
    assert_eq!(end(&connection), "2036-01-01T00:00:00Z");
}
