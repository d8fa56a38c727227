//! Tests of provider ids that users write.

use controllers_infrastructure::{ImageQuery, NetworkQuery, NewPort, NewServer, PortQuery};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn two_machines_with_one_provider_id_are_reported_and_the_server_stays_with_its_owner() {
    const NAMESPACE: &str = "twins";
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let first = eventually("the first machine runs", || async {
        let machine = machines.get("m").await.unwrap();
        let ready = machine.condition("Ready").is_some_and(apiserver_types::Condition::holds);
        machine.spec.provider_id.filter(|_| ready)
    })
    .await;
    let servers = world.cloud.inventory("demo").servers.len();
    let mut spec = plain();
    spec["providerID"] = json!(first);
    for document in machine(NAMESPACE, "twin", &spec) {
        world.create(&document.to_string()).await.unwrap();
    }
    let message = eventually("the second machine is refused", || async {
        let twin = machines.get("twin").await.unwrap();
        let condition = twin.condition("InstanceReady").filter(|it| !it.holds())?.clone();
        (condition.reason == "InvalidMachineSpec").then_some(condition.message)
    })
    .await;
    for part in ["spec.providerID", "belongs to OpenStackMachine twins/m", "Delete this Machine"] {
        assert!(message.contains(part), "{message}");
    }
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("twin", &DeleteParams::default()).await.unwrap();
    eventually("the second machine is gone", || async {
        machines.get_opt("twin").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(world.cloud.inventory("demo").servers.len(), servers, "the server of the first stays");
    let first = machines.get("m").await.unwrap();
    assert!(first.condition("Ready").is_some_and(apiserver_types::Condition::holds));
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_1_an_imported_machine_takes_over_the_server_of_upstream_and_deletes_it() {
    const NAMESPACE: &str = "imported";
    let world = world(NAMESPACE, &[]).await;
    let cloud = world.project().await.unwrap();
    let query = NetworkQuery { name: Some("private".to_owned()), ..NetworkQuery::default() };
    let network_id = cloud.networks(&query).await.unwrap()[0].id.clone();
    let port = NewPort { name: "old-0".to_owned(), network_id, ..NewPort::default() };
    let port = cloud.create_port(&port).await.unwrap();
    let flavors = cloud.flavors().await.unwrap();
    let new = NewServer {
        name: "old".to_owned(),
        image_id: cloud.images(&ImageQuery::default()).await.unwrap().first().map(|image| image.id.clone()),
        flavor_id: flavors.iter().find(|flavor| flavor.name == "m1.small").unwrap().id.clone(),
        ports: vec![port.id.clone()],
        ..NewServer::default()
    };
    let id = cloud.create_server(&new).await.unwrap();
    let mut spec = plain();
    spec["providerID"] = json!(format!("openstack:///{id}"));
    for document in machine(NAMESPACE, "old", &spec) {
        world.create(&document.to_string()).await.unwrap();
    }
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let uid = machines.get("old").await.unwrap().uid();
    let spec = json!({
        "identityRef": {"name": "credentials", "cloudName": "openstack"}, "flavor": "m1.small",
        "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}}, "ports": [{}], "sshKeyName": "default",
    });
    let mut record = infrastructure("v1alpha1", "OpenStackServer", NAMESPACE, "old", &spec);
    record["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine", "name": "old",
        "uid": uid, "controller": true,
    }]);
    world.create(&record.to_string()).await.unwrap();
    let records: Api<OpenStackServer> = Api::namespaced(world.admin(), NAMESPACE);
    let status =
        json!({"status": {"ready": true, "instanceID": id, "resources": {"ports": [{"id": port.id}]}}});
    records.patch_status("old", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();

    let term = CancellationToken::new();
    let running = run(&world, &term);
    eventually("the record is gone and the machine is ready", || async {
        let gone = records.get_opt("old").await.unwrap().is_none();
        let machine = machines.get("old").await.unwrap();
        let ready = machine.condition("InstanceReady").is_some_and(apiserver_types::Condition::holds);
        (gone && ready).then_some(())
    })
    .await;
    let tags = cloud.server(&id).await.unwrap().tags;
    assert!(tags.iter().any(|tag| tag.starts_with("capstan-")), "{tags:?}");
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("old", &DeleteParams::default()).await.unwrap();
    eventually("the server and its port are gone", || async {
        let query = PortQuery { id: Some(port.id.clone()), ..PortQuery::default() };
        let ports = cloud.ports(&query).await.unwrap();
        let gone = machines.get_opt("old").await.unwrap().is_none();
        (gone && ports.is_empty() && cloud.server(&id).await.is_err()).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}
