//! Floating IPs of pools for OpenStackServers.

use super::*;

/// The controller of OpenStackServers was not permitted to read pools, so such a server was never created.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_its_own_gets_a_floating_ip_of_a_pool_and_gives_it_back() {
    const NAMESPACE: &str = "pooled";
    let spec = json!({
        "identityRef": {"name": "credentials", "cloudName": "openstack"}, "flavor": "m1.small", "sshKeyName": "default",
        "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}},
        "ports": [{"network": {"filter": {"name": "k8s-clusterapi-cluster-pooled-c"}}}],
        "floatingIPPoolRef": {
            "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackFloatingIPPool", "name": "pool",
        },
    });
    let server = infrastructure("v1alpha1", "OpenStackServer", NAMESPACE, "jump", &spec);
    let world = world(NAMESPACE, &[pool(NAMESPACE, 1), server]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let servers: Api<OpenStackServer> = Api::namespaced(world.admin(), NAMESPACE);
    eventually("the server has its floating IP", || async {
        let status = servers.get("jump").await.unwrap().status.filter(|status| status.ready)?;
        let found = status.conditions?.into_iter().find(|it| it.kind == "FloatingAddressFromPoolReady")?;
        found.holds().then_some(())
    })
    .await;
    let others = world.cloud.inventory("demo").floating_ips.len() - 1;
    servers.delete("jump", &DeleteParams::default()).await.unwrap();
    eventually("the server and its floating IP are gone", || async {
        let gone = servers.get_opt("jump").await.unwrap().is_none();
        let left = world.cloud.inventory("demo");
        let any = left.servers.iter().chain(&left.ports).any(|it| it.name.starts_with("jump"));
        (gone && !any && left.floating_ips.len() == others).then_some(())
    })
    .await;
    term.cancel();
    running.join_all().await;
}
