//! Tests of servers that cannot be built, and of what a machine leaves.

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_infrastructure::{Cloud, NetworkQuery, NewVolume, PortQuery, TaggedKind};
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};

use super::*;

/// Returns the number of calls that created something at this path.
fn created(world: &World, path: &str) -> usize {
    let log = world.cloud.log().into_iter();
    log.filter(|call| call.method == "POST" && call.path.ends_with(path) && call.status < 300).count()
}

async fn is_ready(machines: &Api<OpenStackMachine>, name: &str) -> Option<OpenStackMachine> {
    let machine = machines.get(name).await.unwrap();
    machine.condition("Ready").is_some_and(apiserver_types::Condition::holds).then_some(machine)
}

/// Returns the tags of the network, the ports, the server and the volumes of the machine `m`.
async fn tags(cloud: &dyn Cloud, namespace: &str) -> Vec<Vec<String>> {
    let name = format!("k8s-clusterapi-cluster-{namespace}-c");
    let query = NetworkQuery { name: Some(name), ..NetworkQuery::default() };
    let networks = cloud.networks(&query).await.unwrap().into_iter().map(|it| it.tags);
    let ports = cloud.ports(&PortQuery::default()).await.unwrap();
    let ports = ports.into_iter().filter(|port| port.name.starts_with("m-")).map(|port| port.tags);
    let servers = cloud.servers_named("m").await.unwrap().into_iter().map(|it| it.tags);
    let volumes = cloud.volumes().await.unwrap().into_iter().map(|volume| {
        let owner = volume.metadata.get("capstan").cloned();
        let tags = volume.metadata.get("tags").cloned().unwrap_or_default();
        tags.split(',').map(str::to_owned).chain(owner).collect()
    });
    networks.chain(ports).chain(servers).chain(volumes).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_1_a_server_that_cannot_be_built_is_given_up_after_three_attempts() {
    const NAMESPACE: &str = "impossible";
    let mut spec = plain();
    spec["flavor"] = json!({"filter": {"name": "x1.impossible"}});
    let [object, owner] = machine(NAMESPACE, "big", &spec);
    let world = world(NAMESPACE, &[object, owner]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let message = eventually("the server is given up", || async {
        let machine = machines.get("big").await.unwrap();
        let found = machine.condition("InstanceReady").cloned()?;
        (found.reason == "NoCapacity" && found.message.contains("after 3 attempts")).then_some(found.message)
    })
    .await;
    assert!(message.contains("No valid host was found"), "{message}");
    let servers = |world: &World| {
        let all = world.cloud.inventory("demo").servers;
        all.into_iter().filter(|it| it.name == "big").map(|it| it.id).collect::<Vec<_>>()
    };
    let kept = servers(&world);
    assert_eq!(kept.len(), 1, "the last one stays, so that its fault can be read");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(servers(&world), kept);
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("big", &DeleteParams::default()).await.unwrap();
    eventually("the machine is gone with its server", || async {
        let gone = machines.get_opt("big").await.unwrap().is_none();
        (gone && servers(&world).is_empty()).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_2_the_ports_of_a_refused_server_are_kept_for_the_next_attempt() {
    const NAMESPACE: &str = "refused";
    let [object, owner] = machine(NAMESPACE, "late", &plain());
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the first machine runs", || is_ready(&machines, "m")).await;
    let words = "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances";
    world.cloud.inject(InjectedFault {
        service: Some(CloudService::Compute),
        method: Some("POST".to_owned()),
        path: Some("/servers".to_owned()),
        count: Some(1),
        ..InjectedFault::new(FaultEffect::Status {
            code: 403,
            body: json!({"forbidden": {"code": 403, "message": words}}).to_string(),
            content_type: None,
            retry_after: None,
        })
    });
    world.cloud.clear_log();
    for document in [object, owner] {
        world.create(&document.to_string()).await.unwrap();
    }
    let message = eventually("the refusal is reported", || async {
        let machine = machines.get("late").await.unwrap();
        machine.condition("InstanceReady").map(|it| it.message.clone()).filter(|it| it.contains(words))
    })
    .await;
    assert!(message.contains("Raise the quota"), "{message}");
    eventually("the machine runs", || is_ready(&machines, "late")).await;
    assert_eq!((created(&world, "/ports"), created(&world, "/servers")), (1, 1));
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_3_a_volume_without_its_server_is_deleted_and_one_of_another_owner_is_not() {
    const NAMESPACE: &str = "volumes";
    let world = world(NAMESPACE, &[]).await;
    let cloud = world.project().await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let machine = eventually("the machine runs", || is_ready(&machines, "m")).await;
    let server = machine.status.unwrap().instance_id.unwrap();
    // The CSI driver of the workload cluster has attached one, and one is like ours.
    let mut foreign = Vec::new();
    for name in ["pvc-1", "m-etcd"] {
        let new = NewVolume { name: name.to_owned(), size_gib: 1, ..NewVolume::default() };
        foreign.push(cloud.create_volume(&new).await.unwrap().id);
    }
    eventually("the volume is attached", || async {
        (cloud.volume(&foreign[0]).await.unwrap().status == "available"
            && world.cloud.attach_volume(&foreign[0], &server))
        .then_some(())
    })
    .await;
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("m", &DeleteParams::default()).await.unwrap();
    eventually("the machine is gone", || async {
        machines.get_opt("m").await.unwrap().is_none().then_some(())
    })
    .await;
    let mut left: Vec<String> = world.cloud.inventory("demo").volumes.into_iter().map(|it| it.id).collect();
    left.sort();
    foreign.sort();
    assert_eq!(left, foreign);
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r16_2_tags_that_leave_the_spec_leave_the_cloud_and_those_of_others_stay() {
    const NAMESPACE: &str = "tags";
    let world = world(NAMESPACE, &[]).await;
    let cloud = world.project().await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the machine runs", || is_ready(&machines, "m")).await;
    let before = tags(cloud.as_ref(), NAMESPACE).await;
    assert!(before.len() == 6 && before.iter().all(|tags| tags.contains(&"team-a".to_owned())), "{before:?}");
    let network = clusters.get("c").await.unwrap().status.unwrap().network.unwrap().id;
    let theirs: Vec<String> = before[0].iter().cloned().chain(["theirs".to_owned()]).collect();
    cloud.set_tags(TaggedKind::Network, &network, &theirs).await.unwrap();
    let change = Patch::Merge(json!({"spec": {"tags": ["team-b"]}}));
    clusters.patch("c", &PatchParams::default(), &change).await.unwrap();
    // A machine that is complete looks again after a while, or when it is changed.
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"looked": "at"}}}));
    machines.patch("m", &PatchParams::default(), &touch).await.unwrap();
    let after = eventually("everything has the new tag", || async {
        let tags = tags(cloud.as_ref(), NAMESPACE).await;
        let is_new =
            |tags: &Vec<String>| tags.contains(&"team-b".to_owned()) && !tags.contains(&"team-a".to_owned());
        tags.iter().all(is_new).then_some(tags)
    })
    .await;
    assert!(after[0].contains(&"theirs".to_owned()), "{after:?}");
    assert!(after.iter().all(|tags| tags.iter().any(|tag| tag.starts_with("capstan-"))), "{after:?}");
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_1_what_a_machine_left_goes_with_its_cluster() {
    const NAMESPACE: &str = "orphans";
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the machine runs", || is_ready(&machines, "m")).await;
    term.cancel();
    running.join_all().await;
    // A person removes the finalizers while no controller runs.
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    machines.patch("m", &PatchParams::default(), &bare).await.unwrap();
    machines.delete("m", &DeleteParams::default()).await.unwrap();
    owners.patch("m", &PatchParams::default(), &bare).await.unwrap();
    owners.delete("m", &DeleteParams::default()).await.unwrap();
    assert!(machines.get_opt("m").await.unwrap().is_none());
    let left = world.cloud.inventory("demo");
    assert!(!left.servers.is_empty() && !left.volumes.is_empty() && !left.ports.is_empty(), "{left:#?}");
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let clusters: Api<Cluster> = Api::namespaced(world.admin(), NAMESPACE);
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
    eventually("the cluster is gone", || async {
        clusters.get_opt("c").await.unwrap().is_none().then_some(())
    })
    .await;
    let left = world.cloud.inventory("demo");
    assert!(left.is_empty(), "{left:#?}");
    term.cancel();
    running.join_all().await;
}
