//! Tests of the names of Machines with an index.

use apiserver_types::OpenStackMachine;
use controllers_runtime::ServedKind;
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::FakeApi;

/// Path of the list of Machines.
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";

/// Path of the list of Nodes.
const NODES: &str = "/api/v1/nodes";

fn naming(template: &str) -> Naming {
    Naming::new(template, &[(".cluster.name", "blue"), (".machineSet.name", "ms")])
}

fn key() -> ClusterKey {
    ClusterKey { namespace: "ns".to_owned(), name: "blue".to_owned() }
}

fn list(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    json!({"items": items})
}

/// Returns the names that are given while these are taken.
fn given(template: &str, taken: &[&str], count: usize) -> Result<Vec<String>, String> {
    let taken = taken.iter().map(|name| (*name).to_owned()).collect();
    let mut names =
        FreeNames { naming: naming(template), cluster: key(), needs_nodes: false, taken, index: 0 };
    (0..count).map(|_| names.lowest()).collect()
}

#[test]
fn a_template_has_an_index_if_it_has_an_effect() {
    for (template, expected) in [
        ("{{ .machineSet.name }}-{{ .index }}", true),
        ("{{ printf \"%02d\" .index }}", true),
        ("{{ .machineSet.name }}-{{ .random }}", false),
        ("{{ if .index }}{{ end }}{{ .random }}", false),
        ("{{ .index", false),
    ] {
        assert_eq!(naming(template).has_index(), expected, "{template}");
    }
    let random = naming("{{ if .index }}{{ end }}w-{{ .random }}").random().unwrap();
    assert!(random.starts_with("w-") && random.len() == 7, "{random}");
    assert!(naming("{{ .machine.name }}").random().unwrap_err().contains("cannot be used"));
}

#[test]
fn the_lowest_index_whose_name_is_free_comes_first_and_no_name_twice() {
    let template = "w-{{ .index }}";
    assert_eq!(given(template, &[], 3).unwrap(), ["w-0", "w-1", "w-2"]);
    assert_eq!(given(template, &["w-0", "w-2", "w-10", "other"], 3).unwrap(), ["w-1", "w-3", "w-4"]);
    assert_eq!(given("w-{{ printf \"%02d\" .index }}", &["w-00"], 1).unwrap(), ["w-01"]);
    let many: Vec<String> = (0..500).map(|index| format!("w-{index}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(given(template, &many, 2).unwrap(), ["w-500", "w-501"]);
    // Two sets of a MachineDeployment with the name of the Cluster share the indexes.
    assert_eq!(given("{{ .cluster.name }}-{{ .index }}", &["blue-0"], 1).unwrap(), ["blue-1"]);
}

#[test]
fn a_template_whose_names_do_not_differ_is_named() {
    let error = given("{{ if .index }}b{{ else }}a{{ end }}", &[], 3).unwrap_err();
    assert!(error.contains("each index must give a name of its own"), "{error}");
}

#[tokio::test]
async fn machines_and_their_parts_have_their_names_until_they_are_gone() {
    let api = FakeApi::default();
    let server = ApiResource::erase::<OpenStackMachine>(&());
    let served =
        ServedKind { versions: vec![server.version.clone()], resource: server.clone(), namespaced: true };
    let context = ControllerContext { kinds: [served].into(), ..api.context("test") };
    api.put(MACHINES, list(&["w-0", "w-3"]));
    let mut servers = list(&["w-0", "w-1"]);
    servers["items"][1]["metadata"]["deletionTimestamp"] = json!("2026-11-26T10:00:00Z");
    let path = format!("/apis/{}/namespaces/ns/{}", server.api_version, server.plural);
    api.put(&path, servers);
    let parts = [(server.group.as_str(), server.kind.as_str()), ("none", "NotServed")];
    let read = FreeNames::read(&context, naming("w-{{ .index }}"), key(), &parts, false).await;
    let mut names = read.unwrap();
    for expected in ["w-2", "w-4"] {
        assert_eq!(names.take(&context).await.as_deref(), Ok(expected));
    }
}

async fn first(context: &ControllerContext, needs_nodes: bool) -> Result<String, String> {
    let names = FreeNames::read(context, naming("w-{{ .index }}"), key(), &[], needs_nodes).await;
    names.unwrap().take(context).await
}

/// Another server would get the Node of the earlier one, whose provider ID cannot be changed.
#[tokio::test]
async fn a_name_is_taken_until_the_node_of_the_earlier_machine_is_gone() {
    let (api, workload) = (FakeApi::default(), FakeApi::default());
    api.put(MACHINES, list(&[]));
    workload.put(NODES, list(&["w-0"]));
    workload.put(&format!("{NODES}/w-0"), json!({}));
    let context = api.context_with_workload("test", &workload).await;
    assert!(matches!(context.workloads.node(&key(), "w-0"), Ok(Some(_))));
    assert_eq!(first(&context, true).await.as_deref(), Ok("w-1"));
    workload.remove(&format!("{NODES}/w-0"));
    assert_eq!(first(&context, true).await.as_deref(), Ok("w-0"), "the watch is behind");
}

#[tokio::test]
async fn without_a_connection_no_name_is_given_to_a_cluster_that_can_have_nodes() {
    let api = FakeApi::default();
    api.put(MACHINES, list(&[]));
    let context = api.context("test");
    assert_eq!(first(&context, false).await.as_deref(), Ok("w-0"));
    let error = first(&context, true).await.unwrap_err();
    assert!(error.contains("does not say whether Node w-0 exists"), "{error}");
    let mut cluster = Cluster::default();
    assert!(!can_have_nodes(&cluster));
    let status = json!({"initialization": {"controlPlaneInitialized": true}});
    cluster.status = serde_json::from_value(status).unwrap();
    assert!(can_have_nodes(&cluster));
}
