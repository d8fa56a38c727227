//! Objects of a Machine in the workload cluster: its bootstrap token, and the encrypted certificates.

use super::*;

#[tokio::test]
async fn the_token_of_a_machine_is_extended_recreated_and_deleted_in_the_workload_cluster() {
    let workload = FakeApi::default();
    let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
    let path = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-k3v9qz";
    let mut machine: apiserver_types::Machine =
        serde_json::from_value(json!({"spec": {"clusterName": "blue",
        "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "m"}}}))
        .unwrap();
    let lifetime = Duration::from_hours(2);
    let terms = tokens::Terms { kind: "Machine", group: token::GROUP.to_owned(), lifetime };
    tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
    let created = workload.get(path).unwrap();
    let secret: Secret = serde_json::from_value(created.clone()).unwrap();
    let left = token::expiration(&secret).unwrap().duration_since(jiff::Timestamp::now());
    assert!(left > SignedDuration::from_mins(119), "the lifetime is that of the configuration: {left}");
    assert_eq!(terms.interval(), Duration::from_mins(40));
    let mut old = created.clone();
    old["data"]["expiration"] = "MjAyMC0wMS0wMVQwMDowMDowMFo=".into();
    workload.put(path, old.clone());
    tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
    let extended = workload.get(path).unwrap();
    assert_ne!(extended["data"]["expiration"], old["data"]["expiration"]);
    assert_eq!(extended["data"]["token-secret"], created["data"]["token-secret"]);
    let other = Token::parse("k3v9qz.0000000000000000").unwrap();
    assert!(
        tokens::care(&workload.client(), &other, &machine, &terms).await.is_err(),
        "another token has this id"
    );
    machine.status = serde_json::from_value(json!({"nodeRef": {"name": "node"}})).unwrap();
    let mut users = created.clone();
    users["data"]["description"] = "b2YgdGhlIHVzZXI=".into();
    workload.put(path, users);
    tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
    assert!(workload.get(path).is_some(), "other machines may join with a token of the user");
    workload.put(path, created);
    tokens::care(&workload.client(), &token, &machine, &terms).await.unwrap();
    assert_eq!(workload.get(path), None);
}

#[tokio::test]
async fn the_encrypted_certificates_of_a_machine_stay_until_it_has_joined() {
    let (api, workload) = (FakeApi::default(), FakeApi::default());
    let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
    let path = "/api/v1/namespaces/kube-system/secrets/kubeadm-certs";
    for name in ["m", "n"] {
        machine(&api, name, true, &settings());
    }
    let read = |name: &str| -> apiserver_types::Machine {
        serde_json::from_value(api.get(&format!("{MACHINES}/{name}")).unwrap()).unwrap()
    };
    let (one, other) = (read("m"), read("n"));
    let upload = |machine| certificate_upload::Upload {
        client: workload.client(),
        machine,
        machines: Api::namespaced(api.client(), "ns"),
        group: token::GROUP.to_owned(),
    };
    let holder =
        || workload.get(path).map(|secret| secret["metadata"]["annotations"]["capstan.dev/machine"].clone());
    upload(&one).create(Default::default(), &token).await.unwrap();
    assert!(upload(&one).is_there().await.unwrap());
    assert!(!upload(&other).is_there().await.unwrap());
    let role = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles/kubeadm:kubeadm-certs";
    assert_eq!(workload.get(role).unwrap()["rules"][0]["resourceNames"], json!(["kubeadm-certs"]));
    assert!(upload(&other).create(Default::default(), &token).await.is_err(), "machine m has not joined");
    let mut joined = api.get(&format!("{MACHINES}/m")).unwrap();
    joined["status"] = json!({"nodeRef": {"name": "m"}});
    api.put(&format!("{MACHINES}/m"), joined);
    upload(&other).create(Default::default(), &token).await.unwrap();
    upload(&one).delete().await.unwrap();
    assert_eq!(holder(), Some("n/uid-n".into()), "the Secret is for another machine");
    upload(&other).delete().await.unwrap();
    assert_eq!(workload.get(path), None);
}

#[test]
fn the_encrypted_certificates_of_a_machine_that_does_not_join_are_gone_after_two_hours() {
    let config = |status: &str| -> KubeadmConfig {
        let condition = json!({"type": "DataSecretAvailable", "status": status, "reason": "R", "message": "",
            "lastTransitionTime": "2026-11-26T10:00:00Z"});
        serde_json::from_value(json!({"metadata": {"name": "m"}, "spec": {},
            "status": {"conditions": [condition]}}))
        .unwrap()
    };
    let machine = apiserver_types::Machine::default();
    let mut rejoins = machine.clone();
    rejoins.metadata.annotations = Some([("capstan.dev/rejoin".to_owned(), String::new())].into());
    let table = [
        ("in time", config("True"), &machine, "2026-11-26T11:54:00Z", false),
        ("late", config("True"), &machine, "2026-11-26T11:55:00Z", true),
        ("without user data", config("False"), &machine, "2026-11-26T12:00:00Z", false),
        ("it is rebuilt", config("True"), &rejoins, "2026-11-26T12:00:00Z", false),
    ];
    for (case, config, machine, now, expected) in table {
        assert_eq!(certificate_upload::is_late(&config, machine, now.parse().unwrap()), expected, "{case}");
    }
}
