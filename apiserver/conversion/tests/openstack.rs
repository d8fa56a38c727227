//! Tests of conversion with typical OpenStack objects in either version.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use apiserver_conversion::{Lossless, conversion};
use serde_json::{Value, json};

fn of(kind: &str) -> Lossless {
    conversion("infrastructure.cluster.x-k8s.io", kind, "v1beta1").unwrap()
}

fn object(kind: &str, version: &str, body: &Value) -> Value {
    let mut object = json!({"apiVersion": format!("infrastructure.cluster.x-k8s.io/{version}"), "kind": kind,
        "metadata": {"name": "shop", "namespace": "team-a", "generation": 4}});
    for (field, value) in body.as_object().unwrap() {
        object[field] = value.clone();
    }
    object
}

/// Asserts both directions, without annotations.
fn same(kind: &str, older: &Value, stored: &Value) {
    let (older, stored) = (object(kind, "v1beta1", older), object(kind, "v1beta2", stored));
    assert_eq!(of(kind).stored(older.clone()), stored);
    assert_eq!(of(kind).served(stored), older);
}

#[test]
fn the_spec_of_a_cluster_converts_both_ways() {
    let network = json!({"filter": {"name": "shop"}});
    same(
        "OpenStackCluster",
        &json!({"spec": {
            "identityRef": {"name": "cloud", "cloudName": "openstack", "type": "Secret"},
            "apiServerFixedIP": "10.6.0.5", "apiServerFloatingIP": "203.0.113.5", "apiServerPort": 6443,
            "apiServerLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 10}},
            "disableAPIServerFloatingIP": false, "disableExternalNetwork": false, "disablePortSecurity": true,
            "networkMTU": 1450, "network": network, "subnets": [network],
            "externalRouterIPs": [{"fixedIP": "203.0.113.2", "subnet": {"filter": {"name": "public"}}}],
            "managedSecurityGroups": {"allowAllInClusterTraffic": true,
                "allNodesSecurityGroupRules": [{"name": "ssh", "direction": "ingress"}]},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 6443},
            "bastion": {"enabled": true, "spec": {"flavor": "small", "image": {"filter": {"name": "jammy"}},
                "ports": [{"disablePortSecurity": false}]}}}}),
        &json!({"spec": {
            "identityRef": {"name": "cloud", "cloudName": "openstack", "type": "Secret"},
            "apiServer": {"fixedIP": "10.6.0.5", "floatingIP": "203.0.113.5", "port": 6443,
                "enableFloatingIP": true,
                "managedLoadBalancer": {"enabled": true, "allowedCIDRs": ["10.0.0.0/8"], "monitor": {"delay": 10}}},
            "enableExternalNetwork": true, "managedNetwork": {"enablePortSecurity": false, "mtu": 1450},
            "network": network, "subnets": [network],
            "managedRouter": {"externalIPs": [
                {"fixedIP": "203.0.113.2", "subnet": {"filter": {"name": "public"}}}]},
            "managedSecurityGroups": {"allowAllInClusterTraffic": true,
                "clusterNodesSecurityGroupRules": [{"name": "ssh", "direction": "ingress"}]},
            "controlPlaneEndpoint": {"host": "203.0.113.5", "port": 6443},
            "bastion": {"enabled": true, "spec": {"flavor": {"filter": {"name": "small"}},
                "image": {"filter": {"name": "jammy"}}, "ports": [{"enablePortSecurity": true}]}}}}),
    );
}

#[test]
fn the_status_of_a_cluster_converts_both_ways() {
    same(
        "OpenStackCluster",
        &json!({"spec": {}, "status": {"ready": true,
            "apiServerLoadBalancer": {"id": "1", "ip": "10.6.0.5", "internalIP": "10.6.0.5", "name": "lb"},
            "failureDomains": {"az1": {"controlPlane": true}, "az2": {}},
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T06:00:00Z"}]}}),
        &json!({"spec": {}, "status": {
            "apiServerManagedLoadBalancer": {"id": "1", "ip": "10.6.0.5", "internalIP": "10.6.0.5", "name": "lb"},
            "failureDomains": [
                {"name": "az1", "controlPlane": true}, {"name": "az2", "controlPlane": false}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T06:00:00Z",
                "reason": "NoReasonReported", "message": "", "observedGeneration": 4}]}}),
    );
}

#[test]
fn machines_and_their_templates_convert_both_ways() {
    let older = json!({"flavorID": "f1", "image": {"filter": {"name": "jammy"}}, "sshKeyName": "ops",
        "ports": [{"disablePortSecurity": true, "tags": ["a"]}, {"description": "second"}]});
    let stored = json!({"flavor": {"id": "f1"}, "image": {"filter": {"name": "jammy"}}, "sshKeyName": "ops",
        "ports": [{"enablePortSecurity": false, "tags": ["a"]}, {"description": "second"}]});
    same(
        "OpenStackMachine",
        &json!({"spec": older, "status": {"ready": false, "instanceID": "i", "resolved": {"ports": [
            {"name": "p", "networkID": "n", "description": "", "disablePortSecurity": true}]}}}),
        &json!({"spec": stored, "status": {"instanceID": "i", "resolved": {"ports": [
            {"name": "p", "networkID": "n", "enablePortSecurity": false}]}}}),
    );
    same(
        "OpenStackMachineTemplate",
        &json!({"spec": {"template": {"spec": older}}, "status": {"capacity": {"cpu": 4}}}),
        &json!({"spec": {"template": {"spec": stored}}, "status": {"capacity": {"cpu": 4}}}),
    );
}

/// A controller of the older version reports failures in fields that the stored version lacks.
#[test]
fn failures_of_older_controllers_are_kept() {
    let older = object(
        "OpenStackMachine",
        "v1beta1",
        &json!({"spec": {"flavor": "small", "flavorID": "f1"},
            "status": {"ready": false, "failureReason": "CreateError", "failureMessage": "no quota"}}),
    );
    let stored = of("OpenStackMachine").stored(older.clone());
    assert_eq!(stored["spec"], json!({"flavor": {"id": "f1"}}));
    assert_eq!(stored["status"], json!({}));
    assert_eq!(of("OpenStackMachine").served(stored), older);
}

/// Clients of the newer version get the labels of a template back.
#[test]
fn an_older_client_keeps_fields_that_its_version_lacks() {
    let stored = object(
        "OpenStackClusterTemplate",
        "v1beta2",
        &json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"tags": ["x"],
            "managedNetwork": {"mtu": 1400}}}}}),
    );
    let mut older = of("OpenStackClusterTemplate").served(stored.clone());
    assert_eq!(older["spec"], json!({"template": {"spec": {"tags": ["x"], "networkMTU": 1400}}}));
    older["spec"]["template"]["spec"]["networkMTU"] = json!(1450);
    let mut expected = stored;
    expected["spec"]["template"]["spec"]["managedNetwork"]["mtu"] = json!(1450);
    assert_eq!(of("OpenStackClusterTemplate").stored(older), expected);
}
