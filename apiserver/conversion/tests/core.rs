//! Tests of conversion with typical manifests of `cluster.x-k8s.io` in both versions: each is the conversion of the
//! other, without annotations.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    reason = "a test fails by panicking"
)]

use apiserver_conversion::{Lossless, conversion};
use serde_json::{Value, json};

const GROUP: &str = "cluster.x-k8s.io";

fn of(kind: &str) -> Lossless {
    conversion(GROUP, kind, "v1beta1").unwrap()
}

/// Returns both versions of an object of this kind, from the fields after its metadata.
fn both(kind: &str, older: Value, stored: Value) -> (Value, Value) {
    let whole = |version: &str, mut body: Value| {
        body["apiVersion"] = format!("{GROUP}/{version}").into();
        body["kind"] = kind.into();
        body["metadata"] = json!({"name": "a", "namespace": "team-a"});
        body
    };
    (whole("v1beta1", older), whole("v1beta2", stored))
}

fn assert_both(kind: &str, older: Value, stored: Value) {
    let (older, stored) = both(kind, older, stored);
    assert_eq!(of(kind).stored(older.clone()), stored, "{kind} to the stored version");
    assert_eq!(of(kind).served(stored), older, "{kind} to the older version");
}

fn reference(group: &str, kind: &str) -> Value {
    json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "a", "namespace": "team-a"})
}

fn contract(group: &str, kind: &str) -> Value {
    json!({"apiGroup": format!("{group}.cluster.x-k8s.io"), "kind": kind, "name": "a"})
}

fn template(group: &str, kind: &str) -> Value {
    json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "a"})
}

/// Condition of v1beta1, and condition of v1beta2.
fn conditions() -> (Value, Value) {
    let at = "2026-11-21T06:00:00Z";
    (
        json!([{"type": "Ready", "status": "False", "severity": "Error", "reason": "NoHost", "lastTransitionTime": at}]),
        json!([{"type": "Available", "status": "True", "reason": "Available", "message": "", "lastTransitionTime": at}]),
    )
}

fn machine_specs() -> (Value, Value) {
    (
        json!({"clusterName": "c", "version": "v1.33.1", "failureDomain": "az1", "nodeDrainTimeout": "10m0s",
            "nodeVolumeDetachTimeout": "5m0s", "nodeDeletionTimeout": "10s",
            "bootstrap": {"configRef": reference("bootstrap", "KubeadmConfigTemplate")},
            "infrastructureRef": reference("infrastructure", "OpenStackMachineTemplate")}),
        json!({"clusterName": "c", "version": "v1.33.1", "failureDomain": "az1",
            "deletion": {"nodeDrainTimeoutSeconds": 600, "nodeVolumeDetachTimeoutSeconds": 300, "nodeDeletionTimeoutSeconds": 10},
            "bootstrap": {"configRef": contract("bootstrap", "KubeadmConfigTemplate")},
            "infrastructureRef": contract("infrastructure", "OpenStackMachineTemplate")}),
    )
}

#[test]
fn fields_of_a_machine_are_regrouped() {
    let (old, new) = conditions();
    let (older, stored) = machine_specs();
    assert_both(
        "Machine",
        json!({"spec": older, "status": {"phase": "Running", "conditions": old, "v1beta2": {"conditions": new},
            "nodeRef": {"apiVersion": "v1", "kind": "Node", "name": "n"}, "bootstrapReady": true,
            "infrastructureReady": true, "failureReason": "CreateError", "failureMessage": "quota"}}),
        json!({"spec": stored, "status": {"phase": "Running", "conditions": new, "nodeRef": {"name": "n"},
            "initialization": {"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true},
            "deprecated": {"v1beta1": {"conditions": old, "failureReason": "CreateError", "failureMessage": "quota"}}}}),
    );
}

#[test]
fn a_machine_set_keeps_both_replica_counts() {
    let (older, mut stored) = machine_specs();
    stored["minReadySeconds"] = json!(30);
    assert_both(
        "MachineSet",
        json!({"spec": {"clusterName": "c", "replicas": 3, "minReadySeconds": 30, "deletePolicy": "Oldest",
                "machineNamingStrategy": {"template": "w-{{ .index }}"}, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": older}},
            "status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "fullyLabeledReplicas": 3,
                "v1beta2": {"readyReplicas": 1, "availableReplicas": 0, "upToDateReplicas": 3}}}),
        json!({"spec": {"clusterName": "c", "replicas": 3, "deletion": {"order": "Oldest"},
                "machineNaming": {"template": "w-{{ .index }}"}, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": stored}},
            "status": {"replicas": 3, "readyReplicas": 1, "availableReplicas": 0, "upToDateReplicas": 3,
                "deprecated": {"v1beta1": {"readyReplicas": 2, "availableReplicas": 1, "fullyLabeledReplicas": 3}}}}),
    );
}

#[test]
fn a_deployments_strategy_is_split_into_three_fields() {
    let (older, stored) = machine_specs();
    assert_both(
        "MachineDeployment",
        json!({"spec": {"clusterName": "c", "selector": {}, "rolloutAfter": "2026-11-21T06:00:00Z",
                "machineNamingStrategy": {"template": "w-{{ .index }}"},
                "strategy": {"type": "RollingUpdate", "remediation": {"maxInFlight": "20%"},
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0, "deletePolicy": "Newest"}},
                "template": {"spec": older}},
            "status": {"phase": "Running", "unavailableReplicas": 1, "updatedReplicas": 2, "versions": [{"version": "v1.33.1", "replicas": 2}]}}),
        json!({"spec": {"clusterName": "c", "selector": {}, "deletion": {"order": "Newest"}, "remediation": {"maxInFlight": "20%"},
                "machineNaming": {"template": "w-{{ .index }}"},
                "rollout": {"after": "2026-11-21T06:00:00Z",
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}},
                "template": {"spec": stored}},
            "status": {"phase": "Running", "versions": [{"version": "v1.33.1", "replicas": 2}],
                "deprecated": {"v1beta1": {"unavailableReplicas": 1, "updatedReplicas": 2}}}}),
    );
}

#[test]
fn ready_fields_of_a_pool_become_initialization_fields() {
    let (older, mut stored) = machine_specs();
    stored["minReadySeconds"] = json!(5);
    assert_both(
        "MachinePool",
        json!({"spec": {"clusterName": "c", "minReadySeconds": 5, "providerIDList": ["openstack:///1"], "template": {"spec": older}},
            "status": {"bootstrapReady": true, "infrastructureReady": true, "readyReplicas": 1}}),
        json!({"spec": {"clusterName": "c", "providerIDList": ["openstack:///1"], "template": {"spec": stored}},
            "status": {"initialization": {"bootstrapDataSecretCreated": true, "infrastructureProvisioned": true},
                "deprecated": {"v1beta1": {"readyReplicas": 1}}}}),
    );
}

/// Same health check in a MachineHealthCheck, a topology and a class.
fn health_checks() -> (Value, Value) {
    (
        json!({"maxUnhealthy": "40%", "unhealthyRange": "[1-3]", "nodeStartupTimeout": "10m0s",
            "remediationTemplate": reference("infrastructure", "Remediation"),
            "unhealthyConditions": [{"type": "Ready", "status": "False", "timeout": "5m0s"}],
            "unhealthyMachineConditions": [{"type": "NodeReady", "status": "Unknown", "timeout": "1h0m0s"}]}),
        json!({"checks": {"nodeStartupTimeoutSeconds": 600,
                "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}],
                "unhealthyMachineConditions": [{"type": "NodeReady", "status": "Unknown", "timeoutSeconds": 3600}]},
            "remediation": {"templateRef": template("infrastructure", "Remediation"),
                "triggerIf": {"unhealthyLessThanOrEqualTo": "40%", "unhealthyInRange": "[1-3]"}}}),
    )
}

#[test]
fn a_health_check_is_split_into_checks_and_remediation() {
    let (mut older, mut stored) = health_checks();
    for spec in [&mut older, &mut stored] {
        spec["clusterName"] = json!("c");
        spec["selector"] = json!({"matchLabels": {"a": "b"}});
    }
    let status = json!({"currentHealthy": 2, "expectedMachines": 3, "targets": ["m"]});
    assert_both(
        "MachineHealthCheck",
        json!({"spec": older, "status": status}),
        json!({"spec": stored, "status": status}),
    );
}

#[test]
fn a_drain_rule_is_unchanged() {
    let spec = json!({"drain": {"behavior": "Drain", "order": 5}, "pods": [{"selector": {}}]});
    assert_both("MachineDrainRule", json!({"spec": spec}), json!({"spec": spec}));
}

#[test]
fn failure_domains_of_a_cluster_become_a_list() {
    let (old, new) = conditions();
    assert_both(
        "Cluster",
        json!({"spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}}, "paused": true,
                "controlPlaneEndpoint": {"host": "h", "port": 6443},
                "controlPlaneRef": reference("controlplane", "KubeadmControlPlane"),
                "infrastructureRef": reference("infrastructure", "OpenStackCluster")},
            "status": {"controlPlaneReady": true, "infrastructureReady": true, "conditions": old,
                "failureDomains": {"az1": {"controlPlane": true}, "az2": {"attributes": {"a": "b"}}},
                "v1beta2": {"conditions": new, "workers": {"replicas": 3}}}}),
        json!({"spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}}, "paused": true,
                "controlPlaneEndpoint": {"host": "h", "port": 6443},
                "controlPlaneRef": contract("controlplane", "KubeadmControlPlane"),
                "infrastructureRef": contract("infrastructure", "OpenStackCluster")},
            "status": {"initialization": {"controlPlaneInitialized": true, "infrastructureProvisioned": true},
                "failureDomains": [{"name": "az1", "controlPlane": true}, {"name": "az2", "attributes": {"a": "b"}}],
                "conditions": new, "workers": {"replicas": 3}, "deprecated": {"v1beta1": {"conditions": old}}}}),
    );
}

#[test]
fn fields_of_a_topology_are_regrouped() {
    let (mut older, mut stored) = health_checks();
    older["enable"] = json!(true);
    stored["enabled"] = json!(true);
    let mut pool_check = stored.clone();
    pool_check["remediation"]["maxInFlight"] = json!(1);
    assert_both(
        "Cluster",
        json!({"spec": {"topology": {"class": "k", "classNamespace": "shared", "version": "v1.33.1",
            "variables": [{"name": "image", "value": {"id": "x"}}],
            "controlPlane": {"replicas": 3, "nodeDrainTimeout": "1m0s", "machineHealthCheck": older},
            "workers": {"machineDeployments": [{"class": "w", "name": "md-0", "nodeDeletionTimeout": "10s",
                "machineHealthCheck": older, "rollout": {"after": "2026-11-21T06:00:00Z"},
                "strategy": {"type": "OnDelete", "remediation": {"maxInFlight": 1}, "rollingUpdate": {"deletePolicy": "Random"}}}],
                "machinePools": [{"class": "p", "name": "mp-0", "nodeVolumeDetachTimeout": "5s"}]}}}}),
        json!({"spec": {"topology": {"classRef": {"name": "k", "namespace": "shared"}, "version": "v1.33.1",
            "variables": [{"name": "image", "value": {"id": "x"}}],
            "controlPlane": {"replicas": 3, "deletion": {"nodeDrainTimeoutSeconds": 60}, "healthCheck": stored},
            "workers": {"machineDeployments": [{"class": "w", "name": "md-0",
                "deletion": {"nodeDeletionTimeoutSeconds": 10, "order": "Random"}, "healthCheck": pool_check,
                "rollout": {"after": "2026-11-21T06:00:00Z", "strategy": {"type": "OnDelete"}}}],
                "machinePools": [{"class": "p", "name": "mp-0", "deletion": {"nodeVolumeDetachTimeoutSeconds": 5}}]}}}}),
    );
}

#[test]
fn template_references_of_a_class_are_regrouped() {
    let (older, stored) = health_checks();
    let schema = json!({"openAPIV3Schema": {"type": "string", "default": "x"}});
    let patch = |extension: &str| json!([{"name": "p", "external": {extension: "e"}}]);
    assert_both(
        "ClusterClass",
        json!({"spec": {"infrastructure": {"ref": reference("infrastructure", "OpenStackClusterTemplate")},
            "infrastructureNamingStrategy": {"template": "{{ .cluster.name }}"},
            "controlPlane": {"ref": reference("controlplane", "KubeadmControlPlaneTemplate"), "machineHealthCheck": older,
                "machineInfrastructure": {"ref": reference("infrastructure", "OpenStackMachineTemplate")},
                "namingStrategy": {"template": "{{ .cluster.name }}-cp"}},
            "patches": patch("generateExtension"),
            "variables": [{"name": "v", "required": true, "schema": schema, "metadata": {"labels": {"a": "b"}}}],
            "workers": {"machineDeployments": [{"class": "w", "nodeDrainTimeout": "1m0s", "strategy": {"type": "OnDelete"},
                "template": {"metadata": {"labels": {"a": "b"}},
                    "bootstrap": {"ref": reference("bootstrap", "KubeadmConfigTemplate")},
                    "infrastructure": {"ref": reference("infrastructure", "OpenStackMachineTemplate")}}}]}}}),
        json!({"spec": {"infrastructure": {"templateRef": template("infrastructure", "OpenStackClusterTemplate"),
                "naming": {"template": "{{ .cluster.name }}"}},
            "controlPlane": {"templateRef": template("controlplane", "KubeadmControlPlaneTemplate"), "healthCheck": stored,
                "machineInfrastructure": {"templateRef": template("infrastructure", "OpenStackMachineTemplate")},
                "naming": {"template": "{{ .cluster.name }}-cp"}},
            "patches": patch("generatePatchesExtension"),
            "variables": [{"name": "v", "required": true, "schema": schema, "deprecatedV1Beta1Metadata": {"labels": {"a": "b"}}}],
            "workers": {"machineDeployments": [{"class": "w", "deletion": {"nodeDrainTimeoutSeconds": 60},
                "rollout": {"strategy": {"type": "OnDelete"}}, "metadata": {"labels": {"a": "b"}},
                "bootstrap": {"templateRef": template("bootstrap", "KubeadmConfigTemplate")},
                "infrastructure": {"templateRef": template("infrastructure", "OpenStackMachineTemplate")}}]}}}),
    );
}

#[test]
fn zero_values_of_go_clients_are_dropped() {
    let (older, stored) = both(
        "Cluster",
        json!({"spec": {"paused": true, "availabilityGates": [], "controlPlaneEndpoint": {"host": "", "port": 0},
            "clusterNetwork": {"apiServerPort": 0}}, "status": {"observedGeneration": 0, "infrastructureReady": false}}),
        json!({"spec": {"paused": true}}),
    );
    let mut converted = of("Cluster").stored(older.clone());
    assert_eq!(of("Cluster").served(converted.clone()), older);
    converted["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(converted, stored);
}

#[test]
fn fields_that_only_v1beta2_has_survive_an_edit_in_v1beta1() {
    let (_, stored) = both(
        "Machine",
        json!({}),
        json!({"spec": {"clusterName": "c", "minReadySeconds": 7, "deletion": {"nodeDrainTimeoutSeconds": 60},
            "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": contract("infrastructure", "OpenStackMachine")},
            "status": {"phase": "Updating", "failureDomain": "az1", "initialization": {"infrastructureProvisioned": false}}}),
    );
    let mut seen = of("Machine").served(stored.clone());
    assert_eq!(
        (&seen["status"]["phase"], &seen["spec"]["nodeDrainTimeout"]),
        (&json!("Running"), &json!("1m0s"))
    );
    seen["spec"]["nodeDrainTimeout"] = json!("2m");
    let mut expected = stored;
    expected["spec"]["deletion"]["nodeDrainTimeoutSeconds"] = json!(120);
    let mut back = of("Machine").stored(seen);
    back["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(back, expected);
}
