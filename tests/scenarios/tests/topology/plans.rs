//! Plans of changes of a Cluster: what they say is what the next passes do, and they write nothing.

use std::collections::BTreeMap;

use apiserver_types::{
    Cluster, KubeadmConfigTemplate, KubeadmControlPlane, MachineDeployment, MachineHealthCheck,
    OpenStackCluster, OpenStackMachineTemplate,
};
use k8s_openapi::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::dry_run;

use crate::overrides::class;
use crate::testbed::Testbed;

/// Sends a request for the plan of the Cluster `blue`.
pub(crate) async fn call(client: &Client, namespace: &str, change: &Value) -> Result<Value, String> {
    call_of(client, namespace, "blue", change).await
}

async fn call_of(client: &Client, namespace: &str, name: &str, change: &Value) -> Result<Value, String> {
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters/{name}/plan");
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(change.to_string().into_bytes()).unwrap();
    client.request(request).await.map_err(|error| error.to_string())
}

/// Returns the texts of a field of the items of a list.
pub(crate) fn texts(list: &Value, field: &str) -> Vec<String> {
    let text = |item: &Value| item[field].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(text).collect()
}

/// Returns the texts of a list.
pub(crate) fn list(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Returns the only obstacle.
fn obstacle(plan: &Value) -> String {
    let mut obstacles = list(&plan["obstacles"]);
    assert_eq!(obstacles.len(), 1, "{obstacles:?}");
    obstacles.remove(0)
}

/// Spec, labels and annotations of all objects, by kind and name.
type Stored = BTreeMap<String, Value>;

impl Testbed {
    async fn add<K>(&self, kind: &str, stored: &mut Stored)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        for object in self.owned::<K>().await {
            if object.meta().deletion_timestamp.is_some() {
                continue;
            }
            let spec = serde_json::to_value(&object).unwrap()["spec"].take();
            let value = json!([spec, object.labels(), object.annotations()]);
            stored.insert(format!("{kind} {}", object.name_any()), value);
        }
    }

    async fn stored(&self) -> Stored {
        let mut stored = Stored::new();
        self.add::<OpenStackCluster>("OpenStackCluster", &mut stored).await;
        self.add::<KubeadmControlPlane>("KubeadmControlPlane", &mut stored).await;
        self.add::<MachineDeployment>("MachineDeployment", &mut stored).await;
        self.add::<OpenStackMachineTemplate>("OpenStackMachineTemplate", &mut stored).await;
        self.add::<KubeadmConfigTemplate>("KubeadmConfigTemplate", &mut stored).await;
        self.add::<MachineHealthCheck>("MachineHealthCheck", &mut stored).await;
        stored
    }

    async fn plan(&self, topology: Value) -> Value {
        let (before, revision) = (self.stored().await, self.cluster().await.resource_version());
        let effects = self.events().await.len();
        let change = json!({"spec": {"topology": topology}});
        let plan = call(&self.client, self.namespace, &change).await.unwrap();
        assert_eq!(self.stored().await, before, "a plan writes nothing");
        assert_eq!(self.cluster().await.resource_version(), revision);
        assert_eq!(self.events().await.len(), effects, "not even an Event");
        assert_eq!(plan["kind"], "ClusterPlan");
        plan
    }

    /// Makes a change, and compares what happens with the plan.
    async fn check(&self, plan: &Value, topology: Value) {
        let before = self.stored().await;
        self.change(topology).await;
        self.settle().await;
        self.control_plane_is_done().await;
        self.settle().await;
        let after = self.stored().await;
        let created = after.keys().filter(|key| !before.contains_key(*key));
        let gone = before.keys().filter(|key| !after.contains_key(*key));
        let changed = before.iter().filter(|(key, value)| after.get(*key).is_some_and(|it| it != *value));
        let kind = |key: &String| key.split(' ').next().unwrap().to_owned();
        let sorted = |names: Vec<String>| {
            let mut names = names;
            names.sort();
            names
        };
        let planned = |effects: &[&str]| -> Vec<String> {
            let objects = plan["objects"].as_array().unwrap().iter();
            let of = objects.filter(|it| effects.contains(&it["effect"].as_str().unwrap()));
            sorted(of.map(|it| format!("{} {}", it["kind"], it["name"]).replace('"', "")).collect())
        };
        // The names of new objects have a random part.
        let kinds = |names: Vec<String>| sorted(names.iter().map(kind).collect());
        assert_eq!(kinds(created.cloned().collect()), kinds(planned(&["Create", "Rotate"])));
        assert_eq!(gone.cloned().collect::<Vec<_>>(), planned(&["Delete", "Rotate"]));
        let changed: Vec<String> = changed.map(|(key, _)| key.clone()).collect();
        assert_eq!(changed, planned(&["Change"]));
    }
}

fn flavor(value: &Value) -> Value {
    json!([{"name": "machine", "value": {"flavor": value}}])
}

#[tokio::test]
async fn the_objects_of_a_plan_are_those_that_the_next_passes_write() {
    let testbed = Testbed::start("planned", "v1.33.0").await;
    testbed.change_class(class()).await;
    testbed.change(json!({"variables": flavor(&json!("m1.medium"))})).await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let nothing = testbed.plan(json!({})).await;
    assert_eq!((&nothing["objects"], &nothing["steps"]), (&json!([]), &json!([])));
    assert_eq!(nothing["obstacles"], json!([]));

    let groups = json!([
        {"class": "worker", "name": "md-0", "replicas": 3, "failureDomain": "az1"},
        {"class": "worker", "name": "md-1", "replicas": 2, "healthCheck": {"enabled": false}},
    ]);
    let change = json!({
        "variables": flavor(&json!("m1.large")), "controlPlane": {"replicas": 3},
        "workers": {"machineDeployments": groups},
    });
    let plan = testbed.plan(change.clone()).await;
    let rotated = plan["objects"].as_array().unwrap().iter().filter(|it| it["effect"] == "Rotate");
    let fields: Vec<&Value> = rotated.map(|it| &it["fields"]).collect();
    assert_eq!(fields, [&json!(["spec.template.spec.flavor.filter.name"]); 2]);
    let plane = plan["objects"].as_array().unwrap().iter().find(|it| it["kind"] == "KubeadmControlPlane");
    let expected = json!(["spec.machineTemplate.spec.infrastructureRef.name", "spec.replicas"]);
    assert_eq!(plane.unwrap()["fields"], expected);
    let rollouts = plan["rollouts"].as_array().unwrap();
    let created: Vec<&Value> = rollouts[1..].iter().map(|it| &it["summary"]["create"]).collect();
    assert_eq!(created, [3, 2], "{plan:#}");
    assert_eq!(rollouts[1]["obstacles"], json!([]), "the rotated template exists for the plan");
    testbed.check(&plan, change).await;

    let fewer = json!({"workers": {"machineDeployments": [groups[1].clone()]}});
    let plan = testbed.plan(fewer.clone()).await;
    assert_eq!(plan["rollouts"].as_array().unwrap().len(), 3, "the workers that go have a plan, too");
    let kinds = texts(&plan["objects"], "kind");
    assert_eq!(kinds, ["MachineDeployment", "MachineHealthCheck"]);
    testbed.change(fewer).await;
    testbed.settle().await;
    for name in texts(&plan["objects"], "name") {
        let key = format!("MachineDeployment {name}");
        assert!(!testbed.stored().await.contains_key(&key), "{name}");
    }
}

#[tokio::test]
async fn a_plan_compares_templates_that_are_made_with_the_quota() {
    let testbed = Testbed::start("plan-quota", "v1.33.0").await;
    testbed.change_class(class()).await;
    assert!(testbed.world.cloud.set_quota("demo", "cores", 7));
    // A rotated template, and those of a new Cluster.
    for is_new in [true, false] {
        let change = json!({"variables": flavor(&json!("m1.large"))});
        let plan = testbed.plan(change).await;
        let line = plan["rollouts"][1]["forecasts"][0].as_str().unwrap();
        let start = "spec.replicas 1 with maxSurge 1 can never fit the quota: in project ";
        assert!(line.starts_with(start), "{is_new}: {line}");
        assert!(line.contains("2 of this size need 8 cores, which never fit into 7"), "{line}");
        testbed.settle().await;
        testbed.control_plane_is_done().await;
        testbed.settle().await;
    }
}

#[tokio::test]
async fn the_plan_of_a_new_cluster_is_all_that_its_first_pass_makes() {
    let testbed = Testbed::start("first-plan", "v1.33.0").await;
    let plan = testbed.plan(json!({})).await;
    assert_eq!(texts(&plan["objects"], "effect"), ["Create"; 7]);
    assert_eq!(plan["rollouts"][1]["summary"]["create"], 1);
    testbed.check(&plan, json!({})).await;
}

#[tokio::test]
async fn variables_and_patches_that_are_wrong_are_errors_with_their_fields() {
    let testbed = Testbed::start("wrong-plan", "v1.33.0").await;
    testbed.change_class(class()).await;
    testbed.settle().await;
    let refused = async |topology: Value| {
        let change = json!({"spec": {"topology": topology}});
        call(&testbed.client, testbed.namespace, &change).await.unwrap_err()
    };
    let error = refused(json!({"variables": flavor(&json!(7))})).await;
    assert!(error.contains("spec.topology.variables[machine].value.flavor"), "{error}");
    let error = refused(json!({"version": "v1.2"})).await;
    assert!(error.contains("spec.topology.version"), "{error}");

    // One patch that cannot be applied, and one whose result the API refuses.
    let patched = |op: &str, path: &str| {
        let mut patches = class();
        let operation = json!([{"op": op, "path": path, "value": "text"}]);
        patches["patches"][0]["definitions"][0]["jsonPatches"] = operation;
        json!({"patches": patches["patches"]})
    };
    testbed.change_class(patched("replace", "/spec/template/spec/nothing")).await;
    let error = refused(json!({"variables": flavor(&json!("m1.large"))})).await;
    assert!(error.contains("spec.topology: Invalid value: patch \"machines\": "), "{error}");
    assert!(error.contains("definitions[0].jsonPatches[0]: "), "{error}");
    testbed.change_class(patched("add", "/spec/template/spec/tags")).await;
    let error = refused(json!({"variables": flavor(&json!("m1.large"))})).await;
    assert!(error.contains("spec.topology: Invalid value: "), "{error}");
    assert!(error.contains(".spec.template.spec.tags"), "{error}");
    // An ordinary dry run does not fail: the API accepts the Cluster.
    let change = json!({"spec": {"topology": {"variables": flavor(&json!("m1.large"))}}});
    let (object, warnings) = dry_run(&testbed.client, &path(testbed.namespace), &change).await.unwrap();
    assert_eq!(object["kind"], "Cluster");
    let expected = "Cluster blue: the controllers cannot make this change: spec.topology: ";
    assert!(warnings.iter().any(|text| text.starts_with(expected)), "{warnings:#?}");
}

/// Returns the path of the Cluster `blue`.
fn path(namespace: &str) -> String {
    format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/clusters/blue")
}

#[tokio::test]
async fn a_dry_run_of_a_cluster_answers_with_the_object_and_the_plan_and_stores_nothing() {
    let testbed = Testbed::done("dry-run", "v1.33.0").await;
    let (before, revision) = (testbed.stored().await, testbed.cluster().await.resource_version());
    let dry =
        async |change: Value| dry_run(&testbed.client, &path(testbed.namespace), &change).await.unwrap();
    let (object, warnings) = dry(json!({"spec": {"topology": {"version": "v1.34.0"}}})).await;
    assert_eq!(object["kind"], "Cluster");
    assert_eq!(object["spec"]["topology"]["version"], "v1.34.0");
    let has = |beginning: &str| warnings.iter().any(|text| text.starts_with(beginning));
    assert!(has("Cluster blue: upgrades in this order: KubeadmControlPlane "), "{warnings:#?}");
    assert!(has("The whole plan, with all steps: capstan plan cluster blue -n dry-run "), "{warnings:#?}");

    let group = json!({"class": "worker", "name": "md-0", "replicas": 3, "failureDomain": "az1"});
    let change = json!({"spec": {"topology": {"workers": {"machineDeployments": [group]}}}});
    let (_, warnings) = dry(change).await;
    let created = ": 3 Machines are created: * spec.replicas is 3";
    assert!(warnings.iter().any(|text| text.ends_with(created)), "{warnings:#?}");
    let (_, warnings) = dry(json!({"metadata": {"labels": {"of-the-user": "yes"}}})).await;
    assert_eq!(warnings, [""; 0], "no Machine changes");
    assert_eq!(testbed.stored().await, before);
    assert_eq!(testbed.cluster().await.resource_version(), revision);
}

/// Returns the steps of a plan as the log of an upgrade has them.
fn log(plan: &Value) -> Vec<String> {
    let kinds = texts(&plan["steps"], "kind");
    let shown = kinds.iter().zip(texts(&plan["steps"], "version")).map(|(kind, version)| {
        let part = if kind == "KubeadmControlPlane" { "control plane" } else { "workers" };
        format!("{part} {version}")
    });
    shown.collect()
}

#[tokio::test]
async fn the_steps_of_a_jump_over_two_minors_are_those_of_the_upgrade() {
    let testbed = Testbed::done("plan-chain", "v1.33.0").await;
    let plan = testbed.plan(json!({"version": "v1.35.0"})).await;
    assert_eq!(plan["upgrade"], json!({"controlPlane": ["v1.34.0", "v1.35.0"], "workers": ["v1.35.0"]}));
    assert_eq!(log(&plan), ["control plane v1.34.0", "control plane v1.35.0", "workers v1.35.0"]);
    assert_eq!(plan["obstacles"], json!([]));
    let changed = texts(&plan["objects"], "kind");
    assert_eq!(changed, ["KubeadmControlPlane", "MachineDeployment"]);
    testbed.change(json!({"version": "v1.35.0"})).await;
    assert_eq!(testbed.upgrade().await, log(&plan));
}

#[tokio::test]
async fn what_holds_up_an_upgrade_is_an_obstacle_and_its_steps_are_left_out() {
    let testbed = Testbed::done("plan-holds", "v1.33.0").await;
    let hook = "before-upgrade.hook.cluster.cluster.x-k8s.io/backup";
    testbed.merge::<Cluster>("blue", json!({"metadata": {"annotations": {hook: ""}}})).await;
    let plan = testbed.plan(json!({"version": "v1.34.0"})).await;
    assert_eq!((&plan["objects"], &plan["steps"]), (&json!([]), &json!([])));
    assert_eq!(plan["upgrade"]["controlPlane"], json!(["v1.34.0"]), "what remains is named");
    let text = obstacle(&plan);
    assert!(text.contains(&format!("BeforeClusterUpgrade: annotation {hook} is set")), "{text}");
    testbed.check(&plan, json!({"version": "v1.34.0"})).await;

    testbed.merge::<Cluster>("blue", json!({"metadata": {"annotations": {hook: null}}})).await;
    let deferred = json!({"class": "worker", "name": "md-0", "replicas": 1, "failureDomain": "az1",
        "metadata": {"annotations": {"topology.cluster.x-k8s.io/defer-upgrade": ""}}});
    let change = json!({"workers": {"machineDeployments": [deferred]}});
    let plan = testbed.plan(change.clone()).await;
    assert_eq!(log(&plan), ["control plane v1.34.0"]);
    let text = obstacle(&plan);
    assert!(text.contains("deferred using defer-upgrade"), "{text}");
    testbed.change(change).await;
    assert_eq!(testbed.upgrade().await, log(&plan));

    // Without a template of the class, no pass changes anything, and the workers stay.
    testbed.api::<OpenStackMachineTemplate>().delete("worker", &Default::default()).await.unwrap();
    let plan = testbed.plan(json!({"controlPlane": {"replicas": 3}})).await;
    assert_eq!((&plan["objects"], obstacle(&plan).ends_with("does not exist")), (&json!([]), true));
    assert_eq!(texts(&plan["rollouts"], "kind"), ["KubeadmControlPlane", "MachineDeployment"]);
}

#[tokio::test]
async fn a_missing_class_and_a_pause_are_obstacles() {
    let testbed = Testbed::start("plan-missing", "v1.33.0").await;
    testbed.merge::<Cluster>("blue", json!({"spec": {"paused": true}})).await;
    let plan = testbed.plan(json!({})).await;
    let text = obstacle(&plan);
    assert!(text.starts_with("Cluster spec.paused is set to true"), "{text}");
    assert_eq!(plan["objects"].as_array().unwrap().len(), 7, "they would be made after the pause");

    let template = testbed.api::<OpenStackMachineTemplate>();
    template.delete("worker", &Default::default()).await.unwrap();
    testbed.merge::<Cluster>("blue", json!({"spec": {"paused": null}})).await;
    let plan = testbed.plan(json!({})).await;
    let expected = "OpenStackMachineTemplate plan-missing/worker of the ClusterClass does not exist";
    assert_eq!((obstacle(&plan).as_str(), &plan["objects"]), (expected, &json!([])));

    let topology = json!({"classRef": {"name": "none"}, "version": "v1.33.0"});
    let missing = json!({"metadata": {"name": "green"}, "spec": {"topology": topology}});
    let missing: Cluster = serde_json::from_value(missing).unwrap();
    testbed.api().create(&Default::default(), &missing).await.unwrap();
    let plan = call_of(&testbed.client, "plan-missing", "green", &json!({})).await.unwrap();
    assert_eq!(obstacle(&plan), "ClusterClass plan-missing/none does not exist");
}
