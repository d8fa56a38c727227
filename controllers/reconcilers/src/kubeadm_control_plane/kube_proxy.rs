//! kube-proxy of the workload cluster, whose image follows the version of the control plane.

use apiserver_types::KubeadmControlPlane;
use controllers_bootstrap::kube_proxy;
use controllers_workload::found;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::connection::SYSTEM;

/// Annotation that excludes kube-proxy. Upstream's name.
const SKIP: &str = "controlplane.cluster.x-k8s.io/skip-kube-proxy";

/// Name of DaemonSet and container.
const KUBE_PROXY: &str = "kube-proxy";

/// Reports whether kube-proxy follows the control plane.
pub(super) fn is_ours(control_plane: &KubeadmControlPlane) -> bool {
    !control_plane.annotations().contains_key(SKIP)
}

/// Gives kube-proxy the image of the version. Returns a new image. A cluster without kube-proxy needs none.
///
/// # Errors
/// The image cannot be changed, or a call failed. For people.
pub(super) async fn update(
    client: &Client,
    control_plane: &KubeadmControlPlane,
) -> Result<Option<String>, String> {
    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), SYSTEM);
    let name = format!("DaemonSet {SYSTEM}/{KUBE_PROXY}");
    let daemon = found(daemons.get(KUBE_PROXY).await).map_err(|error| format!("{name}: {error}"))?;
    let pod = daemon.as_ref().and_then(|daemon| daemon.spec.as_ref()?.template.spec.as_ref());
    let container = pod.and_then(|pod| pod.containers.iter().find(|it| it.name == KUBE_PROXY));
    let Some(container) = container else { return Ok(None) };
    let spec = control_plane.spec.kubeadm_config_spec.as_ref();
    let repository = spec.and_then(|spec| spec.cluster_configuration.as_ref()?.image_repository.as_deref());
    let current = container.image.as_deref().unwrap_or_default();
    let Some(image) = kube_proxy::image(current, &control_plane.spec.version, repository)? else {
        return Ok(None);
    };
    let container = json!({"name": KUBE_PROXY, "image": image});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let written = daemons.patch(KUBE_PROXY, &PatchParams::default(), &Patch::Strategic(&change)).await;
    written.map_err(|error| format!("write {name}: {}", controllers_workload::describe(&error)))?;
    Ok(Some(image))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_in_memory::FakeApi;

    const DAEMON: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy";

    #[tokio::test]
    async fn d9_kube_proxy_gets_the_version_of_the_control_plane_unless_it_is_absent_or_excluded() {
        let api = FakeApi::default();
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.version = "v1.34.0".to_owned();
        assert_eq!(update(&api.client(), &control_plane).await, Ok(None), "there is none");
        let containers = json!([{"name": "kube-proxy", "image": "registry.k8s.io/kube-proxy:v1.33.0"}]);
        let template = json!({"metadata": {}, "spec": {"containers": containers}});
        api.put(DAEMON, json!({"metadata": {}, "spec": {"selector": {}, "template": template}}));
        let new = "registry.k8s.io/kube-proxy:v1.34.0";
        assert_eq!(update(&api.client(), &control_plane).await, Ok(Some(new.to_owned())));
        assert_eq!(update(&api.client(), &control_plane).await, Ok(None), "it has the image now");
        assert!(is_ours(&control_plane));
        control_plane.annotations_mut().insert(SKIP.to_owned(), String::new());
        assert!(!is_ours(&control_plane));
    }
}
