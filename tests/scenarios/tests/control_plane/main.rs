//! Test of a control plane from its first Machine to its deletion, over a workload cluster that the test answers for.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod process;
mod workload;

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver_types::{Cluster, KubeadmConfig, KubeadmControlPlane, Machine, OpenStackMachine};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;
use tests_scenarios::{World, dry_run};
use tokio_util::sync::CancellationToken;

use process::Process;

const NAMESPACE: &str = "control-plane";

const MANIFEST: &str = include_str!("cluster.yaml");

fn reason(control_plane: &KubeadmControlPlane, kind: &str) -> String {
    control_plane.condition(kind).map(|it| it.reason.clone()).unwrap_or_default()
}

fn message(control_plane: &KubeadmControlPlane, kind: &str) -> String {
    control_plane.condition(kind).map(|it| it.message.clone()).unwrap_or_default()
}

/// Makes the Cluster an owner of the control plane, as the Cluster's controller does.
async fn own(process: &Process) {
    let cluster = process.api::<Cluster>().get("c").await.unwrap();
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": cluster.uid()});
    let metadata = json!({"ownerReferences": [owner], "labels": {"cluster.x-k8s.io/cluster-name": "c"}});
    process.merge::<KubeadmControlPlane>("kcp", json!({"metadata": metadata})).await;
}

async fn provisioned(world: &World, manifest: &str) -> Process {
    world.create(manifest).await.unwrap();
    let process = Process::start(world);
    own(&process).await;
    let domains = json!([{"name": "az1", "controlPlane": true}, {"name": "az2", "controlPlane": true}]);
    let status = json!({"initialization": {"infrastructureProvisioned": true}, "failureDomains": domains});
    process.merge_status::<Cluster>("c", status).await;
    process
}

#[tokio::test]
async fn a_control_plane_waits_for_its_cluster_and_then_makes_certificates_and_the_first_machine() {
    let world = World::start().await.unwrap();
    world.create(MANIFEST).await.unwrap();
    let process = Process::start(&world);
    assert!(process.settle().await.finalizers().is_empty(), "no Cluster has claimed it");
    own(&process).await;
    let control_plane = process.settle().await;
    assert_eq!(control_plane.finalizers(), ["kubeadm.controlplane.cluster.x-k8s.io"]);
    assert_eq!(reason(&control_plane, "ScalingUp"), "ScalingUp");
    let waits = "Waiting for Cluster status.infrastructureReady to be true";
    assert_eq!(message(&control_plane, "ControlPlaneComponentsHealthy"), waits);
    assert!(process.machines().await.is_empty());

    let status = json!({"initialization": {"infrastructureProvisioned": true}});
    process.merge_status::<Cluster>("c", status).await;
    let control_plane = process.settle().await;
    let secrets = process.api::<Secret>().list(&ListParams::default()).await.unwrap();
    let owned = secrets.iter().filter(|it| !it.owner_references().is_empty()).map(ResourceExt::name_any);
    assert_eq!(owned.collect::<Vec<_>>(), ["c-ca", "c-kubeconfig", "c-proxy", "c-sa"]);
    assert_eq!(reason(&control_plane, "CertificatesAvailable"), "Available");
    let machines = process.machines().await;
    let [machine] = machines.as_slice() else { panic!("{machines:?}") };
    let name = machine.name_any();
    assert!(name.starts_with("kcp-") && machine.labels().get("team").is_some_and(|team| team == "a"));
    let config = process.api::<KubeadmConfig>().get(&name).await.unwrap();
    assert!(config.spec.init_configuration.is_some() && config.spec.join_configuration.is_none());
    assert_eq!(config.labels().get("team").map(String::as_str), Some("a"));
    let infrastructure = process.api::<OpenStackMachine>().get(&name).await.unwrap();
    let from = infrastructure.annotations().get("cluster.x-k8s.io/cloned-from-name");
    assert_eq!(from.map(String::as_str), Some("t"));
    assert_eq!(infrastructure.owner_references()[0].kind, "KubeadmControlPlane");
    let status = control_plane.status.unwrap();
    assert_eq!((status.replicas, status.version.as_deref()), (Some(1), Some("v1.33.0")));
    assert_eq!(
        status.selector.as_deref(),
        Some("cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/control-plane")
    );
}

/// Makes passes until the control plane is available, for five seconds at most.
async fn available(process: &Process) -> KubeadmControlPlane {
    let mut control_plane = process.settle().await;
    for _ in 0..100 {
        if reason(&control_plane, "Available") == "Available" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        control_plane = process.settle().await;
    }
    control_plane
}

#[tokio::test]
async fn a_control_plane_scales_changes_in_place_and_is_deleted() {
    let world = World::start().await.unwrap();
    let process = provisioned(&world, MANIFEST).await;
    process.settle().await;
    process.give_nodes().await;
    let control_plane = available(&process).await;
    assert_eq!(reason(&control_plane, "Initialized"), "Initialized", "{control_plane:#?}");
    assert_eq!(reason(&control_plane, "Available"), "Available", "{control_plane:#?}");

    // Two more join, one after the other, in the other failure domain first. The time of creation, by which Machines are
    // sorted, has a precision of a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"replicas": 3}})).await;
    let control_plane = process.settle().await;
    let machines = process.machines().await;
    assert_eq!(machines.len(), 2, "the third waits until the second is healthy");
    assert!(
        message(&control_plane, "ScalingUp").contains("nodeRef"),
        "{}",
        message(&control_plane, "ScalingUp")
    );
    let domains: Vec<_> = machines.iter().map(|it| it.spec.failure_domain.clone().unwrap()).collect();
    assert_eq!(domains, ["az1", "az2"]);
    let config = process.api::<KubeadmConfig>().get(&machines[1].name_any()).await.unwrap();
    assert!(config.spec.init_configuration.is_none());
    assert!(config.spec.join_configuration.is_some_and(|join| join.control_plane.is_some()));
    process.give_nodes().await;
    process.settle().await;
    process.give_nodes().await;
    let control_plane = process.settle().await;
    assert_eq!(process.machines().await.len(), 3);
    assert_eq!(reason(&control_plane, "ScalingUp"), "NotScalingUp");
    assert_eq!(reason(&control_plane, "MachinesUpToDate"), "UpToDate");
    assert_eq!(reason(&control_plane, "ControlPlaneComponentsHealthy"), "Healthy");

    in_place(&process).await;
    outdated(&process).await;
    deletion(&process).await;
}

/// Labels and timeouts reach the existing Machines, and leave them again.
async fn in_place(process: &Process) {
    let template = json!({"metadata": {"labels": {"team": null, "room": "b"}},
        "spec": {"deletion": {"nodeDrainTimeoutSeconds": 60}}});
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"machineTemplate": template}})).await;
    process.settle().await;
    for machine in process.machines().await {
        let drain = machine.spec.deletion.as_ref().and_then(|it| it.node_drain_timeout_seconds);
        assert_eq!(drain, Some(60));
        let config = process.api::<KubeadmConfig>().get(&machine.name_any()).await.unwrap();
        let infrastructure = process.api::<OpenStackMachine>().get(&machine.name_any()).await.unwrap();
        for labels in [machine.labels(), config.labels(), infrastructure.labels()] {
            let labels: BTreeMap<&str, &str> =
                labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!((labels.get("team"), labels.get("room")), (None, Some(&"b")), "{labels:?}");
            assert!(labels.contains_key("cluster.x-k8s.io/control-plane-name"), "{labels:?}");
        }
    }
}

/// A workload cluster that cannot be prepared stops the rollout, and the message names the object.
async fn outdated(process: &Process) {
    let before: Vec<String> = process.machines().await.iter().map(ResourceExt::name_any).collect();
    let path =
        "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/control-plane/kubeadmcontrolplanes/kcp/plan";
    let body = serde_json::to_vec(&json!({"spec": {"version": "v1.34.0"}})).unwrap();
    let request = http::Request::post(path).header("content-type", "application/json").body(body).unwrap();
    let plan: serde_json::Value = process.client.request(request).await.unwrap();
    let summary = json!({"keep": 0, "inPlace": 0, "replace": 3, "create": 0, "delete": 0});
    assert_eq!((&plan["summary"], &plan["obstacles"]), (&summary, &json!([])), "{plan:#}");
    assert_eq!(plan["machines"][0]["reasons"], json!(["Version v1.33.0, v1.34.0 required"]));
    assert_eq!(plan["steps"].as_array().unwrap().len(), 6);
    dry_run_of(process, path.trim_end_matches("/plan")).await;
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"version": "v1.34.0"}})).await;
    let control_plane = process.settle().await;
    let text = message(&control_plane, "RollingOut");
    assert!(text.contains("* Version v1.33.0, v1.34.0 required\n"), "{text}");
    assert!(
        text.contains("* Waiting: ConfigMap kube-system/kubeadm-config has no key ClusterConfiguration"),
        "{text}"
    );
    assert_eq!(reason(&control_plane, "MachinesUpToDate"), "NotUpToDate");
    let after: Vec<String> = process.machines().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(before, after);
}

/// A dry run of a version answers with the object and the plan, and stores nothing.
async fn dry_run_of(process: &Process, path: &str) {
    let api = process.api::<KubeadmControlPlane>();
    let before = api.get("kcp").await.unwrap().resource_version();
    let change = json!({"spec": {"version": "v1.34.0"}});
    let (object, warnings) = dry_run(&process.client, path, &change).await.unwrap();
    assert_eq!(object["kind"], "KubeadmControlPlane");
    assert_eq!(object["spec"]["version"], "v1.34.0");
    let replaced = "KubeadmControlPlane kcp: 3 Machines are replaced one after the other: * Version v1.33.0, v1.34.0 \
                    required";
    assert!(warnings.iter().any(|text| text == replaced), "{warnings:#?}");
    assert_eq!(api.get("kcp").await.unwrap().resource_version(), before);
    let label = json!({"metadata": {"labels": {"of-the-user": "yes"}}});
    let (_, warnings) = dry_run(&process.client, path, &label).await.unwrap();
    let is_of_plan = |text: &String| text.starts_with("KubeadmControlPlane kcp: ");
    assert!(!warnings.iter().any(is_of_plan), "no Machine changes: {warnings:#?}");
}

async fn deletion(process: &Process) {
    let api = process.api::<KubeadmControlPlane>();
    api.delete("kcp", &DeleteParams::default()).await.unwrap();
    process.settle().await;
    // Nothing else holds the Machines here: no controller of Machines runs.
    assert!(process.machines().await.is_empty());
    assert!(api.get_opt("kcp").await.unwrap().is_none());
}

/// Holds the Machines at their deletion, as the Machines' controller does with its finalizer.
async fn hold(process: &Process) {
    for machine in process.machines().await {
        let change = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        process.merge::<Machine>(&machine.name_any(), change).await;
    }
}

/// Returns the Machine that is being deleted.
async fn leaving(process: &Process) -> Machine {
    let mut machines = process.machines().await.into_iter();
    machines.find(|machine| machine.metadata.deletion_timestamp.is_some()).unwrap()
}

#[tokio::test]
async fn a_member_of_etcd_leaves_after_the_drain_and_never_as_the_leader() {
    let world = World::start().await.unwrap();
    let external =
        MANIFEST.find("    clusterConfiguration:").unwrap()..MANIFEST.find("    initConf").unwrap();
    let secrets = MANIFEST.find("apiVersion: v1\nkind: Secret").unwrap()
        ..MANIFEST.find("apiVersion: infrastructure").unwrap();
    let manifest = MANIFEST.replace(&MANIFEST[external], "").replace(&MANIFEST[secrets], "");
    let process = provisioned(&world, &manifest.replace("replicas: 1", "replicas: 3")).await;
    for index in 0..3 {
        process.settle().await;
        process.give_nodes().await;
        process.members.add(&format!("node-{index}"));
        // The time of creation has a precision of a second, and the order of the Machines matters here.
        tokio::time::sleep(Duration::from_millis(1100)).await;
        let control_plane = available(&process).await;
        assert_eq!(reason(&control_plane, "EtcdClusterHealthy"), "Healthy", "{control_plane:#?}");
    }
    assert_eq!(process.machines().await.len(), 3);
    hold(&process).await;
    process.merge::<KubeadmControlPlane>("kcp", json!({"spec": {"replicas": 1}})).await;
    let control_plane = process.settle().await;
    let machine = leaving(&process).await;
    let node = machine.status.as_ref().unwrap().node_ref.as_ref().unwrap().name.clone();
    assert_eq!(node, "node-0", "the oldest of the fullest failure domain");
    assert_ne!(process.members.names()[0], node, "the leadership was handed over before the deletion");
    let text = message(&control_plane, "ScalingDown");
    assert!(text.contains("to be drained"), "{text}");
    assert_eq!(process.members.names().len(), 3, "the member stays until the drain is over");

    let drained = json!([{"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
        "message": "", "lastTransitionTime": "2026-11-26T00:00:00Z"}]);
    process.merge_status::<Machine>(&machine.name_any(), json!({"conditions": drained})).await;
    // The API server of the Machine ends with its member, and clients may reach no other one.
    process.members.overtake(process.api(), &machine.name_any());
    process.settle().await;
    assert!(!process.members.names().contains(&node));
    let hook = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
    assert!(!leaving(&process).await.annotations().contains_key(hook));
    process.members.respond();
    assert_eq!(process.machines().await.len(), 3, "one Machine leaves at a time");
    process.merge::<Machine>(&machine.name_any(), json!({"metadata": {"finalizers": []}})).await;
    process.settle().await;
    assert_eq!(process.machines().await.len(), 2);
    assert_ne!(leaving(&process).await.name_any(), machine.name_any(), "the next one leaves");
}

#[tokio::test]
async fn the_controllers_permissions_suffice_for_a_life_of_a_control_plane() {
    let world = World::start().await.unwrap();
    world.create(MANIFEST).await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let process = Process::start(&world);
    own(&process).await;
    let status = json!({"initialization": {"infrastructureProvisioned": true}});
    process.merge_status::<Cluster>("c", status).await;
    let mut control_plane = KubeadmControlPlane::default();
    for _ in 0..200 {
        control_plane = process.api::<KubeadmControlPlane>().get("kcp").await.unwrap();
        let labelled =
            process.api::<KubeadmConfig>().list(&ListParams::default().labels("team=a")).await.unwrap();
        if !labelled.items.is_empty()
            && control_plane.status.as_ref().is_some_and(|it| it.replicas == Some(1))
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let machines = process.machines().await;
    let [machine] = machines.as_slice() else { panic!("{machines:?}\n{control_plane:#?}") };
    let kinds = ["APIServerPodHealthy", "UpToDate"].map(|kind| machine.condition(kind).is_some());
    assert_eq!(kinds, [true, true], "{machine:#?}");
    process.api::<KubeadmControlPlane>().delete("kcp", &DeleteParams::default()).await.unwrap();
    for _ in 0..200 {
        if process.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap().is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let left = process.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap();
    assert!(left.is_none() && process.machines().await.is_empty(), "{left:#?}");
    term.cancel();
    drop(running);
}
