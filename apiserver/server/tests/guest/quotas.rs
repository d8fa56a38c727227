//! Quotas of a namespace: refusals, the status, and a race of several servers.

use std::time::Instant;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::admission_scene::send;
use crate::client::Client;
use crate::etcd::Etcd;
use crate::process::{Capstan, PATIENCE};
use crate::rolling_restart::share_secrets;

const MAPS: &str = "/api/v1/namespaces/team/configmaps";

const QUOTAS: &str = "/api/v1/namespaces/team/resourcequotas";

const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machinedeployments";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn deployment(name: &str, replicas: u32) -> Value {
    let template = json!({"spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"}}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": name},
        "spec": {"clusterName": "c", "replicas": replicas, "template": template}})
}

/// Creates the namespace and a quota with these limits.
async fn limit(client: &Client, hard: &Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    send(client, "POST", "/api/v1/namespaces", &namespace, 201).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    send(client, "POST", QUOTAS, &quota, 201).await;
}

/// Waits until the status of the quota has this use.
async fn until_used(client: &Client, used: &Value) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let quota = send(client, "GET", &format!("{QUOTAS}/q"), &Value::Null, 200).await;
        if quota["status"]["used"] == *used {
            return quota;
        }
        assert!(Instant::now() < end, "{quota}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_over_the_quota_is_refused_in_upstreams_words_and_the_status_has_the_use() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let client = capstan.client();
    limit(&client, &json!({"count/configmaps": 2, "count/pods": "1"})).await;
    send(&client, "POST", MAPS, &map("a"), 201).await;
    send(&client, "POST", MAPS, &map("b"), 201).await;
    let refused = send(&client, "POST", MAPS, &map("c"), 403).await;
    let expected = "configmaps \"c\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: \
        count/configmaps=2, limited: count/configmaps=2";
    assert_eq!((&refused["message"], &refused["reason"]), (&json!(expected), &json!("Forbidden")));
    send(&client, "POST", &format!("{MAPS}?dryRun=All"), &map("c"), 403).await;
    let mut changed = map("a");
    changed["data"] = json!({"a": "b"});
    send(&client, "PUT", &format!("{MAPS}/a"), &changed, 200).await;
    let quota = until_used(&client, &json!({"count/configmaps": "2"})).await;
    assert_eq!(quota["status"]["hard"], json!({"count/configmaps": "2"}), "no kind here is a Pod");
    send(&client, "DELETE", &format!("{MAPS}/a"), &Value::Null, 200).await;
    send(&client, "POST", MAPS, &map("c"), 201).await;
    send(&client, "DELETE", &format!("{QUOTAS}/q"), &Value::Null, 200).await;
    let end = Instant::now() + PATIENCE;
    while client.once("POST", MAPS, &map("d").to_string()).await.unwrap().code != 201 {
        assert!(Instant::now() < end, "the quota is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_over_the_quota_of_machines_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let client = capstan.client();
    limit(&client, &json!({"capstan.dev/machines": "5"})).await;
    send(&client, "POST", DEPLOYMENTS, &deployment("a", 3), 201).await;
    let refused = send(&client, "POST", DEPLOYMENTS, &deployment("b", 3), 403).await;
    let words = "exceeded quota: q, requested: capstan.dev/machines=3, used: capstan.dev/machines=3, limited: capstan.dev/machines=5";
    assert!(refused["message"].as_str().unwrap().ends_with(words), "{refused}");
    send(&client, "POST", DEPLOYMENTS, &deployment("b", 2), 201).await;
    let scale = |replicas: u32| {
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "b", "namespace": "team"},
            "spec": {"replicas": replicas}})
    };
    let path = format!("{DEPLOYMENTS}/b/scale");
    send(&client, "PUT", &path, &scale(3), 403).await;
    until_used(&client, &json!({"capstan.dev/machines": "5"})).await;
    send(&client, "PUT", &path, &scale(1), 200).await;
    send(&client, "PUT", &path, &scale(2), 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_creates_on_three_servers_as_many_succeed_as_the_quota_allows() {
    let etcd = Etcd::started();
    let directories: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
    let url = etcd.url();
    let mut servers: Vec<Capstan> = Vec::new();
    for directory in &directories {
        if !servers.is_empty() {
            share_secrets(directories[0].path(), directory.path());
        }
        let server = Capstan::start(directory.path(), &["--etcd-endpoints", &url]);
        server.ready().await;
        servers.push(server);
    }
    let clients: Vec<Client> = servers.iter().map(Capstan::client).collect();
    limit(&clients[0], &json!({"count/configmaps": "20"})).await;
    for client in &clients {
        let end = Instant::now() + PATIENCE;
        while client.get(&format!("{QUOTAS}/q?resourceVersion=0")).await.unwrap().code != 200 {
            assert!(Instant::now() < end, "a server does not see the quota");
        }
    }
    let creates = (0..64).map(|index| {
        let client = &clients[index % clients.len()];
        async move { client.once("POST", MAPS, &map(&format!("m{index}")).to_string()).await.unwrap().code }
    });
    let mut codes = join_all(creates).await;
    codes.sort_unstable();
    let stored = send(&clients[1], "GET", MAPS, &Value::Null, 200).await;
    let stored = stored["items"].as_array().unwrap().len();
    assert_eq!((codes[..20].to_vec(), stored), (vec![201; 20], 20), "{codes:?}");
    assert_eq!(codes[20..], [403; 44], "{codes:?}");
    until_used(&clients[2], &json!({"count/configmaps": "20"})).await;
}
