//! Test of a cluster with tags, a bastion and the rules of a network plugin.

use super::*;

const NAMESPACE: &str = "plugin";

const TAGS: [&str; 2] = ["team/a", "blue"];

/// Returns the rules that Calico needs between all nodes: its routes, and the packets in which it sends others.
fn rules_of_calico() -> Value {
    let nodes = ["controlplane", "worker"];
    json!([
        {"name": "BGP", "direction": "ingress", "etherType": "IPv4", "protocol": "tcp", "portRangeMin": 179,
            "portRangeMax": 179, "remoteManagedGroups": nodes},
        {"name": "IP-in-IP", "direction": "ingress", "etherType": "IPv4", "protocol": "4",
            "remoteManagedGroups": nodes},
    ])
}

fn has_tags(found: &[String]) -> bool {
    TAGS.into_iter().all(|tag| found.iter().any(|it| it == tag))
}

#[tokio::test]
async fn e2e_default_each_part_is_there_once_with_the_tags_and_nodes_have_eight_rules_of_calico() {
    let scene = Scene::start().await;
    let server = json!({"flavor": {"filter": {"name": "m1.small"}}, "sshKeyName": "key",
        "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}}});
    let spec = with(&json!({
        "tags": TAGS,
        "bastion": {"enabled": true, "spec": server},
        "managedSecurityGroups": {"clusterNodesSecurityGroupRules": rules_of_calico()},
    }));
    scene.create(NAMESPACE, &spec).await;
    let cluster = scene.until(NAMESPACE, "the cluster is provisioned", is_provisioned).await;

    let networks = scene.cloud.networks(&NetworkQuery::default()).await.unwrap();
    let subnets = scene.cloud.subnets(&SubnetQuery::default()).await.unwrap();
    let routers = scene.cloud.routers(&NetworkQuery::default()).await.unwrap();
    let groups = scene.cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap();
    let tagged = [
        networks.iter().filter(|it| has_tags(&it.tags)).count(),
        subnets.iter().filter(|it| has_tags(&it.tags)).count(),
        routers.iter().filter(|it| has_tags(&it.tags)).count(),
        groups.iter().filter(|it| has_tags(&it.tags)).count(),
    ];
    let made = scene.world.cloud.inventory("demo");
    let made = [made.networks.len(), made.subnets.len(), made.routers.len(), made.security_groups.len()];
    assert_eq!((tagged, made), ([1, 1, 1, 3], [1, 1, 1, 3]), "{groups:?}");

    let status = cluster.status.unwrap();
    let [control_plane, worker, bastion] = [
        status.control_plane_security_group.unwrap().id,
        status.worker_security_group.unwrap().id,
        status.bastion_security_group.unwrap().id,
    ];
    let names = ["BGP", "IP-in-IP"];
    let peers = [Some(&control_plane), Some(&worker)];
    let mut expected: Vec<_> = names.into_iter().flat_map(|name| peers.map(|peer| (name, peer))).collect();
    expected.sort_unstable();
    for (id, expected) in [(&control_plane, &*expected), (&worker, &*expected), (&bastion, &[][..])] {
        let rules = groups.iter().find(|group| group.id == *id).unwrap().rules.iter();
        let rules = rules.map(|it| (it.rule.description.as_str(), it.rule.remote_group_id.as_ref()));
        let mut found: Vec<_> = rules.filter(|(name, _)| names.contains(name)).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "group {id}");
    }
    scene.delete(NAMESPACE).await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}
