//! External patches of a class: variables, patches and verdicts of an extension server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apiserver_types::{
    ClusterClass, KubeadmControlPlane, MachineDeployment, OpenStackCluster, OpenStackMachineTemplate,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_extensions::Hook;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_scenarios::{ExtensionServer, Reply};

use crate::life_testbed::{MANIFEST, Testbed};

/// Versions that the class of the manifest lists. What a test adds to the class takes their place.
const VERSIONS: &str = "  kubernetesVersions: [v1.30.0, v1.31.0, v1.32.0, v1.33.0, v1.34.0, v1.35.0]\n";

/// Patch of the class by the server.
const PATCHES: &str = "
  patches:
    - name: images
      external:
        discoverVariablesExtension: vars.ext
        generatePatchesExtension: patch.ext
        validateTopologyExtension: check.ext
        settings: {registry: local}
";

/// Begin of the topology in the manifest, after the version.
const PLANE: &str = "    controlPlane: {replicas: 1}\n";

/// Worker group of the manifest.
const GROUP: &str = "        - {class: worker, name: md-0, replicas: 1, failureDomain: az1}\n";

/// Condition of a Cluster that is as its class and the server want it.
const DONE: &str = "True ReconcileSucceeded ";

/// Begin of the condition of a failed pass.
const FAILED: &str = "False ReconcileFailed patch \"images\": ";

/// Function from the message of a request to the reply.
type Answer = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

/// Returns the manifest with these additions to the spec of the class, and these variables of the Cluster.
fn text(class: &str, variables: &str) -> String {
    assert!([VERSIONS, PLANE, GROUP].iter().all(|part| MANIFEST.contains(part)));
    MANIFEST.replace(VERSIONS, class.trim_start_matches('\n')).replace(PLANE, &format!("{variables}{PLANE}"))
}

/// Returns the value of a variable in a list of a request.
fn variable<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    let mut list = list.as_array()?.iter();
    list.find(|variable| variable["name"] == name).map(|variable| &variable["value"])
}

/// Returns a patch of a server.
fn patch(item: &Value, patch_type: &str, document: &Value) -> Value {
    json!({"uid": item["uid"], "patchType": patch_type, "patch": STANDARD.encode(document.to_string())})
}

/// Returns the patches of a server: the image of the variable for all Machines, and a command for the control plane.
fn patches(message: &Value) -> Reply {
    let of_item = |item: &Value| {
        let own = variable(&item["variables"], "image");
        let image = own.or_else(|| variable(&message["variables"], "image"))?;
        match item["object"]["kind"].as_str()? {
            "OpenStackMachineTemplate" => {
                let metadata = json!({"name": "other", "labels": {"patched": "yes"}});
                let spec = json!({"template": {"spec": {"image": {"filter": {"name": image}}}}});
                Some(patch(item, "JSONMergePatch", &json!({"metadata": metadata, "spec": spec})))
            }
            "KubeadmControlPlaneTemplate" => {
                let path = "/spec/template/spec/kubeadmConfigSpec/preKubeadmCommands";
                Some(patch(item, "JSONPatch", &json!([{"op": "add", "path": path, "value": ["date"]}])))
            }
            _ => None,
        }
    };
    let items: Vec<Value> = message["items"].as_array().unwrap().iter().filter_map(of_item).collect();
    Reply::Answer(json!({"status": "Success", "items": items}))
}

/// Returns a server with variables, patches and a check that agrees.
async fn server() -> ExtensionServer {
    let server = ExtensionServer::start().await.unwrap();
    let schema = json!({"openAPIV3Schema": {"type": "string", "default": "ubuntu-2204-kube-v1.33.0"}});
    let variables = json!([{"name": "image", "required": true, "schema": schema}]);
    let answer = json!({"status": "Success", "variables": variables});
    server.handle(Hook::DiscoverVariables, "vars", &json!({}), move |_| Reply::Answer(answer.clone()));
    server.handle(Hook::GeneratePatches, "patch", &json!({}), patches);
    server.handle(Hook::ValidateTopology, "check", &json!({}), |_| Reply::success());
    server
}

/// Creates a Cluster of the patched class in a namespace.
async fn start(namespace: &'static str) -> Testbed {
    Testbed::with(server().await, &text(PATCHES, ""), namespace, "v1.33.0").await
}

/// Makes passes until nothing is left to do.
async fn settle(testbed: &Testbed) {
    testbed.passes(3).await;
    testbed.control_plane_is_done().await;
    testbed.passes(3).await;
}

/// Returns the images of the templates of Machines, and their names, sorted.
async fn images(testbed: &Testbed) -> (Vec<String>, Vec<String>) {
    let templates = testbed.owned::<OpenStackMachineTemplate>().await;
    let image = |it: &OpenStackMachineTemplate| {
        let spec = serde_json::to_value(&it.spec.template.spec).unwrap();
        spec["image"]["filter"]["name"].as_str().unwrap().to_owned()
    };
    let mut images: Vec<String> = templates.iter().map(image).collect();
    let mut names: Vec<String> = templates.iter().map(ResourceExt::name_any).collect();
    images.sort();
    names.sort();
    (images, names)
}

fn calls(testbed: &Testbed) -> [usize; 2] {
    let count = |hook: Hook, handler: &str| testbed.server.calls(hook, handler).len();
    [count(Hook::GeneratePatches, "patch"), count(Hook::ValidateTopology, "check")]
}

/// Returns a condition of the class.
async fn of_class(testbed: &Testbed, kind: &str) -> String {
    let class = testbed.api::<ClusterClass>().get("small").await.unwrap();
    let found = class.condition(kind).unwrap();
    format!("{:?} {} {}", found.status, found.reason, found.message)
}

#[tokio::test]
async fn the_variables_and_patches_of_a_server_make_a_cluster() {
    let overrides = "{overrides: [{name: image, value: worker}]}";
    let group = GROUP.replace("md-0,", &format!("md-0, variables: {overrides},"));
    let text = text(PATCHES, "    variables: [{name: image, value: plane}]\n").replace(GROUP, &group);
    let testbed = Testbed::with(server().await, &text, "patched", "v1.33.0").await;
    assert_eq!(of_class(&testbed, "VariablesReady").await, "True VariablesReady ");
    let class = testbed.api::<ClusterClass>().get("small").await.unwrap();
    let found = serde_json::to_value(class.status.unwrap().variables).unwrap();
    let shown = (&found[0]["name"], &found[0]["definitions"][0]["from"]);
    assert_eq!(shown, (&json!("image"), &json!("images")));
    settle(&testbed).await;
    assert_eq!(testbed.condition().await, DONE);
    assert_eq!(images(&testbed).await.0, ["plane", "worker"]);
    let plane = testbed.owned::<KubeadmControlPlane>().await.remove(0);
    let plane = serde_json::to_value(plane).unwrap();
    assert_eq!(plane["spec"]["kubeadmConfigSpec"]["preKubeadmCommands"], json!(["date"]));
    for template in testbed.owned::<OpenStackMachineTemplate>().await {
        assert_eq!(template.labels()["patched"], "yes");
        assert!(template.name_any().starts_with("blue-"), "a server cannot change names");
    }

    let message = testbed.server.calls(Hook::GeneratePatches, "patch")[0].message.clone();
    assert_eq!(message["settings"], json!({"registry": "local"}));
    assert_eq!(variable(&message["variables"], "image"), Some(&json!("plane")));
    let builtin = variable(&message["variables"], "builtin").unwrap();
    assert_eq!(builtin["cluster"]["topology"]["version"], "v1.33.0");
    let holder = |item: &Value| {
        let holder = &item["holderReference"];
        assert_eq!(holder["namespace"], "patched");
        format!("{} {}", holder["kind"], holder["fieldPath"]).replace('"', "")
    };
    let holders: Vec<String> = message["items"].as_array().unwrap().iter().map(holder).collect();
    let expected = [
        "Cluster spec.infrastructureRef",
        "Cluster spec.controlPlaneRef",
        "KubeadmControlPlane spec.machineTemplate.spec.infrastructureRef",
        "MachineDeployment spec.template.spec.bootstrap.configRef",
        "MachineDeployment spec.template.spec.infrastructureRef",
    ];
    assert_eq!(holders, expected);
    let workers = &message["items"][4];
    assert_eq!(variable(&workers["variables"], "image"), Some(&json!("worker")));
    let builtin = variable(&workers["variables"], "builtin").unwrap();
    assert_eq!(builtin["machineDeployment"]["topologyName"], "md-0");
    assert_eq!(workers["object"]["metadata"].get("managedFields"), None);
    let checked = &testbed.server.calls(Hook::ValidateTopology, "check")[0].message;
    let image = checked["items"][4].pointer("/object/spec/template/spec/image/filter/name");
    assert_eq!(image, Some(&json!("worker")), "it sees the patched templates");
}

#[tokio::test]
async fn a_resting_topology_calls_its_server_once_per_pass_and_rotates_nothing() {
    let testbed = start("resting").await;
    settle(&testbed).await;
    assert_eq!(testbed.condition().await, DONE);
    let (before, [patched, checked]) = (images(&testbed).await, calls(&testbed));
    let revision = testbed.cluster().await.resource_version();
    testbed.passes(2).await;
    assert_eq!(calls(&testbed), [patched + 2, checked + 2]);
    assert_eq!(images(&testbed).await, before);
    assert_eq!(testbed.cluster().await.resource_version(), revision, "nothing is written");
    // Another answer replaces the templates.
    let variables = json!([{"name": "image", "value": "new"}]);
    testbed.change(json!({"spec": {"topology": {"variables": variables}}})).await.unwrap();
    testbed.passes(4).await;
    let after = images(&testbed).await;
    assert_eq!(after.0, ["new", "new"]);
    assert!(after.1.iter().all(|name| !before.1.contains(name)), "{after:?}");
    // A value that the server does not allow is refused at once.
    let wrong = json!([{"name": "image", "value": 3}]);
    let error = testbed.change(json!({"spec": {"topology": {"variables": wrong}}})).await.unwrap_err();
    assert!(error.contains("spec.topology.variables[image].value"), "{error}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_in_the_condition() {
    let testbed = start("unusable").await;
    // Patches of the first template alone.
    let items = |make: fn(&Value) -> Value| -> Answer {
        Box::new(move |message| {
            Reply::Answer(json!({"status": "Success", "items": [make(&message["items"][0])]}))
        })
    };
    let table: [(Answer, &str); 6] = [
        (items(|_| patch(&json!({"uid": "x"}), "JSONPatch", &json!([]))), "uid \"x\" is that of no template"),
        (items(|item| json!({"uid": item["uid"], "patchType": "JSONPatch", "patch": "%"})), "is not base64"),
        (items(|item| patch(item, "YAML", &json!({}))), "patchType is \"YAML\""),
        (
            items(|item| patch(item, "JSONPatch", &json!([{"op": "remove", "path": "/spec/none"}]))),
            "infrastructure cluster: operation 0: path \"/spec/none\" does not exist in the template",
        ),
        (
            items(|item| patch(item, "JSONMergePatch", &json!({"metadata": {"labels": {"a": 1}}}))),
            "\"/metadata/labels\" is no map of texts",
        ),
        (Box::new(|_| Reply::failure("no image")), "hook GeneratePatches: the server refused: no image. "),
    ];
    for (answer, expected) in table {
        testbed.server.answer(Hook::GeneratePatches, "patch", answer);
        testbed.passes(1).await;
        let condition = testbed.condition().await;
        assert!(condition.starts_with(FAILED) && condition.contains(expected), "{condition}");
        assert!(condition.contains("handler patch.ext"), "{condition}");
        assert!(testbed.owned::<OpenStackCluster>().await.is_empty(), "nothing is made");
    }
    testbed.server.answer(Hook::GeneratePatches, "patch", patches);
    settle(&testbed).await;
    assert_eq!(testbed.condition().await, DONE);
}

#[tokio::test]
async fn a_server_that_refuses_the_topology_or_is_down_holds_it_up() {
    let testbed = start("refusing").await;
    testbed.server.answer(Hook::ValidateTopology, "check", |_| Reply::failure("too many networks."));
    testbed.passes(1).await;
    let expected = format!(
        "{FAILED}extension handler check.ext of ExtensionConfig ext, hook ValidateTopology: the server \
         refused: too many networks. Do what the extension server says, or look at its logs"
    );
    assert_eq!(testbed.condition().await, expected);
    assert!(testbed.owned::<OpenStackCluster>().await.is_empty());
    testbed.server.set_down(true);
    testbed.passes(1).await;
    let condition = testbed.condition().await;
    let handler = "extension handler patch.ext of ExtensionConfig ext, hook GeneratePatches";
    assert!(condition.starts_with(&format!("{FAILED}{handler}: POST https://")), "{condition}");
    testbed.server.set_down(false);
    testbed.server.answer(Hook::ValidateTopology, "check", |_| Reply::success());
    settle(&testbed).await;
    assert_eq!(testbed.condition().await, DONE);
    // Without the ExtensionConfig, no change of the Cluster is made.
    testbed.unregister().await;
    testbed.passes(1).await;
    let condition = testbed.condition().await;
    assert!(condition.contains("patch.ext") && condition.contains("is not registered"), "{condition}");
    assert_eq!(testbed.owned::<MachineDeployment>().await.len(), 1, "what exists stays");
}

/// A pass wrote what it had decided, although the Cluster was paused while the server took its time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_cluster_that_is_paused_during_a_call_is_not_written() {
    let testbed = start("paused").await;
    let is_paused = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&is_paused);
    testbed.server.answer(Hook::GeneratePatches, "patch", move |message| {
        while !end.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        patches(message)
    });
    let pause = async {
        let begun = Instant::now();
        while calls(&testbed)[0] == 0 && begun.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let paused = testbed.change(json!({"spec": {"paused": true}})).await;
        is_paused.store(true, Ordering::SeqCst);
        paused.unwrap();
    };
    tokio::join!(testbed.passes(1), pause);
    assert!(testbed.owned::<OpenStackCluster>().await.is_empty(), "nothing is made");
    testbed.change(json!({"spec": {"paused": false}})).await.unwrap();
    settle(&testbed).await;
    assert_eq!(testbed.condition().await, DONE);
}

#[tokio::test]
async fn conflicting_definitions_of_a_variable_hold_up_the_class_and_its_clusters() {
    let variables = "
  variables:
    - {name: image, required: true, schema: {openAPIV3Schema: {type: integer}}}
";
    let class = format!("{}{}", variables.trim_start_matches('\n'), PATCHES.trim_start_matches('\n'));
    let testbed = Testbed::with(server().await, &text(&class, ""), "conflict", "v1.33.0").await;
    let message = "variables with conflicting definitions: image (of inline, images). ";
    let condition = of_class(&testbed, "VariablesReady").await;
    assert!(condition.starts_with(&format!("False VariableDiscoveryFailed {message}")), "{condition}");
    testbed.passes(1).await;
    let condition = testbed.condition().await;
    assert!(condition.contains(&format!("its variables are not ready: {message}")), "{condition}");
    let (params, change) = (PatchParams::default(), Patch::Merge(json!({"spec": {"variables": null}})));
    testbed.api::<ClusterClass>().patch("small", &params, &change).await.unwrap();
    testbed.class_pass().await;
    assert_eq!(of_class(&testbed, "VariablesReady").await, "True VariablesReady ");
    settle(&testbed).await;
    assert_eq!(testbed.condition().await, DONE);
}

#[tokio::test]
async fn a_server_without_variables_holds_up_the_class() {
    let server = server().await;
    server.answer(Hook::DiscoverVariables, "vars", |_| Reply::failure("no catalogue"));
    let testbed = Testbed::with(server, &text(PATCHES, ""), "undeclared", "v1.33.0").await;
    let condition = of_class(&testbed, "VariablesReady").await;
    let expected = "False VariableDiscoveryFailed patch \"images\": extension handler vars.ext of \
                    ExtensionConfig ext, hook DiscoverVariables: the server refused: no catalogue. ";
    assert!(condition.starts_with(expected), "{condition}");
    let wrong = json!([{"name": "a.b", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}]);
    let answer = json!({"status": "Success", "variables": wrong});
    testbed.server.answer(Hook::DiscoverVariables, "vars", move |_| Reply::Answer(answer.clone()));
    testbed.class_pass().await;
    let condition = of_class(&testbed, "VariablesReady").await;
    assert!(condition.contains("variable \"a.b\": its name cannot contain"), "{condition}");
}

#[tokio::test]
async fn a_plan_calls_the_server_and_writes_nothing() {
    let testbed = start("planned").await;
    settle(&testbed).await;
    let (before, [patched, checked]) = (images(&testbed).await, calls(&testbed));
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/planned/clusters/blue/plan";
    let variables = json!([{"name": "image", "value": "new"}]);
    let change = json!({"spec": {"topology": {"variables": variables}}});
    let plan: Value = testbed.world.post(path, &change).await.unwrap();
    let rotated = plan["objects"].as_array().unwrap().iter().filter(|it| it["effect"] == "Rotate");
    assert_eq!(rotated.count(), 2, "{plan:#}");
    let [patched, checked] = [calls(&testbed)[0] - patched, calls(&testbed)[1] - checked];
    assert!(patched > 0 && patched == checked, "{patched} {checked}");
    assert_eq!(images(&testbed).await, before);
    // A refusal of the server is one of the plan, and a server that is down an obstacle.
    testbed.server.answer(Hook::ValidateTopology, "check", |_| Reply::failure("no such image"));
    let error = testbed.world.post::<Value>(path, &change).await.unwrap_err();
    assert!(format!("{error:#}").contains("the server refused: no such image"), "{error:#}");
    testbed.server.set_down(true);
    let plan: Value = testbed.world.post(path, &change).await.unwrap();
    let obstacle = plan["obstacles"][0].as_str().unwrap();
    assert!(obstacle.starts_with("patch \"images\": extension handler patch.ext"), "{plan:#}");
}
