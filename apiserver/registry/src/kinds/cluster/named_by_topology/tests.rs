//! Tests of what a Cluster names through the patches of its class.

use async_trait::async_trait;
use serde_json::json;

use super::*;

/// Objects besides the Cluster: plural and object.
#[derive(Debug, Default)]
struct World(Vec<(&'static str, Value)>);

#[async_trait]
impl ObjectReader for World {
    async fn find(&self, _: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>> {
        let is_it = |object: &Value| object::name(object) == name && object::namespace(object) == namespace;
        let mut all = self.0.iter().filter(|(found, _)| *found == plural);
        Ok(all.find(|(_, object)| is_it(object)).map(|(_, object)| object.clone()))
    }

    async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
        Ok(Vec::new())
    }
}

const MACHINE: &str = "OpenStackMachineTemplate";
const BOOTSTRAP: &str = "KubeadmConfigTemplate";

fn reference(kind: &str) -> Value {
    let (group, version) = match kind {
        "KubeadmConfigTemplate" => ("bootstrap", "v1beta2"),
        "KubeadmControlPlaneTemplate" => ("controlplane", "v1beta1"),
        _ => ("infrastructure", "v1beta1"),
    };
    json!({"apiVersion": format!("{group}.cluster.x-k8s.io/{version}"), "kind": kind, "name": "t"})
}

fn holder(kind: &str) -> Value {
    json!({"templateRef": reference(kind)})
}

/// Returns a patch of the templates of workers, with one operation.
fn patch(kind: &str, path: &str, value: &Value) -> Value {
    let selector = json!({"apiVersion": reference(kind)["apiVersion"], "kind": kind,
        "matchResources": {"machineDeploymentClass": {"names": ["w"]}}});
    let mut operation = json!({"op": "add", "path": path});
    operation[if value.is_object() { "valueFrom" } else { "value" }] = value.clone();
    json!({"name": path, "definitions": [{"selector": selector, "jsonPatches": [operation]}]})
}

/// Class in the namespace `ns`. The variable `identity` is the name of a Secret, and `prefix` a part of one.
fn class() -> Value {
    let variable = |name: &str, default: &str| {
        json!({"name": name, "required": false,
            "schema": {"openAPIV3Schema": {"type": "string", "default": default}}})
    };
    let file = |name: &str| format!("{{path: /a, contentFrom: {{secret: {{name: '{name}', key: k}}}}}}");
    let own = format!("[{}]", file("{{ .builtin.cluster.name }}-file"));
    let generated = file("{{ .prefix }}-{{ .builtin.machineDeployment.name }}");
    let enabled = |mut patch: Value| {
        patch["enabledIf"] = json!("{{ ne .prefix \"\" }}");
        patch
    };
    let files = "/spec/template/spec/files";
    let patches = json!([
        patch(MACHINE, "/spec/template/spec/identityRef/name", &json!({"variable": "identity"})),
        patch(MACHINE, "/spec/template/spec/sshKeyName", &json!({"variable": "key"})),
        patch(BOOTSTRAP, files, &json!({"template": own})),
        enabled(patch(BOOTSTRAP, &format!("{files}/-"), &json!({"template": generated}))),
    ]);
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
        "metadata": {"name": "k", "namespace": "ns"},
        "spec": {
            "infrastructure": holder("OpenStackClusterTemplate"),
            "controlPlane": {"templateRef": reference("KubeadmControlPlaneTemplate"),
                "machineInfrastructure": holder(MACHINE)},
            "workers": {"machineDeployments": [
                {"class": "w", "bootstrap": holder(BOOTSTRAP), "infrastructure": holder(MACHINE)}]},
            "variables": [variable("identity", "of-class"), variable("prefix", ""),
                {"name": "key", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}],
            "patches": patches}})
}

/// Templates in their stored versions. The infrastructure template names the Secret `of-template`.
fn templates() -> Vec<(&'static str, Value)> {
    let template = |group: &str, kind: &str, spec: Value| {
        json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind,
            "metadata": {"name": "t", "namespace": "ns"}, "spec": {"template": {"spec": spec}}})
    };
    let identity = |name: &str| json!({"identityRef": {"name": name, "cloudName": "c"}});
    vec![
        (
            "openstackclustertemplates",
            template("infrastructure", "OpenStackClusterTemplate", identity("of-template")),
        ),
        (
            "kubeadmcontrolplanetemplates",
            template("controlplane", "KubeadmControlPlaneTemplate", json!({"kubeadmConfigSpec": {}})),
        ),
        ("openstackmachinetemplates", template("infrastructure", MACHINE, identity("of-template"))),
        ("kubeadmconfigtemplates", template("bootstrap", BOOTSTRAP, json!({}))),
    ]
}

fn world() -> World {
    let mut all = templates();
    all.push(("clusterclasses", class()));
    World(all)
}

fn cluster(namespace: &str, variables: &Value) -> Value {
    let mut variables = variables.clone();
    variables["key"] = json!("ssh");
    let variables: Vec<Value> = variables
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect();
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": namespace},
        "spec": {"topology": {"classRef": {"name": "k", "namespace": "ns"}, "version": "v1.34.1",
            "variables": variables,
            "workers": {"machineDeployments": [{"class": "w", "name": "md-0"}]}}}})
}

/// Returns the names of the Secrets that a write newly names. An empty name stands for all.
async fn secrets(new: &Value, old: Option<&Value>, world: &World) -> Vec<String> {
    let used = newly_used(new, old, world).await.unwrap();
    let secrets = used.into_iter().filter(|used| used.resource == "secrets");
    let named = secrets.map(|used| {
        assert_eq!((used.namespace.as_str(), used.field), (object::namespace(new), FIELD));
        used.name
    });
    named.collect()
}

#[tokio::test]
async fn tm_05_a_name_that_comes_from_the_cluster_counts_and_one_of_the_class_does_not() {
    let (plain, world) = (cluster("ns", &json!({})), world());
    assert_eq!(secrets(&plain, None, &world).await, ["c-file"], "the name of the Cluster is its own");
    let named = cluster("ns", &json!({"identity": "mine"}));
    assert_eq!(secrets(&named, None, &world).await, ["c-file", "mine"]);
    assert_eq!(secrets(&named, Some(&plain), &world).await, ["mine"]);
    assert_eq!(secrets(&plain, Some(&named), &world).await, Vec::<String>::new(), "back to the default");
    let mut labelled = named.clone();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(secrets(&labelled, Some(&named), &world).await, Vec::<String>::new());
    let same = cluster("ns", &json!({"identity": "of-template"}));
    assert_eq!(secrets(&same, Some(&plain), &world).await, Vec::<String>::new(), "the template names it");
}

#[tokio::test]
async fn tm_05_the_class_of_another_namespace_gives_no_permission_in_that_of_the_cluster() {
    let found = secrets(&cluster("team", &json!({})), None, &world()).await;
    assert_eq!(found, ["of-template", "c-file", "of-class"]);
}

#[tokio::test]
async fn tm_05_the_writers_of_a_class_answer_for_its_identities_in_all_namespaces() {
    let mut world = world();
    for (_, template) in world.0.iter_mut().filter(|(plural, _)| plural.starts_with("openstack")) {
        template["spec"]["template"]["spec"]["identityRef"]["type"] = json!("ClusterIdentity");
    }
    let identities = async |variables: Value| {
        let used = newly_used(&cluster("team", &variables), None, &world).await.unwrap();
        let identities = used.into_iter().filter(|used| used.resource == "openstackclusteridentities");
        identities.map(|used| used.name).collect::<Vec<_>>()
    };
    assert_eq!(identities(json!({})).await, Vec::<String>::new());
    assert_eq!(identities(json!({"identity": "mine"})).await, ["mine"]);
}

#[tokio::test]
async fn tm_05_a_class_beside_the_cluster_without_patches_of_names_is_not_rendered() {
    let mut plain = class();
    plain["spec"]["patches"] =
        json!([patch(MACHINE, "/spec/template/spec/sshKeyName", &json!({"variable": "key"}))]);
    let without_templates = World(vec![("clusterclasses", plain)]);
    let found = secrets(&cluster("ns", &json!({})), None, &without_templates).await;
    assert_eq!(found, Vec::<String>::new(), "the writers of the templates answer for all names");
    assert_eq!(secrets(&cluster("team", &json!({})), None, &without_templates).await, [""]);
}

#[tokio::test]
async fn tm_05_the_names_of_a_cluster_that_is_too_large_are_not_known() {
    let with = |groups: usize, variables: &Value| {
        let mut large = cluster("ns", variables);
        let groups = (0..groups).map(|number| json!({"class": "w", "name": format!("md-{number}")}));
        large["spec"]["topology"]["workers"]["machineDeployments"] = groups.collect();
        large
    };
    let long = json!({"prefix": "a".repeat(1024 * 1024)});
    for (large, expected) in [
        (with(3, &json!({})), vec!["c-file"]),
        (with(2001, &json!({})), vec![""]),
        (with(65, &long), vec![""]),
    ] {
        assert_eq!(secrets(&large, None, &world()).await, expected);
    }
}

#[tokio::test]
async fn tm_05_a_name_with_a_generated_part_can_be_any() {
    let prefixed = |prefix: &str| cluster("ns", &json!({"prefix": prefix}));
    assert_eq!(secrets(&prefixed("a"), Some(&prefixed("")), &world()).await, [""]);
    let mut labelled = prefixed("a");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    assert_eq!(secrets(&labelled, Some(&prefixed("a")), &world()).await, Vec::<String>::new());
    let mut grown = labelled.clone();
    grown["spec"]["topology"]["workers"]["machineDeployments"] =
        json!([{"class": "w", "name": "md-0"}, {"class": "w", "name": "victim"}]);
    assert_eq!(secrets(&grown, Some(&labelled), &world()).await, [""], "the name of a group is a part of it");
}

#[tokio::test]
async fn tm_05_without_the_class_or_a_template_the_names_are_not_known() {
    let plain = cluster("ns", &json!({}));
    assert_eq!(secrets(&plain, None, &World::default()).await, [""]);
    let mut world = world();
    world.0.remove(0);
    assert_eq!(secrets(&plain, None, &world).await, [""]);
    assert_eq!(secrets(&plain, Some(&plain), &world).await, Vec::<String>::new(), "nothing has changed");
    let changed = cluster("ns", &json!({"identity": "mine"}));
    assert_eq!(secrets(&changed, Some(&plain), &world).await, [""], "an earlier write gives no permission");
    let used = newly_used(&plain, None, &World::default()).await.unwrap();
    assert!(used[0].remedy.starts_with("Which Secrets the Cluster names is not known"), "{used:?}");
}

/// The administrator who registers the server answers for what it names.
#[tokio::test]
async fn tm_05_what_the_server_of_an_external_patch_names_does_not_count_for_the_cluster() {
    let named = cluster("ns", &json!({"identity": "mine"}));
    let mut class = class();
    let external = json!({"name": "ext", "external": {"generatePatchesExtension": "patch.ext"}});
    class["spec"]["patches"].as_array_mut().unwrap().push(external);
    let world = |class: &Value| {
        let mut all = templates();
        all.push(("clusterclasses", class.clone()));
        World(all)
    };
    assert_eq!(secrets(&named, None, &world(&class)).await, ["c-file", "mine"]);
    // Before the controller of the class has called the server for variables, no defaults are known.
    class["spec"]["patches"][4]["external"]["discoverVariablesExtension"] = json!("vars.ext");
    assert!(secrets(&named, None, &world(&class)).await.contains(&String::new()));
    let collected = |variable: &Value| {
        let mut definition = variable.clone();
        definition["from"] = json!("inline");
        json!({"name": variable["name"], "definitions": [definition]})
    };
    let variables = class["spec"]["variables"].as_array().unwrap().iter().map(collected);
    let variables: Vec<Value> = variables.collect();
    let ready = json!({
        "type": "VariablesReady", "status": "True", "reason": "VariablesReady", "message": "",
        "lastTransitionTime": "2026-11-21T06:00:00Z",
    });
    class["status"] = json!({"conditions": [ready], "variables": variables});
    assert_eq!(secrets(&named, None, &world(&class)).await, ["c-file", "mine"]);
}

#[tokio::test]
async fn tm_05_a_cluster_without_a_topology_or_one_that_is_being_deleted_names_nothing() {
    let without = json!({"metadata": {"name": "c", "namespace": "ns"}, "spec": {}});
    assert_eq!(secrets(&without, None, &World::default()).await, Vec::<String>::new());
    let mut deleted = cluster("ns", &json!({"identity": "mine"}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-21T06:00:00Z");
    assert_eq!(secrets(&deleted, Some(&cluster("ns", &json!({}))), &world()).await, Vec::<String>::new());
}
