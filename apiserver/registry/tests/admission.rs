//! Tests of whole objects in all steps between a request and the store: pruning, preparation, defaulting, and
//! validation of metadata, of the schema and by the strategy.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::store::validate_metadata;
use apiserver_schema::field_errors::FieldPath;
use serde_json::{Value, json};

const OBJECTS: [&str; 5] = [
    include_str!("../../types/tests/objects/cluster.json"),
    include_str!("../../types/tests/objects/machine.json"),
    include_str!("../../types/tests/objects/openstack_cluster.json"),
    include_str!("../../types/tests/objects/openstack_machine.json"),
    include_str!("../../types/tests/objects/machine_operation.json"),
];

fn objects() -> Vec<Value> {
    let mut objects: Vec<Value> = OBJECTS.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    // The sample has every field, and therefore the parameters of all actions.
    for field in ["upgrade", "uncordon", "drain"] {
        objects[4]["spec"].as_object_mut().unwrap().remove(field);
    }
    objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}));
    objects.push(json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
        "metadata": {"name": "s", "namespace": "team-a"}, "data": {"tls.crt": "YQ==", "tls.key": "Yg=="},
        "stringData": {"note": "c"}}));
    objects.push(
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team-a"},
        "data": {"a": "b"}, "binaryData": {"c": "YQ=="}}),
    );
    objects.push(
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "team-a"},
        "involvedObject": {"kind": "Machine", "name": "m1", "namespace": "team-a"}, "reason": "Rebooted",
        "message": "m", "type": "Normal", "count": 1, "eventTime": null,
        "firstTimestamp": "2026-11-21T06:00:00Z", "lastTimestamp": "2026-11-21T06:00:00Z"}),
    );
    objects.push(
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team-a"},
        "spec": {"hard": {"count/machines.cluster.x-k8s.io": "5", "capstan.dev/machines": "1k"}},
        "status": {"hard": {"capstan.dev/machines": "1k"}, "used": {"capstan.dev/machines": "3"}}}),
    );
    objects.push(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "namespace": "team-a"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2026-11-21T06:00:00.000000Z"}}));
    let rbac = |kind: &str, name: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "team-a"}})
    };
    let mut role = rbac("Role", "system:a B");
    role["rules"] = json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods/log"]}]);
    let mut binding = rbac("RoleBinding", "b");
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "system:a B"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "s", "namespace": "team-a"}]);
    objects.extend([role, binding]);
    objects
}

fn resource(kind: &str) -> Arc<Resource> {
    let registry = apiserver_registry::registry();
    Arc::clone(registry.resources().iter().find(|resource| resource.kind == kind).unwrap())
}

/// Returns the fields with errors, in the order of the report.
fn errors(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut object = object.clone();
    let unknown = resource.schema.prune(&mut object, &FieldPath::default());
    assert_eq!(unknown, Vec::<String>::new(), "{}", resource.kind);
    resource.strategy.prepare(&mut object, old);
    resource.schema.fill_in(&mut object);
    let mut errors = validate_metadata(resource, &object, old);
    errors.extend(resource.schema.validate(&object, old, &FieldPath::default()));
    errors.extend(resource.strategy.validate(&object, old));
    errors.iter().map(|error| error.field.to_string()).collect()
}

#[test]
fn valid_objects_are_admitted_on_create_and_unchanged_update() {
    for object in objects() {
        let kind = object["kind"].as_str().unwrap();
        let resource = resource(kind);
        assert_eq!(errors(&resource, &object, None), Vec::<String>::new(), "new {kind}");
        let mut stored = object.clone();
        resource.strategy.prepare(&mut stored, None);
        resource.schema.fill_in(&mut stored);
        assert_eq!(errors(&resource, &stored, Some(&stored)), Vec::<String>::new(), "unchanged {kind}");
    }
}

/// Kind, path of an invalid value in its valid object, the value, and the field in the error.
type Bad<'a> = (&'a str, &'a str, Value, &'a str);

fn assert_named(table: &[Bad<'_>]) {
    let objects = objects();
    for (kind, pointer, value, field) in table {
        let mut object = objects.iter().find(|object| object["kind"] == *kind).unwrap().clone();
        *object.pointer_mut(pointer).unwrap() = value.clone();
        let found = errors(&resource(kind), &object, None);
        assert!(found.iter().any(|found| found == field), "{kind} {pointer} = {value}: {found:?}");
    }
}

#[test]
fn bad_fields_of_clusters_and_machines_are_named() {
    assert_named(&[
        ("Cluster", "/spec", json!({}), "spec"),
        (
            "Cluster",
            "/spec/availabilityGates/0/conditionType",
            json!("no spaces"),
            "spec.availabilityGates[0].conditionType",
        ),
        ("Cluster", "/spec/controlPlaneRef/apiGroup", json!("Upper.case"), "spec.controlPlaneRef.apiGroup"),
        ("Cluster", "/spec/controlPlaneRef/kind", json!("9Kind"), "spec.controlPlaneRef.kind"),
        ("Cluster", "/spec/infrastructureRef/name", json!("a_b"), "spec.infrastructureRef.name"),
        ("Cluster", "/spec/topology/classRef/name", json!("A"), "spec.topology.classRef.name"),
        (
            "Cluster",
            "/spec/topology/controlPlane/taints/0/key",
            json!("a//b"),
            "spec.topology.controlPlane.taints[0].key",
        ),
        (
            "Cluster",
            "/spec/topology/workers/machineDeployments/0/name",
            json!("-a"),
            "spec.topology.workers.machineDeployments[0].name",
        ),
        (
            "Cluster",
            "/spec/topology/workers/machineDeployments/0/healthCheck/remediation/triggerIf/unhealthyInRange",
            json!("1-3"),
            "spec.topology.workers.machineDeployments[0].healthCheck.remediation.triggerIf.unhealthyInRange",
        ),
        ("Cluster", "/status/conditions/0/reason", json!("no reason"), "status.conditions[0].reason"),
        (
            "Cluster",
            "/status/conditions/0/lastTransitionTime",
            json!("yesterday"),
            "status.conditions[0].lastTransitionTime",
        ),
        ("Machine", "/spec/clusterName", json!(""), "spec.clusterName"),
        ("Machine", "/spec/deletion", json!([]), "spec.deletion"),
        (
            "Machine",
            "/spec/deletion/nodeDrainTimeoutSeconds",
            json!(-1),
            "spec.deletion.nodeDrainTimeoutSeconds",
        ),
        ("Machine", "/spec/minReadySeconds", json!(2_147_483_648_i64), "<nil>"),
        ("Machine", "/spec/taints/0/value", json!("a b"), "spec.taints[0].value"),
        ("Machine", "/spec/version", json!("latest"), "spec.version"),
    ]);
}

#[test]
fn bad_fields_of_infrastructure_are_named() {
    assert_named(&[
        ("OpenStackCluster", "/spec/apiServer/port", json!(70_000), "spec.apiServer.port"),
        (
            "OpenStackCluster",
            "/spec/externalNetwork",
            json!({"id": "a", "filter": {"name": "b"}}),
            "spec.externalNetwork",
        ),
        ("OpenStackCluster", "/spec/identityRef/cloudName", json!(""), "spec.identityRef.cloudName"),
        (
            "OpenStackCluster",
            "/spec/managedSubnets",
            json!([{"cidr": "10.0.0.0/8"}, {"cidr": "11.0.0.0/8"}]),
            "spec.managedSubnets",
        ),
        ("OpenStackCluster", "/spec/managedRouter/externalIPs", json!([]), "spec.managedRouter.externalIPs"),
        ("OpenStackCluster", "/spec/tags", json!(["a", "a"]), "spec.tags[1]"),
        ("OpenStackMachine", "/spec/flavor", json!({}), "spec.flavor"),
        ("OpenStackMachine", "/spec/image/imageRef", json!({"name": ""}), "spec.image.imageRef.name"),
        ("OpenStackMachine", "/spec/rootVolume/sizeGiB", json!(0), "spec.rootVolume.sizeGiB"),
        (
            "OpenStackMachine",
            "/spec/rootVolume/availabilityZone/name",
            json!("a b"),
            "spec.rootVolume.availabilityZone.name",
        ),
        (
            "OpenStackMachine",
            "/spec/serverMetadata/0/value",
            json!("x".repeat(256)),
            "spec.serverMetadata[0].value",
        ),
    ]);
}

#[test]
fn errors_of_infrastructure_rules_name_their_field() {
    let hint = json!([{"name": "a", "value": {"type": "Bool", "number": 1}}]);
    let disk = json!([{"name": "a", "sizeGiB": 1, "storage": {"type": "Volume",
        "volume": {"availabilityZone": {"from": "Machine", "name": "b"}}}}]);
    let closed = json!({"identityRef": {"name": "a", "cloudName": "b"}, "enableExternalNetwork": false});
    assert_named(&[
        (
            "OpenStackMachine",
            "/spec/schedulerHintAdditionalProperties",
            hint,
            "spec.schedulerHintAdditionalProperties[0].value",
        ),
        (
            "OpenStackMachine",
            "/spec/additionalBlockDevices",
            disk,
            "spec.additionalBlockDevices[0].storage.volume.availabilityZone",
        ),
        ("OpenStackCluster", "/spec/managedRouter", json!({}), "spec.managedRouter"),
        ("OpenStackCluster", "/spec/bastion", json!({"enabled": true}), "spec.bastion"),
        ("OpenStackCluster", "/spec", closed, "spec"),
    ]);
}

/// Created resources are in the old region.
#[test]
fn credentials_do_not_move_to_another_region() {
    let machine = |region: &str| {
        json!({"spec": {"flavor": {"id": "1"}, "image": {"filter": {"name": "i"}},
            "identityRef": {"name": "a", "cloudName": "b", "type": "Secret", "region": region}}})
    };
    let errors = |new: &Value| {
        let errors =
            resource("OpenStackMachine").schema.validate(new, Some(&machine("r")), &FieldPath::default());
        errors.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(errors(&machine("r")), Vec::<String>::new());
    assert_eq!(errors(&machine("s")), ["spec.identityRef: Invalid value: region is immutable"]);
}

#[test]
fn bad_fields_of_operations_and_core_kinds_are_named() {
    assert_named(&[
        ("MachineOperation", "/spec/action", json!("Explode"), "spec.action"),
        (
            "MachineOperation",
            "/spec/reboot/softTimeoutSeconds",
            json!(3601),
            "spec.reboot.softTimeoutSeconds",
        ),
        ("MachineOperation", "/spec/idempotencyKey", json!("k".repeat(129)), "spec.idempotencyKey"),
        ("Namespace", "/metadata/name", json!("a.b"), "metadata.name"),
        ("Secret", "/data/tls.key", json!("***"), "data[tls.key]"),
        ("Event", "/involvedObject/namespace", json!("team-b"), "involvedObject.namespace"),
        ("Lease", "/spec/leaseDurationSeconds", json!(0), "spec.leaseDurationSeconds"),
    ]);
}

#[test]
fn defaults_are_filled_in() {
    let mut operation = json!({"spec": {"machineName": "m1", "action": "Reboot"}});
    let resource = resource("MachineOperation");
    resource.strategy.prepare(&mut operation, None);
    resource.schema.fill_in(&mut operation);
    assert_eq!(operation["spec"]["reboot"], json!({"type": "Soft", "softTimeoutSeconds": 120}));
}

/// Adds the pointers of every value inside `value`.
fn places(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    for (name, inner) in value.as_object().into_iter().flatten() {
        places(inner, &format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), found);
    }
    for (index, inner) in value.as_array().into_iter().flatten().enumerate() {
        places(inner, &format!("{path}/{index}"), found);
    }
}

/// Validation rules usually get valid objects, but an older server may have stored anything. No shape may make them
/// panic, on either side of an update.
#[test]
fn malformed_objects_do_not_make_rules_panic() {
    let junk = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("☃/☃:v9%"),
        json!([]),
        json!([null]),
        json!({}),
    ];
    let mut tried = 0;
    for object in objects() {
        let strategy = Arc::clone(&resource(object["kind"].as_str().unwrap()).strategy);
        let mut found = Vec::new();
        places(&object, "", &mut found);
        for pointer in found {
            for value in &junk {
                let mut broken = object.clone();
                *broken.pointer_mut(&pointer).unwrap() = value.clone();
                let mut prepared = broken.clone();
                strategy.prepare(&mut prepared, Some(&broken));
                strategy.validate(&prepared, None);
                strategy.validate(&broken, Some(&object));
                strategy.validate(&object, Some(&broken));
                tried += 1;
            }
        }
    }
    assert!(tried > 5000, "{tried}");
}

/// Strategies get objects without the status, unless they read it.
#[test]
fn strategies_do_not_depend_on_the_status_unless_declared() {
    let (registry, objects) = (apiserver_registry::registry(), objects());
    let stored = registry.resources().iter().filter(|resource| resource.conversion.is_none());
    let (reading, ignoring): (Vec<_>, Vec<_>) = stored.partition(|resource| resource.strategy.reads_status());
    let reading: Vec<&str> = reading.iter().map(|resource| resource.kind.as_str()).collect();
    assert_eq!(reading, ["OpenStackCluster", "Namespace", "ResourceQuota", "CertificateSigningRequest"]);
    for resource in ignoring {
        let sample = objects.iter().find(|object| object["kind"] == *resource.kind).cloned();
        let minimal = json!({"kind": resource.kind, "metadata": {"name": "a"}, "spec": {"replicas": 1}});
        let whole = sample.unwrap_or(minimal);
        let strategy = &resource.strategy;
        let mut without = whole.clone();
        without.as_object_mut().unwrap().remove("status");
        for status in [whole["status"].clone(), json!({"phase": "Deleting", "version": "v1.0.0"}), json!("☃")]
        {
            let mut with = without.clone();
            with["status"] = status.clone();
            for (new, old) in [(None, None), (Some(&with), Some(&without))] {
                let found = strategy.validate(&with, new);
                assert_eq!(found, strategy.validate(&without, old), "{}", resource.kind);
            }
            let mut prepared = without.clone();
            strategy.prepare(&mut prepared, Some(&without));
            prepared["status"] = status;
            let old = with.clone();
            strategy.prepare(&mut with, Some(&old));
            assert_eq!(with, prepared, "{}", resource.kind);
        }
    }
}
