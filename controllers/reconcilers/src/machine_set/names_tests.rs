//! Tests of the creation of Machines with an index in their names.

use std::sync::Arc;

use apiserver_types::{ContractVersionedObjectReference, Machine, MachineNaming, MachineSet, MachineSetSpec};
use controllers_runtime::{ControllerContext, ReconcileError, ServedKind};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::ApiResource;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::super::act::Actor;
use super::super::observe::Observed;
use crate::api_in_memory::{Crash, FakeApi};
use crate::applied::Applied;
use crate::replica_status::Clock;

/// Path of the Machines.
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";

/// Path of the servers.
const SERVERS: &str = "/apis/g/v1/namespaces/ns/servers";

/// Path of the bootstrap data.
const CONFIGS: &str = "/apis/g/v1/namespaces/ns/configs";

/// Write of the Machine in a creation: two parts come before it, with two writes each.
const WRITE_OF_MACHINE: usize = 5;

fn served(kind: &str) -> ServedKind {
    let resource = ApiResource {
        group: "g".to_owned(),
        version: "v1".to_owned(),
        api_version: "g/v1".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    };
    ServedKind { resource, namespaced: true, versions: vec!["v1".to_owned()] }
}

fn set() -> MachineSet {
    let reference = |kind: &str| ContractVersionedObjectReference {
        api_group: "g".to_owned(),
        kind: kind.to_owned(),
        name: "t".to_owned(),
    };
    let mut set = MachineSet::new("ms", MachineSetSpec::default());
    (set.metadata.namespace, set.metadata.uid) = (Some("ns".to_owned()), Some("u".to_owned()));
    set.spec.cluster_name = "blue".to_owned();
    set.spec.machine_naming = Some(MachineNaming { template: Some("w-{{ .index }}".to_owned()) });
    set.spec.template.spec.bootstrap.config_ref = Some(reference("ConfigTemplate"));
    set.spec.template.spec.infrastructure_ref = reference("ServerTemplate");
    set
}

fn list(names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| json!({"metadata": {"name": name}})).collect();
    json!({"items": items})
}

/// Returns an API with the templates of a set, and with objects of these names.
fn api(machines: &[&str], servers: &[&str], configs: &[&str]) -> FakeApi {
    let api = FakeApi::default();
    for kind in ["ServerTemplate", "ConfigTemplate"] {
        let path = format!("/apis/g/v1/namespaces/ns/{}s/t", kind.to_lowercase());
        api.put(&path, json!({"apiVersion": "g/v1", "kind": kind, "spec": {"template": {"spec": {"a": 1}}}}));
    }
    for (path, names) in [(MACHINES, machines), (SERVERS, servers), (CONFIGS, configs)] {
        api.put(path, list(names));
    }
    api
}

/// Creates Machines. Returns the result.
async fn create(api: &FakeApi, count: usize) -> Result<(), ReconcileError> {
    let kinds = ["Server", "ServerTemplate", "Config", "ConfigTemplate"].map(served);
    let context = ControllerContext { kinds: Arc::from(kinds), ..api.context("machineset-controller") };
    let sets = Api::namespaced(api.client(), "ns");
    let machines: Api<Machine> = Api::namespaced(api.client(), "ns");
    let (applied, turn) = (Applied::default(), Mutex::default());
    let clock: Clock = Arc::new(Timestamp::now);
    let actor =
        Actor { context: &context, api: &sets, machines, applied: &applied, clock: &clock, turn: &turn };
    Box::pin(actor.create(&set(), &mut Observed::default(), count)).await
}

/// Returns which objects of a name exist: bootstrap data, server, Machine.
fn exist(api: &FakeApi, name: &str) -> [bool; 3] {
    [CONFIGS, SERVERS, MACHINES].map(|path| api.get(&format!("{path}/{name}")).is_some())
}

#[tokio::test]
async fn machines_of_one_pass_get_the_lowest_free_indexes() {
    let api = api(&["w-0"], &["w-0", "w-2"], &["w-3"]);
    create(&api, 2).await.unwrap();
    for name in ["w-1", "w-4"] {
        assert_eq!(exist(&api, name), [true; 3], "{name}");
        let machine = api.get(&format!("{MACHINES}/{name}")).unwrap();
        assert_eq!(machine["spec"]["infrastructureRef"]["name"], name);
    }
    assert_eq!(exist(&api, "w-2"), [false; 3], "it is only in the list");
}

/// The list did not have the server yet: another set of the MachineDeployment, or a user, made it at the same moment.
#[tokio::test]
async fn an_object_that_has_the_name_already_is_never_taken_over() {
    let api = api(&[], &[], &[]);
    let path = format!("{SERVERS}/w-0");
    api.put(&path, json!({"apiVersion": "g/v1", "kind": "Server", "spec": {"a": "of another"}}));
    let before = api.get(&path);
    let error = create(&api, 1).await.unwrap_err();
    assert!(error.is_conflict(), "the next pass follows at once: {error}");
    assert_eq!(api.get(&path), before);
    assert_eq!(exist(&api, "w-0"), [false, true, false], "what the attempt made is removed");
    assert_eq!(api.events(), Vec::<Value>::new());
    let machine = format!("{MACHINES}/w-0");
    api.remove(&path);
    api.put(&machine, json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}));
    assert!(create(&api, 1).await.unwrap_err().is_conflict());
    assert_eq!(exist(&api, "w-0"), [false, false, true]);
}

#[tokio::test]
async fn a_refused_machine_is_named_and_its_parts_are_removed() {
    let api = api(&[], &[], &[]);
    api.refuse_writes(Some(&format!("{MACHINES}/w-0")));
    assert!(matches!(create(&api, 1).await, Err(ReconcileError::Waiting { .. })));
    assert_eq!(exist(&api, "w-0"), [false; 3]);
    let text = api.events()[0]["message"].as_str().unwrap().to_owned();
    assert!(text.starts_with("Failed to create Machine \"w-0\": "), "{text}");
}

/// The parts of a Machine that exists were deleted with it.
#[tokio::test]
async fn the_parts_of_a_machine_stay_if_the_answer_to_its_creation_is_lost() {
    for (crash, is_made) in [(Crash::After, true), (Crash::Before, false)] {
        let api = api(&[], &[], &[]);
        api.crash_at(Some((WRITE_OF_MACHINE, crash)));
        assert!(create(&api, 1).await.is_err());
        assert_eq!(api.writes(), WRITE_OF_MACHINE, "nothing was tried after it");
        assert_eq!(
            exist(&api, "w-0"),
            [true, true, is_made],
            "the next pass sweeps them, or sees the Machine"
        );
    }
}
