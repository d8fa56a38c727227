//! Tests of the creation of a Machine (D.2).

use apiserver_types::{Machine, OpenStackMachine, OpenStackMachineTemplate};
use controllers_runtime::ServedKind;
use kube::api::ApiResource;
use serde_json::json;

use super::super::KubeadmControlPlaneReconciler;
use super::*;
use crate::api_in_memory::{Crash, FakeApi};

fn path(resource: &ApiResource, name: &str) -> String {
    format!("/apis/{}/namespaces/ns/{}/{name}", resource.api_version, resource.plural)
}

/// Bootstrap data were made without the annotation `capstan.dev/bootstrap-report`, which came a pass after the Machine.
#[tokio::test]
async fn d2_the_parts_of_a_machine_have_the_metadata_of_the_template_before_the_machine_exists() {
    let (api, machine) = (FakeApi::default(), ApiResource::erase::<Machine>(&()));
    let config = ApiResource::erase::<KubeadmConfig>(&());
    let server = ApiResource::erase::<OpenStackMachine>(&());
    let template = ApiResource::erase::<OpenStackMachineTemplate>(&());
    let served = |resource: &ApiResource| ServedKind {
        versions: vec![resource.version.clone()],
        resource: resource.clone(),
        namespaced: true,
    };
    let mut context = api.context("test");
    context.kinds = [&config, &server, &template].map(served).into();
    let spec = json!({"template": {"spec": {}}});
    let types = json!({"apiVersion": template.api_version, "kind": template.kind, "spec": spec});
    api.put(&path(&template, "t"), types);
    let reference = json!({"apiGroup": template.group, "kind": template.kind, "name": "t"});
    let wish = json!({"metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
        "spec": {"infrastructureRef": reference}});
    let control_plane = json!({"metadata": {"name": "blue", "namespace": "ns", "uid": "uid"},
        "spec": {"version": "v1.34.0", "machineTemplate": wish}});
    let control_plane: KubeadmControlPlane = serde_json::from_value(control_plane).unwrap();
    let mut observed = Observed::default();
    observed.cluster.metadata.name = Some("blue".to_owned());
    let reconciler = KubeadmControlPlaneReconciler::new(context);
    let actor = Actor {
        context: &reconciler.context,
        api: &Api::namespaced(api.client(), "ns"),
        applied: &reconciler.applied,
        etcd: reconciler.etcd.as_ref(),
        credentials: &reconciler.credentials,
        expiry_reads: &reconciler.expiry_reads,
        updaters: &reconciler.updaters,
    };
    // The fifth write is that of the Machine.
    api.crash_at(Some((5, Crash::Before)));
    let failed = actor.make(&control_plane, &observed, "a", Start::Init, None).await;
    assert_eq!(failed.unwrap_err().0, MACHINE);
    assert!(api.get(&path(&machine, "a")).is_none());
    for part in [&config, &server] {
        let metadata = api.get(&path(part, "a")).unwrap()["metadata"].clone();
        let found = (&metadata["labels"]["l"], &metadata["annotations"]["a"]);
        assert_eq!(found, (&json!("1"), &json!("1")), "{}", part.kind);
    }
}

#[tokio::test]
async fn d2_a_machine_with_an_index_gets_the_lowest_one_that_is_free() {
    let api = FakeApi::default();
    let served = |resource: ApiResource| ServedKind {
        versions: vec![resource.version.clone()],
        resource,
        namespaced: true,
    };
    let (machine, config) = (ApiResource::erase::<Machine>(&()), ApiResource::erase::<KubeadmConfig>(&()));
    let server = ApiResource::erase::<OpenStackMachine>(&());
    for (resource, name) in [(&machine, "blue-0"), (&config, "blue-1"), (&server, "blue-3")] {
        let path = format!("/apis/{}/namespaces/ns/{}", resource.api_version, resource.plural);
        api.put(&path, json!({"items": [{"metadata": {"name": name}}]}));
    }
    let mut context = api.context("test");
    context.kinds = [config, server.clone()].map(served).into();
    let reference = json!({"apiGroup": server.group, "kind": "OpenStackMachineTemplate", "name": "t"});
    let wish = |naming: &str| -> KubeadmControlPlane {
        let object = json!({"metadata": {"name": "cp", "namespace": "ns", "uid": "uid"}, "spec": {
            "version": "v1.34.0", "machineNaming": {"template": naming},
            "machineTemplate": {"spec": {"infrastructureRef": reference}}}});
        serde_json::from_value(object).unwrap()
    };
    let mut observed = Observed::default();
    observed.cluster.metadata.name = Some("blue".to_owned());
    let reconciler = KubeadmControlPlaneReconciler::new(context);
    let actor = Actor {
        context: &reconciler.context,
        api: &Api::namespaced(api.client(), "ns"),
        applied: &reconciler.applied,
        etcd: reconciler.etcd.as_ref(),
        credentials: &reconciler.credentials,
        expiry_reads: &reconciler.expiry_reads,
        updaters: &reconciler.updaters,
    };
    let name = actor.name(&wish("{{ .cluster.name }}-{{ .index }}"), &observed).await.unwrap();
    assert_eq!(name, "blue-2");
    let random = actor.name(&wish("{{ .kubeadmControlPlane.name }}-{{ .random }}"), &observed).await.unwrap();
    assert!(random.starts_with("cp-") && random.len() == 8, "{random}");
    let error = actor.name(&wish("{{ .machineSet.name }}-{{ .index }}"), &observed).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidName");
}
