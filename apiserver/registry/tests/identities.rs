//! Tests of the permission to use OpenStackClusterIdentities, over HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use apiserver_http::Settings;
use serde_json::{Value, json};
use server::Server;

const PATH: &str = "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/ns";
const IMAGE: &str = "0c2ee0a5-3b0b-4a60-a2b4-2f6f0b6d7d11";
const USE: &str = "use openstackclusteridentities";
const MAY: [&str; 6] = [
    "create openstackclusters",
    "update openstackclusters",
    "patch openstackclusters",
    "create openstackmachinetemplates",
    "create openstackservers",
    "create openstackfloatingippools",
];

async fn start() -> Server {
    Server::start_with(Settings { requires_use: true, ..Settings::default() }).await
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"type": kind, "name": name, "cloudName": "openstack"})
}

fn cluster(name: &str, identity: &Value) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackCluster",
        "metadata": {"name": name}, "spec": {"identityRef": identity}})
}

#[tokio::test]
async fn r4_4_an_object_that_names_an_identity_needs_the_permission_to_use_it() {
    let server = start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let named = cluster("c", &reference("ClusterIdentity", "shared"));
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")), "{answer}");
    let expected = "openstackclusters.infrastructure.cluster.x-k8s.io \"c\" is forbidden: spec.identityRef: \
        openstackclusteridentities.infrastructure.cluster.x-k8s.io \"shared\" is forbidden: User \"bob\" cannot use \
        resource \"openstackclusteridentities\" in API group \"infrastructure.cluster.x-k8s.io\" at the cluster scope. \
        The server requires it, since identities.requireUse is set. Bind a ClusterRole with the verb use on \
        openstackclusteridentities \"shared\" to the user, or name another identity or a Secret";
    assert_eq!(answer["message"], expected);
    let (code, answer) = server.with(&MAY, "APPLY", &format!("{clusters}/c?fieldManager=t"), &named).await;
    assert_eq!(code, 403, "{answer}");
    let may = [MAY.as_slice(), &[USE]].concat();
    assert_eq!(server.with(&may, "POST", &clusters, &named).await.0, 201);
    let own = cluster("own", &reference("Secret", "shared"));
    assert_eq!(server.with(&MAY, "POST", &clusters, &own).await.0, 201);
}

#[tokio::test]
async fn r4_4_an_update_needs_it_only_for_a_new_reference() {
    let server = start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let path = format!("{clusters}/c");
    let made = server.admin("POST", &clusters, &cluster("c", &reference("ClusterIdentity", "shared"))).await;
    assert_eq!(made.0, 201, "{made:?}");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, answer) = server.with(&MAY, "PATCH", &path, &labelled).await;
    assert_eq!(code, 200, "{answer}");
    let another = json!({"spec": {"identityRef": {"name": "another"}}});
    let (code, answer) = server.with(&MAY, "PATCH", &path, &another).await;
    assert_eq!(code, 403, "{answer}");
    let bastion = json!({"enabled": true, "spec": {"flavor": "f", "image": {"id": IMAGE},
        "identityRef": reference("ClusterIdentity", "another")}});
    let bastion = json!({"spec": {"bastion": bastion}});
    let (code, answer) = server.with(&MAY, "PATCH", &path, &bastion).await;
    assert_eq!(code, 403, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains(": spec.bastion.spec.identityRef: "), "{answer}");
    let may = [MAY.as_slice(), &[USE]].concat();
    assert_eq!(server.with(&may, "PATCH", &path, &another).await.0, 200);
}

#[tokio::test]
async fn r4_4_every_kind_with_a_reference_is_covered() {
    let server = start().await;
    let identity = reference("ClusterIdentity", "shared");
    let machine = json!({"flavor": "f", "image": {"id": IMAGE}, "identityRef": identity});
    let table = [
        ("v1beta1", "OpenStackMachineTemplate", json!({"template": {"spec": machine}})),
        ("v1alpha1", "OpenStackServer", {
            let mut server = machine.clone();
            server["ports"] = json!([{}]);
            server["sshKeyName"] = json!("k");
            server
        }),
        ("v1alpha1", "OpenStackFloatingIPPool", json!({"identityRef": identity, "reclaimPolicy": "Delete"})),
    ];
    for (version, kind, spec) in table {
        let group = format!("infrastructure.cluster.x-k8s.io/{version}");
        let path = format!("/apis/{group}/namespaces/ns/{}s", kind.to_lowercase());
        let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let (code, answer) = server.with(&MAY, "POST", &path, &object).await;
        assert_eq!(code, 403, "{kind}: {answer}");
        let may = [MAY.as_slice(), &[USE]].concat();
        let (code, answer) = server.with(&may, "POST", &path, &object).await;
        assert_eq!(code, 201, "{kind}: {answer}");
    }
}

#[tokio::test]
async fn a_secret_that_the_user_cannot_read_is_no_identity_of_its_object() {
    let settings = Settings { requires_secret_read: None, ..Settings::default() };
    let server = Server::start_with(settings).await;
    let clusters = format!("{PATH}/openstackclusters");
    let named = cluster("c", &reference("Secret", "openrc"));
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!(code, 403, "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(": spec.identityRef: secrets \"openrc\" is forbidden: "), "{message}");
    assert!(
        message.contains(
            "see identities.requireSecretRead. Bind a Role with the verb get on secrets \"openrc\""
        ),
        "{message}"
    );
    let may = [MAY.as_slice(), &["get secrets"]].concat();
    assert_eq!(server.with(&may, "POST", &clusters, &named).await.0, 201);
    // A reference that stays needs no permission, and a new one does.
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(server.with(&MAY, "PATCH", &format!("{clusters}/c"), &labelled).await.0, 200);
    let another = json!({"spec": {"identityRef": {"name": "another"}}});
    assert_eq!(server.with(&MAY, "PATCH", &format!("{clusters}/c"), &another).await.0, 403);
    // The setting is about Secrets only.
    let shared = cluster("shared", &reference("ClusterIdentity", "shared"));
    assert_eq!(server.with(&MAY, "POST", &clusters, &shared).await.0, 201);
}

#[tokio::test]
async fn a_reference_cannot_name_the_namespace_of_a_secret() {
    let server = Server::start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let mut identity = reference("Secret", "openrc");
    identity["namespace"] = json!("tenant-b");
    let named = cluster("c", &identity);
    let strict = format!("{clusters}?fieldValidation=Strict");
    let (code, answer) = server.with(&MAY, "POST", &strict, &named).await;
    assert_eq!(code, 400, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("identityRef.namespace"), "{answer}");
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["spec"]["identityRef"].get("namespace"), None, "{answer}");
}

#[tokio::test]
async fn r4_4_without_the_setting_no_permission_is_needed() {
    let server = Server::start().await;
    let clusters = format!("{PATH}/openstackclusters");
    let named = cluster("c", &reference("ClusterIdentity", "shared"));
    let (code, answer) = server.with(&MAY, "POST", &clusters, &named).await;
    assert_eq!(code, 201, "{answer}");
}

/// Returns an object of each kind that names the Secret `s`, beside a reference to credentials: API group and version, kind,
/// spec, and true if it is in a namespace.
fn objects_with_secrets() -> Vec<(&'static str, &'static str, Value, bool)> {
    let (core, bootstrap) = ("cluster.x-k8s.io/v1beta2", "bootstrap.cluster.x-k8s.io/v1beta2");
    let infrastructure = "infrastructure.cluster.x-k8s.io/v1alpha1";
    let reference =
        |kind: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "i"});
    let machine = |of: &str| {
        json!({"clusterName": "c", "version": "v1.34.1", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": reference(of)})
    };
    let machines = || {
        json!({"clusterName": "c", "selector": {"matchLabels": null},
            "template": {"spec": machine("OpenStackMachineTemplate")}})
    };
    let secret = json!({"secret": {"name": "s", "key": "k"}});
    let config = json!({"files": [{"path": "/a", "contentFrom": secret}]});
    let users = json!({"users": [{"name": "u", "passwdFrom": secret}]});
    let plane = json!({"version": "v1.34.1", "kubeadmConfigSpec": config,
        "machineTemplate": {"spec": {"infrastructureRef": reference("OpenStackMachineTemplate")}}});
    let server = json!({"flavor": "f", "image": {"id": IMAGE}, "ports": [{}], "sshKeyName": "k",
        "identityRef": reference_to_identity(), "userDataRef": {"name": "s"}});
    let image = json!({"cloudCredentialsRef": {"cloudName": "openstack", "secretName": "s"},
        "resource": {"content": {"diskFormat": "qcow2", "download": {"url": "https://example.org/a.qcow2"}}}});
    let set = json!({"clusterSelector": {"matchLabels": {"a": "b"}}, "resources": [
        {"kind": "ConfigMap", "name": "m"}, {"kind": "Secret", "name": "s"}]});
    let pool = json!({"clusterName": "c", "template": {"spec": machine("OpenStackMachinePool")}});
    let plane_template = json!({"template": {"spec": {"kubeadmConfigSpec": config}}});
    let control_plane = "controlplane.cluster.x-k8s.io/v1beta2";
    let copy = json!({"apiVersion": bootstrap, "kind": "KubeadmConfigTemplate",
        "spec": {"template": {"spec": users}}});
    let revision =
        json!({"deploymentName": "d", "revision": 1, "template": {"spec": {}}, "bootstrapTemplate": copy});
    vec![
        (core, "Machine", machine("OpenStackMachine"), true),
        (core, "MachineDeployment", machines(), true),
        (core, "MachineSet", machines(), true),
        (core, "MachinePool", pool, true),
        (bootstrap, "KubeadmConfig", config, true),
        (bootstrap, "KubeadmConfigTemplate", json!({"template": {"spec": users}}), true),
        (control_plane, "KubeadmControlPlane", plane, true),
        (control_plane, "KubeadmControlPlaneTemplate", plane_template, true),
        ("addons.cluster.x-k8s.io/v1beta2", "ClusterResourceSet", set, true),
        ("openstack.k-orc.cloud/v1alpha1", "Image", image, true),
        ("capstan.dev/v1alpha1", "MachineDeploymentRevision", revision, true),
        (infrastructure, "OpenStackServer", server, true),
        (
            infrastructure,
            "OpenStackClusterIdentity",
            json!({"secretRef": {"name": "s", "namespace": "kube-system"}}),
            false,
        ),
    ]
}

fn reference_to_identity() -> Value {
    reference("ClusterIdentity", "shared")
}

#[tokio::test]
async fn tm_05_every_kind_that_names_a_secret_needs_the_permission_to_read_it() {
    let server = Server::start_with(Settings { requires_secret_read: None, ..Settings::default() }).await;
    for (version, kind, spec, is_namespaced) in objects_with_secrets() {
        let plural = match kind {
            "OpenStackClusterIdentity" => "openstackclusteridentities".to_owned(),
            kind => format!("{}s", kind.to_lowercase()),
        };
        let place = if is_namespaced { "namespaces/ns/" } else { "" };
        let path = format!("/apis/{version}/{place}{plural}");
        let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
        let may = [format!("create {plural}"), format!("patch {plural}"), "get secrets".to_owned()];
        let may: Vec<&str> = may.iter().map(String::as_str).collect();
        let writer = &may[..2];
        let (code, answer) = server.with(writer, "POST", &path, &object).await;
        let message = answer["message"].as_str().unwrap();
        assert!(code == 403 && message.contains(": secrets \"s\" is forbidden: "), "{kind}: {answer}");
        let (code, answer) = server.with(&may, "POST", &path, &object).await;
        assert_eq!(code, 201, "{kind}: {answer}");
        // A reference that stays needs no permission.
        let labelled = json!({"metadata": {"labels": {"a": "b"}}});
        let (code, answer) = server.with(writer, "PATCH", &format!("{path}/a"), &labelled).await;
        assert_eq!(code, 200, "{kind}: {answer}");
    }
}

const CORE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns";

/// Returns API version, kind and object of each template of [`class`].
fn templates() -> Vec<(&'static str, &'static str, Value)> {
    let machine =
        json!({"flavor": "f", "image": {"id": IMAGE}, "identityRef": reference("Secret", "openrc")});
    let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta1";
    let command = || json!({"preKubeadmCommands": ["true"]});
    let config = json!({"kubeadmConfigSpec": command()});
    [
        (infrastructure, "OpenStackMachineTemplate", machine),
        (infrastructure, "OpenStackClusterTemplate", json!({"identityRef": reference("Secret", "openrc")})),
        ("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlaneTemplate", config),
        ("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", command()),
    ]
    .map(|(group, kind, spec)| {
        let object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "t"},
            "spec": {"template": {"spec": spec}}});
        (group, kind, object)
    })
    .into()
}

/// Returns a class whose variable `identity` is the name of the Secret of its workers.
fn class() -> Value {
    let template = |group: &str, kind: &str| json!({"templateRef": {"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"}});
    let selector = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": "OpenStackMachineTemplate",
        "matchResources": {"machineDeploymentClass": {"names": ["w"]}}});
    let operation = json!({"op": "replace", "path": "/spec/template/spec/identityRef/name",
        "valueFrom": {"variable": "identity"}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "k"}, "spec": {
        "infrastructure": template("infrastructure", "OpenStackClusterTemplate"),
        "controlPlane": template("controlplane", "KubeadmControlPlaneTemplate"),
        "workers": {"machineDeployments": [{"class": "w", "bootstrap": template("bootstrap", "KubeadmConfigTemplate"),
            "infrastructure": template("infrastructure", "OpenStackMachineTemplate")}]},
        "variables": [{"name": "identity", "required": false,
            "schema": {"openAPIV3Schema": {"type": "string", "default": "of-class"}}}],
        "patches": [{"name": "identity", "definitions": [{"selector": selector, "jsonPatches": [operation]}]}]}})
}

#[tokio::test]
async fn tm_05_a_class_whose_patches_name_secrets_and_a_cluster_that_sets_the_name_need_the_permission() {
    let server = Server::start_with(Settings { requires_secret_read: None, ..Settings::default() }).await;
    for (group, kind, object) in templates() {
        let path = format!("/apis/{group}/namespaces/ns/{}s", kind.to_lowercase());
        let (code, answer) = server.admin("POST", &path, &object).await;
        assert_eq!(code, 201, "{kind}: {answer}");
    }
    let classes = format!("{CORE}/clusterclasses");
    let writer = ["create clusterclasses", "patch clusterclasses"];
    let (code, answer) = server.with(&writer, "POST", &classes, &class()).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("spec.patches: secrets is forbidden: "), "{answer}");
    let reader = ["create clusterclasses", "get secrets"];
    assert_eq!(server.with(&reader, "POST", &classes, &class()).await.0, 201);
    let path = format!("{classes}/k");
    let labelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(server.with(&writer, "PATCH", &path, &labelled).await.0, 200);
    let default = json!({"spec": {"variables": [{"name": "identity", "required": false,
        "schema": {"openAPIV3Schema": {"type": "string", "default": "another"}}}]}});
    assert_eq!(server.with(&writer, "PATCH", &path, &default).await.0, 403, "a default is a name, too");

    let clusters = format!("{CORE}/clusters");
    let writer = ["create clusters", "patch clusters"];
    let topology = json!({"classRef": {"name": "k"}, "version": "v1.34.1",
        "workers": {"machineDeployments": [{"class": "w", "name": "md-0"}]}});
    let mut cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c"}, "spec": {"topology": topology}});
    let (code, answer) = server.with(&writer, "POST", &clusters, &cluster).await;
    assert_eq!(code, 201, "the names are those of the class and its templates: {answer}");
    let path = format!("{clusters}/c");
    assert_eq!(server.with(&writer, "PATCH", &path, &labelled).await.0, 200);
    let variables = json!([{"name": "identity", "value": "foreign"}]);
    let named = json!({"spec": {"topology": {"variables": variables}}});
    let (code, answer) = server.with(&writer, "PATCH", &path, &named).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("spec.topology: secrets \"foreign\" is forbidden: "), "{answer}");
    let reader = ["patch clusters", "get secrets"];
    let (code, answer) = server.with(&reader, "PATCH", &path, &named).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(server.with(&writer, "PATCH", &path, &labelled).await.0, 200, "a name that stays");

    // In the older version, and for a class that does not exist yet.
    cluster["apiVersion"] = json!("cluster.x-k8s.io/v1beta1");
    cluster["metadata"]["name"] = json!("d");
    let topology = json!({"class": "k", "version": "v1.34.1", "variables": variables,
        "workers": {"machineDeployments": [{"class": "w", "name": "md-0"}]}});
    cluster["spec"]["topology"] = topology;
    let older = clusters.replace("v1beta2", "v1beta1");
    let (code, answer) = server.with(&writer, "POST", &older, &cluster).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("secrets \"foreign\" is forbidden: "), "{answer}");
    cluster["spec"]["topology"]["class"] = json!("later");
    let (code, answer) = server.with(&writer, "POST", &older, &cluster).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("is not known, see identities.requireSecretRead"), "{answer}");
}
