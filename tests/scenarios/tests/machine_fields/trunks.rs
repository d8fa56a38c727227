//! Machine on the trunk of a custom port, to which a CNI plugin adds ports of its own.

use controllers_infrastructure::{Cloud, NetworkQuery, NewPort, Port, PortQuery, TrunkQuery};

use super::*;

const NAMESPACE: &str = "trunks";

/// Name of the security group that another owner made.
const GROUP: &str = "made-by-hand";

async fn port(cloud: &dyn Cloud, name: &str) -> Option<Port> {
    let query = PortQuery { name: Some(name.to_owned()), ..PortQuery::default() };
    cloud.ports(&query).await.unwrap().into_iter().next()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subport_on_the_network_of_the_cluster_goes_with_its_machine_and_another_one_stays() {
    let world = world(NAMESPACE, &[]).await;
    let cloud = world.project().await.unwrap();
    let group = cloud.create_security_group(GROUP, "").await.unwrap().id;
    let mut spec = plain();
    spec["trunk"] = json!(true);
    spec["ports"] = json!([{
        "description": "of the workers", "tags": ["fast"], "securityGroups": [{"filter": {"name": GROUP}}],
    }]);
    for document in machine(NAMESPACE, "carrier", &spec) {
        world.create(&document.to_string()).await.unwrap();
    }
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the machine runs", || async {
        let machine = machines.get("carrier").await.unwrap();
        machine.condition("Ready").is_some_and(apiserver_types::Condition::holds).then_some(())
    })
    .await;
    let parent = port(cloud.as_ref(), "carrier-0").await.unwrap();
    assert_eq!((parent.description.as_str(), &parent.security_groups), ("of the workers", &vec![group]));
    assert!(parent.tags.contains(&"fast".to_owned()), "{parent:?}");
    let trunk = cloud.trunks(&TrunkQuery::default()).await.unwrap().remove(0);
    assert_eq!(trunk.port_id, parent.id);

    let private = NetworkQuery { name: Some("private".to_owned()), ..NetworkQuery::default() };
    let private = cloud.networks(&private).await.unwrap().remove(0).id;
    for (name, network_id) in [("pods", parent.network_id.clone()), ("elsewhere", private)] {
        let new = NewPort { name: name.to_owned(), network_id, ..NewPort::default() };
        let subport = cloud.create_port(&new).await.unwrap().id;
        assert!(world.cloud.add_subport(&trunk.id, &subport));
    }
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("carrier", &DeleteParams::default()).await.unwrap();
    eventually("the machine is gone", || async {
        machines.get_opt("carrier").await.unwrap().is_none().then_some(())
    })
    .await;
    let left = world.cloud.inventory("demo");
    assert!(left.trunks.is_empty() && !left.servers.iter().any(|it| it.name == "carrier"), "{left:#?}");
    for name in ["carrier-0", "pods"] {
        assert_eq!(port(cloud.as_ref(), name).await, None, "{name} was made for the machine");
    }
    let kept = port(cloud.as_ref(), "elsewhere").await.unwrap();
    assert_eq!(kept.device_id, "", "no trunk carries it any more");
    term.cancel();
    running.join_all().await;
}
