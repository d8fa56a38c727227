//! Adoption of a control plane that was made by hand, as upstream's `kcp_adoption` does it.

use apiserver_types::{Cluster, KubeadmControlPlane, Machine, MachinePhase};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::manifest;
use super::observer::Observer;

const NAMESPACE: &str = "adopted";

/// Machine of the control plane, with its infrastructure and its configuration.
const BY_HAND: &str = include_str!("by_hand.yaml");

/// Line of the Cluster that names its control plane.
const REFERENCE: &str = "  controlPlaneRef: {apiGroup: controlplane.cluster.x-k8s.io, kind: KubeadmControlPlane, name: \
                         blue-control-plane}\n";

/// Authorities of a cluster, by the ends of the names of their Secrets.
const AUTHORITIES: [&str; 4] = ["ca", "etcd", "proxy", "sa"];

async fn until_running(machines: &Api<Machine>) -> Machine {
    let mut looks = Looks::begin();
    loop {
        let machine = machines.get("by-hand").await.unwrap();
        let status = machine.status.clone().unwrap_or_default();
        if status.phase == Some(MachinePhase::Running) {
            return machine;
        }
        looks.again(&format!("Machine by-hand is {:?}: {:#?}", status.phase, status.conditions)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kcp_adoption_takes_machine_and_authorities_over_and_replaces_nothing() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let documents = manifest(&world, NAMESPACE);
    let (control_plane, rest): (Vec<&str>, Vec<&str>) =
        documents.split("---\n").partition(|it| it.contains("kind: KubeadmControlPlane\nmetadata"));
    let rest = rest.join("---\n");
    assert!(rest.contains(REFERENCE));
    world.create(&rest.replace(REFERENCE, "")).await.unwrap();
    world.create(&BY_HAND.replace("NAMESPACE", NAMESPACE)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    let machines: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = until_running(&machines).await;
    assert!(before.owner_references().iter().all(|owner| owner.controller != Some(true)));
    let secrets: Api<Secret> = Api::namespaced(world.admin(), NAMESPACE);
    let mut authorities = Vec::new();
    for name in AUTHORITIES {
        let secret = secrets.get(&format!("blue-{name}")).await.unwrap();
        assert_eq!(secret.owner_references()[0].kind, "KubeadmConfig", "{name}");
        authorities.push(secret);
    }

    world.create(control_plane[0]).await.unwrap();
    let reference = json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
        "name": "blue-control-plane"});
    let change = Patch::Merge(json!({"spec": {"controlPlaneRef": reference}}));
    let clusters: Api<Cluster> = observer.clusters();
    clusters.patch("blue", &PatchParams::default(), &change).await.unwrap();
    observer.until_available(1, 1).await;
    let after = machines.get("by-hand").await.unwrap();
    assert_eq!((after.uid(), &after.spec.provider_id), (before.uid(), &before.spec.provider_id));
    let control_planes: Api<KubeadmControlPlane> = Api::namespaced(world.admin(), NAMESPACE);
    let control_plane = control_planes.get("blue-control-plane").await.unwrap();
    let owner = after.owner_references().iter().find(|it| it.controller == Some(true)).unwrap();
    assert_eq!(Some(&owner.uid), control_plane.uid().as_ref());
    assert_eq!(control_plane.status.unwrap().up_to_date_replicas, Some(1));
    for old in authorities {
        let new = secrets.get(&old.name_any()).await.unwrap();
        assert_eq!((new.uid(), &new.data), (old.uid(), &old.data));
        let owners: Vec<_> = new.owner_references().iter().map(|it| Some(it.uid.clone())).collect();
        assert_eq!(owners, std::slice::from_ref(&control_plane.metadata.uid), "{}", new.name_any());
    }
    let all = machines.list(&ListParams::default()).await.unwrap();
    assert_eq!(all.items.len(), 2, "a Machine is new");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
