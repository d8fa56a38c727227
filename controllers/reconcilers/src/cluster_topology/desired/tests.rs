//! Tests of the desired objects.

use apiserver_types::{ClusterClass, ClusterClassSpec};
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::super::patching::patch;
use super::super::upgrade;
use super::super::upgrade::plan::Source;
use super::*;
use crate::CLUSTER_NAME_LABEL;
use crate::cluster_topology::{DEPLOYMENT, OWNED};
use crate::templates::{CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};

fn template(api_version: &str, kind: &str, name: &str, inner: &Value) -> Template {
    let (group, version) = api_version.split_once('/').unwrap();
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    };
    let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"});
    let metadata = json!({"name": name, "labels": {"of": "template"}, "annotations": annotations});
    let object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {"template": inner},
    });
    Template { resource, object }
}

fn blueprint(version: &str) -> Blueprint {
    let machine = |name: &str| {
        let spec = json!({"spec": {"flavor": "m1"}});
        template("infrastructure.cluster.x-k8s.io/v1beta2", "OpenStackMachineTemplate", name, &spec)
    };
    let class: ClusterClassSpec = serde_json::from_value(json!({
        "controlPlane": {
            "templateRef": {"apiVersion": "x/v1", "kind": "K", "name": "n"},
            "metadata": {"labels": {"from": "class"}},
            "deletion": {"nodeDrainTimeoutSeconds": 60, "nodeDeletionTimeoutSeconds": 20},
            "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 600}},
        },
        "infrastructure": {"templateRef": {"apiVersion": "x/v1", "kind": "K", "name": "n"}},
        "workers": {"machineDeployments": [{
            "class": "worker",
            "bootstrap": {"templateRef": {"apiVersion": "x/v1", "kind": "K", "name": "n"}},
            "infrastructure": {"templateRef": {"apiVersion": "x/v1", "kind": "K", "name": "n"}},
            "minReadySeconds": 5, "failureDomain": "az1",
            "rollout": {"strategy": {"type": "OnDelete"}},
            "deletion": {"order": "Oldest", "nodeDrainTimeoutSeconds": 60},
            "healthCheck": {"remediation": {"maxInFlight": 1}},
        }]},
    }))
    .unwrap();
    let plane = json!({
        "metadata": {"labels": {"of": "plane"}},
        "spec": {"machineTemplate": {"metadata": {"labels": {"of": "machines"}}}, "kubeadmConfigSpec": {"x": 1}},
    });
    let kubeadm = template(
        &format!("controlplane.cluster.x-k8s.io/{version}"),
        "KubeadmControlPlaneTemplate",
        "plane",
        &plane,
    );
    let bootstrap =
        template("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", "join", &json!({"spec": {}}));
    let network = json!({"metadata": {"annotations": {"a": "b"}}, "spec": {"identityRef": {"name": "c"}}});
    let workers = WorkerTemplates { bootstrap, infrastructure: machine("worker") };
    Blueprint {
        class: ClusterClass::new("class", class),
        infrastructure: template(
            "infrastructure.cluster.x-k8s.io/v1beta2",
            "OpenStackClusterTemplate",
            "network",
            &network,
        ),
        control_plane: kubeadm,
        control_plane_machine: Some(machine("plane")),
        deployments: [("worker".to_owned(), workers)].into(),
    }
}

fn cluster(topology: &Value) -> Cluster {
    let mut cluster = Cluster::new("c", serde_json::from_value(json!({"topology": topology})).unwrap());
    cluster.metadata.namespace = Some("ns".to_owned());
    cluster.metadata.uid = Some("u".to_owned());
    cluster
}

fn made(topology: &Value, version: &str) -> Result<Desired, String> {
    let (cluster, blueprint) = (cluster(topology), blueprint(version));
    let current = Current::default();
    let upgrade = upgrade::decide(&cluster, Source::Listed(&[]), None, &current.groups(&cluster))?;
    let parts = parts(&cluster, &blueprint, &current, &upgrade)?;
    desired(&cluster, &blueprint, &parts, &patch(&cluster, &blueprint, &parts)?)
}

fn topology(control_plane: &Value, group: Value) -> Value {
    let mut group = group;
    group["class"] = json!("worker");
    group["name"] = json!("md-0");
    json!({
        "classRef": {"name": "class"}, "version": "v1.33.0", "controlPlane": control_plane,
        "workers": {"machineDeployments": [group]},
    })
}

#[test]
fn the_infrastructure_is_made_from_its_template() {
    let made = made(&topology(&json!({}), json!({})), "v1beta2").unwrap();
    let object = made.infrastructure;
    assert_eq!(
        (&object["kind"], &object["spec"]),
        (&json!("OpenStackCluster"), &json!({"identityRef": {"name": "c"}}))
    );
    assert_eq!(object["metadata"]["labels"], json!({CLUSTER_NAME_LABEL: "c", OWNED: ""}));
    let annotations = json!({
        "a": "b", CLONED_FROM_NAME: "network",
        CLONED_FROM_GROUP_KIND: "OpenStackClusterTemplate.infrastructure.cluster.x-k8s.io",
    });
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "u");
    assert!(name(&object).starts_with("c-"));
}

#[test]
fn an_endpoint_without_content_in_a_template_does_not_take_the_real_one_away() {
    let cluster = cluster(&topology(&json!({}), json!({})));
    let spec_of = |endpoint: Value| {
        let inner = json!({"spec": {"externalNetwork": "x", "controlPlaneEndpoint": endpoint}});
        let api_version = "infrastructure.cluster.x-k8s.io/v1beta2";
        let template = template(api_version, "OpenStackClusterTemplate", "t", &inner);
        infrastructure(&cluster, &template, "c")["spec"].clone()
    };
    assert_eq!(spec_of(json!({"host": "", "port": 0})), json!({"externalNetwork": "x"}));
    let port = json!({"externalNetwork": "x", "controlPlaneEndpoint": {"port": 443}});
    assert_eq!(spec_of(json!({"host": "", "port": 443})), port);
    assert_eq!(spec_of(json!({"host": "h", "port": 443}))["controlPlaneEndpoint"]["host"], "h");
}

#[test]
fn the_control_plane_has_the_fields_of_the_topology_over_those_of_the_class() {
    let plane = json!({
        "replicas": 3, "metadata": {"labels": {"from": "topology"}}, "deletion": {"nodeDrainTimeoutSeconds": 0},
        "rollout": {"after": "2026-01-01T00:00:00Z"},
        "readinessGates": [{"conditionType": "Gate"}],
    });
    let desired = made(&topology(&plane, json!({})), "v1beta2").unwrap();
    let object = desired.control_plane;
    let labels = json!({"of": "plane", "from": "topology", CLUSTER_NAME_LABEL: "c", OWNED: ""});
    assert_eq!(object["metadata"]["labels"], labels);
    let machine_name = name(desired.control_plane_machine.as_ref().unwrap());
    let labels = json!({"of": "machines", "from": "topology", CLUSTER_NAME_LABEL: "c", OWNED: ""});
    let reference = json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": machine_name,
    });
    let spec = json!({
        "version": "v1.33.0", "replicas": 3, "kubeadmConfigSpec": {"x": 1},
        "rollout": {"after": "2026-01-01T00:00:00Z"},
        "machineTemplate": {
            "metadata": {"labels": labels},
            "spec": {
                "infrastructureRef": reference,
                "readinessGates": [{"conditionType": "Gate"}],
                "deletion": {"nodeDrainTimeoutSeconds": 0, "nodeDeletionTimeoutSeconds": 20},
            },
        },
    });
    assert_eq!(object["spec"], spec);
    let old = made(&topology(&plane, json!({})), "v1beta1").unwrap().control_plane;
    let machine = &old["spec"]["machineTemplate"];
    assert_eq!(old["spec"]["rolloutAfter"], "2026-01-01T00:00:00Z");
    assert_eq!(
        (&machine["nodeDrainTimeout"], &machine["nodeDeletionTimeout"]),
        (&json!("0s"), &json!("20s"))
    );
    assert_eq!(machine["infrastructureRef"]["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta2");
    let unset = made(&topology(&json!({}), json!({})), "v1beta2").unwrap().control_plane;
    assert_eq!(unset["spec"].get("replicas"), None);
}

#[test]
fn patches_leave_the_fields_that_the_topology_owns_as_the_template_has_them() {
    let mut blueprint = blueprint("v1beta2");
    let of_machines = "/spec/template/spec/machineTemplate";
    let gates = json!([{"conditionType": "OfTemplate"}]);
    put(
        &mut blueprint.control_plane.object,
        &format!("{of_machines}/spec/readinessGates"),
        Some(gates.clone()),
    );
    put(&mut blueprint.control_plane.object, "/spec/template/spec/rollout/after", Some(json!("template")));
    let add = |path: &str, value: Value| json!({"op": "add", "path": format!("/spec/template/spec/{path}"), "value": value});
    let patches = json!([{"name": "one", "definitions": [{
        "selector": {
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
            "matchResources": {"controlPlane": true},
        },
        "jsonPatches": [
            add("machineTemplate/metadata/labels/patched", json!("yes")),
            add("machineTemplate/spec/readinessGates", json!([])),
            add("machineTemplate/spec/taints", json!([{"key": "patched"}])),
            add("rollout/after", json!("patched")),
            add("kubeadmConfigSpec/x", json!(2)),
        ],
    }]}]);
    blueprint.class.spec.patches = serde_json::from_value(patches).unwrap();
    let cluster = cluster(&topology(&json!({}), json!({})));
    let current = Current::default();
    let upgrade = upgrade::decide(&cluster, Source::Listed(&[]), None, &current.groups(&cluster)).unwrap();
    let parts = parts(&cluster, &blueprint, &current, &upgrade).unwrap();
    let patched = patch(&cluster, &blueprint, &parts).unwrap();
    let spec = desired(&cluster, &blueprint, &parts, &patched).unwrap().control_plane["spec"].take();
    let labels = json!({"of": "machines", "from": "class", CLUSTER_NAME_LABEL: "c", OWNED: ""});
    assert_eq!(spec["machineTemplate"]["metadata"], json!({ "labels": labels }));
    assert_eq!(spec["machineTemplate"]["spec"]["readinessGates"], gates);
    assert_eq!(spec["rollout"], json!({"after": "template"}));
    let free = (&spec["machineTemplate"]["spec"]["taints"], &spec["kubeadmConfigSpec"]["x"]);
    assert_eq!(
        free,
        (&json!([{"key": "patched"}]), &json!(2)),
        "the template has no such field, or it is free"
    );
}

#[test]
fn a_template_of_the_class_is_copied_with_its_annotations() {
    let desired = made(&topology(&json!({}), json!({})), "v1beta2").unwrap();
    let object = desired.groups[0].infrastructure.clone();
    assert_eq!(object["spec"], json!({"template": {"spec": {"flavor": "m1"}}}));
    let labels = json!({"of": "template", CLUSTER_NAME_LABEL: "c", OWNED: "", DEPLOYMENT: "md-0"});
    assert_eq!(object["metadata"]["labels"], labels);
    let annotations = json!({
        "kept": "yes", CLONED_FROM_NAME: "worker",
        CLONED_FROM_GROUP_KIND: "OpenStackMachineTemplate.infrastructure.cluster.x-k8s.io",
    });
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert!(name(&object).starts_with("c-md-0-"));
}

#[test]
fn a_deployment_takes_what_the_topology_sets_and_the_rest_from_its_class() {
    let desired = made(&topology(&json!({}), json!({})), "v1beta2").unwrap();
    let object = desired.groups[0].object.clone();
    let labels = json!({CLUSTER_NAME_LABEL: "c", OWNED: "", DEPLOYMENT: "md-0"});
    assert_eq!(object["metadata"]["labels"], labels);
    let spec = &object["spec"];
    assert_eq!(spec["selector"], json!({"matchLabels": labels}));
    assert_eq!(spec.get("replicas"), None, "an autoscaler owns it");
    assert_eq!(spec["rollout"], json!({"strategy": {"type": "OnDelete"}}));
    assert_eq!(spec["remediation"], json!({"maxInFlight": 1}));
    assert_eq!(spec["deletion"], json!({"order": "Oldest"}));
    let machine = &spec["template"]["spec"];
    assert_eq!((&machine["failureDomain"], &machine["minReadySeconds"]), (&json!("az1"), &json!(5)));
    assert_eq!(machine["deletion"], json!({"nodeDrainTimeoutSeconds": 60}));
    assert_eq!(machine["bootstrap"]["configRef"]["name"], name(&desired.groups[0].bootstrap));

    let own = json!({
        "replicas": 2, "failureDomain": "az2", "minReadySeconds": 0,
        "rollout": {"after": "2026-01-01T00:00:00Z"},
        "deletion": {"nodeDrainTimeoutSeconds": 5},
    });
    let spec = made(&topology(&json!({}), own), "v1beta2").unwrap().groups[0].object["spec"].clone();
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["rollout"], json!({"after": "2026-01-01T00:00:00Z"}), "the whole struct");
    let machine = &spec["template"]["spec"];
    assert_eq!((&machine["failureDomain"], &machine["minReadySeconds"]), (&json!("az2"), &json!(0)));
    assert_eq!(machine["deletion"], json!({"nodeDrainTimeoutSeconds": 5}));
}

#[test]
fn a_health_check_is_that_of_the_topology_or_that_of_the_class_unless_it_is_off() {
    let check = |plane: Value| made(&topology(&plane, json!({})), "v1beta2").map(|it| it.control_plane_check);
    let of_class = check(json!({})).unwrap().unwrap();
    assert_eq!(of_class["spec"]["checks"], json!({"nodeStartupTimeoutSeconds": 600}));
    let selector = json!({"matchLabels": {OWNED: "", "cluster.x-k8s.io/control-plane": ""}});
    assert_eq!(of_class["spec"]["selector"], selector);
    let own = json!({"healthCheck": {"remediation": {"triggerIf": {"unhealthyInRange": "[1-2]"}}}});
    let own = check(own).unwrap().unwrap();
    assert_eq!(own["spec"].get("checks"), None, "the whole definition is the topology's");
    assert_eq!(check(json!({"healthCheck": {"enabled": false}})).unwrap(), None);
    let group = made(&topology(&json!({}), json!({"healthCheck": {"enabled": true}})), "v1beta2").unwrap();
    let of_group = group.groups[0].check.clone().unwrap();
    assert_eq!(of_group["spec"]["selector"], json!({"matchLabels": {OWNED: "", DEPLOYMENT: "md-0"}}));
    assert_eq!(name(&of_group), name(&group.groups[0].object));
}
