//! Tests of Image objects, whose images are created in the cloud.

use apiserver_types::Image;

use super::*;

fn image(namespace: &str, name: &str, url: &str) -> Value {
    json!({
        "apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": "Image",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "cloudCredentialsRef": {"cloudName": "openstack", "secretName": "credentials"},
            "resource": {"content": {"diskFormat": "qcow2", "download": {"url": url}}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn r12_3_a_machine_boots_from_an_image_that_its_object_had_glance_fetch() {
    const NAMESPACE: &str = "images";
    let mut spec = plain();
    spec["image"] = json!({"imageRef": {"name": "node"}});
    let [object, owner] = machine(NAMESPACE, "booted", &spec);
    let documents = [
        image(NAMESPACE, "node", "https://example.org/node.qcow2"),
        image(NAMESPACE, "broken", "https://example.org/missing.qcow2"),
        object,
        owner,
    ];
    let world = world(NAMESPACE, &documents).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let images: Api<Image> = Api::namespaced(world.admin(), NAMESPACE);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let resolved = eventually("the machine has the image", || async {
        machines.get("booted").await.unwrap().status?.resolved?.image_id
    })
    .await;
    let node = images.get("node").await.unwrap();
    assert_eq!(node.status.unwrap().id.as_ref(), Some(&resolved));
    let of_name = |name: &str| {
        let inventory = world.cloud.inventory("demo");
        inventory
            .images
            .iter()
            .filter(|image| image.name == name)
            .map(|image| image.id.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of_name("node"), [resolved]);
    eventually("the image without content has failed", || async {
        let conditions = images.get("broken").await.unwrap().status?.conditions?;
        let progressing = conditions.into_iter().find(|it| it.kind == "Progressing")?;
        (progressing.reason == "UnrecoverableError" && progressing.message.contains("download.url"))
            .then_some(())
    })
    .await;
    assert_eq!(of_name("broken").len(), 1, "it is created once");
    for name in ["node", "broken"] {
        images.delete(name, &DeleteParams::default()).await.unwrap();
    }
    eventually("the images are gone", || async {
        let left = of_name("node").len() + of_name("broken").len();
        let objects = images.list(&ListParams::default()).await.unwrap().items.len();
        (left + objects == 0).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}

/// Old images are deleted, and a move or a restore loses the status with the resolved ids. All Machines of such a
/// cluster were reported as failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_moved_is_ready_although_its_image_is_gone() {
    const NAMESPACE: &str = "kept";
    let mut spec = plain();
    spec["image"] = json!({"imageRef": {"name": "node"}});
    let [object, owner] = machine(NAMESPACE, "kept", &spec);
    let documents = [image(NAMESPACE, "node", "https://example.org/node.qcow2"), object, owner];
    let world = world(NAMESPACE, &documents).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let images: Api<Image> = Api::namespaced(world.admin(), NAMESPACE);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let is_ready = |machine: &OpenStackMachine| {
        machine.condition("Ready").is_some_and(apiserver_types::Condition::holds)
    };
    eventually("the machine is ready", || async {
        let machine = machines.get("kept").await.unwrap();
        (is_ready(&machine) && machine.spec.provider_id.is_some()).then_some(())
    })
    .await;
    let servers = world.cloud.inventory("demo").servers.len();
    images.delete("node", &DeleteParams::default()).await.unwrap();
    eventually("the image is gone", || async {
        images.get_opt("node").await.unwrap().is_none().then_some(())
    })
    .await;

    // A move keeps the spec and the annotations.
    let lost = Patch::Merge(json!({"status": null}));
    machines.patch_status("kept", &PatchParams::default(), &lost).await.unwrap();
    eventually("the machine is ready again", || async {
        let machine = machines.get("kept").await.unwrap();
        let resolved = machine.status.as_ref()?.resolved.clone()?;
        (is_ready(&machine) && resolved.image_id.is_none()).then_some(())
    })
    .await;
    assert_eq!(world.cloud.inventory("demo").servers.len(), servers, "no server is made again");
    term.cancel();
    running.join_all().await;
}
