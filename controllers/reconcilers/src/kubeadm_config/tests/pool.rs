//! Passes over the KubeadmConfig of a MachinePool.

use super::*;

const POOL: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinepools/p";
const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets";

/// Time at which a token has expired, in base64.
const EXPIRED: &str = "MjAyMC0wMS0wMVQwMDowMDowMFo=";

/// Stores a MachinePool with two servers, and its KubeadmConfig. `joined` of the servers have joined.
fn pool(api: &FakeApi, joined: usize) {
    let nodes = vec![json!({"kind": "Node", "name": "n"}); joined];
    api.put(
        POOL,
        json!({"status": {"nodeRefs": nodes}, "spec": {"clusterName": "blue", "replicas": 2, "template": {
            "spec": {"clusterName": "blue", "version": "v1.33.0", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "OtherPool", "name": "p"}}}}}),
    );
}

fn config(api: &FakeApi) {
    let owner =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p", "uid": "u"});
    api.put(
        &format!("{CONFIGS}/p"),
        json!({"metadata": {"generation": 1, "ownerReferences": [owner]}, "spec": {}}),
    );
}

/// Returns API servers of a management cluster and of its workload cluster, which has a control plane.
async fn scene() -> (FakeApi, FakeApi, KubeadmConfigReconciler) {
    let (api, workload) = (FakeApi::default(), FakeApi::default());
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    cluster(&api, true);
    pool(&api, 0);
    config(&api);
    let context = api.context_with_workload(CONTROLLER.identity, &workload).await;
    (api, workload, KubeadmConfigReconciler::new(context))
}

async fn look(api: &FakeApi, reconciler: &KubeadmConfigReconciler) -> Result<Requeue, kube::Error> {
    let object = serde_json::from_value(api.get(&format!("{CONFIGS}/p")).unwrap()).unwrap();
    reconciler.reconcile(&object).await
}

/// Returns the token in the spec. The data has it, too.
fn token(api: &FakeApi) -> Token {
    let config = api.get(&format!("{CONFIGS}/p")).unwrap();
    let text = config["spec"]["joinConfiguration"]["discovery"]["bootstrapToken"]["token"].as_str().unwrap();
    let data = document(api, "p").unwrap().to_string();
    assert!(data.contains(text) && data.contains("node.cluster.x-k8s.io/uninitialized"), "{data}");
    Token::parse(text).unwrap()
}

fn secret(workload: &FakeApi, token: &Token) -> Option<Value> {
    workload.get(&format!("{TOKENS}/{}", token.secret_name()))
}

fn expire(workload: &FakeApi, token: &Token) {
    let mut old = secret(workload, token).unwrap();
    old["data"]["expiration"] = EXPIRED.into();
    workload.put(&format!("{TOKENS}/{}", token.secret_name()), old);
}

#[tokio::test]
async fn the_token_of_a_pool_is_extended_until_all_servers_have_joined_and_then_replaced_with_the_data() {
    let (api, workload, reconciler) = scene().await;
    let third = Duration::from_mins(5);
    assert_eq!(look(&api, &reconciler).await.unwrap(), Requeue::After(third));
    let first = token(&api);
    let made = secret(&workload, &first).unwrap();
    assert_eq!(made["metadata"]["annotations"]["capstan.dev/machine"], "ns/p (uid uid-p)");
    assert_eq!(conditions(&api, "p")[1], "DataSecretAvailable True");

    expire(&workload, &first);
    assert_eq!(look(&api, &reconciler).await.unwrap(), Requeue::After(third));
    assert_eq!(token(&api), first, "a server may just join with it");
    assert_ne!(secret(&workload, &first).unwrap()["data"]["expiration"], EXPIRED);

    pool(&api, 2);
    look(&api, &reconciler).await.unwrap();
    assert_eq!(token(&api), first, "it is valid for a while");
    expire(&workload, &first);
    assert_eq!(look(&api, &reconciler).await.unwrap(), Requeue::After(third));
    let second = token(&api);
    assert_ne!(second, first);
    assert!(secret(&workload, &second).is_some());

    workload.remove(&format!("{TOKENS}/{}", second.secret_name())).unwrap();
    pool(&api, 1);
    look(&api, &reconciler).await.unwrap();
    assert_ne!(token(&api), second, "the workload cluster has deleted it");
}

#[tokio::test]
async fn a_pool_has_the_data_of_its_token_whatever_write_fails() {
    for crash in [Crash::Before, Crash::After] {
        for at in 1.. {
            let (api, workload, reconciler) = scene().await;
            look(&api, &reconciler).await.unwrap();
            let first = token(&api);
            pool(&api, 2);
            expire(&workload, &first);
            api.crash_at(Some((at, crash)));
            let failed = look(&api, &reconciler).await.is_err();
            api.crash_at(None);
            look(&api, &reconciler).await.unwrap();
            let second = token(&api);
            assert_ne!(second, first, "{crash:?} at write {at}");
            assert!(secret(&workload, &second).is_some(), "{crash:?} at write {at}");
            if !failed {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_pool_waits_for_the_control_plane_and_does_not_join_by_attestation() {
    let (api, workload, reconciler) = scene().await;
    cluster(&api, false);
    assert_eq!(look(&api, &reconciler).await.unwrap(), Requeue::After(stop::WAITING));
    cluster(&api, true);
    let mut object = api.get(CLUSTER).unwrap();
    object["metadata"]["annotations"] = json!({"capstan.dev/attested-join": "true"});
    api.put(CLUSTER, object);
    assert_eq!(look(&api, &reconciler).await.unwrap(), Requeue::Retry(SHORT));
    let config = api.get(&format!("{CONFIGS}/p")).unwrap();
    let message = config["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(message.starts_with("annotation capstan.dev/attested-join of the Cluster: "), "{message}");
    cluster(&api, true);
    look(&api, &reconciler).await.unwrap();
    let token = token(&api);
    let mut gone = api.get(POOL).unwrap();
    gone["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z".into();
    api.put(POOL, gone);
    look(&api, &reconciler).await.unwrap();
    assert_eq!(secret(&workload, &token), None, "the pool is being deleted");
}
