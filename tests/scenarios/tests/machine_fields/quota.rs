//! Tests of quotas: they are read before anything is created, and waiting objects go on when there is room.

use apiserver_types::{Cluster, OpenStackCluster};

use super::*;

/// Returns the paths of calls that create something.
fn creations(world: &World) -> Vec<String> {
    let calls = world.cloud.log().into_iter();
    let creating = calls.filter(|call| call.method == "POST" && !call.path.ends_with("/auth/tokens"));
    creating.filter(|call| call.action.is_none()).map(|call| call.path).collect()
}

async fn is_running(machines: &Api<OpenStackMachine>, name: &str) -> bool {
    let machine = machines.get(name).await.unwrap();
    machine.condition("InstanceReady").is_some_and(apiserver_types::Condition::holds)
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_1_machines_without_quota_create_nothing_and_run_when_the_quota_is_raised() {
    const NAMESPACE: &str = "quota";
    let world = world(NAMESPACE, &[]).await;
    assert!(world.cloud.set_quota("demo", "instances", 1));
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the first machine runs", || async { is_running(&machines, "m").await.then_some(()) }).await;
    // One server exists, and one more fits.
    assert!(world.cloud.set_quota("demo", "instances", 2));
    for document in ["a", "b"].iter().flat_map(|name| machine(NAMESPACE, name, &plain())) {
        world.create(&document.to_string()).await.unwrap();
    }
    let waiting = eventually("one machine runs, and the other one waits", || async {
        for (one, other) in [("a", "b"), ("b", "a")] {
            let waits = machines.get(other).await.unwrap();
            let waits = waits.condition("InstanceReady").cloned();
            let waits =
                waits.filter(|it| it.reason == "QuotaExceeded" && it.message.contains("Raise the quota"));
            if let Some(waits) = waits
                && is_running(&machines, one).await
            {
                return Some((other, waits.message));
            }
        }
        None
    })
    .await;
    let (name, message) = waiting;
    let expected = format!(
        "create server {name:?}: the server needs 1 instances, 0 left of 2 (project quota \"instances\")"
    );
    assert!(message.starts_with(&expected) && message.contains("Raise the quota"), "{message}");
    let journal = machines.get(name).await.unwrap().annotations().get("capstan.dev/journal").cloned();
    assert_eq!(journal, None);
    let has_part = |item: &tests_openstack_simulator::InventoryItem| item.name.starts_with(name);
    assert!(!world.cloud.inventory("demo").ports.iter().any(has_part));

    world.cloud.clear_log();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(creations(&world), Vec::<String>::new());
    assert!(world.cloud.set_quota("demo", "instances", 3));
    eventually("the other machine runs", || async { is_running(&machines, name).await.then_some(()) }).await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_3_a_machine_takes_the_quota_of_a_deleted_one() {
    const NAMESPACE: &str = "freed";
    let world = world(NAMESPACE, &[]).await;
    assert!(world.cloud.set_quota("demo", "cores", 1));
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the first machine runs", || async { is_running(&machines, "m").await.then_some(()) }).await;
    for document in machine(NAMESPACE, "heir", &plain()) {
        world.create(&document.to_string()).await.unwrap();
    }
    eventually("the second machine waits", || async {
        let waits = machines.get("heir").await.unwrap();
        waits.condition("InstanceReady").filter(|it| it.message.contains("0 left of 1")).map(|_| ())
    })
    .await;
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("m", &DeleteParams::default()).await.unwrap();
    eventually("the second machine runs", || async { is_running(&machines, "heir").await.then_some(()) })
        .await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_without_quota_for_its_floating_ip_claims_none() {
    const NAMESPACE: &str = "floating";
    let world = world(NAMESPACE, &[pool(NAMESPACE, 1)]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the first machine runs", || async { is_running(&machines, "m").await.then_some(()) }).await;
    let used = i64::try_from(world.cloud.inventory("demo").floating_ips.len()).unwrap();
    assert!(world.cloud.set_quota("demo", "floatingip", used));
    // The controller uses a reading of the quota for ten seconds.
    tokio::time::sleep(Duration::from_secs(11)).await;
    let mut spec = plain();
    spec["floatingIPPoolRef"] = json!({"kind": "OpenStackFloatingIPPool", "name": "pool"});
    for document in machine(NAMESPACE, "reached", &spec) {
        world.create(&document.to_string()).await.unwrap();
    }
    eventually("the machine waits for quota", || async {
        let machine = machines.get("reached").await.unwrap();
        let condition = machine.condition("InstanceReady").filter(|it| it.reason == "QuotaExceeded");
        condition
            .filter(|it| it.message.contains("spec.floatingIPPoolRef needs 1 floatingip, 0 left"))
            .map(|_| ())
    })
    .await;
    let claims: Api<IPAddressClaim> = Api::namespaced(world.admin(), NAMESPACE);
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 0);
    assert!(world.cloud.set_quota("demo", "floatingip", used + 1));
    eventually("the machine has its floating IP", || async {
        let machine = machines.get("reached").await.unwrap();
        machine.condition("FloatingAddressFromPoolReady").filter(|it| it.holds()).map(|_| ())
    })
    .await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_quota_creates_nothing_and_is_provisioned_when_the_quota_is_raised() {
    const NAMESPACE: &str = "full";
    let world = world(NAMESPACE, &[]).await;
    let networks = world.cloud.inventory("demo").networks.len();
    assert!(world.cloud.set_quota("demo", "security_group", 0));
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let message = eventually("the cluster waits", || async {
        let cluster = clusters.get("c").await.unwrap();
        let condition = cluster.condition("NetworkReady").cloned();
        condition.filter(|it| it.reason == "QuotaExceeded").map(|it| it.message)
    })
    .await;
    let expected = "spec.managedSecurityGroups needs 2 security_group, 0 left of 0";
    assert!(message.contains(expected), "{message}");
    assert_eq!(creations(&world), Vec::<String>::new());
    assert_eq!(world.cloud.inventory("demo").networks.len(), networks);
    assert!(world.cloud.set_quota("demo", "security_group", -1));
    let owners: Api<Cluster> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the cluster is provisioned", || async {
        let status = owners.get("c").await.unwrap().status?;
        status.initialization?.infrastructure_provisioned.filter(|it| *it)
    })
    .await;
    term.cancel();
    running.join_all().await;
}
