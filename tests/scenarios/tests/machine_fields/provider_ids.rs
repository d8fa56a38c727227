//! Tests of provider ids that users write.

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
