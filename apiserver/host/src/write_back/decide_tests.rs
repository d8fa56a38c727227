//! Tests of the decision.

use serde_json::{Value, json};

use super::*;

fn secret(name: &str, data: &str) -> Secret {
    serde_json::from_value(json!({"type": "cluster.x-k8s.io/secret", "data": {"value": data},
        "metadata": {"name": name, "namespace": "n",
            "labels": {CLUSTER_NAME: "blue-1", "argocd.argoproj.io/instance": "a"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Cluster", "name": "blue-1", "uid": "u",
                "blockOwnerDeletion": true}]}}))
    .unwrap()
}

fn cluster(metadata: &Value) -> DynamicObject {
    let mut cluster = json!({"metadata": {"name": "blue-1", "namespace": "n", "uid": "u"}});
    for (key, value) in metadata.as_object().unwrap() {
        cluster["metadata"][key] = value.clone();
    }
    serde_json::from_value(cluster).unwrap()
}

fn record(owner: &str) -> CopyRecord {
    let [namespace, name, cluster, host] = ["n", "blue-1-ca", "blue-1", "h"].map(str::to_owned);
    CopyRecord { namespace, name, cluster, owner: owner.to_owned(), host, uid: None }
}

fn word(intent: &Intent) -> &'static str {
    match intent {
        Intent::Nothing => "nothing",
        Intent::Copy(_) => "copy",
        Intent::Remove => "remove",
    }
}

#[test]
fn ho_30_the_policy_selects_the_copies_and_a_copy_that_it_excludes_is_removed() {
    let policy = |policy: &str| cluster(&json!({"annotations": {POLICY: policy}}));
    for (policy, name, expected) in [
        (policy("all"), "blue-1-ca", ["copy", "copy"]),
        (cluster(&json!({})), "blue-1-proxy", ["copy", "copy"]),
        (policy("kubeconfig"), "blue-1-kubeconfig", ["copy", "copy"]),
        (policy("kubeconfig"), "blue-1-ca", ["nothing", "remove"]),
        (policy("none"), "blue-1-kubeconfig", ["nothing", "remove"]),
    ] {
        let record = CopyRecord { name: name.to_owned(), ..record("u") };
        let found =
            [None, Some(&record)].map(|record| intent(Some(&secret(name, "YQ==")), Some(&policy), record));
        assert_eq!(found.each_ref().map(word), expected, "{name} {policy:?}");
    }
}

#[test]
fn ho_31_a_recorded_copy_lives_as_long_as_its_cluster() {
    let (alive, ending) =
        (cluster(&json!({})), cluster(&json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})));
    let other = cluster(&json!({"uid": "v"}));
    let secret = secret("blue-1-ca", "YQ==");
    for (case, secret, cluster, expected) in [
        ("the Cluster is gone", Some(&secret), None, "remove"),
        ("both are gone", None, None, "remove"),
        ("the Secret alone is lost", None, Some(&alive), "nothing"),
        ("the Cluster is being deleted", Some(&secret), Some(&ending), "copy"),
        ("the Cluster is being deleted, and the Secret is gone", None, Some(&ending), "remove"),
        ("another Cluster has the name", None, Some(&other), "remove"),
    ] {
        assert_eq!(word(&intent(secret, cluster, Some(&record("u")))), expected, "{case}");
        if expected == "remove" {
            assert_eq!(word(&intent(secret, cluster, None)), "nothing", "{case}, and no copy is known");
        }
    }
}

#[test]
fn ho_32_only_a_secret_with_the_label_of_the_cluster_or_of_the_record_is_changed() {
    let labelled = |owner: &str, data: &str| {
        let mut copy = secret("blue-1-ca", data);
        copy.labels_mut().insert(OWNER.to_owned(), owner.to_owned());
        copy
    };
    let foreign = |data: &str| secret("blue-1-ca", data);
    let copy = || intent(Some(&secret("blue-1-ca", "YQ==")), Some(&cluster(&json!({}))), None);
    let remove = || Intent::Remove;
    let word = |step: Step| match step {
        Step::Nothing => "nothing",
        Step::Create(_) => "create",
        Step::Replace(_) => "replace",
        Step::Remove => "remove",
        Step::Forget => "forget",
        Step::Refuse(_) => "refuse",
    };
    for (intent, found, recorded, expected) in [
        (copy(), None, None, "create"),
        (copy(), Some(labelled("u", "YQ==")), None, "nothing"),
        (copy(), Some(labelled("u", "Yg==")), None, "replace"),
        (copy(), Some(labelled("old", "Yg==")), Some("old"), "remove"),
        (copy(), Some(labelled("old", "YQ==")), Some("old"), "remove"),
        (copy(), Some(labelled("old", "Yg==")), None, "refuse"),
        (copy(), Some(labelled("other", "Yg==")), Some("old"), "refuse"),
        (copy(), Some(foreign("Yg==")), Some("u"), "refuse"),
        (copy(), Some(foreign("YQ==")), None, "nothing"),
        (remove(), None, Some("u"), "forget"),
        (remove(), Some(labelled("u", "Yg==")), Some("u"), "remove"),
        (remove(), Some(labelled("other", "YQ==")), Some("u"), "forget"),
        (remove(), Some(foreign("YQ==")), Some("u"), "forget"),
    ] {
        let record = recorded.map(record);
        let case = format!("{found:?} {recorded:?}");
        assert_eq!(word(step(intent, found.as_ref(), record.as_ref())), expected, "{case}");
    }
}

#[test]
fn a_secret_that_clusterctl_has_moved_away_and_back_is_not_the_copy_of_the_record() {
    let mut found = secret("blue-1-ca", "YQ==");
    found.labels_mut().insert(OWNER.to_owned(), "u".to_owned());
    found.metadata.uid = Some("second".to_owned());
    for (uid, expected) in
        [(None, Step::Remove), (Some("second"), Step::Remove), (Some("first"), Step::Forget)]
    {
        let record = CopyRecord { uid: uid.map(str::to_owned), ..record("u") };
        assert_eq!(step(Intent::Remove, Some(&found), Some(&record)), expected, "{uid:?}");
    }
    // The Cluster has another uid since, and its own Secret other content.
    let back = cluster(&json!({"uid": "v"}));
    let record = CopyRecord { uid: Some("first".to_owned()), ..record("u") };
    let wanted = intent(Some(&secret("blue-1-ca", "Yg==")), Some(&back), Some(&record));
    assert!(matches!(step(wanted, Some(&found), Some(&record)), Step::Refuse(_)));
}

#[test]
fn a_copy_has_only_labels_of_cluster_api_and_a_replaced_one_keeps_those_of_others() {
    let Intent::Copy(wanted) = intent(Some(&secret("blue-1-ca", "YQ==")), Some(&cluster(&json!({}))), None)
    else {
        panic!("no copy is wanted");
    };
    let labels = json!({CLUSTER_NAME: "blue-1", OWNER: "u"});
    assert_eq!(json!(wanted.labels()), labels);
    assert_eq!(wanted.owner_references()[0].block_owner_deletion, None);
    let copy: Secret =
        serde_json::from_value(json!({"data": {"value": "Yg=="}, "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "blue-1-ca", "namespace": "n", "uid": "s", "resourceVersion": "7",
            "annotations": {"backup": "yes"}, "labels": {"theirs": "1", OWNER: "u"}}}))
        .unwrap();
    let Step::Replace(replaced) = step(Intent::Copy(wanted), Some(&copy), None) else {
        panic!("the data differ");
    };
    let found = json!(replaced);
    assert_eq!(found["metadata"]["labels"], json!({CLUSTER_NAME: "blue-1", OWNER: "u", "theirs": "1"}));
    assert_eq!(found["metadata"]["annotations"], json!({"backup": "yes"}));
    assert_eq!([&found["metadata"]["uid"], &found["metadata"]["resourceVersion"]], ["s", "7"], "guards");
    assert_eq!(found["data"], json!({"value": "YQ=="}));
    assert_eq!(found["metadata"]["ownerReferences"][0]["uid"], "u");
}

#[test]
fn only_secrets_of_a_cluster_have_copies() {
    assert_eq!(cluster_of(&secret("blue-1-ca", "")), Some("blue-1"));
    for name in ["blue-1-bootstrap", "blue-ca", "blue-1", "ca"] {
        assert_eq!(cluster_of(&secret(name, "")), None, "{name}");
    }
    assert_eq!(cluster_of(&Secret { type_: Some("Opaque".to_owned()), ..secret("blue-1-ca", "") }), None);
}
