//! Start with a host cluster that does not answer.

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

#[tokio::test(flavor = "multi_thread")]
async fn the_direct_endpoint_is_served_while_the_host_is_down_from_the_start() {
    let data = tempfile::tempdir().unwrap();
    // One host refuses connections. The other one accepts them, and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [free_port(), silent.local_addr().unwrap().port()] {
        let file = data.path().join("host.kubeconfig");
        std::fs::write(&file, kubeconfig(&format!("https://127.0.0.1:{port}"))).unwrap();
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
