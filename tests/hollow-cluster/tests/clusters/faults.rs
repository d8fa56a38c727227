//! Tests of injected failures of the workload API.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Api;
use kube::api::{ListParams, PostParams};
use tests_hollow_cluster::{EndpointFault, WorkloadCall, WorkloadEffect, WorkloadFault};
use tokio::time::timeout;

use crate::cloud::Cloud;

fn fault(verb: &'static str, resource: &str, effect: WorkloadEffect) -> WorkloadFault {
    let call = WorkloadCall { verb, resource: resource.to_owned() };
    WorkloadFault { endpoint: None, call: Some(call), effect, count: Some(1) }
}

/// Returns the error of a list of Nodes with a new connection; empty if there is none.
async fn listed(cloud: &Cloud) -> String {
    let nodes: Api<Node> = Api::all(cloud.admin());
    match nodes.list(&ListParams::default()).await {
        Ok(_) => String::new(),
        Err(error) => format!("{error:?}"),
    }
}

#[tokio::test]
async fn calls_fail_once_in_each_injected_way() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let status = WorkloadEffect::Status {
        code: 403,
        reason: "Forbidden",
        message: "nodes is forbidden",
        retry_after: None,
    };
    let table = [
        (WorkloadEffect::ResetBefore, "ConnectionReset"),
        (WorkloadEffect::ResetAfter, "ConnectionReset"),
        (WorkloadEffect::HalfAnswer, "ody"),
        (WorkloadEffect::Html { code: 502 }, "502"),
        (WorkloadEffect::Html { code: 200 }, "expected value"),
        (status, "nodes is forbidden"),
    ];
    for (effect, expected) in table {
        cloud.hollow.inject(fault("list", "nodes", effect.clone()));
        let error = listed(&cloud).await;
        assert!(error.contains(expected), "{effect:?}: {error}");
        assert_eq!(listed(&cloud).await, "", "after {effect:?}");
    }
    cloud.hollow.inject(fault("list", "nodes", WorkloadEffect::Hang));
    timeout(Duration::from_millis(200), listed(&cloud)).await.unwrap_err();
    let failed = cloud.hollow.failed_calls();
    assert_eq!(failed.values().sum::<u64>(), 7, "{failed:?}");
}

#[tokio::test]
async fn a_call_without_an_answer_has_its_effect() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cloud.admin());
    for (name, effect) in [("a", WorkloadEffect::ResetAfter), ("b", WorkloadEffect::HalfAnswer)] {
        cloud.hollow.inject(fault("create", "configmaps", effect));
        let map: ConfigMap = serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap_err();
        maps.get(name).await.unwrap();
    }
}

#[tokio::test]
async fn an_endpoint_can_refuse_or_show_a_wrong_certificate() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let table = [
        (EndpointFault::Refuse, "ConnectionRefused"),
        (EndpointFault::OtherAuthority, "UnknownIssuer"),
        (EndpointFault::ExpiredCertificate, "Expired"),
    ];
    for (fault, expected) in table {
        cloud.hollow.endpoint_fault(Some(fault));
        let mut error = listed(&cloud).await;
        for _ in 0..100 {
            if error.contains(expected) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
            error = listed(&cloud).await;
        }
        assert!(error.contains(expected), "{fault:?}: {error}");
    }
    cloud.hollow.clear_faults();
    while !listed(&cloud).await.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
