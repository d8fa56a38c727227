//! The class of `manifests/classes`: the quick start needs ten lines of it, and each variable reaches its field.

use std::sync::Arc;

use apiserver_types::{
    Cluster, ClusterClass, KubeadmControlPlane, MachineDeployment, OpenStackCluster, OpenStackMachineTemplate,
};
use kube::ResourceExt;
use kube::api::PostParams;
use serde_json::{Value, json};
use tests_scenarios::{CrashPoint, World};

use crate::testbed::Testbed;

const CLASS: &str = include_str!("../../../../manifests/classes/openstack.yaml");

const QUICKSTART: &str = include_str!("../../../../manifests/examples/quickstart.yaml");

const DOCS: &str = include_str!("../../../../docs/cluster-classes.md");

/// Namespace of the quick start.
const NAMESPACE: &str = "quickstart";

/// Creates the class as `kubectl apply -n` does, and makes a pass over it.
async fn testbed() -> Testbed {
    let world = World::start().await.unwrap();
    let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {NAMESPACE}}}\n---\n");
    let class = CLASS.replace("\nmetadata:\n", &format!("\nmetadata:\n  namespace: {NAMESPACE}\n"));
    world.create(&(namespace + &class)).await.unwrap();
    Testbed::resume(world, NAMESPACE, Arc::new(CrashPoint::never())).await
}

/// Returns status and reason of a condition of the class.
fn shown(class: &ClusterClass, kind: &str) -> String {
    let found = class.condition(kind).unwrap();
    format!("{:?} {} {}", found.status, found.reason, found.message)
}

/// Returns status, reason and message of the condition of the Cluster.
async fn reconciled(testbed: &Testbed) -> String {
    let cluster = testbed.api::<Cluster>().get("quickstart").await.unwrap();
    let found = cluster.condition("TopologyReconciled").unwrap();
    format!("{:?} {} {}", found.status, found.reason, found.message)
}

async fn infrastructure(testbed: &Testbed) -> Value {
    let found = testbed.api::<OpenStackCluster>().get("quickstart").await.unwrap();
    let mut spec = serde_json::to_value(found.spec).unwrap();
    // Texts for people.
    let rules = spec.pointer_mut("/managedSecurityGroups/clusterNodesSecurityGroupRules");
    for rule in rules.and_then(Value::as_array_mut).into_iter().flatten() {
        rule.as_object_mut().unwrap().remove("description");
    }
    spec
}

/// Returns the specs of the Machines of the control plane and of the workers, by the templates that are in use.
async fn machines(testbed: &Testbed) -> [Value; 2] {
    let plane = testbed.api::<KubeadmControlPlane>().get("quickstart-control-plane").await.unwrap();
    let workers: MachineDeployment = testbed.deployment().await;
    assert!(workers.name_any().starts_with("quickstart-md-0-"), "{}", workers.name_any());
    let references =
        [plane.spec.machine_template.spec.infrastructure_ref, workers.spec.template.spec.infrastructure_ref];
    let mut specs = [Value::Null, Value::Null];
    for (spec, reference) in specs.iter_mut().zip(references) {
        let found = testbed.api::<OpenStackMachineTemplate>().get(&reference.name).await.unwrap();
        *spec = serde_json::to_value(found.spec.template.spec).unwrap();
    }
    specs
}

#[tokio::test]
async fn ten_lines_of_the_quick_start_make_a_cluster_of_the_shipped_class() {
    assert_eq!(QUICKSTART.lines().count(), 10);
    let testbed = testbed().await;
    let class = testbed.api::<ClusterClass>().get("openstack").await.unwrap();
    assert_eq!(shown(&class, "RefVersionsUpToDate"), "True RefVersionsUpToDate ");
    assert_eq!(shown(&class, "VariablesReady"), "True VariablesReady ");
    testbed.world.create(QUICKSTART).await.unwrap();
    testbed.settle().await;
    assert_eq!(reconciled(&testbed).await, "True ReconcileSucceeded ", "{:?}", testbed.events().await);
    assert_eq!(testbed.counts().await, [1, 1, 1, 2, 1, 0]);
    let expected = json!({
        "identityRef": {"type": "Secret", "name": "quickstart-cloud-config", "cloudName": "openstack"},
        "apiServer": {"managedLoadBalancer": {"enabled": true}},
        "managedSecurityGroups": {"allowAllInClusterTraffic": true},
        "managedSubnets": [{"cidr": "10.8.0.0/24"}],
    });
    assert_eq!(infrastructure(&testbed).await, expected);
    let machine = |flavor: &str| {
        json!({
            "flavor": {"filter": {"name": flavor}}, "image": {"filter": {"name": "ubuntu-2204-kube-v1.33.0"}},
        })
    };
    assert_eq!(machines(&testbed).await, [machine("m1.medium"), machine("m1.small")]);
}

/// Returns a value for each variable that differs from its default.
fn values() -> Value {
    json!({
        "identityRef": {"type": "ClusterIdentity", "name": "1", "cloudName": "mine", "region": "two"},
        "imageName": "flat", "addImageVersion": false, "controlPlaneFlavor": "a", "workerFlavor": "b",
        "controlPlaneRootVolume": {"sizeGiB": 50, "type": "fast"}, "workerRootVolume": {"sizeGiB": 60},
        "sshKeyName": "key", "controlPlaneAvailabilityZones": ["az1", "az2"], "externalNetwork": "outside",
        "nodeCIDR": "10.9.0.0/24", "dnsNameservers": ["192.0.2.1", "2001:db8::1"],
        "apiServerLoadBalancer": {"provider": "ovn", "flavor": "small", "allowedCIDRs": ["192.0.2.0/24"]},
        "allowAllInClusterTraffic": false, "podNetwork": "flannel", "network": "inside",
    })
}

/// Returns a Cluster with these variables.
fn cluster(values: &Value) -> Cluster {
    let mut cluster: Value = serde_saphyr::from_str(QUICKSTART).unwrap();
    let entries = values.as_object().unwrap().iter();
    let variables: Vec<Value> = entries.map(|(name, value)| json!({"name": name, "value": value})).collect();
    cluster["spec"]["topology"]["variables"] = json!(variables);
    serde_json::from_value(cluster).unwrap()
}

#[tokio::test]
async fn each_variable_of_the_shipped_class_has_a_description_and_reaches_its_field() {
    let testbed = testbed().await;
    let class = testbed.api::<ClusterClass>().get("openstack").await.unwrap();
    let mut values = values();
    for variable in class.spec.variables.iter().flatten() {
        let name = &variable.name;
        assert!(variable.schema.open_api_v3_schema.description.is_some(), "{name}");
        assert!(values.get(name).is_some(), "{name} is not in this test");
        assert!(DOCS.contains(&format!("| `{name}` |")), "{name} is not in docs/cluster-classes.md");
    }
    let clusters = testbed.api::<Cluster>();
    let wrong = cluster(&json!({"nodeCIDR": "10.9.0.0", "sshKey": "a"}));
    let refused = clusters.create(&PostParams::default(), &wrong).await.unwrap_err().to_string();
    for expected in ["spec.topology.variables[nodeCIDR].value", "sshKey"] {
        assert!(refused.contains(expected), "{refused}");
    }
    // An existing network excludes a subnet of its own.
    values.as_object_mut().unwrap().remove("network");
    clusters.create(&PostParams::default(), &cluster(&values)).await.unwrap();
    testbed.settle().await;
    assert_eq!(reconciled(&testbed).await, "True ReconcileSucceeded ", "{:?}", testbed.events().await);
    let expected = json!({
        "identityRef": {"type": "ClusterIdentity", "name": "1", "cloudName": "mine", "region": "two"},
        "apiServer": {"managedLoadBalancer": {
            "enabled": true, "provider": "ovn", "flavor": "small", "allowedCIDRs": ["192.0.2.0/24"]}},
        "controlPlaneAvailabilityZones": ["az1", "az2"],
        "externalNetwork": {"filter": {"name": "outside"}},
        "managedSecurityGroups": {
            "allowAllInClusterTraffic": false, "clusterNodesSecurityGroupRules": [rule("vxlan", "udp", 8472, 8472)]},
        "managedSubnets": [{"cidr": "10.9.0.0/24", "dnsNameservers": ["192.0.2.1", "2001:db8::1"]}],
    });
    assert_eq!(infrastructure(&testbed).await, expected);
    let machine = |flavor: &str, volume: Value| {
        json!({
            "flavor": {"filter": {"name": flavor}}, "image": {"filter": {"name": "flat"}}, "rootVolume": volume,
            "sshKeyName": "key",
        })
    };
    let fast = json!({"sizeGiB": 50, "type": "fast"});
    assert_eq!(machines(&testbed).await, [machine("a", fast), machine("b", json!({"sizeGiB": 60}))]);
}

/// Returns a rule of the network of Pods without its description.
fn rule(name: &str, protocol: &str, first: i32, last: i32) -> Value {
    json!({
        "name": format!("pod-network-{name}"), "direction": "ingress", "etherType": "IPv4", "protocol": protocol,
        "portRangeMin": first, "portRangeMax": last, "remoteManagedGroups": ["controlplane", "worker"],
    })
}

#[tokio::test]
async fn the_security_groups_of_the_shipped_class_permit_what_each_network_of_pods_needs() {
    let testbed = testbed().await;
    let variables =
        |network: &str, all: bool| json!({"podNetwork": network, "allowAllInClusterTraffic": all});
    let first = cluster(&variables("calico", false));
    testbed.api().create(&PostParams::default(), &first).await.unwrap();
    let calico = json!([rule("vxlan", "udp", 4789, 4789), rule("metrics", "tcp", 9091, 9091)]);
    let cilium = json!([
        rule("vxlan", "udp", 8472, 8472),
        rule("health", "tcp", 4240, 4240),
        rule("ping", "icmp", 8, 0),
        rule("metrics", "tcp", 9962, 9963),
    ]);
    for (network, all, expected) in
        [("calico", false, calico), ("cilium", false, cilium), ("cilium", true, Value::Null)]
    {
        let changed = json!(cluster(&variables(network, all)).spec.topology.unwrap().variables);
        let change = json!({"spec": {"topology": {"variables": changed}}});
        testbed.merge::<Cluster>("quickstart", change).await;
        testbed.settle().await;
        assert_eq!(reconciled(&testbed).await, "True ReconcileSucceeded ", "{network}");
        let groups = infrastructure(&testbed).await["managedSecurityGroups"].take();
        assert_eq!(groups["clusterNodesSecurityGroupRules"], expected, "{network}");
    }
    let unknown = cluster(&variables("own", false));
    let refused = testbed.api().create(&PostParams::default(), &unknown).await.unwrap_err().to_string();
    assert!(refused.contains("spec.topology.variables[podNetwork].value"), "{refused}");
}

#[tokio::test]
async fn a_cluster_of_the_shipped_class_can_use_an_existing_network() {
    let testbed = testbed().await;
    let existing = cluster(&json!({"network": "inside", "nodeCIDR": "10.9.0.0/24"}));
    testbed.api().create(&PostParams::default(), &existing).await.unwrap();
    testbed.settle().await;
    assert_eq!(reconciled(&testbed).await, "True ReconcileSucceeded ", "{:?}", testbed.events().await);
    let made = infrastructure(&testbed).await;
    assert_eq!(made["network"], json!({"filter": {"name": "inside"}}));
    assert_eq!(made.get("managedSubnets"), None);
}
