//! Start with a host cluster that does not answer.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::etcd::free_port;
use crate::process::Capstan;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/machines";

/// Longest time from the start to the first answer, as without a host.
const START: Duration = Duration::from_secs(15);

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    )
}

/// Starts a host that has not read its RBAC objects, and returns its port.
fn refusing_host() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().filter_map(Result::ok) {
            let _ = stream.read(&mut [0; 8192]);
            let body = r#"{"apiVersion":"v1","kind":"Status","status":"Failure","message":"no","code":403}"#;
            let head = "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\nconnection: close";
            let _ = write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        }
    });
    port
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
