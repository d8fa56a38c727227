//! Upgrades of a topology by the verb: the plan before, the steps, and the end before the target.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::plans::texts;
use crate::testbed::Testbed;

/// Sends a request to the verb of the Cluster `blue`.
pub(crate) async fn upgrade(client: &kube::Client, namespace: &str, body: &Value) -> Result<Value, String> {
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters/blue/upgrade");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(body.to_string().into_bytes()).unwrap();
    client.request(request).await.map_err(|error| error.to_string())
}

/// Returns kinds and versions of the steps of a plan.
pub(crate) fn steps(plan: &Value) -> Vec<String> {
    let (kinds, versions) = (texts(&plan["steps"], "kind"), texts(&plan["steps"], "version"));
    kinds.iter().zip(versions).map(|(kind, version)| format!("{kind} {version}")).collect()
}

impl Testbed {
    async fn request(&self, body: Value) -> Result<Value, String> {
        upgrade(&self.client, self.namespace, &body).await
    }

    async fn topology_version(&self) -> String {
        self.cluster().await.spec.topology.unwrap().version
    }
}

#[tokio::test]
async fn a_dry_run_has_the_steps_of_the_chain_and_changes_nothing() {
    let testbed = Testbed::done("verb-plan", "v1.31.0").await;
    let before = testbed.cluster().await.resource_version();
    let plan = testbed.request(json!({"version": "v1.35.0", "dryRun": true})).await.unwrap();
    let remain = json!({
        "controlPlane": ["v1.32.0", "v1.33.0", "v1.34.0", "v1.35.0"], "workers": ["v1.34.0", "v1.35.0"],
    });
    assert_eq!((&plan["kind"], &plan["upgrade"]), (&json!("ClusterUpgrade"), &remain));
    let expected = [
        "KubeadmControlPlane v1.32.0",
        "KubeadmControlPlane v1.33.0",
        "KubeadmControlPlane v1.34.0",
        "MachineDeployment v1.34.0",
        "KubeadmControlPlane v1.35.0",
        "MachineDeployment v1.35.0",
    ];
    assert_eq!(steps(&plan), expected);
    assert_eq!(texts(&plan["steps"], "name")[3], testbed.deployment().await.name_any());
    assert_eq!((&plan["obstacles"], &plan["dryRun"]), (&json!([]), &json!(true)));
    assert_eq!(testbed.cluster().await.resource_version(), before);

    let hook = "before-upgrade.hook.cluster.cluster.x-k8s.io/backup";
    let held = json!({"metadata": {"annotations": {hook: ""}}});
    testbed.merge::<apiserver_types::Cluster>("blue", held).await;
    let plan = testbed.request(json!({"version": "v1.35.0", "dryRun": true})).await.unwrap();
    assert_eq!((&plan["upgrade"], &plan["steps"]), (&remain, &json!([])));
    let obstacle = plan["obstacles"][0].as_str().unwrap();
    assert!(obstacle.contains(&format!("BeforeClusterUpgrade: annotation {hook} is set")), "{obstacle}");
}

#[tokio::test]
async fn a_cancelled_chain_ends_at_the_step_in_progress_and_the_next_one_begins_there() {
    let testbed = Testbed::done("verb-cancel", "v1.31.0").await;
    let none = testbed.request(json!({"cancel": true})).await.unwrap_err();
    assert!(none.contains("no upgrade is in progress"), "{none}");
    let answer = testbed.request(json!({"version": "v1.35.0", "reason": "CVE"})).await.unwrap();
    assert_eq!((answer["steps"].as_array().unwrap().len(), &answer["dryRun"]), (6, &json!(false)));
    let cluster = testbed.cluster().await;
    assert_eq!(cluster.annotations()["kubernetes.io/change-cause"], "CVE");
    assert_eq!(cluster.annotations()["capstan.dev/changed-by"], "admin");
    testbed.controllers.round_of_topologies().await.unwrap();
    assert_eq!(testbed.control_plane().await.spec.version, "v1.32.0");

    // The control plane still comes to v1.32.0.
    let planned = testbed.request(json!({"cancel": true, "dryRun": true})).await.unwrap();
    assert_eq!(planned["version"], "v1.32.0");
    assert_eq!(testbed.topology_version().await, "v1.35.0", "a dry run changes nothing");
    testbed.request(json!({"cancel": true})).await.unwrap();
    assert_eq!(testbed.topology_version().await, "v1.32.0");
    testbed.control_plane_is_done().await;
    assert_eq!(testbed.upgrade().await, ["workers v1.32.0"]);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let annotations = testbed.cluster().await.annotations().clone();
    assert!(!annotations.contains_key("runtime.cluster.x-k8s.io/pending-hooks"), "{annotations:?}");

    testbed.request(json!({"version": "v1.33.0"})).await.unwrap();
    assert_eq!(testbed.upgrade().await, ["control plane v1.33.0", "workers v1.33.0"]);
    assert!(!testbed.cluster().await.annotations().contains_key("capstan.dev/upgrade-stop"));
}

#[tokio::test]
async fn wrong_targets_are_refused_with_their_field_and_change_nothing() {
    let testbed = Testbed::done("verb-wrong", "v1.33.0").await;
    let before = testbed.cluster().await.resource_version();
    for (body, expected) in [
        (json!({"version": "v1.32.0"}), "spec.topology.version: Invalid value: \"v1.32.0\": version cannot"),
        (json!({"version": "v1.36.0"}), "spec.topology.version: Invalid value: \"v1.36.0\": version must"),
        (json!({"version": "1.34.0"}), "version: Invalid value: \"1.34.0\""),
        (json!({"version": "v1.35.0", "through": ["v1.34.0"]}), "through: Forbidden"),
        (json!({}), "version: Required value"),
    ] {
        let error = testbed.request(body.clone()).await.unwrap_err();
        assert!(error.contains(expected), "{body}: {error}");
    }
    // Without a list of versions, a jump over a minor version has no steps.
    testbed.change_class(json!({"kubernetesVersions": null})).await;
    let error = testbed.request(json!({"version": "v1.35.0"})).await.unwrap_err();
    assert!(error.contains("spec.topology.version: Invalid value: \"v1.35.0\": version cannot"), "{error}");
    assert_eq!(testbed.cluster().await.resource_version(), before);

    // Only the verb takes a version back.
    let lower = Patch::Merge(json!({"spec": {"topology": {"version": "v1.32.0"}}}));
    let clusters = testbed.api::<apiserver_types::Cluster>();
    let refused = clusters.patch("blue", &PatchParams::default(), &lower).await.unwrap_err().to_string();
    assert!(refused.contains("version cannot be decreased"), "{refused}");
}
