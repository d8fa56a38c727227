//! Tests of etcd members.

use serde_json::json;

use crate::cloud::Cloud;

/// Makes a control plane of three nodes, and returns the ids of their servers.
async fn three(cloud: &Cloud) -> Vec<String> {
    let mut ids = vec![cloud.init().await];
    for name in ["cp-1", "cp-2"] {
        ids.push(cloud.create(name, false, &cloud.pki.join_control_plane(cloud.endpoint)).await);
        cloud.until_ready(name).await;
        cloud
            .until("a voter", || {
                cloud.hollow.etcd_members(cloud.endpoint).iter().all(|member| !member.learner).then_some(())
            })
            .await;
    }
    ids
}

#[tokio::test]
async fn a_control_plane_survives_one_lost_server_but_not_two() {
    let cloud = Cloud::balanced().await;
    let ids = three(&cloud).await;
    assert_eq!(cloud.hollow.etcd_members(cloud.endpoint).len(), 3);
    assert_eq!(cloud.hollow.etcd_leader(cloud.endpoint).as_deref(), Some("cp-0"));
    cloud.act(&ids[0], json!({"os-stop": null})).await;
    let leader = || cloud.hollow.etcd_leader(cloud.endpoint);
    cloud.until("a new leader", || leader().filter(|leader| leader != "cp-0")).await;
    let version = cloud.admin().list_core_api_versions().await;
    assert!(version.is_ok());
    assert!(cloud.hollow.etcd_member_lost(cloud.endpoint, "cp-1"));
    assert_eq!(leader(), None);
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(cloud.admin());
    let error = nodes.get("cp-2").await.unwrap_err();
    assert!(error.to_string().contains("request timed out"), "{error}");
}
