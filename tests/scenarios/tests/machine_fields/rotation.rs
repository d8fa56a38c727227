//! Tests of credentials that change, and of the floating IP of an API whose machine goes.

use apiserver_types::{Condition, OpenStackCluster, OpenStackClusterIdentity};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::PostParams;

use super::*;

const LOGIN: &str = "OpenStackAuthenticationSucceeded";

/// Waits until the condition of the login of the cluster fulfils a condition of the test. Returns it.
async fn login(
    clusters: &Api<OpenStackCluster>,
    what: &str,
    settled: impl Fn(&Condition) -> bool,
) -> Condition {
    let settled = &settled;
    eventually(what, || async move {
        clusters.get("c").await.unwrap().condition(LOGIN).filter(|it| settled(it)).cloned()
    })
    .await
}

async fn is_ready(clusters: &Api<OpenStackCluster>) {
    eventually("the cluster is ready", || async {
        let cluster = clusters.get("c").await.unwrap();
        cluster.condition("Ready").filter(|ready| ready.holds()).map(|_| ())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_3_a_settled_cluster_sees_a_changed_secret_at_once_and_keeps_its_earlier_session() {
    const NAMESPACE: &str = "rotated";
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    is_ready(&clusters).await;
    let secrets: Api<Secret> = Api::namespaced(world.admin(), NAMESPACE);
    let write = async |text: String| {
        let change = json!({"stringData": {"clouds.yaml": text}});
        secrets.patch("credentials", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    };
    let good = world.cloud.clouds_yaml("demo");
    // R4.9: the new login has to succeed before the old session is given up.
    write(good.replace("password: demo", "password: wrong")).await;
    let refused = login(&clusters, "the new credentials are refused", |it| !it.holds()).await;
    assert_eq!(refused.reason, "OpenStackAuthenticationFailed");
    assert!(refused.message.contains("earlier credentials are in use"), "{}", refused.message);
    assert!(clusters.get("c").await.unwrap().condition("Ready").unwrap().holds());
    write(good).await;
    login(&clusters, "the credentials are accepted", Condition::holds).await;
    secrets.delete("credentials", &DeleteParams::default()).await.unwrap();
    let missing = login(&clusters, "the Secret is missed", |it| !it.holds()).await;
    assert_eq!(missing.reason, "CredentialsInvalid");
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_3_a_settled_cluster_sees_that_its_namespace_may_not_use_an_identity_any_more() {
    const NAMESPACE: &str = "admitted";
    let world = world(NAMESPACE, &[]).await;
    let namespaces: Api<Namespace> = Api::all(world.admin());
    let label = async |value: Value| {
        let change = json!({"metadata": {"labels": {"team": value}}});
        namespaces.patch(NAMESPACE, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    };
    label(json!("a")).await;
    let spec = json!({
        "secretRef": {"name": "credentials", "namespace": NAMESPACE},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    });
    let identity = OpenStackClusterIdentity::new("shared", serde_json::from_value(spec).unwrap());
    let identities: Api<OpenStackClusterIdentity> = Api::all(world.admin());
    identities.create(&PostParams::default(), &identity).await.unwrap();
    let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let reference = json!({"name": "shared", "cloudName": "openstack", "type": "ClusterIdentity"});
    let change = json!({"spec": {"identityRef": reference}});
    clusters.patch("c", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    is_ready(&clusters).await;
    label(json!(null)).await;
    let denied = login(&clusters, "the access is denied", |it| !it.holds()).await;
    assert_eq!(denied.reason, "IdentityAccessDenied");
    label(json!("a")).await;
    login(&clusters, "the access is admitted", Condition::holds).await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_5_a_machine_gives_the_floating_ip_of_the_api_back_before_its_port_goes() {
    const NAMESPACE: &str = "released";
    let world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let host = eventually("the machine has the floating IP", || async {
        let clusters: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
        let host = clusters.get("c").await.unwrap().spec.control_plane_endpoint?.host?;
        let cloud = world.project().await.unwrap();
        let ips = cloud.floating_ips(&controllers_infrastructure::FloatingIpQuery::default()).await.unwrap();
        ips.into_iter().find(|ip| ip.address == host && ip.port_id.is_some())
    })
    .await;
    world.cloud.clear_log();
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    owners.delete("m", &DeleteParams::default()).await.unwrap();
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the machine is gone", || async {
        machines.get_opt("m").await.unwrap().is_none().then_some(())
    })
    .await;
    let (ip, port) = (format!("/floatingips/{}", host.id), format!("/ports/{}", host.port_id.unwrap()));
    let log = world.cloud.log();
    let position = |method: &str, path: &str| {
        log.iter().position(|call| call.method == method && call.path.ends_with(path))
    };
    let (released, deleted) = (position("PUT", &ip).unwrap(), position("DELETE", &port).unwrap());
    assert!(released < deleted, "the floating IP is free before its port is deleted");
    assert_eq!(position("DELETE", &ip), None, "it is kept for the next control plane machine");
    assert!(world.cloud.inventory("demo").floating_ips.iter().any(|it| it.id == host.id));
    term.cancel();
    running.join_all().await;
}
