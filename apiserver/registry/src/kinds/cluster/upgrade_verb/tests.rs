//! Tests of the verb: what it stores, and what it refuses.

use apiserver_types::{KubeadmControlPlane, UPGRADE_STEP};

use super::*;
use crate::rules::plan_verb::Planner;
use crate::rules::stored_object::StoredObject;

/// Planner with one answer.
#[derive(Debug)]
struct Fixed(Result<Value, PlanFailure>);

#[async_trait]
impl Planner for Fixed {
    async fn plan(&self, kind: &str, _: Value, _: Value, limits: PlanLimits) -> Result<Value, PlanFailure> {
        assert_eq!((kind, limits.clouds), ("ClusterUpgrade", Duration::ZERO));
        let mut plan = self.0.clone()?;
        plan["checksDrains"] = json!(!limits.workloads.is_zero());
        Ok(plan)
    }
}

/// Calls the verb of a Cluster with a control plane at v1.33.0. Returns the answer, and the Cluster if it was written.
async fn called(
    cluster: Value,
    plan: Result<Value, PlanFailure>,
    body: Value,
) -> (ApiResult<Value>, Option<Value>) {
    let slot = PlannerSlot::default();
    slot.set(Arc::new(Fixed(plan))).unwrap();
    let plane = json!({"spec": {"version": "v1.33.0"}});
    let stored = StoredObject::new(Cluster::DESCRIPTOR, cluster)
        .with_related(KubeadmControlPlane::DESCRIPTOR.plural, plane);
    let result = stored.call(with_planner(&slot).as_ref(), body).await;
    (result, stored.last_write())
}

fn remaining(versions: &[&str]) -> Result<Value, PlanFailure> {
    Ok(json!({"upgrade": {"controlPlane": versions, "workers": []}}))
}

fn with_topology(version: &str, annotations: &Value) -> Value {
    let reference = json!({"kind": "KubeadmControlPlane", "name": "p"});
    json!({"metadata": {"name": "c", "annotations": annotations},
        "spec": {"controlPlaneRef": reference, "topology": {"version": version}}})
}

fn classless(annotations: &Value) -> Value {
    json!({"metadata": {"name": "c", "annotations": annotations}, "spec": {}})
}

#[tokio::test]
async fn a_request_is_stored_in_the_topology_or_in_an_annotation() {
    let body = json!({"version": "v1.34.2", "reason": "CVE"});
    let cluster = with_topology("v1.33.0", &json!({UPGRADE_STOP: "v1.32.0"}));
    let (answer, stored) = called(cluster, remaining(&["v1.34.2"]), body.clone()).await;
    let answer = answer.unwrap();
    assert_eq!((&answer["dryRun"], &answer["checksDrains"]), (&json!(false), &json!(false)));
    let stored = stored.unwrap();
    assert_eq!(stored["spec"]["topology"]["version"], "v1.34.2");
    let annotations = &stored["metadata"]["annotations"];
    assert_eq!(annotations.get(UPGRADE_STOP), None);
    assert_eq!(annotations["capstan.dev/changed-by"], "ann");
    assert_eq!(annotations["kubernetes.io/change-cause"], "CVE");

    let chain = json!({"version": "v1.35.1", "through": ["v1.34.2"]});
    let (_, stored) = called(classless(&Value::Null), remaining(&["v1.34.2"]), chain.clone()).await;
    assert_eq!(stored.unwrap()["metadata"]["annotations"][UPGRADE], "v1.34.2,v1.35.1");
    // The same request again, a dry run, and a version that the cluster has already.
    let known = classless(&json!({UPGRADE: "v1.34.2,v1.35.1"}));
    assert_eq!(called(known, remaining(&["v1.34.2"]), chain).await.1, None);
    let dry = json!({"version": "v1.34.2", "dryRun": true});
    let (answer, stored) = called(classless(&Value::Null), remaining(&["v1.34.2"]), dry).await;
    let answer = answer.unwrap();
    assert_eq!((&answer["dryRun"], &answer["checksDrains"], stored), (&json!(true), &json!(true), None));
    assert_eq!(called(classless(&Value::Null), remaining(&[]), body).await.1, None);
}

#[tokio::test]
async fn a_wrong_request_is_refused_with_its_field_and_stores_nothing() {
    let plain = || classless(&Value::Null);
    let table = [
        (plain(), json!({}), 422, "version: Required value"),
        (plain(), json!({"version": "1.34.0"}), 422, "version: Invalid value: \"1.34.0\""),
        (plain(), json!({"version": "v1.34.0,v1.35.0"}), 422, "version: Invalid value"),
        (plain(), json!({"version": "v1.35.0", "through": ["v1.34"]}), 422, "through[0]: Invalid value"),
        (plain(), json!({"version": "v1.35.0", "through": ["v1.36.0"]}), 422, "through: Invalid value"),
        (
            with_topology("v1.33.0", &Value::Null),
            json!({"version": "v1.35.0", "through": ["v1.34.0"]}),
            422,
            "through: Forbidden: spec.kubernetesVersions",
        ),
        (
            classless(&json!({UPGRADE: "v1.35.0"})),
            json!({"version": "v1.34.0"}),
            409,
            "an upgrade to v1.35.0 is in progress",
        ),
        (plain(), json!({"cancel": true, "version": "v1.34.0"}), 422, "version: Forbidden"),
        (plain(), json!({"cancel": true}), 409, "no upgrade is in progress"),
    ];
    for (cluster, body, code, expected) in table {
        let (result, stored) = called(cluster, remaining(&["v1.34.0"]), body.clone()).await;
        let error = result.unwrap_err();
        assert!(error.code == code && error.message.contains(expected), "{body}: {error}");
        assert_eq!(stored, None, "{body}");
    }
    let failure = PlanFailure::Invalid("version".to_owned(), "is not above v1.33.0".to_owned());
    let (result, stored) = called(plain(), Err(failure), json!({"version": "v1.32.0"})).await;
    let error = result.unwrap_err();
    assert!(error.code == 422 && error.message.contains("version: Invalid value: is not above"), "{error}");
    assert_eq!(stored, None);
}

#[tokio::test]
async fn a_cancellation_ends_at_the_version_that_the_control_plane_takes() {
    let step = |version: &str| json!({UPGRADE_STEP: version});
    let cancel = || json!({"cancel": true});
    for (annotations, expected) in [(step("v1.34.0"), "v1.34.0"), (Value::Null, "v1.33.0")] {
        let (result, stored) = called(with_topology("v1.36.0", &annotations), remaining(&[]), cancel()).await;
        result.unwrap();
        let stored = stored.unwrap();
        assert_eq!(stored["spec"]["topology"]["version"], expected);
        assert_eq!(stored["metadata"]["annotations"][UPGRADE_STOP], expected);
    }
    // The workers follow to a step that began without them, and so do their hooks.
    let hooks = "runtime.cluster.x-k8s.io/pending-hooks";
    let all = "AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    let follow = "AfterClusterUpgrade,AfterWorkersUpgrade";
    for (pending, expected) in [("AfterClusterUpgrade", all), (all, all), (follow, follow)] {
        let begun = json!({UPGRADE_STEP: "v1.34.0", hooks: pending});
        let (_, stored) = called(with_topology("v1.36.0", &begun), remaining(&[]), cancel()).await;
        assert_eq!(stored.unwrap()["metadata"]["annotations"][hooks], expected, "{pending}");
    }
    let request = "v1.34.0,v1.35.0,v1.36.0";
    let both = |version: &str| json!({UPGRADE: request, UPGRADE_STEP: version});
    for (annotations, expected) in [
        (both("v1.35.0"), json!("v1.34.0,v1.35.0")),
        (both("v1.33.0"), Value::Null),
        (json!({UPGRADE: request}), Value::Null),
    ] {
        let (_, stored) = called(classless(&annotations), remaining(&[]), cancel()).await;
        assert_eq!(stored.unwrap()["metadata"]["annotations"][UPGRADE], expected, "{annotations}");
    }
    for cluster in [with_topology("v1.36.0", &step("v1.36.0")), classless(&both("v1.36.0"))] {
        let (result, stored) = called(cluster, remaining(&[]), cancel()).await;
        let error = result.unwrap_err();
        assert!(error.code == 409 && error.message.contains("takes v1.36.0, which is the target"), "{error}");
        assert_eq!(stored, None);
    }
    let (result, _) = called(with_topology("v1.33.0", &Value::Null), remaining(&[]), cancel()).await;
    assert!(result.unwrap_err().message.ends_with("no upgrade is in progress"));
}
