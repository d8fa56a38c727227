//! CoreDNS of the workload cluster, whose image and Corefile follow the settings of the control plane.

use apiserver_types::{ClusterConfiguration, KubeadmControlPlane};
use controllers_bootstrap::core_dns;
use controllers_workload::{WorkloadError, found};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Container};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::connection::{KUBEADM_CONFIG, SYSTEM};
use super::workload_settings::RECORD;

/// Annotation that excludes CoreDNS. Upstream's name.
const SKIP: &str = "controlplane.cluster.x-k8s.io/skip-coredns";

/// Name of Deployment, container and ConfigMap.
const CORE_DNS: &str = "coredns";

/// Key of the configuration in the ConfigMap, and name of its file.
const COREFILE: &str = "Corefile";

/// Key of the configuration before the last migration. Upstream's name.
const BACKUP: &str = "Corefile-backup";

/// Returns the settings of the cluster, if they have any of CoreDNS that is to be applied.
pub(super) fn wish(control_plane: &KubeadmControlPlane) -> Option<&ClusterConfiguration> {
    let spec = control_plane.spec.kubeadm_config_spec.as_ref()?;
    let concerns = |it: &&ClusterConfiguration| it.dns.is_some() || it.image_repository.is_some();
    let configuration = spec.cluster_configuration.as_ref().filter(concerns)?;
    (!control_plane.annotations().contains_key(SKIP)).then_some(configuration)
}

/// Gives CoreDNS the image of the settings, and a Corefile that it reads. Returns a new image. Each part can be repeated,
/// and no pod starts the old image with the new Corefile: until the end, pods get a copy of the old one.
///
/// # Errors
/// The image cannot be changed, or a call failed. For people.
pub(super) async fn update(client: &Client, wish: &ClusterConfiguration) -> Result<Option<String>, String> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), SYSTEM);
    let read = |error: WorkloadError| format!("Deployment {SYSTEM}/{CORE_DNS}: {error}");
    let Some(deployment) = found(deployments.get(CORE_DNS).await).map_err(read)? else { return Ok(None) };
    let Some(container) = container(&deployment) else { return Ok(None) };
    let current = container.image.as_deref().unwrap_or_default();
    let Some(image) = core_dns::image(current, wish)? else { return Ok(None) };
    // A cluster without the ConfigMap has a CoreDNS of its own.
    let configs: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
    let read = |name: &'static str| move |error: WorkloadError| format!("ConfigMap {SYSTEM}/{name}: {error}");
    let config = found(configs.get(CORE_DNS).await).map_err(read(CORE_DNS))?;
    let Some(config) = config else { return Ok(None) };
    let text = config.data.as_ref().and_then(|data| data.get(COREFILE)).map_or("", String::as_str);
    let migrated = core_dns::corefile(text, current, &image)
        .map_err(|error| format!("ConfigMap {SYSTEM}/{CORE_DNS}, key {COREFILE}: {error}"))?;
    // First the record, so that an attempt that ends in between is made again.
    let record = found(configs.get(KUBEADM_CONFIG).await).map_err(read(KUBEADM_CONFIG))?;
    if let Some(change) = record.map(|record| recorded(&record, wish)).transpose()?.flatten() {
        write(&configs, KUBEADM_CONFIG, &Patch::Merge(&change)).await?;
    }
    if let Some(migrated) = migrated {
        let revision = json!({"resourceVersion": config.resource_version()});
        let backup = json!({"metadata": revision, "data": {BACKUP: text}});
        write(&configs, CORE_DNS, &Patch::Merge(&backup)).await?;
        if let Some(volumes) = volumes(&deployment, BACKUP) {
            let change = json!({"spec": {"template": {"spec": {"volumes": volumes}}}});
            write(&deployments, CORE_DNS, &Patch::Strategic(&change)).await?;
        }
        write(&configs, CORE_DNS, &Patch::Merge(&json!({"data": {COREFILE: migrated}}))).await?;
    }
    let mut pod = json!({"containers": [{"name": CORE_DNS, "image": image}]});
    if let Some(volumes) = volumes(&deployment, COREFILE) {
        pod["volumes"] = volumes;
    }
    let change = json!({"spec": {"template": {"spec": pod}}});
    write(&deployments, CORE_DNS, &Patch::Strategic(&change)).await?;
    Ok(Some(image))
}

async fn write<K>(api: &Api<K>, name: &str, patch: &Patch<&Value>) -> Result<(), String>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let written = api.patch(name, &PatchParams::default(), patch).await;
    let failed = |error| {
        let error = controllers_workload::describe(&error);
        format!("write {} {SYSTEM}/{name}: {error}", K::kind(&()))
    };
    written.map(drop).map_err(failed)
}

/// Returns the volume with the Corefile, filled from this key; `None` if the Deployment has no such volume.
fn volumes(deployment: &Deployment, key: &str) -> Option<Value> {
    let volumes = deployment.spec.as_ref()?.template.spec.as_ref()?.volumes.as_ref()?;
    let is_ours = |it: &&k8s_openapi::api::core::v1::Volume| {
        it.config_map.as_ref().is_some_and(|map| map.name == CORE_DNS)
    };
    let volume = volumes.iter().find(is_ours)?;
    let items = json!([{"key": key, "path": COREFILE}]);
    Some(json!([{"name": volume.name, "configMap": {"name": CORE_DNS, "items": items}}]))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_in_memory::FakeApi;

    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";
    const CONFIG: &str = "/api/v1/namespaces/kube-system/configmaps/coredns";
    const KUBEADM: &str = "/api/v1/namespaces/kube-system/configmaps/kubeadm-config";

    fn workload() -> FakeApi {
        let api = FakeApi::default();
        let image = "registry.k8s.io/coredns/coredns:v1.12.0";
        let containers = json!([{"name": "sidecar", "image": "a"}, {"name": "coredns", "image": image}]);
        let template = json!({"metadata": {}, "spec": {"containers": containers}});
        api.put(DEPLOYMENT, json!({"metadata": {}, "spec": {"selector": {}, "template": template}}));
        api.put(CONFIG, json!({"metadata": {}, "data": {"Corefile": ".:53 {}"}}));
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

    fn old_workload() -> FakeApi {
        let api = workload();
        let volume = json!({"name": "config-volume", "configMap": {"name": "coredns", "defaultMode": 420,
            "items": [{"key": "Corefile", "path": "Corefile"}]}});
        let containers = json!([{"name": "coredns", "image": "a/coredns:1.6.7"}]);
        let template = json!({"metadata": {}, "spec": {"containers": containers, "volumes": [volume]}});
        api.put(DEPLOYMENT, json!({"metadata": {}, "spec": {"selector": {}, "template": template}}));
        api.put(
            CONFIG,
            json!({"metadata": {}, "data": {"Corefile": ".:53 {\n    forward . /etc/resolv.conf\n}\n"}}),
        );
        api
    }

    fn mounted(api: &FakeApi) -> Value {
        let deployment = api.get(DEPLOYMENT).unwrap();
        deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"][0]["key"].clone()
    }

    #[tokio::test]
    async fn d9_an_old_corefile_is_kept_and_migrated_before_the_image_changes_also_after_a_crash() {
        use crate::api_in_memory::Crash;
        for write in 1..=6 {
            for side in [Crash::Before, Crash::After] {
                let api = old_workload();
                api.crash_at(Some((write, side)));
                let first = update(&api.client(), &settings("1.8.0")).await;
                let has_new = |api: &FakeApi| {
                    api.get(CONFIG).unwrap()["data"]["Corefile"].as_str().unwrap().contains("max_concurrent")
                };
                let image = |api: &FakeApi| {
                    api.get(DEPLOYMENT).unwrap()["spec"]["template"]["spec"]["containers"][0]["image"].clone()
                };
                if first.is_err() && has_new(&api) && image(&api) == "a/coredns:1.6.7" {
                    assert_eq!(
                        mounted(&api),
                        "Corefile-backup",
                        "{write} {side:?}: the old image has the new Corefile"
                    );
                }
                api.crash_at(None);
                update(&api.client(), &settings("1.8.0")).await.unwrap();
                let data = api.get(CONFIG).unwrap()["data"].clone();
                assert!(
                    has_new(&api) && !data["Corefile-backup"].as_str().unwrap().contains("max_concurrent"),
                    "{data}"
                );
                assert_eq!(
                    (mounted(&api), image(&api)),
                    (json!("Corefile"), json!("a/coredns:1.8.0")),
                    "{write} {side:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_core_dns_that_kubeadm_did_not_make_stays() {
        for path in [DEPLOYMENT, CONFIG] {
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
        control_plane.spec.kubeadm_config_spec = spec(json!({"certificatesDir": "a"}));
        assert_eq!(wish(&control_plane), None);
        control_plane.spec.kubeadm_config_spec = spec(json!({"imageRepository": "a"}));
        assert!(wish(&control_plane).is_some());
        control_plane.spec.kubeadm_config_spec = spec(json!({"dns": {"imageTag": "v1.12.4"}}));
        assert!(wish(&control_plane).is_some());
        control_plane.annotations_mut().insert(SKIP.to_owned(), String::new());
        assert_eq!(wish(&control_plane), None);
    }
}
