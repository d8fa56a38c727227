//! Tests of OpenStackMachineTemplates that name what the cloud does not have.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_template_says_which_of_its_names_the_cloud_does_not_have() {
    const NAMESPACE: &str = "sizes";
    let table = [
        ("flavor", json!({"filter": {"name": "no-such-flavor"}}), "FlavorNotFound", "spec.flavor"),
        ("image", json!({"filter": {"name": "no-such-image"}}), "ImageNotFound", "spec.image"),
        (
            "identityRef",
            json!({"name": "no-such-secret", "cloudName": "openstack"}),
            "OpenStackAuthenticationFailed",
            "Secret sizes/no-such-secret does not exist. Create it",
        ),
    ];
    let world = world(NAMESPACE, &[]).await;
    let clusters: Api<apiserver_types::Cluster> = Api::namespaced(world.admin(), NAMESPACE);
    let uid = clusters.get("c").await.unwrap().metadata.uid;
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": uid});
    for (field, value, _, _) in &table {
        let mut spec = plain();
        spec[*field] = value.clone();
        let spec = json!({"template": {"spec": spec}});
        let name = field.to_lowercase();
        let mut template = infrastructure("v1beta2", "OpenStackMachineTemplate", NAMESPACE, &name, &spec);
        template["metadata"]["ownerReferences"] = json!([owner]);
        world.create(&template.to_string()).await.unwrap();
    }
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let templates: Api<OpenStackMachineTemplate> = Api::namespaced(world.admin(), NAMESPACE);
    for (field, _, reason, text) in &table {
        eventually(&format!("the template says {reason}"), || async {
            let template = templates.get(&field.to_lowercase()).await.unwrap();
            let ready = template.condition("Ready")?;
            (!ready.holds() && ready.reason == *reason && ready.message.contains(text)).then_some(())
        })
        .await;
    }
    term.cancel();
    running.join_all().await;
}
