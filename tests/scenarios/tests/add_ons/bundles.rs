//! Bundles of `manifests/addons` on a hollow cluster: its labels choose add-ons, and the version of its minor.

use std::path::{Path, PathBuf};
use std::time::Duration;

use apiserver_types::{Cluster, ClusterResourceSet};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::IngressClass;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::testbed::Testbed;

/// Looks after which a state does not come any more; they take at least four minutes.
const LOOKS: usize = 2400;

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// Creates sets and ConfigMaps of all bundles, as `kubectl apply -k` does.
async fn install(bed: &Testbed) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/addons");
    let bundles: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(bundles.len() >= 8, "{bundles:?}");
    for bundle in bundles {
        let kustomization: Value = serde_saphyr::from_str(&read(&bundle.join("kustomization.yaml"))).unwrap();
        for generated in kustomization["configMapGenerator"].as_array().unwrap() {
            let data = texts(&generated["files"]).into_iter();
            let data: serde_json::Map<String, Value> =
                data.map(|file| (file.clone(), json!(read(&bundle.join(file))))).collect();
            let map = json!({"metadata": {"name": generated["name"]}, "data": data});
            let map: ConfigMap = serde_json::from_value(map).unwrap();
            bed.api::<ConfigMap>().create(&PostParams::default(), &map).await.unwrap();
        }
        for set in texts(&kustomization["resources"]) {
            let set: ClusterResourceSet = serde_saphyr::from_str(&read(&bundle.join(set))).unwrap();
            bed.api::<ClusterResourceSet>().create(&PostParams::default(), &set).await.unwrap();
        }
    }
}

async fn label(bed: &Testbed, labels: Value) {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    bed.api::<Cluster>().patch("blue", &PatchParams::default(), &patch).await.unwrap();
}

/// Waits until a DaemonSet of the workload cluster has this image.
async fn until_image(bed: &Testbed, name: &str, image: &str) {
    let api: Api<DaemonSet> = Api::namespaced(bed.workload().await, "kube-system");
    let mut found = None;
    for _ in 0..LOOKS {
        found = api
            .get_opt(name)
            .await
            .ok()
            .flatten()
            .and_then(|it| it.spec.unwrap().template.spec.unwrap().containers.remove(0).image);
        if found.as_deref() == Some(image) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} has the image {found:?}, not {image}");
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_of_a_cluster_choose_shipped_add_ons_and_the_version_of_its_minor() {
    let bed = Testbed::start().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    install(&bed).await;
    bed.create_cluster().await;
    let labels = json!({
        "capstan.dev/cni": "calico", "capstan.dev/ccm": "openstack", "capstan.dev/csi": "cinder",
        "capstan.dev/metrics": "metrics-server", "capstan.dev/ingress": "traefik",
        "capstan.dev/monitoring": "prometheus", "capstan.dev/kubernetes": "1.33",
    });
    label(&bed, labels).await;
    // Without the kinds of the Prometheus Operator, that set waits. The others do not.
    let message = bed.until_reason("monitoring", "NotApplied").await;
    assert!(message.contains("does not serve PodMonitor of monitoring.coreos.com/v1"), "{message}");
    for set in ["calico-1.33", "openstack-ccm-1.33", "cinder-csi-1.33", "metrics-server", "traefik"] {
        let mut looks = 0;
        while bed.recorded(set).await.iter().any(|(applied, _)| !applied)
            || bed.recorded(set).await.is_empty()
        {
            assert!(looks < LOOKS, "{set}: {:?}", bed.api::<ClusterResourceSet>().get(set).await);
            looks += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    until_image(&bed, "calico-node", "quay.io/calico/node:v3.31.7").await;
    let deployments: Api<Deployment> = Api::namespaced(bed.workload().await, "traefik");
    assert!(deployments.get_opt("traefik").await.unwrap().is_some());
    let classes: Api<IngressClass> = Api::all(bed.workload().await);
    assert!(classes.get_opt("traefik").await.unwrap().is_some());
    for other in ["calico-1.34", "cilium", "flannel", "openstack-ccm-1.34"] {
        assert_eq!(bed.recorded(other).await, [], "no label names it");
    }

    // After an upgrade of the control plane, another label brings the version of the minor.
    label(&bed, json!({"capstan.dev/kubernetes": "1.34"})).await;
    until_image(&bed, "calico-node", "quay.io/calico/node:v3.32.2").await;
    let ccm = "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.34.1";
    until_image(&bed, "openstack-cloud-controller-manager", ccm).await;
    term.cancel();
    running.join_all().await;
}
