//! Plans of upgrades that an extension server makes.

use apiserver_types::Cluster;
use controllers_extensions::Hook;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_scenarios::{ExtensionServer, Reply};

use crate::life_testbed::{MANIFEST, Testbed};

/// Handler of the server.
const HANDLER: &str = "plan";

/// Versions that the class of the manifest lists. The server takes their place.
const VERSIONS: &str = "  kubernetesVersions: [v1.30.0, v1.31.0, v1.32.0, v1.33.0, v1.34.0, v1.35.0]\n";

const UPGRADE: &str = "  upgrade: {external: {generateUpgradePlanExtension: plan.ext}}\n";

/// Begin of the condition of a failed pass.
const FAILED: &str = "False ReconcileFailed ";

/// Returns the answer with these versions.
fn plan(control_plane: &[&str], workers: &[&str]) -> Reply {
    let steps = |versions: &[&str]| -> Vec<Value> {
        versions.iter().map(|version| json!({"version": version})).collect()
    };
    Reply::Answer(json!({
        "status": "Success", "controlPlaneUpgrades": steps(control_plane), "workersUpgrades": steps(workers),
    }))
}

/// Returns the steps of a server that knows one version of each minor version from `v1.32.3`, for an upgrade to `v1.34.0`.
fn steps(message: &Value) -> Reply {
    let above = |from: &Value| -> Vec<&'static str> {
        let from = from.as_str().unwrap_or_default();
        ["v1.32.3", "v1.33.1", "v1.34.0"].into_iter().filter(|version| *version > from).collect()
    };
    let control_plane = above(&message["fromControlPlaneKubernetesVersion"]);
    let mut workers = above(&message["fromWorkersKubernetesVersion"]);
    workers.retain(|version| *version != "v1.32.3");
    plan(&control_plane, &workers)
}

/// Creates a Cluster of version v1.31.0, whose upgrades a server plans so.
async fn done(namespace: &'static str, answer: fn(&Value) -> Reply) -> Testbed {
    let server = ExtensionServer::start().await.unwrap();
    server.handle(Hook::GenerateUpgradePlan, HANDLER, &json!({}), answer);
    assert!(MANIFEST.contains(VERSIONS));
    let text = MANIFEST.replace(VERSIONS, UPGRADE);
    let testbed = Testbed::with(server, &text, namespace, "v1.31.0").await;
    testbed.passes(3).await;
    testbed.control_plane_is_done().await;
    let initialized = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
    let (params, change) = (PatchParams::default(), Patch::Merge(initialized));
    testbed.api::<Cluster>().patch_status("blue", &params, &change).await.unwrap();
    testbed.passes(3).await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    assert!(testbed.server.calls(Hook::GenerateUpgradePlan, HANDLER).is_empty(), "nothing is to upgrade");
    testbed
}

#[tokio::test]
async fn the_plan_of_a_server_leads_over_several_minor_versions() {
    let testbed = done("planned", steps).await;
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/planned/clusters/blue/plan";
    let change = json!({"spec": {"topology": {"version": "v1.34.0"}}});
    let preview: Value = testbed.world.post(path, &change).await.unwrap();
    let shown = |step: &Value| format!("{} {}", step["kind"], step["version"]).replace('"', "");
    let found: Vec<String> = preview["steps"].as_array().unwrap().iter().map(shown).collect();
    let expected = [
        "KubeadmControlPlane v1.32.3",
        "KubeadmControlPlane v1.33.1",
        "MachineDeployment v1.33.1",
        "KubeadmControlPlane v1.34.0",
        "MachineDeployment v1.34.0",
    ];
    assert_eq!(found, expected);
    assert_eq!(testbed.server.calls(Hook::GenerateUpgradePlan, HANDLER).len(), 1, "one call for all steps");

    testbed.demand("v1.34.0").await.unwrap();
    let mut seen = vec![testbed.versions().await];
    for _ in 0..12 {
        testbed.passes(1).await;
        let versions = testbed.versions().await;
        if seen.last() != Some(&versions) {
            seen.push(versions);
        }
        testbed.control_plane_is_done().await;
    }
    let expected = [
        ["v1.31.0", "v1.31.0"],
        ["v1.32.3", "v1.31.0"],
        ["v1.33.1", "v1.31.0"],
        ["v1.33.1", "v1.33.1"],
        ["v1.34.0", "v1.33.1"],
        ["v1.34.0", "v1.34.0"],
    ];
    assert_eq!(seen, expected);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let calls = testbed.server.calls(Hook::GenerateUpgradePlan, HANDLER);
    let message = &calls[1].message;
    let from = (&message["fromControlPlaneKubernetesVersion"], &message["fromWorkersKubernetesVersion"]);
    assert_eq!(from, (&json!("v1.31.0"), &json!("v1.31.0")));
    assert_eq!(message["toKubernetesVersion"], "v1.34.0");
    assert_eq!((&message["cluster"]["kind"], message["cluster"].get("status")), (&json!("Cluster"), None));
    assert_eq!(calls.len(), 6, "one call for each change of versions, and that of the preview");
}

#[tokio::test]
async fn a_plan_that_does_not_lead_to_the_version_is_in_the_condition() {
    let testbed = done("gaps", |_| plan(&["v1.32.0", "v1.34.0"], &[])).await;
    testbed.demand("v1.34.0").await.unwrap();
    testbed.passes(1).await;
    let expected = format!(
        "{FAILED}the plan of extension handler plan.ext cannot be used: control plane upgrade plan: from \
         v1.32.0 to v1.34.0 a minor version is left out. The extension server must plan a version of each minor \
         version"
    );
    assert_eq!(testbed.condition().await, expected);
    assert_eq!(testbed.versions().await, ["v1.31.0", "v1.31.0"]);
}

#[tokio::test]
async fn a_server_that_refuses_an_upgrade_or_is_down_holds_it_up() {
    let testbed = done("refused", |_| Reply::failure("freeze until Monday")).await;
    testbed.demand("v1.32.0").await.unwrap();
    testbed.passes(1).await;
    let condition = testbed.condition().await;
    let handler = "upgrade plan: extension handler plan.ext of ExtensionConfig ext, hook GenerateUpgradePlan";
    let expected = format!("{FAILED}{handler}: the server refused: freeze until Monday. ");
    assert!(condition.starts_with(&expected), "{condition}");
    testbed.server.set_down(true);
    testbed.passes(1).await;
    let condition = testbed.condition().await;
    assert!(condition.starts_with(&format!("{FAILED}{handler}: POST https://")), "{condition}");
    assert_eq!(testbed.versions().await, ["v1.31.0", "v1.31.0"]);
    testbed.server.set_down(false);
    testbed.server.answer(Hook::GenerateUpgradePlan, HANDLER, |message| {
        match message["fromControlPlaneKubernetesVersion"] == "v1.31.0" {
            true => plan(&["v1.32.0"], &[]),
            false => plan(&[], &["v1.32.0"]),
        }
    });
    testbed.play().await;
    assert_eq!(testbed.versions().await, ["v1.32.0", "v1.32.0"]);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
}
