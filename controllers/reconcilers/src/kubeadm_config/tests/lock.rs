//! Right to begin a cluster (A.2).

use apiserver_types::Time;

use super::stop::Stop;
use super::*;

/// A Machine whose data could not be written kept all others from beginning the cluster.
#[tokio::test]
async fn a2_an_error_after_the_lock_was_taken_releases_it() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    machine(&api, "n", true, &settings());
    pass(&api, "m").await.unwrap();
    api.remove(LOCK).unwrap();
    api.remove(&format!("{SECRETS}/m")).unwrap();
    machine(&api, "m", true, &settings());
    for refused in [format!("{CONFIGS}/m"), format!("{SECRETS}/m")] {
        api.refuse_writes(Some(&refused));
        pass(&api, "m").await.unwrap_err();
        assert_eq!(api.get(LOCK), None, "the write of {refused} failed");
        api.refuse_writes(None);
    }
    pass(&api, "n").await.unwrap();
    assert!(document(&api, "n").is_some(), "the next Machine begins at once");
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::After(stop::WAITING));
    assert_eq!(document(&api, "m"), None, "one machine alone begins");
}

/// The pass that took the lock has ended with the process, and the next one fails before its end.
#[tokio::test]
async fn a2_an_error_of_a_machine_that_holds_the_lock_from_an_earlier_pass_releases_it() {
    let api = FakeApi::default();
    cluster(&api, false);
    let mut spec = settings();
    spec["files"] = json!([{"path": "/a", "contentFrom": {"secret": {"name": "s", "key": "k"}}}]);
    machine(&api, "m", true, &spec);
    api.put(LOCK, json!({"data": {"lock-information": r#"{"machineName":"m"}"#}}));
    assert_eq!(pass(&api, "m").await.unwrap(), Requeue::Retry(stop::SECRET));
    assert_eq!(api.get(LOCK), None);
}

#[tokio::test]
async fn a2_the_lock_has_upstreams_form() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    pass(&api, "m").await.unwrap();
    let mut lock = api.get(LOCK).unwrap();
    let metadata = lock["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| !matches!(key.as_str(), "uid" | "resourceVersion"));
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "blue", "uid": "uid-blue"});
    let metadata = json!({"name": "blue-lock", "namespace": "ns",
        "labels": {"cluster.x-k8s.io/cluster-name": "blue"}, "ownerReferences": [owner]});
    assert_eq!(lock["metadata"], metadata, "the owner is not the controller");
    assert_eq!(lock["data"], json!({"lock-information": r#"{"machineName":"m"}"#}));
}

#[tokio::test]
async fn a2_a_lock_that_is_not_readable_or_whose_holder_goes_is_released() {
    let api = FakeApi::default();
    cluster(&api, false);
    machine(&api, "m", true, &settings());
    machine(&api, "n", true, &settings());
    let mut going = api.get(&format!("{MACHINES}/n")).unwrap();
    going["metadata"]["deletionTimestamp"] = "2026-11-26T10:00:00Z".into();
    api.put(&format!("{MACHINES}/n"), going);
    for (text, expected) in [
        ("no JSON", "ConfigMap blue-lock is not readable. The lock was released"),
        (r#"{"machineName":"n"}"#, "Machine n, which held the lock, is being deleted. The lock was released"),
    ] {
        api.put(LOCK, json!({"data": {"lock-information": text}}));
        assert_eq!(pass(&api, "m").await.unwrap(), Requeue::After(stop::RELEASED), "not yet");
        assert_eq!((api.get(LOCK), document(&api, "m")), (None, None));
        let config = api.get(&format!("{CONFIGS}/m")).unwrap();
        assert_eq!(config["status"]["conditions"][1]["message"], expected);
    }
    pass(&api, "m").await.unwrap();
    assert!(document(&api, "m").is_some());
}

/// Every write of the first Machine fails once, before or after its effect, while two others wait.
#[tokio::test]
async fn a2_one_machine_alone_begins_the_cluster_whatever_write_fails() {
    for crash in [Crash::Before, Crash::After] {
        for at in 1.. {
            let api = FakeApi::default();
            cluster(&api, false);
            for name in ["m", "n", "o"] {
                machine(&api, name, true, &settings());
            }
            api.crash_at(Some((at, crash)));
            let failed = pass(&api, "m").await.is_err();
            api.crash_at(None);
            for name in ["n", "o", "m", "n", "m"] {
                pass(&api, name).await.unwrap();
            }
            let is_made = |name: &&str| {
                let config = api.get(&format!("{CONFIGS}/{name}")).unwrap();
                config["status"]["initialization"]["dataSecretCreated"] == true
            };
            let made: Vec<&str> = ["m", "n", "o"].into_iter().filter(is_made).collect();
            assert_eq!(made.len(), 1, "{crash:?} at write {at}: {made:?}");
            if !failed {
                break;
            }
        }
    }
}

#[test]
fn a2_a_machine_that_waits_keeps_the_time_of_its_condition() {
    let mut config = KubeadmConfig::new("w", Default::default());
    for (minute, message) in
        [(0, "the control plane is awaited"), (5, "Machine m initializes the control plane")]
    {
        let stop = Stop { part: Part::ControlPlane, message: message.to_owned(), after: stop::WAITING };
        let now = Time(format!("2026-11-26T10:{minute:02}:00Z"));
        report::report(&mut config, None, &Outcome::Stopped(stop), &now);
        let condition = config.condition(DATA).unwrap();
        assert_eq!(condition.message, message);
        assert_eq!(condition.last_transition_time.0, "2026-11-26T10:00:00Z");
    }
}
