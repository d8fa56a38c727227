//! Tests of upstream's templates: each is applied as a user applies it, and becomes a cluster that is Available.
//!
//! The templates are not part of this repository. The test reads them from the folder in `CAPSTAN_UPSTREAM`, or from
//! `../shared/upstream` beside the checkout. Without that folder, it tests the manifests in `own/` only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod health;
mod progress;
mod replay;
mod source;

use std::time::Instant;

use controllers_infrastructure::NetworkQuery;
use futures::future::join_all;
use kube::api::DeleteParams;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use progress::Progress;
use source::Template;

/// Templates of upstream whose clusters have a ClusterClass, which no controller reads yet. The list may only shrink.
const WAITING: [&str; 10] = [
    "capo/topology",
    "capo-e2e/topology",
    "capo-e2e/topology-autoscaler",
    "capo-e2e/topology-bastion",
    "capi-openstack/kcp-pre-drain",
    "capi-openstack/topology",
    "capi-openstack/topology-autoscaler",
    "capi-openstack/topology-kcp-only",
    "capi-openstack/topology-kubeadm-version",
    "capi-openstack/topology-no-workers",
];

/// Templates that are tested if `CAPSTAN_TEMPLATE` selects no others: both versions, a load balancer and an identity of
/// all namespaces. All templates take several minutes.
const USUAL: [&str; 2] = ["capo/capi-v1beta1", "capo-e2e/cluster-identity"];

#[tokio::test(flavor = "multi_thread")]
async fn our_own_templates_become_available_clusters_and_are_deleted_without_a_trace() {
    let (templates, _) = source::all();
    become_clusters(templates.into_iter().filter(|it| it.name.starts_with(source::OWN_FOLDER)).collect())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn templates_of_upstream_become_available_clusters_and_are_deleted_without_a_trace() {
    let (mut templates, topologies) = source::all();
    templates.retain(|template| !template.name.starts_with(source::OWN_FOLDER));
    let unknown: Vec<_> = topologies.iter().filter(|name| !WAITING.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "these templates have a ClusterClass, and are not listed: {unknown:?}");
    if std::env::var_os("CAPSTAN_TEMPLATE").is_none() {
        templates.retain(|template| USUAL.contains(&template.name.as_str()));
    }
    eprintln!("{} templates wait for ClusterClass: {}", topologies.len(), topologies.join(", "));
    become_clusters(templates).await;
}

/// Lets templates live side by side in one world.
async fn become_clusters(templates: Vec<Template>) {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let external = external_network(&world).await;
    let results = join_all(templates.iter().map(|template| live(&world, template, &external))).await;
    let failed: Vec<String> = results.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert_eq!(world.counts(), empty, "the deleted clusters left resources behind");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}

/// Lets a template live from its creation to its deletion. Returns what went wrong.
async fn live(world: &World, template: &Template, external_network: &str) -> Option<String> {
    let progress = Progress::new(world, template);
    let begun = Instant::now();
    let documents = template.documents(&world.cloud.address(), external_network);
    let mut result = world.apply(&template.namespace, &documents).await.map_err(|error| format!("{error:#}"));
    if result.is_ok() {
        result = progress.until_available().await;
        eprintln!("{}: {:?} until it is available", template.name, begun.elapsed());
        progress.clusters().delete(&progress.cluster, &DeleteParams::background()).await.unwrap();
        result = result.and(progress.until_gone().await);
        eprintln!("{}: {:?} until it is gone", template.name, begun.elapsed());
    }
    result.err().map(|words| format!("{}: {words}", template.name))
}

/// Returns the id of the cloud's external network.
pub(crate) async fn external_network(world: &World) -> String {
    let cloud = world.project().await.unwrap();
    let query = NetworkQuery { external: Some(true), ..NetworkQuery::default() };
    cloud.networks(&query).await.unwrap().pop().unwrap().id
}
