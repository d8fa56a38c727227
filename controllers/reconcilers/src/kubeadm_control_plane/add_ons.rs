//! Add-ons of the workload cluster that change without new Machines. Only CoreDNS does: the image of kube-proxy follows
//! the version of the control plane.

use apiserver_types::{ClusterConfiguration, Condition, ConditionStatus, KubeadmControlPlane, Time};
use controllers_bootstrap::core_dns;
use controllers_runtime::Severity;
use controllers_workload::{WorkloadError, found};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::act::Actor;
use super::connection::{self, KUBEADM_CONFIG, SYSTEM};
use super::inspection::Workload;
use super::observe::Observed;

/// Type of the condition. It is no part of any summary, because a cluster with an old add-on works.
const CONDITION: &str = "AddonsUpToDate";

/// Annotation that excludes CoreDNS. Upstream's name.
const SKIP: &str = "controlplane.cluster.x-k8s.io/skip-coredns";

/// Name of Deployment, container and ConfigMap.
const CORE_DNS: &str = "coredns";

/// Key of kubeadm's record in its ConfigMap.
const RECORD: &str = "ClusterConfiguration";

/// State of the add-ons. An error is text, because it goes into the condition.
pub(super) type AddOns = Result<(), String>;

/// Changes the add-ons that need it. An error is no obstacle for the control plane itself.
pub(super) async fn follow(actor: &Actor<'_>, control_plane: &KubeadmControlPlane, observed: &mut Observed) {
    let client = actor.context.workloads.client(&connection::key(observed));
    let is_reached = matches!(observed.workload, Workload::Reached(_));
    let Some(client) = client.ok().filter(|_| is_reached) else { return };
    let outcome = match wish(control_plane) {
        Some(wish) => update(&client, wish).await,
        None => Ok(None),
    };
    if let Ok(Some(image)) = &outcome {
        let message = format!("CoreDNS of the workload cluster gets the image {image}");
        actor.context.events.record(control_plane, Severity::Normal, "CoreDNSUpdated", &message).await;
    }
    observed.add_ons = Some(outcome.map(drop));
}

/// Returns the settings of the cluster, if they have any of CoreDNS that is to be applied.
fn wish(control_plane: &KubeadmControlPlane) -> Option<&ClusterConfiguration> {
    let spec = control_plane.spec.kubeadm_config_spec.as_ref()?;
    let configuration = spec.cluster_configuration.as_ref().filter(|it| it.dns.is_some())?;
    (!control_plane.annotations().contains_key(SKIP)).then_some(configuration)
}

/// Gives CoreDNS the image of the settings. Returns a new image. The Corefile stays as it is: the versions from which a
/// change is made read each other's.
///
/// # Errors
/// The image cannot be changed, or a call failed. For people.
async fn update(client: &Client, wish: &ClusterConfiguration) -> Result<Option<String>, String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let read = |error: WorkloadError| format!("Deployment {SYSTEM}/{CORE_DNS}: {error}");
    let Some(deployment) = found(deployments.get(CORE_DNS).await).map_err(read)? else { return Ok(None) };
    let Some(container) = container(&deployment) else { return Ok(None) };
    let Some(image) = core_dns::image(container.image.as_deref().unwrap_or_default(), wish)? else {
        return Ok(None);
    };
    let params = PatchParams::default();
    // A cluster without the ConfigMap has a CoreDNS of its own.
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
    let read = |name: &'static str| move |error: WorkloadError| format!("ConfigMap {SYSTEM}/{name}: {error}");
    if found(configs.get(CORE_DNS).await).map_err(read(CORE_DNS))?.is_none() {
        return Ok(None);
    }
    // First the record, so that an attempt that ends in between is made again.
    let record = found(configs.get(KUBEADM_CONFIG).await).map_err(read(KUBEADM_CONFIG))?;
    if let Some(change) = record.map(|record| recorded(&record, wish)).transpose()?.flatten() {
        let written = configs.patch(KUBEADM_CONFIG, &params, &Patch::Merge(&change)).await;
        written.map_err(|error| format!("write ConfigMap {SYSTEM}/{KUBEADM_CONFIG}: {error}"))?;
    }
    let container = json!({"name": CORE_DNS, "image": image});
    let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    let written = deployments.patch(CORE_DNS, &params, &Patch::Strategic(&change)).await;
    written.map_err(|error| format!("write Deployment {SYSTEM}/{CORE_DNS}: {error}"))?;
    Ok(Some(image))
}

fn container(deployment: &Deployment) -> Option<&Container> {
    let pod = deployment.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.iter().find(|container| container.name == CORE_DNS)
}

/// Returns the change of kubeadm's ConfigMap to the settings; `None` if it has them.
fn recorded(record: &ConfigMap, wish: &ClusterConfiguration) -> Result<Option<Value>, String> {
    let dns = wish.dns.clone().unwrap_or_default();
    let Some(text) = record.data.as_ref().and_then(|data| data.get(RECORD)) else { return Ok(None) };
    let new = core_dns::recorded(text, &dns)
        .map_err(|error| format!("ConfigMap {SYSTEM}/{KUBEADM_CONFIG}, key {RECORD}: {error}"))?;
    let revision = record.resource_version();
    Ok(new.map(|new| json!({"metadata": {"resourceVersion": revision}, "data": {RECORD: new}})))
}

/// Returns the condition. It is absent until something is wrong for the first time.
pub(super) fn condition(
    control_plane: &KubeadmControlPlane,
    add_ons: Option<&AddOns>,
    now: &Time,
) -> Option<Condition> {
    let new =
        |status, reason, message: &str| Some(Condition::new(CONDITION, status, reason, message, now.clone()));
    match add_ons? {
        Err(message) => new(ConditionStatus::False, "NotUpToDate", message),
        Ok(()) if control_plane.condition(CONDITION).is_some() => new(ConditionStatus::True, "UpToDate", ""),
        Ok(()) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_in_memory::FakeApi;

    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";
    const COREFILE: &str = "/api/v1/namespaces/kube-system/configmaps/coredns";
    const KUBEADM: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

    fn workload() -> FakeApi {
        let api = FakeApi::default();
        let image = "registry.k8s.io/coredns/coredns:v1.12.0";
        let containers = json!([{"name": "sidecar", "image": "a"}, {"name": "coredns", "image": image}]);
        let template = json!({"metadata": {}, "spec": {"containers": containers}});
        api.put(DEPLOYMENT, json!({"metadata": {}, "spec": {"selector": {}, "template": template}}));
        api.put(COREFILE, json!({"metadata": {}, "data": {"Corefile": ".:53 {}"}}));
        api.put(KUBEADM, json!({"metadata": {}, "data": {RECORD: "kind: ClusterConfiguration\n"}}));
        api
    }

    fn settings(tag: &str) -> ClusterConfiguration {
        serde_json::from_value(json!({"dns": {"imageTag": tag}})).unwrap()
    }

    /// A change of clusterConfiguration.dns was accepted, and nothing happened.
    #[tokio::test]
    async fn core_dns_gets_the_image_of_the_settings_and_kubeadm_a_record_of_it() {
        let api = workload();
        let new = "registry.k8s.io/coredns/coredns:v1.12.4";
        assert_eq!(update(&api.client(), &settings("v1.12.4")).await, Ok(Some(new.to_owned())));
        // This API replaces lists as a whole; a real one merges the containers by their names.
        let containers = api.get(DEPLOYMENT).unwrap()["spec"]["template"]["spec"]["containers"].clone();
        assert_eq!(containers, json!([{"name": "coredns", "image": new}]));
        let record = api.get(KUBEADM).unwrap()["data"][RECORD].as_str().unwrap().to_owned();
        assert!(record.contains("imageTag: v1.12.4"), "{record}");
        assert_eq!(update(&api.client(), &settings("v1.12.4")).await, Ok(None), "it has the image now");
        assert!(update(&api.client(), &settings("v1.11.0")).await.unwrap_err().contains("cannot go back"));
    }

    #[tokio::test]
    async fn a_core_dns_that_kubeadm_did_not_make_stays() {
        for path in [DEPLOYMENT, COREFILE] {
            let api = workload();
            api.remove(path);
            assert_eq!(update(&api.client(), &settings("v1.12.4")).await, Ok(None), "{path}");
            assert_eq!(api.writes(), 0);
        }
    }

    #[test]
    fn core_dns_is_left_alone_without_settings_and_with_the_annotation() {
        let mut control_plane = KubeadmControlPlane::default();
        let spec = |dns: Value| serde_json::from_value(json!({"clusterConfiguration": dns})).unwrap();
        control_plane.spec.kubeadm_config_spec = spec(json!({"imageRepository": "a"}));
        assert_eq!(wish(&control_plane), None);
        control_plane.spec.kubeadm_config_spec = spec(json!({"dns": {"imageTag": "v1.12.4"}}));
        assert!(wish(&control_plane).is_some());
        control_plane.annotations_mut().insert(SKIP.to_owned(), String::new());
        assert_eq!(wish(&control_plane), None);
    }

    #[test]
    fn the_condition_appears_with_the_first_error_and_is_true_afterwards() {
        let mut control_plane = KubeadmControlPlane::default();
        let now = Time::default();
        assert_eq!(condition(&control_plane, None, &now), None);
        assert_eq!(condition(&control_plane, Some(&Ok(())), &now), None);
        let bad = condition(&control_plane, Some(&Err("no".to_owned())), &now).unwrap();
        assert_eq!((bad.reason.as_str(), bad.message.as_str()), ("NotUpToDate", "no"));
        control_plane.status.get_or_insert_default().conditions = Some(vec![bad]);
        assert!(condition(&control_plane, Some(&Ok(())), &now).is_some_and(|it| it.holds()));
        assert_eq!(condition(&control_plane, None, &now), None, "what is known stays");
    }
}
