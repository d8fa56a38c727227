//! Tests of upstream's templates: each is applied as a user applies it, and becomes a cluster that is Available.
//!
//! The templates are not part of this repository. The test reads them from the folder in `CAPSTAN_UPSTREAM`, or from
//! `../shared/upstream` beside the checkout. Without that folder, it tests the manifests in `own/` only.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod health;
mod host;
mod manifest;
mod objects;
mod progress;
mod replay;
mod rest;
mod source;

use std::time::Instant;

use futures::StreamExt;
use kube::Client;
use kube::api::DeleteParams;
use tests_hollow_cluster::HollowOptions;
use tests_openstack_simulator::Simulator;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use manifest::NEXT_VERSION;
use progress::{Progress, Wanted};
use source::Template;

/// Number of templates that live side by side. More would not be faster on two cores.
const SIDE_BY_SIDE: usize = 4;

/// Templates whose ClusterClass is in no file: it needs an extension server, which Capstan does not call. The list may only
/// shrink.
const WITHOUT_CLASS: [&str; 1] = ["capi-openstack/topology-kubeadm-version"];

/// Templates whose clusters are upgraded and scaled in each run: one with a health check in the older API version, and one
/// with a class, a load balancer and the image in a variable. [`ALL`] upgrades the others too, which takes half an hour.
const UPGRADED: [&str; 2] = ["own/v1beta1", "capo-e2e/topology-bastion"];

/// Variable that, if set, has the clusters of all templates upgraded and scaled.
const ALL: &str = "CAPSTAN_UPGRADE_ALL";

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
    let (mut templates, without_class) = source::all();
    templates.retain(|template| !template.name.starts_with(source::OWN_FOLDER));
    let unknown: Vec<_> =
        without_class.iter().filter(|name| !WITHOUT_CLASS.contains(&name.as_str())).collect();
    assert!(unknown.is_empty(), "these templates have no ClusterClass, and are not listed: {unknown:?}");
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
    let site = Site { client: world.admin(), cloud: &world.cloud, keeps_secrets: false, upgrades: true };
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
    /// True if clusters are upgraded and scaled.
    upgrades: bool,
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
        let mut result = self.apply(template).await;
        if result.is_ok() {
            result = progress.until_available().await;
            eprintln!("{}: {:?} until it is available, or not", template.name, begun.elapsed());
            if result.is_ok() && self.upgrades(template) {
                result = self.change(template, &progress).await;
                eprintln!("{}: {:?} until it is upgraded and scaled, or not", template.name, begun.elapsed());
            }
            progress.clusters().delete(&progress.cluster, &DeleteParams::background()).await.unwrap();
            result = result.and(progress.until_gone(self.keeps_secrets).await);
            result = result.and(progress.delete_images().await);
            eprintln!("{}: {:?} until it is gone, or not", template.name, begun.elapsed());
        }
        result.err().map(|words| format!("{}: {words}", template.name))
    }

    async fn apply(&self, template: &Template) -> Result<(), String> {
        let (namespace, class) = template.class();
        let documents = template.documents(&self.cloud.address());
        for (namespace, documents) in
            [(namespace, class), (template.namespace.as_str(), documents.as_slice())]
        {
            let applied = tests_scenarios::apply(&self.client, namespace, documents).await;
            applied.map_err(|error| format!("{error:#}"))?;
        }
        Ok(())
    }

    fn upgrades(&self, template: &Template) -> bool {
        self.upgrades && (UPGRADED.contains(&template.name.as_str()) || std::env::var_os(ALL).is_some())
    }

    /// Upgrades the cluster by a minor version, and then scales it.
    async fn change(&self, template: &Template, progress: &Progress) -> Result<(), String> {
        let mut manifest = template.manifest(&self.cloud.address());
        let mut wanted = Wanted::of(template);
        for step in ["upgrade", "scale"] {
            let documents = match step {
                "upgrade" => manifest.upgrade(),
                _ => manifest.scale(),
            };
            let applied = tests_scenarios::apply(&self.client, &template.namespace, &documents).await;
            applied.map_err(|error| format!("{step}: {error:#}"))?;
            (wanted.control_plane, wanted.workers) = (manifest.control_plane(), manifest.workers());
            wanted.version = NEXT_VERSION;
            if step == "scale" {
                wanted.workers += progress.add_worker_to(&manifest.groups_without_number()).await;
            }
            progress.until(&wanted).await.map_err(|error| format!("{step}: {error}"))?;
        }
        Ok(())
    }
}
