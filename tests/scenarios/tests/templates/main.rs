//! Tests of upstream's templates: each is applied as a user applies it, and becomes a cluster that is Available.
//!
//! The templates are not part of this repository. The test reads them from the folder in `CAPSTAN_UPSTREAM`, or from
//! `../shared/upstream` beside the checkout. Without that folder, it tests the manifests in `own/` only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod health;
mod host;
mod objects;
mod progress;
mod replay;
mod source;

use std::time::Instant;

use futures::StreamExt;
use kube::Client;
use kube::api::DeleteParams;
use tests_hollow_cluster::HollowOptions;
use tests_openstack_simulator::Simulator;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use progress::Progress;
use source::Template;

/// Number of templates that live side by side. More would not be faster on two cores.
const SIDE_BY_SIDE: usize = 4;

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

/// Folder of templates that were derived from those of Cluster API's own tests.
const DERIVED_FOLDER: &str = "capi-openstack/";

#[tokio::test(flavor = "multi_thread")]
async fn our_own_templates_become_available_clusters_and_are_deleted_without_a_trace() {
    let (mut templates, _) = source::all();
    templates.retain(|template| template.name.starts_with(source::OWN_FOLDER));
    become_clusters(&templates, HollowOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn r19_1_r19_2_templates_of_upstream_become_clusters_and_are_deleted_without_a_trace() {
    let (mut templates, topologies) = source::all();
    templates.retain(|template| !template.name.starts_with(source::OWN_FOLDER));
    let unknown: Vec<_> = topologies.iter().filter(|name| !WAITING.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "these templates have a ClusterClass, and are not listed: {unknown:?}");
    eprintln!("{} templates wait for ClusterClass: {}", topologies.len(), topologies.join(", "));
    let is_derived = |template: &Template| template.name.starts_with(DERIVED_FOLDER);
    let (derived, templates): (Vec<_>, Vec<_>) = templates.into_iter().partition(is_derived);
    become_clusters(&templates, HollowOptions::default()).await;
    // They do not say that a cloud controller manager sets the ids, so their provider does.
    let options = HollowOptions { sets_provider_ids: true, ..HollowOptions::default() };
    become_clusters(&derived, options).await;
}

/// Lets templates live in one world.
async fn become_clusters(templates: &[Template], options: HollowOptions) {
    let (world, hollow) = World::start_with_hollow_clusters_of(options).await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let site = Site { client: world.admin(), cloud: &world.cloud, keeps_secrets: false };
    site.live(templates).await;
    term.cancel();
    running.join_all().await;
    drop(hollow);
}

/// A Capstan and its cloud.
struct Site<'a> {
    client: Client,
    cloud: &'a Simulator,
    /// True if Secrets outlive their owners, because no garbage collector runs.
    keeps_secrets: bool,
}

impl Site<'_> {
    /// Lets templates live side by side. Afterwards the project is as it was before.
    async fn live(&self, templates: &[Template]) {
        let empty = tests_scenarios::counts(self.cloud);
        let lives = futures::stream::iter(templates).map(|template| self.life(template));
        let results: Vec<Option<String>> = lives.buffer_unordered(SIDE_BY_SIDE).collect().await;
        let failed: Vec<String> = results.into_iter().flatten().collect();
        assert!(failed.is_empty(), "{}", failed.join("\n\n"));
        let left = tests_scenarios::counts(self.cloud);
        assert_eq!(left, empty, "the deleted clusters left resources behind");
    }

    /// Lets a template live from its creation to its deletion. Returns what went wrong.
    async fn life(&self, template: &Template) -> Option<String> {
        let progress = Progress::new(self.client.clone(), template);
        let begun = Instant::now();
        let documents = template.documents(&self.cloud.address());
        let applied = tests_scenarios::apply(&self.client, &template.namespace, &documents).await;
        let mut result = applied.map_err(|error| format!("{error:#}"));
        if result.is_ok() {
            result = progress.until_available().await;
            eprintln!("{}: {:?} until it is available, or not", template.name, begun.elapsed());
            progress.clusters().delete(&progress.cluster, &DeleteParams::background()).await.unwrap();
            result = result.and(progress.until_gone(self.keeps_secrets).await);
            eprintln!("{}: {:?} until it is gone, or not", template.name, begun.elapsed());
        }
        result.err().map(|words| format!("{}: {words}", template.name))
    }
}
