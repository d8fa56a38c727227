//! Members of machines that clusterctl moves to another server: their objects get other uids.

use kube::api::PostParams;

use super::*;

#[tokio::test]
async fn a_machine_that_was_moved_keeps_its_members() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let before = scene.members().await;
    let api: Api<OpenStackMachine> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let original = api.get("m").await.unwrap();
    let moving = json!({"metadata": {
        "annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}, "finalizers": null,
    }});
    api.patch("m", &PatchParams::default(), &Patch::Merge(&moving)).await.unwrap();
    api.delete("m", &DeleteParams::background()).await.unwrap();

    let mut moved = OpenStackMachine::new("m", original.spec.clone());
    moved.metadata.annotations = original.metadata.annotations.clone();
    moved.metadata.labels = original.metadata.labels.clone();
    moved.metadata.owner_references = original.metadata.owner_references.clone();
    let moved = api.create(&PostParams::default(), &moved).await.unwrap();
    assert_ne!(moved.uid(), original.uid());
    scene.world.cloud.clear_log();
    let is_member = |client: Client| async move {
        let machine = Api::<OpenStackMachine>::namespaced(client, NAMESPACE).get("m").await?;
        Ok(machine.condition("APIServerIngressReady").is_some_and(|it| it.holds()))
    };
    scene.controllers.until("the moved machine is a member", is_member).await.unwrap();
    let log = scene.world.cloud.log();
    let removed = log.iter().find(|call| call.method == "DELETE" && call.path.contains("/members/"));
    assert!(removed.is_none(), "the API had no server behind its address: {removed:?}");
    let ids = |members: &[Member]| members.iter().map(|member| member.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&scene.members().await), ids(&before));
}
