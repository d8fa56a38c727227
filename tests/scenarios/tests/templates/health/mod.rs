//! Health of a cluster's objects at each phase, as Argo CD and Flux compute it, and scaling as cluster-autoscaler does.
//!
//! The `.txt` files have the expected lines. With `CAPSTAN_WRITE_GOLDENS` the tests write them.

mod autoscaler;
mod changes;
mod reader;
mod rules;

use std::time::Duration;

use kube::api::DeleteParams;
use tests_hollow_cluster::HollowClusters;
use tests_openstack_simulator::{FaultEffect, InjectedFault};
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::objects::Namespace;
use crate::progress::Progress;
use crate::source::Template;
use reader::Reader;

/// Cluster with one control plane Machine and one worker.
const MANIFEST: &str = include_str!("../../whole_cluster/cluster.yaml");

/// Name of its MachineDeployment.
const WORKERS: &str = "blue-md-0";

/// Longest delay of a call to the cloud, until the objects have been read. It is shorter than the time limit of a call.
/// Unit: milliseconds.
const DELAY: u64 = 50_000;

/// Delay of boots until the objects have been read.
const UNTIL_READ: Duration = Duration::from_secs(3600);

/// Delay of boots otherwise.
const SOON: Duration = Duration::from_millis(50);

/// A cluster whose objects are read.
struct Scene {
    world: World,
    hollow: HollowClusters,
    template: Template,
    progress: Progress,
    reader: Reader,
    term: CancellationToken,
    running: JoinSet<()>,
}

impl Scene {
    /// Starts all controllers, for a cluster in this namespace.
    async fn start(namespace: &str, golden: &str) -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let term = CancellationToken::new();
        let running = tests_scenarios::run(&world, &term);
        let template = template(&world, namespace);
        let progress = Progress::new(world.admin(), &template);
        let objects = Namespace { client: world.admin(), name: namespace.to_owned() };
        Self { reader: Reader::new(objects, golden), world, hollow, template, progress, term, running }
    }

    /// Creates the cluster.
    async fn create(&self) {
        let documents = self.template.documents(&self.world.cloud.address());
        self.world.apply(&self.template.namespace, &documents).await.unwrap();
    }

    fn delay(&self, method: &str, path: &str) {
        self.world.cloud.inject(InjectedFault {
            method: Some(method.to_owned()),
            path: Some(path.to_owned()),
            ..InjectedFault::new(FaultEffect::Delay { milliseconds: DELAY })
        });
    }

    async fn end(self) {
        self.term.cancel();
        self.running.join_all().await;
    }
}

fn template(world: &World, namespace: &str) -> Template {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    Template::new(namespace, &MANIFEST.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds))
}

#[tokio::test(flavor = "multi_thread")]
async fn argo_cd_flux_and_cluster_autoscaler_read_what_they_expect_at_each_phase() {
    let mut scene = Scene::start("health", "phases.txt").await;
    scene.hollow.boot_delay(UNTIL_READ);
    scene.create().await;
    // The control plane boots, and the workers wait for it.
    scene.reader.rest("pending", "Pending").await;
    scene.delay("POST", "/servers");
    scene.hollow.boot_delay(SOON);
    scene.reader.rest("provisioning", "Provisioning").await;
    scene.hollow.boot_delay(UNTIL_READ);
    scene.world.cloud.clear_faults();
    scene.reader.rest("provisioned", "Provisioned").await;
    scene.hollow.boot_delay(SOON);
    scene.progress.until_available().await.unwrap();
    scene.reader.rest("running", "Running").await;
    autoscaler::up_and_down(&mut scene.reader).await;
    scene.delay("DELETE", "/servers/");
    scene.progress.clusters().delete(&scene.progress.cluster, &DeleteParams::background()).await.unwrap();
    scene.reader.rest("deleting", "Deleting").await;
    scene.world.cloud.clear_faults();
    scene.progress.until_gone(false).await.unwrap();
    scene.reader.compare();
    scene.end().await;
}
