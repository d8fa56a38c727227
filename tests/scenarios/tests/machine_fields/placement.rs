//! Placement of machines: the zones of servers and volumes, and the ports on several networks, as the cloud shows them.

use std::collections::BTreeMap;

use controllers_infrastructure::{NewNetwork, NewSubnet, PortQuery};

use super::*;

async fn ready(world: &World, namespace: &str, name: &str) -> String {
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), namespace);
    eventually(&format!("{name} is ready"), || async {
        let machine = machines.get(name).await.unwrap();
        let is_ready = machine.condition("Ready").is_some_and(apiserver_types::Condition::holds);
        machine.status.filter(|_| is_ready)?.instance_id
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_volumes_are_in_the_zones_of_their_machines_as_the_cloud_shows_them() {
    const NAMESPACE: &str = "zones";
    let mut documents = Vec::new();
    for (name, zone) in [("east", "az1"), ("west", "az2")] {
        let mut spec = plain();
        spec["rootVolume"] = json!({"sizeGiB": 5, "availabilityZone": {"from": "Machine"}});
        let named = json!({"from": "Name", "name": "az2"});
        let storage = json!({"type": "Volume", "volume": {"availabilityZone": named}});
        spec["additionalBlockDevices"] = json!([{"name": "data", "sizeGiB": 1, "storage": storage}]);
        let [object, mut owner] = machine(NAMESPACE, name, &spec);
        owner["spec"]["failureDomain"] = json!(zone);
        documents.extend([object, owner]);
    }
    let world = world(NAMESPACE, &documents).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    for (name, zone) in [("east", "az1"), ("west", "az2")] {
        let id = ready(&world, NAMESPACE, name).await;
        let inventory = world.cloud.inventory("demo");
        assert_eq!(inventory.zones[&id], zone, "the server of {name}");
        for (volume, expected) in [("root", zone), ("data", "az2")] {
            let volume = format!("{name}-{volume}");
            let found = inventory.volumes.iter().find(|it| it.name == volume).unwrap();
            assert_eq!(inventory.zones[&found.id], expected, "{volume}");
        }
    }
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_on_two_more_networks_has_one_port_on_each() {
    const NAMESPACE: &str = "networks";
    let world = world(NAMESPACE, &[]).await;
    let cloud = world.project().await.unwrap();
    let mut ports = vec![json!({})];
    let mut expected = BTreeMap::new();
    for (number, name) in ["storage", "backup"].into_iter().enumerate() {
        let new = NewNetwork { name: name.to_owned(), ..NewNetwork::default() };
        let id = cloud.create_network(&new).await.unwrap().id;
        let (name, cidr) = (name.to_owned(), format!("10.20.{number}.0/24"));
        let subnet = NewSubnet { name, network_id: id.clone(), cidr, ..NewSubnet::default() };
        cloud.create_subnet(&subnet).await.unwrap();
        ports.push(json!({"network": {"id": id}}));
        expected.insert(id, 1);
    }
    let mut spec = plain();
    spec["ports"] = json!(ports);
    for document in machine(NAMESPACE, "wired", &spec) {
        world.create(&document.to_string()).await.unwrap();
    }
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let server = ready(&world, NAMESPACE, "wired").await;
    let all = cloud.ports(&PortQuery::default()).await.unwrap();
    let own: Vec<_> = all.into_iter().filter(|port| port.name.starts_with("wired-")).collect();
    let mut names: Vec<&str> = own.iter().map(|port| port.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["wired-0", "wired-1", "wired-2"]);
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    own.iter().for_each(|port| *found.entry(port.network_id.clone()).or_default() += 1);
    let of_cluster: Vec<String> = found.keys().filter(|id| !expected.contains_key(*id)).cloned().collect();
    assert_eq!(of_cluster.len(), 1, "the first port is on the network of the cluster");
    expected.extend(of_cluster.into_iter().map(|id| (id, 1)));
    assert_eq!(found, expected);
    let addresses = cloud.server(&server).await.unwrap().addresses;
    let networks: std::collections::BTreeSet<_> = addresses.iter().map(|it| it.network.as_str()).collect();
    assert_eq!(networks.len(), 3, "{addresses:?}");
    term.cancel();
    running.join_all().await;
}
