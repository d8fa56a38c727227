//! Test of a cluster whose Secret names an endpoint that the server may not connect to.

use k8s_openapi::api::core::v1::Secret;

use super::*;

const NAMESPACE: &str = "endpoints";

/// Condition of the login.
const LOGIN: &str = "OpenStackAuthenticationSucceeded";

#[tokio::test]
async fn a_secret_that_names_the_metadata_service_is_reported_with_its_field_and_can_be_corrected() {
    let scene = Scene::start().await;
    scene.create(NAMESPACE, &spec()).await;
    let secrets: Api<Secret> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let write = async |text: String| {
        let change = json!({"stringData": {"clouds.yaml": text}});
        secrets.patch("credentials", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    };
    let good = scene.world.cloud.clouds_yaml("demo");
    let keystone = scene.world.cloud.auth_url();
    write(good.replace(&keystone, "http://169.254.169.254/latest/meta-data")).await;
    scene.world.cloud.clear_log();
    let login = |cluster: &OpenStackCluster| cluster.condition(LOGIN).cloned();
    let refused = scene.until(NAMESPACE, "the endpoint is refused", |it| login(it).is_some()).await;
    let refused = login(&refused).unwrap();
    assert_eq!((refused.holds(), refused.reason.as_str()), (false, "CredentialsInvalid"));
    for part in [
        "Secret endpoints/credentials",
        "auth.auth_url: 169.254.169.254 is a link-local",
        "Correct the Secret",
    ] {
        assert!(refused.message.contains(part), "{}", refused.message);
    }
    assert!(scene.world.cloud.log().is_empty(), "the cloud got a call");
    write(good).await;
    let holds = |it: &OpenStackCluster| login(it).is_some_and(|it| it.holds());
    scene.until(NAMESPACE, "the corrected credentials are accepted", holds).await;
}
