//! Tests of the workload API.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{
    DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::config::AuthInfo;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::cloud::Cloud;
use crate::documents::{Pki, TOKEN};

fn code<T>(result: Result<T, kube::Error>) -> u16 {
    match result {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(error) => panic!("{error}"),
    }
}

fn token(cloud: &Cloud, token: &str) -> Client {
    let token = Some(token.to_owned().into());
    cloud.pki.connect(cloud.endpoint, AuthInfo { token, ..AuthInfo::default() })
}

#[tokio::test]
async fn users_may_do_what_their_group_allows() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let list = async |client: Client| code(Api::<Node>::all(client).list(&ListParams::default()).await);
    let anonymous = cloud.pki.connect(cloud.endpoint, AuthInfo::default());
    assert_eq!(list(cloud.admin()).await, 200);
    assert_eq!(list(cloud.pki.client(cloud.endpoint, "a", "kubeadm:cluster-admins")).await, 200);
    assert_eq!(list(cloud.pki.client(cloud.endpoint, "a", "system:nodes")).await, 403);
    assert_eq!(list(anonymous.clone()).await, 401);
    let (certificate, key) = Pki::generate().ca.client("a", "system:masters");
    use base64::Engine;
    let encode = |text: String| base64::engine::general_purpose::STANDARD.encode(text);
    let foreign = AuthInfo {
        client_certificate_data: Some(encode(certificate)),
        client_key_data: Some(encode(key).into()),
        ..AuthInfo::default()
    };
    assert_eq!(list(cloud.pki.connect(cloud.endpoint, foreign)).await, 401);
    let version = anonymous.apiserver_version().await.unwrap();
    assert_eq!((version.minor.as_str(), version.git_version.as_str()), ("33", "v1.33.0"));
    let maps = |client: Client, namespace: &str| Api::<ConfigMap>::namespaced(client, namespace);
    assert_eq!(code(maps(anonymous, "kube-public").get("cluster-info").await), 200);
    assert_eq!(code(maps(token(&cloud, TOKEN), "kube-system").get("kubeadm-config").await), 200);
    assert_eq!(code(maps(token(&cloud, TOKEN), "kube-system").get("coredns").await), 403);
    assert_eq!(code(maps(token(&cloud, "abcdef.0000000000000000"), "kube-system").get("coredns").await), 401);
}

#[tokio::test]
async fn writes_conflict_and_watches_see_them() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let nodes: Api<Node> = Api::all(cloud.admin());
    let before = nodes.get("cp-0").await.unwrap();
    let params = WatchParams::default().fields("metadata.name=cp-0");
    let mut watch = nodes.watch(&params, &before.resource_version().unwrap()).await.unwrap().boxed();
    let patch = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    let cordoned = nodes.patch("cp-0", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(cordoned.spec.as_ref().unwrap().unschedulable, Some(true));
    let seen = loop {
        if let WatchEvent::Modified(node) = watch.next().await.unwrap().unwrap()
            && node.resource_version() == cordoned.resource_version()
        {
            break node;
        }
    };
    assert_eq!(seen.spec, cordoned.spec);
    assert_eq!(code(nodes.replace("cp-0", &PostParams::default(), &before).await), 409);
    let mut changed = cordoned.clone();
    changed.status = None;
    let kept = nodes.replace("cp-0", &PostParams::default(), &changed).await.unwrap();
    assert!(kept.status.is_some(), "a write of the object keeps the status");
    let discovered = kube::discovery::Discovery::new(cloud.admin()).run().await.unwrap();
    assert!(discovered.has_group("apps") && discovered.has_group("policy"));
}

fn pod(name: &str) -> Pod {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"nodeName": "worker-0", "containers": [{"name": "web", "image": "web"}]},
    }))
    .unwrap()
}

#[tokio::test]
async fn evictions_honour_budgets() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    cloud.create("worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    cloud.until_ready("worker-0").await;
    let pods: Api<Pod> = Api::default_namespaced(cloud.admin());
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name)).await.unwrap();
    }
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(cloud.admin());
    let budget = json!({
        "metadata": {"name": "web"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    let web = || cloud.hollow.objects(cloud.endpoint, "pods", Some("default"));
    let running = |pod: &Value| pod["status"]["phase"] == "Running";
    cloud.until("running", || web().iter().all(running).then_some(())).await;
    assert_eq!(code(pods.evict("a", &EvictParams::default()).await), 200);
    let refused = pods.evict("b", &EvictParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 429);
    assert_eq!(status.details.as_ref().unwrap().causes[0].reason, "DisruptionBudget");
    cloud.until("one pod", || (web().len() == 1).then_some(())).await;
    let daemons = || cloud.hollow.objects(cloud.endpoint, "pods", Some("kube-system"));
    let proxies = daemons().iter().filter(|pod| pod["metadata"]["labels"]["k8s-app"] == "kube-proxy").count();
    assert_eq!(proxies, 2, "a DaemonSet has a pod on each node");
    pods.delete("b", &DeleteParams::default()).await.unwrap();
    cloud.until("no pods", || web().is_empty().then_some(())).await;
}
