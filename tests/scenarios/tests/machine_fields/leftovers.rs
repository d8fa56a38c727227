//! Tests of resources that the workload cluster made, and of a bastion whose credentials change.

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_infrastructure::{Cloud, NewVolume};
use k8s_openapi::api::core::v1::Event;

use super::*;

/// Creates a volume as the Cinder CSI driver does, for this claim.
async fn csi_volume(cloud: &dyn Cloud, claim: &str) -> String {
    let of = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let new = NewVolume {
        name: format!("pvc-{claim}"),
        description: "Created by OpenStack Cinder CSI driver".to_owned(),
        size_gib: 3,
        metadata: [
            of("cinder.csi.openstack.org/cluster", "kubernetes"),
            of("csi.storage.k8s.io/pvc/namespace", "default"),
            of("csi.storage.k8s.io/pvc/name", claim),
        ]
        .into(),
        ..NewVolume::default()
    };
    let volume = cloud.create_volume(&new).await.unwrap();
    eventually("the volume is available", || async {
        (cloud.volume(&volume.id).await.unwrap().status == "available").then_some(())
    })
    .await;
    volume.id
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_3_volumes_of_claims_stay_and_are_named_unless_the_user_has_them_deleted() {
    const NAMESPACE: &str = "claims";
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let cloud = world.project().await.unwrap();
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let server = eventually("the machine runs", || async {
        let object = machines.get("m").await.unwrap();
        let ready = object.condition("Ready").is_some_and(apiserver_types::Condition::holds);
        object.status.filter(|_| ready)?.instance_id
    })
    .await;
    let mut volumes = Vec::new();
    for claim in ["kept", "deleted", "elsewhere"] {
        volumes.push(csi_volume(cloud.as_ref(), claim).await);
    }
    for volume in &volumes[..2] {
        assert!(world.cloud.attach_volume(volume, &server));
    }
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let mut round = 0;
    eventually("the volumes are noted", || {
        round += 1;
        // A change of an object makes its pass due; that of the machine lists the servers again.
        let touch = Patch::Merge(json!({"metadata": {"annotations": {"round": round.to_string()}}}));
        let (machines, clusters, volumes) = (&machines, &clusters, &volumes);
        async move {
            machines.patch("m", &PatchParams::default(), &touch).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            let cluster = clusters.patch("c", &PatchParams::default(), &touch).await.unwrap();
            let noted = cluster.annotations().get("capstan.dev/workload")?;
            volumes[..2].iter().all(|id| noted.contains(id)).then_some(())
        }
    })
    .await;
    assert!(world.cloud.take_snapshot(&volumes[1]));
    let wish = json!({"metadata": {"annotations": {"capstan.dev/delete-volumes": volumes[1]}}});
    clusters.patch("c", &PatchParams::default(), &Patch::Merge(&wish)).await.unwrap();
    let owners: Api<Cluster> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("c", &DeleteParams::background()).await.unwrap();
    eventually("the cluster is gone", || async {
        owners.get_opt("c").await.unwrap().is_none().then_some(())
    })
    .await;
    let left = world.cloud.inventory("demo");
    let mut names: Vec<&str> = left.volumes.iter().map(|volume| volume.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["pvc-elsewhere", "pvc-kept"]);
    assert!(left.snapshots.is_empty() && left.networks.is_empty(), "{left:#?}");

    let events: Api<Event> = Api::namespaced(world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    let of = |reason: &str| {
        let found = events.iter().find(|event| event.reason.as_deref() == Some(reason));
        found.and_then(|event| event.message.clone()).unwrap_or_default()
    };
    let kept = format!("pvc-kept ({}, 3 GiB, claim default/kept)", volumes[0]);
    let plan = of("DeletionPlanned");
    assert!(plan.contains(&kept) && plan.contains("network k8s-clusterapi-cluster-claims-c"), "{plan}");
    let found = of("LeftoversFound");
    // This Event outlives the object, so it names no annotation of it.
    assert!(found.contains(&kept) && found.contains("Delete them in the cloud"), "{found}");
    assert!(!found.contains("pvc-elsewhere"), "{found}");
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bastion_follows_the_credentials_of_its_cluster_and_keeps_its_server() {
    const NAMESPACE: &str = "rotated";
    let world = world(NAMESPACE, &[]).await;
    let clouds = world.cloud.clouds_yaml("demo");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "rotated", "namespace": NAMESPACE},
        "stringData": {"clouds.yaml": clouds},
    });
    world.create(&secret.to_string()).await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let servers: Api<OpenStackServer> = Api::namespaced(world.admin(), NAMESPACE);
    let patch = async |change: Value| {
        clusters.patch("c", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    };
    let mut spec = plain();
    spec["sshKeyName"] = json!("default");
    patch(json!({"spec": {"bastion": {"enabled": true, "spec": spec}}})).await;
    let is_ready = async || {
        let cluster = clusters.get("c").await.unwrap();
        cluster.condition("BastionReady").is_some_and(apiserver_types::Condition::holds)
    };
    let server = eventually("the bastion is ready", || async {
        let server = servers.get_opt("c-bastion").await.unwrap()?;
        server.status?.instance_id.filter(|id| !id.is_empty())
    })
    .await;
    eventually("the bastion has its address", || async { is_ready().await.then_some(()) }).await;
    patch(json!({"spec": {"identityRef": {"name": "rotated"}}})).await;
    eventually("the bastion has the new credentials", || async {
        (servers.get("c-bastion").await.unwrap().spec.identity_ref.name == "rotated").then_some(())
    })
    .await;
    eventually("the bastion is ready again", || async {
        let same = servers.get("c-bastion").await.unwrap().status?.instance_id? == server;
        (same && is_ready().await).then_some(())
    })
    .await;
    patch(json!({"spec": {"bastion": {"enabled": false}}})).await;
    eventually("the bastion is gone", || async {
        let left = world.cloud.inventory("demo");
        let any = left.servers.iter().any(|it| it.id == server);
        (!any && servers.get_opt("c-bastion").await.unwrap().is_none()).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_7_a_deleted_server_that_nova_keeps_is_purged_because_it_holds_volumes() {
    const NAMESPACE: &str = "kept";
    let world = world(NAMESPACE, &[]).await;
    world.cloud.keep_deleted_servers();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the machine runs", || async {
        let object = machines.get("m").await.unwrap();
        object.condition("Ready").is_some_and(apiserver_types::Condition::holds).then_some(())
    })
    .await;
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("m", &DeleteParams::default()).await.unwrap();
    eventually("the machine is gone with its volumes and ports", || async {
        let gone = machines.get_opt("m").await.unwrap().is_none();
        let left = world.cloud.inventory("demo");
        let ports = left.ports.iter().any(|port| port.name.starts_with("m-"));
        (gone && left.servers.is_empty() && left.volumes.is_empty() && !ports).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}
