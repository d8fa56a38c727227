//! Tests of what other clients change in the cloud: it is corrected, and at last left alone.

use super::*;

/// Annotation with the corrections.
const DRIFT: &str = "capstan.dev/drift";

/// Returns the number of corrections that are counted; `None` before the first complete pass.
fn corrections(cluster: &OpenStackCluster) -> Option<usize> {
    let record: Value = serde_json::from_str(cluster.annotations().get(DRIFT)?).unwrap();
    let by_field = record["corrected"].as_object().unwrap().values();
    Some(by_field.map(|times| times.as_array().unwrap().len()).sum())
}

#[tokio::test]
async fn r16_drift_is_corrected_three_times_and_then_left_alone_until_the_spec_changes() {
    let scene = Scene::start().await;
    let subnets = json!([{"cidr": "10.8.0.0/24", "dnsNameservers": ["9.9.9.9"]}]);
    scene.create("drift", &with(&json!({"managedSubnets": subnets}))).await;
    let is_settled = |cluster: &OpenStackCluster| is_provisioned(cluster) && corrections(cluster) == Some(0);
    let cluster = scene.until("drift", "the cluster is provisioned", is_settled).await;
    let id = cluster.status.unwrap().network.unwrap().subnets.unwrap().remove(0).id;
    let query = SubnetQuery { id: Some(id.clone()), ..SubnetQuery::default() };
    let servers = async || scene.cloud.subnets(&query).await.unwrap().remove(0).dns_nameservers;
    let change = async |at: &str| {
        scene.cloud.set_dns_nameservers(&id, &["1.1.1.1".to_owned()]).await.unwrap();
        scene.world.cloud.clear_log();
        scene.patch("drift", json!({"metadata": {"annotations": {"look": at}}})).await;
    };
    let reason = |cluster: &OpenStackCluster| cluster.condition("NetworkReady").unwrap().reason.clone();
    for count in 1..=3 {
        change(&count.to_string()).await;
        let corrected = |cluster: &OpenStackCluster| match count {
            3 => reason(cluster) == "DriftFight",
            count => corrections(cluster) == Some(count),
        };
        scene.until("drift", "the DNS servers are corrected", corrected).await;
        assert_eq!(servers().await, ["9.9.9.9"]);
    }
    let field = format!("dns_nameservers of subnet {id}");
    let expected =
        format!("corrected {field}, which another client had changed: before [1.1.1.1], after [9.9.9.9]");
    assert_eq!(scene.messages("drift", "DriftCorrected").await, expected);
    assert!(scene.messages("drift", "DriftFight").await.contains(&field));
    assert_eq!(scene.messages("drift", "UpdatedSubnet").await, "", "a correction has one Event");

    change("4").await;
    let looked = |_: &OpenStackCluster| {
        scene
            .world
            .cloud
            .log()
            .iter()
            .any(|call| call.method == "GET" && call.path.contains("/v2.0/floatingips"))
    };
    scene.until("drift", "a pass has looked", looked).await;
    assert_eq!(servers().await, ["1.1.1.1"], "it is left alone");
    scene.patch("drift", json!({"spec": {"tags": ["new"]}})).await;
    let is_whole = |cluster: &OpenStackCluster| is_settled(cluster) && reason(cluster) == "Ready";
    scene.until("drift", "the spec begins anew", is_whole).await;
    assert_eq!(servers().await, ["9.9.9.9"]);
    scene.delete("drift").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r16_the_gateway_of_a_managed_router_follows_the_spec_and_is_corrected() {
    let scene = Scene::start().await;
    scene.create("gateway", &spec()).await;
    let is_settled = |cluster: &OpenStackCluster| is_provisioned(cluster) && corrections(cluster) == Some(0);
    let cluster = scene.until("gateway", "the cluster is provisioned", is_settled).await;
    let router = cluster.status.unwrap().router.unwrap();
    let query = NetworkQuery { id: Some(router.id.clone()), ..NetworkQuery::default() };
    let found = async || scene.cloud.routers(&query).await.unwrap().remove(0);
    let (subnet, first) = found().await.external_fixed_ips.remove(0);
    let (prefix, _) = first.rsplit_once('.').unwrap();
    let (second, third) = (format!("{prefix}.198"), format!("{prefix}.199"));
    let ips = json!([{"subnet": {"id": subnet}, "fixedIP": second}]);
    scene.patch("gateway", json!({"spec": {"managedRouter": {"externalIPs": ips}}})).await;
    let has_second = |cluster: &OpenStackCluster| {
        let router = cluster.status.as_ref().and_then(|status| status.router.as_ref());
        is_settled(cluster) && router.and_then(|it| it.ips.clone()) == Some(vec![second.clone()])
    };
    scene.until("gateway", "the gateway has the address of the spec", has_second).await;
    assert_eq!(found().await.external_ips, std::slice::from_ref(&second));
    assert_eq!(scene.messages("gateway", "DriftCorrected").await, "", "the spec has changed");

    let network = found().await.external_network_id.unwrap();
    let other = [(subnet.clone(), Some(third.clone()))];
    scene.cloud.set_router_gateway(&router.id, &network, &other).await.unwrap();
    scene.patch("gateway", json!({"metadata": {"annotations": {"look": "1"}}})).await;
    let is_corrected = |cluster: &OpenStackCluster| corrections(cluster) == Some(1);
    scene.until("gateway", "the gateway is corrected", is_corrected).await;
    assert_eq!(found().await.external_ips, std::slice::from_ref(&second));
    let event = scene.messages("gateway", "DriftCorrected").await;
    assert!(event.contains(&third) && event.contains(&second), "{event}");
    scene.delete("gateway").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}
