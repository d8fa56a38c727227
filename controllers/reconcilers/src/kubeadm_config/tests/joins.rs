//! Data of nodes that join (A.4), and their tokens (A.5).

use super::*;

/// Returns settings by which a node finds its cluster without a token.
fn by_file() -> Value {
    let kubeconfig = json!({"user": {"exec": {"command": "token"}}});
    json!({"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/run/d.yaml", "kubeConfig": kubeconfig}}}})
}

/// Returns an API whose cluster has its first node.
async fn begun() -> FakeApi {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    cluster(&api, true);
    api
}

#[tokio::test]
async fn a3_settings_of_the_first_node_have_no_effect_on_a_join_but_for_the_certificates() {
    let api = begun().await;
    let mut spec = by_file();
    spec["initConfiguration"] = json!({"nodeRegistration": {"name": "of-the-first"}});
    spec["clusterConfiguration"] =
        json!({"certificatesDir": "/pki", "apiServer": {"certSANs": ["of-the-first"]}});
    machine(&api, "n", true, &spec);
    pass(&api, "n").await.unwrap();
    let tree = document(&api, "n").unwrap();
    let files = tree["write_files"].as_array().unwrap();
    let paths: Vec<&str> = files.iter().filter_map(|file| file["path"].as_str()).take(8).collect();
    let expected = [
        "ca.crt",
        "ca.key",
        "etcd/ca.crt",
        "etcd/ca.key",
        "front-proxy-ca.crt",
        "front-proxy-ca.key",
        "sa.pub",
        "sa.key",
    ];
    assert_eq!(paths, expected.map(|name| format!("/pki/{name}")));
    assert!(!tree.to_string().contains("of-the-first"), "{tree}");
}

#[tokio::test]
async fn a4_a_control_plane_node_joins_only_with_all_certificates_and_a_worker_with_that_of_the_cluster() {
    let api = begun().await;
    api.remove(&format!("{SECRETS}/blue-sa")).unwrap();
    machine(&api, "n", true, &by_file());
    machine(&api, "w", false, &by_file());
    pass(&api, "n").await.unwrap();
    let status = api.get(&format!("{CONFIGS}/n")).unwrap()["status"].to_string();
    assert!(status.contains("Secrets with certificates do not exist: blue-sa"), "{status}");
    assert!(status.contains("CertificatesCorrupted"), "{status}");
    assert!(conditions(&api, "n").to_string().contains("CertificatesAvailable Unknown"), "{status}");
    assert_eq!((document(&api, "n"), api.get(&format!("{SECRETS}/blue-sa"))), (None, None));
    pass(&api, "w").await.unwrap();
    let tree = document(&api, "w").unwrap();
    assert!(!tree.to_string().contains("/etc/kubernetes/pki"), "kubeadm writes the CA of a worker: {tree}");
    api.remove(&format!("{SECRETS}/blue-ca")).unwrap();
    machine(&api, "x", false, &by_file());
    pass(&api, "x").await.unwrap();
    assert!(conditions(&api, "x").to_string().contains("False") && document(&api, "x").is_none());
}

#[tokio::test]
async fn a4_a_control_plane_node_joins_as_one_and_stores_that() {
    let api = begun().await;
    machine(&api, "n", true, &by_file());
    machine(&api, "w", false, &by_file());
    for name in ["n", "w"] {
        pass(&api, name).await.unwrap();
    }
    let join =
        |name: &str| api.get(&format!("{CONFIGS}/{name}")).unwrap()["spec"]["joinConfiguration"].clone();
    assert!(join("n")["controlPlane"].is_object());
    assert!(join("w")["controlPlane"].is_null());
    assert!(join("w")["nodeRegistration"].is_null(), "the taint of a worker is not stored");
    let server = &join("w")["discovery"]["file"]["kubeConfig"]["cluster"]["server"];
    assert_eq!(*server, "https://203.0.113.10:6443");
}

#[tokio::test]
async fn a5_a_token_of_the_user_is_extended_like_one_of_ours() {
    let workload = FakeApi::default();
    let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
    let path = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-k3v9qz";
    let machine = apiserver_types::Machine::default();
    let lifetime = Duration::from_mins(15);
    let terms = tokens::Terms { kind: "Machine", group: token::GROUP.to_owned(), lifetime };
    tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
    let mut users = workload.get(path).unwrap();
    users["data"]["description"] = "b2YgdGhlIHVzZXI=".into();
    let left = |users: &Value| {
        let secret: Secret = serde_json::from_value(users.clone()).unwrap();
        token::expiration(&secret).map(|at| at.duration_since(jiff::Timestamp::now()))
    };
    for expiration in [json!("MjAyMC0wMS0wMVQwMDowMDowMFo="), Value::Null] {
        users["data"].as_object_mut().unwrap().remove("expiration");
        if !expiration.is_null() {
            users["data"]["expiration"] = expiration;
        }
        workload.put(path, users.clone());
        tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
        let extended = workload.get(path).unwrap();
        assert!(left(&extended).unwrap() > SignedDuration::from_mins(14), "{extended}");
        assert_eq!(extended["data"]["description"], users["data"]["description"]);
    }
    let fresh = workload.get(path);
    tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
    assert_eq!(workload.get(path), fresh, "a fresh one is not written");
}

/// Returns the token in the spec of a KubeadmConfig.
fn stored_token(api: &FakeApi, name: &str) -> Option<Token> {
    let config = api.get(&format!("{CONFIGS}/{name}")).unwrap();
    let text = config["spec"]["joinConfiguration"]["discovery"]["bootstrapToken"]["token"].as_str()?;
    Token::parse(text).ok()
}

/// Each write to the management cluster or to the workload cluster fails once, before or after its effect.
#[tokio::test]
async fn a5_a_machine_that_joins_keeps_its_token_whatever_write_fails() {
    for (of_workload, crash) in
        [(false, Crash::Before), (false, Crash::After), (true, Crash::Before), (true, Crash::After)]
    {
        for at in 1.. {
            let (api, workload) = (begun().await, FakeApi::default());
            machine(&api, "w", false, &json!({}));
            let context = api.context_with_workload(CONTROLLER.identity, &workload).await;
            let reconciler = KubeadmConfigReconciler::new(context);
            let config = || serde_json::from_value(api.get(&format!("{CONFIGS}/w")).unwrap()).unwrap();
            let failing = if of_workload { &workload } else { &api };
            failing.crash_at(Some((at, crash)));
            let ended = reconciler.reconcile(&config()).await;
            let failed = document(&api, "w").is_none() || ended.is_err();
            let first = stored_token(&api, "w");
            failing.crash_at(None);
            for _ in 0..2 {
                reconciler.reconcile(&config()).await.unwrap();
            }
            let case = format!("{crash:?} at write {at}, of the workload cluster: {of_workload}");
            let token = stored_token(&api, "w").unwrap();
            assert!(first.is_none_or(|first| first == token), "{case}: a token is left behind");
            let path = format!("/api/v1/namespaces/kube-system/secrets/{}", token.secret_name());
            let secret: Secret = serde_json::from_value(workload.get(&path).unwrap()).unwrap();
            assert!(token.is_in(&secret), "{case}");
            assert!(document(&api, "w").unwrap().to_string().contains(&token.text()), "{case}");
            assert!(conditions(&api, "w").to_string().contains("\"Ready True\""), "{case}");
            if !failed {
                break;
            }
        }
    }
}
