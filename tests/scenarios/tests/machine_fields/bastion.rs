//! Life of a bastion: it is disabled, made again with another flavor, and gets its first flavor back.

use apiserver_types::OpenStackCluster;

use super::*;

const NAMESPACE: &str = "bastion";

/// Name of the server.
const BASTION: &str = "c-bastion";

/// Returns id and flavor of the bastion's server.
fn server(world: &World) -> Option<(String, String)> {
    let inventory = world.cloud.inventory("demo");
    let server = inventory.servers.iter().find(|it| it.name == BASTION)?;
    Some((server.id.clone(), inventory.flavors[&server.id].clone()))
}

async fn change(world: &World, bastion: Value) {
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let change = Patch::Merge(json!({"spec": {"bastion": bastion}}));
    clusters.patch("c", &PatchParams::default(), &change).await.unwrap();
}

fn with_flavor(flavor: &str) -> Value {
    json!({"enabled": true, "spec": {"flavor": {"filter": {"name": flavor}}, "sshKeyName": "default",
        "image": {"filter": {"name": "cirros"}}}})
}

/// Waits until the bastion is ready on a server with this flavor, and has an address of its own. Returns the id.
async fn ready(world: &World, flavor: &str) -> String {
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    eventually(&format!("a bastion with {flavor} is ready"), || async {
        let cluster = clusters.get("c").await.unwrap();
        let is_ready = cluster.condition("BastionReady").is_some_and(apiserver_types::Condition::holds);
        let shown = cluster.status?.bastion.filter(|_| is_ready)?;
        let (id, found) = server(world)?;
        (found == flavor && shown.id.as_ref() == Some(&id) && shown.floating_ip.is_some()).then_some(id)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bastion_is_disabled_made_again_with_another_flavor_and_changed_back() {
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    change(&world, with_flavor("m1.tiny")).await;
    let first = ready(&world, "m1.tiny").await;
    let addresses = world.cloud.inventory("demo").floating_ips.len();

    change(&world, json!({"enabled": false})).await;
    eventually("the bastion is gone with its address", || async {
        let left = world.cloud.inventory("demo");
        let has_port = left.ports.iter().any(|port| port.name.starts_with(BASTION));
        (server(&world).is_none() && !has_port && left.floating_ips.len() == addresses - 1).then_some(())
    })
    .await;
    change(&world, with_flavor("m1.small")).await;
    let second = ready(&world, "m1.small").await;
    // A live bastion is replaced, too.
    change(&world, with_flavor("m1.tiny")).await;
    let third = ready(&world, "m1.tiny").await;
    assert!(first != second && second != third, "each flavor has a server of its own");
    assert_eq!(world.cloud.inventory("demo").floating_ips.len(), addresses);
    term.cancel();
    running.join_all().await;
}
