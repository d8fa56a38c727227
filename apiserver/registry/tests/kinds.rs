//! Tests of typical objects of the kinds, as users and tools write them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const CORE: &str = "cluster.x-k8s.io";

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/ns/{plural}")
}

fn object(api_version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Cluster in the form of the providers' templates: nulls for unset fields, versions with and without a v, and complete
/// references.
fn template(version: &str) -> Vec<(String, Value)> {
    let old = version == "v1beta1";
    let reference = |group: &str, kind: &str, name: &str| {
        if old {
            json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": name})
        } else {
            json!({"apiGroup": group, "kind": kind, "name": name})
        }
    };
    let (infrastructure, bootstrap, plane) =
        ("infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io");
    let flavor = if old { json!("m1.small") } else { json!({"filter": {"name": "m1.small"}}) };
    let identity = json!({"name": "cloud", "cloudName": "openstack"});
    let server = json!({"template": {"spec": {"flavor": flavor, "image": {"filter": {"name": "ubuntu"}},
        "identityRef": identity, "sshKeyName": null}}});
    let machine_reference = reference(infrastructure, "OpenStackMachineTemplate", "lab-cp");
    let machine = if old {
        json!({"infrastructureRef": machine_reference})
    } else {
        json!({"spec": {"infrastructureRef": machine_reference}})
    };
    let pool = json!({"clusterName": "lab", "replicas": null, "selector": {"matchLabels": null},
        "template": {"spec": {"clusterName": "lab", "version": "1.34.1", "failureDomain": null,
            "bootstrap": {"configRef": reference(bootstrap, "KubeadmConfigTemplate", "lab-md")},
            "infrastructureRef": reference(infrastructure, "OpenStackMachineTemplate", "lab-cp")}}});
    let parts = [
        (
            CORE,
            "Cluster",
            "clusters",
            "lab",
            json!({"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16"]}, "serviceDomain": "cluster.local"},
            "infrastructureRef": reference(infrastructure, "OpenStackCluster", "lab"),
            "controlPlaneRef": reference(plane, "KubeadmControlPlane", "lab-cp"), "paused": null}),
        ),
        (
            infrastructure,
            "OpenStackCluster",
            "openstackclusters",
            "lab",
            json!({"identityRef": identity,
            "managedSubnets": [{"cidr": "10.6.0.0/24"}]}),
        ),
        (
            plane,
            "KubeadmControlPlane",
            "kubeadmcontrolplanes",
            "lab-cp",
            json!({"replicas": null, "version": "v1.34.1",
            "machineTemplate": machine, "kubeadmConfigSpec": {"files": []}}),
        ),
        (infrastructure, "OpenStackMachineTemplate", "openstackmachinetemplates", "lab-cp", server),
        (
            bootstrap,
            "KubeadmConfigTemplate",
            "kubeadmconfigtemplates",
            "lab-md",
            json!({"template": {"spec": {"verbosity": 2}}}),
        ),
        (CORE, "MachineDeployment", "machinedeployments", "lab-md", pool),
    ];
    let made = parts.map(|(group, kind, plural, name, spec)| {
        let mut made = object(&format!("{group}/{version}"), kind, name, &spec);
        // A newer version accepts no empty list.
        if !old && kind == "KubeadmControlPlane" {
            made["spec"]["kubeadmConfigSpec"] = json!({"verbosity": 2});
        }
        // A kind without a defaulting webhook accepts no null in an apply.
        if kind == "OpenStackMachineTemplate" {
            made["spec"]["template"]["spec"].as_object_mut().unwrap().remove("sshKeyName");
        }
        (path(group, version, plural), made)
    });
    made.to_vec()
}

/// Checks the resulting deployment, which is the same for every client and form.
async fn check_deployment(server: &Server, what: &str) {
    let at = format!("{}/lab-md", path(CORE, "v1beta2", "machinedeployments"));
    let (code, found) = server.admin("GET", &at, &Value::Null).await;
    let labels =
        json!({"cluster.x-k8s.io/cluster-name": "lab", "cluster.x-k8s.io/deployment-name": "lab-md"});
    assert_eq!(code, 200, "{what}");
    assert_eq!(found["spec"]["selector"], json!({"matchLabels": labels}), "{what}");
    assert_eq!(found["spec"]["template"]["metadata"]["labels"], labels, "{what}");
    assert_eq!(
        (&found["spec"]["replicas"], &found["metadata"]["generation"]),
        (&json!(1), &json!(1)),
        "{what}"
    );
    assert_eq!(found["spec"]["template"]["spec"]["version"], "v1.34.1", "{what}");
}

#[tokio::test]
async fn a_providers_template_is_created_in_both_versions() {
    for version in ["v1beta1", "v1beta2"] {
        let server = Server::start().await;
        for (path, object) in template(version) {
            let (code, answer) = server.admin("POST", &path, &object).await;
            assert_eq!(code, 201, "{path}: {answer}");
        }
        check_deployment(&server, version).await;
    }
}

#[tokio::test]
async fn a_providers_template_is_applied_in_both_versions_and_again_without_a_change() {
    for version in ["v1beta1", "v1beta2"] {
        let server = Server::start().await;
        for (path, object) in template(version) {
            let at = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
            let (code, first) = server.apply(&at, "flux", &object).await;
            assert_eq!(code, 201, "{at}: {first}");
            let (code, second) = server.apply(&at, "flux", &object).await;
            assert_eq!((code, &second), (200, &first), "{at}");
        }
        check_deployment(&server, version).await;
    }
}

#[tokio::test]
async fn an_invalid_duration_is_refused_with_its_path() {
    let server = Server::start().await;
    let mut machine = object(
        "cluster.x-k8s.io/v1beta1",
        "Machine",
        "m",
        &json!({"clusterName": "c",
        "bootstrap": {"dataSecretName": "s"}, "infrastructureRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine", "name": "m"}}),
    );
    let machines = path(CORE, "v1beta1", "machines");
    for (text, problem) in [
        ("abc", "time: invalid duration \"abc\""),
        ("10", "time: missing unit in duration \"10\""),
        ("-5s", "must be greater than or equal to 0"),
    ] {
        machine["spec"]["nodeDrainTimeout"] = json!(text);
        let (code, answer) = server.admin("POST", &machines, &machine).await;
        assert_eq!(code, 422, "{answer}");
        let cause = json!({"reason": "FieldValueInvalid", "field": "spec.nodeDrainTimeout",
            "message": format!("Invalid value: {text:?}: {problem}")});
        assert_eq!(answer["details"]["causes"], json!([cause]));
    }
    machine["spec"]["nodeDrainTimeout"] = json!("10m");
    assert_eq!(server.admin("POST", &machines, &machine).await.0, 201);
}

#[tokio::test]
async fn a_large_object_of_the_older_version_can_be_written_in_the_newer_one() {
    let server = Server::start().await;
    let group = "bootstrap.cluster.x-k8s.io";
    let files: Vec<Value> =
        (0..30).map(|number| json!({"path": format!("/f{number}"), "content": "x".repeat(10_000)})).collect();
    let spec = json!({"files": files, "clusterConfiguration": {"clusterName": "lost"}});
    let mut config = object(&format!("{group}/v1beta1"), "KubeadmConfig", "big", &spec);
    config["metadata"]["finalizers"] = json!(["a.b/c"]);
    let (code, answer) = server.admin("POST", &path(group, "v1beta1", "kubeadmconfigs"), &config).await;
    assert_eq!(code, 201, "{}", answer["message"]);
    let at = format!("{}/big", path(group, "v1beta2", "kubeadmconfigs"));
    let (code, answer) = server.admin("PATCH", &at, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200, "{}", answer["message"]);
    let old = format!("{}/big", path(group, "v1beta1", "kubeadmconfigs"));
    let (_, shown) = server.admin("GET", &old, &Value::Null).await;
    assert_eq!(shown["spec"]["clusterConfiguration"]["clusterName"], "lost");
    assert_eq!(server.admin("DELETE", &at, &Value::Null).await.0, 200);
    let (code, answer) = server.admin("PATCH", &at, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(code, 200, "{}", answer["message"]);
}

fn class(name: &str, workers: &[&str]) -> Value {
    let template = |kind: &str, group: &str| json!({"templateRef": {"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"}});
    let workers: Vec<Value> = workers
        .iter()
        .map(|class| {
            json!({"class": class, "bootstrap": template("KubeadmConfigTemplate", "bootstrap"),
            "infrastructure": template("OpenStackMachineTemplate", "infrastructure")})
        })
        .collect();
    object(
        "cluster.x-k8s.io/v1beta2",
        "ClusterClass",
        name,
        &json!({
        "infrastructure": template("OpenStackClusterTemplate", "infrastructure"),
        "controlPlane": template("KubeadmControlPlaneTemplate", "controlplane"),
        "workers": {"machineDeployments": workers}}),
    )
}

fn cluster(version: &str, class: &str) -> Value {
    object(
        "cluster.x-k8s.io/v1beta2",
        "Cluster",
        "c",
        &json!({"topology": {"version": version,
        "classRef": {"name": class}, "workers": {"machineDeployments": [{"name": "md-0", "class": class}]}}}),
    )
}

fn fields(answer: &Value) -> Vec<String> {
    let causes = answer["details"]["causes"].as_array().cloned().unwrap_or_default();
    causes.iter().map(|cause| cause["field"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_class_in_use_stays_compatible_and_cannot_be_deleted() {
    let server = Server::start().await;
    let (classes, clusters) = (path(CORE, "v1beta2", "clusterclasses"), path(CORE, "v1beta2", "clusters"));
    for name in ["a", "b"] {
        assert_eq!(server.admin("POST", &classes, &class(name, &[name, "spare"])).await.0, 201);
    }
    // A topology's version gets its v, and a pool has a class that exists.
    let (code, answer) = server.admin("POST", &clusters, &cluster("1.33.0", "a")).await;
    assert_eq!((code, &answer["spec"]["topology"]["version"]), (201, &json!("v1.33.0")), "{answer}");
    let at = format!("{clusters}/c");
    for (change, expected) in [
        (json!({"version": "v1.35.0"}), "spec.topology.version"),
        (json!({"version": "v1.32.0"}), "spec.topology.version"),
        (json!({"classRef": {"name": "none"}}), "spec.topology.class"),
        (json!({"classRef": {"name": "b"}}), "spec.topology.workers.machineDeployments[0].class"),
        // The control plane may not be at the previous version yet.
        (json!({"version": "v1.34.0"}), "spec.topology.version"),
    ] {
        let (code, answer) = server.admin("PATCH", &at, &json!({"spec": {"topology": change}})).await;
        assert_eq!((code, fields(&answer)), (422, vec![expected.to_owned()]), "{change}: {answer}");
    }
    let own = format!("{classes}/a");
    let (code, answer) =
        server.admin("PATCH", &own, &json!({"spec": {"workers": {"machineDeployments": []}}})).await;
    assert_eq!((code, fields(&answer)[0].as_str()), (422, "spec.workers.machineDeployments"), "{answer}");
    let without_spare = class("a", &["a"])["spec"]["workers"].clone();
    assert_eq!(server.admin("PATCH", &own, &json!({"spec": {"workers": without_spare}})).await.0, 200);
    let (code, answer) = server.admin("DELETE", &own, &Value::Null).await;
    assert_eq!(code, 403);
    assert_eq!(
        answer["message"],
        "ClusterClass.cluster.x-k8s.io \"a\" is forbidden: ClusterClass cannot be deleted because it is used by Cluster(s): ns/c"
    );
    assert_eq!(server.admin("DELETE", &at, &Value::Null).await.0, 200);
    assert_eq!(server.admin("DELETE", &own, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn the_topology_controller_may_dry_run_template_changes() {
    let server = Server::start().await;
    let group = "infrastructure.cluster.x-k8s.io";
    let at = path(group, "v1beta2", "openstackmachinetemplates");
    let (_, mut template) = template("v1beta2").into_iter().find(|(path, _)| *path == at).unwrap();
    template["metadata"]["labels"] = json!({"topology.cluster.x-k8s.io/owned": ""});
    assert_eq!(server.admin("POST", &at, &template).await.0, 201);
    let mut change = json!({"spec": {"template": {"spec": {"sshKeyName": "k"}}}});
    let at = format!("{at}/lab-cp");
    assert_eq!(server.admin("PATCH", &format!("{at}?dryRun=All"), &change).await.0, 422);
    change["metadata"] = json!({"annotations": {"topology.cluster.x-k8s.io/dry-run": ""}});
    let (code, answer) = server.admin("PATCH", &format!("{at}?dryRun=All"), &change).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(server.admin("PATCH", &at, &change).await.0, 422);
}

#[tokio::test]
async fn an_address_must_be_from_the_pool_of_its_claim() {
    let server = Server::start().await;
    let group = "ipam.cluster.x-k8s.io";
    let pool = |name: &str| json!({"apiGroup": "ipam.example.com", "kind": "Pool", "name": name});
    let claim = object(&format!("{group}/v1beta2"), "IPAddressClaim", "c", &json!({"poolRef": pool("a")}));
    assert_eq!(server.admin("POST", &path(group, "v1beta2", "ipaddressclaims"), &claim).await.0, 201);
    let address = |name: &str, of: &str| {
        object(
            &format!("{group}/v1beta2"),
            "IPAddress",
            name,
            &json!({"address": "10.0.0.1", "prefix": 24, "claimRef": {"name": "c"}, "poolRef": pool(of)}),
        )
    };
    let at = path(group, "v1beta2", "ipaddresses");
    let (code, answer) = server.admin("POST", &at, &address("x", "b")).await;
    assert_eq!((code, fields(&answer)), (422, vec!["spec.poolRef".to_owned()]));
    assert_eq!(server.admin("POST", &at, &address("x", "a")).await.0, 201);
    let mut bare = claim;
    bare["apiVersion"] = json!("ipam.cluster.x-k8s.io/v1beta1");
    bare["metadata"]["name"] = json!("d");
    bare["spec"]["poolRef"].as_object_mut().unwrap().remove("apiGroup");
    // Older versions do not require the group of the pool.
    let (code, answer) = server.admin("POST", &path(group, "v1beta1", "ipaddressclaims"), &bare).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn a_person_needs_an_annotation_to_delete_the_only_control_plane_machine() {
    let server = Server::start().await;
    let (clusters, machines) = (path(CORE, "v1beta2", "clusters"), path(CORE, "v1beta2", "machines"));
    let infrastructure = "infrastructure.cluster.x-k8s.io";
    let reference = |kind: &str, name: &str| json!({"apiGroup": infrastructure, "kind": kind, "name": name});
    let cluster = json!({"infrastructureRef": reference("OpenStackCluster", "c")});
    let cluster = object("cluster.x-k8s.io/v1beta2", "Cluster", "c", &cluster);
    let created = server.admin("POST", &clusters, &cluster).await;
    assert_eq!(created.0, 201, "{created:?}");
    for (name, finalizers) in [("one", json!(["example.org/held"])), ("two", json!([]))] {
        let spec = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": reference("OpenStackMachine", name)});
        let mut machine = object("cluster.x-k8s.io/v1beta2", "Machine", name, &spec);
        machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
        machine["metadata"]["finalizers"] = finalizers;
        let created = server.admin("POST", &machines, &machine).await;
        assert_eq!(created.0, 201, "{created:?}");
    }
    assert_eq!(server.delete(&format!("{machines}/two")).await, Vec::<String>::new());
    let initialized = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
    assert_eq!(server.admin("PATCH", &format!("{clusters}/c/status"), &initialized).await.0, 200);
    let (one, only) = (format!("{machines}/one"), "the only control plane Machine of Cluster c");
    let (code, refused) = server.admin("DELETE", &one, &Value::Null).await;
    assert_eq!(code, 403, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains(only), "{refused}");
    let allowed = json!({"metadata": {"annotations": {"capstan.dev/protected": "false"}}});
    assert_eq!(server.admin("PATCH", &one, &allowed).await.0, 200);
    let last = server.delete(&path(CORE, "v1beta1", "machines/one")).await;
    assert!(last.iter().any(|text| text.contains(only)), "{last:?}");
}
