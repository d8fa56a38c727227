//! Test of two tenants: the objects of one do not get the credentials of the other.

use k8s_openapi::api::core::v1::Secret;

use super::*;

/// Condition of the login.
const LOGIN: &str = "OpenStackAuthenticationSucceeded";

#[tokio::test]
async fn a_tenant_that_names_the_secret_of_another_tenant_gets_no_cloud() {
    let scene = Scene::start().await;
    scene.create("tenant-b", &spec()).await;
    // Tenant A has no Secret of this name, and each text leads to that of tenant B in some way of reading it.
    let names = ["credentials", "tenant-b/credentials", "../../tenant-b/secrets/credentials"];
    for (position, name) in names.into_iter().enumerate() {
        let namespace = format!("tenant-a{position}");
        scene
            .create(&namespace, &with(&json!({"identityRef": {"name": name, "cloudName": "openstack"}})))
            .await;
        let secrets: Api<Secret> = Api::namespaced(scene.world.admin(), &namespace);
        secrets.delete("credentials", &DeleteParams::default()).await.unwrap();
        let login = |cluster: &OpenStackCluster| cluster.condition(LOGIN).cloned();
        let refused = scene.until(&namespace, "the reference is refused", |it| login(it).is_some()).await;
        let refused = login(&refused).unwrap();
        assert_eq!((refused.holds(), refused.reason.as_str()), (false, "CredentialsInvalid"), "{name}");
        let expected = format!("Secret {namespace}/{name} does not exist");
        assert!(refused.message.contains(&expected), "{}", refused.message);
    }
}
