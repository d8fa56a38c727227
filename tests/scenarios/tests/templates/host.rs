//! Templates that are applied through a host cluster.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tests_hollow_cluster::{HollowClusters, HollowOptions};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::Site;
use crate::source::{self, OWN_FOLDER, Template};

/// Variable with the path of a kubeconfig for the kube-apiserver of the host.
const KUBECONFIG: &str = "CAPSTAN_HOST_KUBECONFIG";

/// Templates that are applied if `CAPSTAN_TEMPLATE` selects no others: both versions, a load balancer and none, both
/// formats of boot documents, and several zones. `cluster-identity` needs the namespace `default`, which has the objects
/// of other scenarios.
const USUAL: [&str; 4] = ["capo/capi-v1beta1", "capo/flatcar-sysext", "capo/without-lb", "capo-e2e/multi-az"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Capstan behind a host cluster; `cargo xtask e2e --only host` runs it"]
async fn templates_become_available_clusters_through_the_host() {
    let path = std::env::var_os(KUBECONFIG).unwrap_or_else(|| panic!("{KUBECONFIG} is not set"));
    // Another test of the same process may have done so.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let options = SimulatorOptions {
        external_cidr: tests_hollow_cluster::loopback_range(),
        ..SimulatorOptions::default()
    };
    let hollow = HollowOptions { sets_provider_ids: true, ..HollowOptions::default() };
    let cloud = Simulator::start(options).await.unwrap();
    let hollow = HollowClusters::start(cloud.hypervisor(), hollow);
    // The host of the test has no garbage collector.
    let client = Client::try_from(config).unwrap();
    let site = Site { client, cloud: &cloud, keeps_secrets: true, upgrades: false };
    site.live(&templates()).await;
    drop(hollow);
}

/// Returns the usual templates of upstream, or our own without them.
fn templates() -> Vec<Template> {
    let (mut templates, _) = source::all();
    if std::env::var_os("CAPSTAN_TEMPLATE").is_some() {
        return templates;
    }
    let has_upstream = templates.iter().any(|template| USUAL.contains(&template.name.as_str()));
    templates.retain(|template| match has_upstream {
        true => USUAL.contains(&template.name.as_str()),
        false => template.name.starts_with(OWN_FOLDER),
    });
    templates
}
