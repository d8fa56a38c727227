//! Start with a host cluster that does not answer.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use serde_json::{Value, json};

use crate::client::Identity;
use crate::etcd::free_port;
use crate::process::{Capstan, PATIENCE};

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";

/// Longest time from the start to the first answer, as without a host.
const START: Duration = Duration::from_secs(15);

/// Time after the election in which the leader writes the copies.
pub(crate) const COPIED: Duration = Duration::from_secs(5);

pub(crate) fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

/// Reads a request. Returns its first line and its body.
fn read(stream: &mut impl Read) -> (String, String) {
    let (mut text, mut buffer) = (String::new(), [0; 16_384]);
    loop {
        let count = stream.read(&mut buffer).unwrap_or_default();
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        let Some((head, body)) = text.split_once("\r\n\r\n").filter(|_| count > 0) else {
            if count == 0 {
                return (String::new(), String::new());
            }
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        if body.len() >= length.unwrap_or_default() {
            return (head.lines().next().unwrap_or_default().to_owned(), body.to_owned());
        }
    }
}

/// Starts a host that answers as a function of method and path, and of the body, does. Returns its port. `None` never
/// answers.
fn host(answers: impl Fn(&str, &str) -> Option<(u16, Value)> + Send + Sync + 'static) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answers = Arc::new(answers);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            let answers = Arc::clone(&answers);
            std::thread::spawn(move || {
                let (line, body) = read(&mut stream);
                let line = line.trim_end_matches(" HTTP/1.1");
                let Some((code, body)) = answers(line, &body) else { return std::thread::park() };
                let head = "content-type: application/json\r\nconnection: close";
                let body = body.to_string();
                let _ = write!(
                    stream,
                    "HTTP/1.1 {code} X\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                );
            });
        }
    });
    port
}

/// Returns the port of a host that has not read its RBAC objects.
fn refusing_host() -> u16 {
    let refusal =
        json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "message": "no", "code": 403});
    host(move |_, _| Some((403, refusal.clone())))
}

/// Returns the port of a host with the namespace `team`, and with this front-proxy CA. It is silent while `is_down`.
pub(crate) fn whole_host(ca: &str, is_down: &Arc<AtomicBool>) -> u16 {
    host_with(ca, is_down, |_| None)
}

/// The same, with further responses.
pub(crate) fn host_with(
    ca: &str,
    is_down: &Arc<AtomicBool>,
    further: impl Fn(&str) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> u16 {
    host_reading(ca, is_down, move |path, _| further(path))
}

/// The same, with responses that depend on the body, too.
pub(crate) fn host_reading(
    ca: &str,
    is_down: &Arc<AtomicBool>,
    further: impl Fn(&str, &str) -> Option<(u16, Value)> + Send + Sync + 'static,
) -> u16 {
    let (ca, is_down) = (ca.to_owned(), Arc::clone(is_down));
    host(move |line, body| {
        if is_down.load(Ordering::SeqCst) {
            return None;
        }
        let (path, query) = line.split_once('?').unwrap_or((line, ""));
        if let Some(answer) = further(path, body).filter(|_| !query.contains("watch=")) {
            return Some(answer);
        }
        let meta = |name: &str| json!({"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1"});
        let configuration = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": meta("extension-apiserver-authentication"),
            "data": {"requestheader-client-ca-file": ca, "requestheader-allowed-names": "[\"front\"]"}});
        let namespace = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta(name),
            "status": {"phase": "Active"}})
        };
        let list = |kind: &str, items: Value| {
            json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"resourceVersion": "1"}, "items": items})
        };
        let missing = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
        match path {
            _ if query.contains("watch=") => None,
            "GET /readyz" => Some((200, json!("ok"))),
            "GET /api/v1/namespaces/kube-system" => Some((200, namespace("kube-system"))),
            "GET /api/v1/namespaces" => {
                Some((200, list("NamespaceList", json!([namespace("kube-system"), namespace("team")]))))
            }
            "GET /api/v1/namespaces/kube-system/configmaps" => {
                Some((200, list("ConfigMapList", json!([configuration]))))
            }
            path if path.ends_with("/extension-apiserver-authentication") => Some((200, configuration)),
            _ => Some((404, missing)),
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_direct_endpoint_is_served_while_the_host_is_down_from_the_start() {
    let data = tempfile::tempdir().unwrap();
    // One host refuses connections. Another one accepts them, and never answers. The last one refuses every user.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let [silent_port, refusing] = [silent.local_addr().unwrap().port(), refusing_host()];
    let hosts = [("https", free_port()), ("https", silent_port), ("http", refusing)];
    for (scheme, port) in hosts {
        let file = data.path().join("host.kubeconfig");
        std::fs::write(&file, kubeconfig(&format!("{scheme}://127.0.0.1:{port}"))).unwrap();
        let begun = Instant::now();
        let capstan = Capstan::start(data.path(), &["--host-kubeconfig", file.to_str().unwrap()]);
        capstan.ready().await;
        assert!(begun.elapsed() < START, "{:?}", begun.elapsed());
        assert_eq!(capstan.client().get(MACHINES).await.unwrap().code, 200);
        let created = r#"{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule", "metadata": {"name": "d"}, "spec": {"drain": {"behavior": "Skip"}}}"#;
        let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/unknown/machinedrainrules";
        let answer = capstan.client().once("POST", path, created).await.unwrap();
        assert_eq!(answer.code, 503, "the namespace may exist: {}", answer.text());
    }
}

/// Creates a rule in a namespace. Returns the status code and the time.
async fn create(capstan: &Capstan, namespace: &str, name: &str) -> (u16, Duration) {
    let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"name": name}, "spec": {"drain": {"behavior": "Skip"}}});
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machinedrainrules");
    let answer = capstan.client().once("POST", &path, &object.to_string()).await.unwrap();
    (answer.code, answer.took)
}

pub(crate) async fn until_in_state(capstan: &Capstan, state: &str) {
    let (line, end) = (format!("capstan_host_state{{state=\"{state}\"}} 1"), Instant::now() + PATIENCE);
    while !capstan.client().get("/metrics").await.unwrap().text().contains(&line) {
        assert!(Instant::now() < end, "the host is not {state}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_without_the_host_knows_its_namespaces_and_its_front_proxy() {
    let data = tempfile::tempdir().unwrap();
    let (is_down, front_proxy) = (Arc::new(AtomicBool::new(false)), FrontProxy::new());
    let port = whole_host(&front_proxy.ca, &is_down);
    let file = data.path().join("host.kubeconfig");
    std::fs::write(&file, kubeconfig(&format!("http://127.0.0.1:{port}"))).unwrap();
    let arguments = ["--host-kubeconfig", file.to_str().unwrap()];
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    until_in_state(&capstan, "up").await;
    assert_eq!(create(&capstan, "team", "first").await.0, 201);
    assert_eq!(create(&capstan, "other", "first").await.0, 404, "a host that is up is believed");
    // The leader has written the copies when its heartbeat is in the store, and the store belongs to the process.
    tokio::time::sleep(COPIED).await;
    capstan.signal("KILL");
    drop(capstan);
    is_down.store(true, Ordering::SeqCst);
    let capstan = Capstan::start(data.path(), &arguments);
    capstan.ready().await;
    let (code, took) = create(&capstan, "team", "second").await;
    assert_eq!(code, 201);
    assert!(took < Duration::from_secs(1), "{took:?}");
    let proxied = capstan.client_of(front_proxy.identity(data.path()));
    let answer = proxied.get("/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines").await.unwrap();
    assert_ne!(answer.code, 401, "the front proxy is trusted: {}", answer.text());
    until_in_state(&capstan, "down").await;
    let (code, took) = create(&capstan, "other", "second").await;
    assert_eq!(code, 503);
    assert!(took < Duration::from_secs(1), "no request waits for a host that is down: {took:?}");
    is_down.store(false, Ordering::SeqCst);
    until_in_state(&capstan, "up").await;
    assert_eq!(create(&capstan, "other", "third").await.0, 404);
}

/// Front proxy of a host, with its CA.
pub(crate) struct FrontProxy {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) ca: String,
}

impl FrontProxy {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "front-proxy-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let ca = issuer.pem();
        Self { issuer, ca }
    }

    /// Returns the identity of the proxy at a server with this data directory.
    pub(crate) fn identity(&self, data: &Path) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "front");
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity::of_front_proxy(data, &certificate.pem(), &key.serialize_pem())
    }
}
