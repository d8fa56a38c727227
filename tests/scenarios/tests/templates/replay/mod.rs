//! Replay of what was recorded of upstream's controllers: the same manifest and the same steps on hollow clusters, with
//! a comparison of all objects at each rest, and with the calls to the cloud counted.
//!
//! `differences.txt` lists the differences that are known. A line that matches no difference is an error, so that the
//! list only shrinks. With `CAPSTAN_WRITE_DIFFERENCES` the test writes all unknown ones to that file.

mod deletion;
mod differences;
mod facts;
mod stage;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::source::{self, Template};
use differences::Comparison;
use stage::{Machines, Stage};

/// Delay of boots until the state before the first Node has been compared.
const UNTIL_COMPARED: Duration = Duration::from_secs(3600);

/// Delay of boots afterwards.
const SOON: Duration = Duration::from_millis(50);

/// Most calls for one Machine.
const CALLS_PER_MACHINE: usize = 15;

/// Manifest that was recorded.
const MANIFEST: &str = "capo/without-lb";

/// A running replay.
struct Replay<'a> {
    world: &'a World,
    hollow: &'a HollowClusters,
    stage: Stage,
    comparison: Comparison,
    folder: PathBuf,
    begun: Instant,
}

impl Replay<'_> {
    /// Returns the recorded objects of a step. The replay takes the user's changes from them.
    fn recorded(&self, step: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.join(format!("{step}.yaml"))).unwrap();
        // The recorder left a text without quotes that YAML 1.1 takes for a boolean.
        let text = text.replace("note: y\n", "note: \"y\"\n");
        serde_saphyr::from_multiple(&text).unwrap()
    }

    /// Compares the objects at the rest after a step.
    async fn compare(&mut self, step: &str, machines: Machines) {
        let theirs = facts::of_all(&self.recorded(step));
        let fits = |objects: &[Value]| self.comparison.fits(step, &theirs, &facts::of_all(objects));
        let rest = self.stage.rest(machines, fits).await;
        self.comparison.add(step, &theirs, &facts::of_all(&rest));
        eprintln!("{step}: at rest after {:?}", self.begun.elapsed());
    }

    /// Creates the cluster.
    async fn create(&mut self, template: &Template) {
        self.hollow.boot_delay(UNTIL_COMPARED);
        let documents = template.documents(&self.world.cloud.address());
        self.world.apply(&template.namespace, &documents).await.unwrap();
        self.compare("1-provisioned", Machines(3, "Provisioned", 1)).await;
        self.hollow.boot_delay(SOON);
        self.compare("2-running", Machines(3, "Running", 3)).await;
        let secrets = facts::of_all(&self.recorded("secrets"));
        let ours = facts::of_all(&self.stage.secrets().await);
        self.comparison.add("secrets", &secrets, &ours);
    }

    /// Adds a worker and removes one. Returns the calls for the creation of its Machine.
    async fn scale(&mut self) -> Vec<String> {
        self.world.cloud.clear_log();
        self.stage.change_workers(&json!({"spec": {"replicas": 3}})).await;
        self.compare("3-scaled-out", Machines(4, "Running", 4)).await;
        let calls = self.world.cloud.log();
        self.stage.change_workers(&json!({"spec": {"replicas": 2}})).await;
        self.compare("4-scaled-in", Machines(3, "Running", 3)).await;
        calls.iter().map(|call| format!("{} {}", call.method, call.path)).collect()
    }

    /// Changes the template of the workers: first with new Machines, then in place.
    async fn roll_out(&mut self) {
        for (step, template) in [("5-rolled-out", Some("capo-without-lb-md-0-v2")), ("6-in-place", None)] {
            let objects = self.recorded(step);
            if let Some(name) = template {
                let made = find(&objects, "OpenStackMachineTemplate", name);
                let made = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
                    "metadata": {"name": name}, "spec": made["spec"]});
                self.world.apply(self.stage.namespace(), &[made]).await.unwrap();
            }
            let workers = find(&objects, "MachineDeployment", "capo-without-lb-md-0");
            let template = &workers["spec"]["template"];
            self.stage.change_workers(&json!({"spec": {"template": template}})).await;
            self.compare(step, Machines(3, "Running", 3)).await;
        }
    }
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name} was recorded"))
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_at_each_rest_as_upstream_left_them() {
    let Some(folder) = source::folder("observed/without-lb") else { return };
    let (templates, _) = source::all();
    let Some(template) = templates.into_iter().find(|template| template.name == MANIFEST) else { return };
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let stage = Stage::new(&world, &template.namespace);
    let (comparison, begun) = (Comparison::new(), Instant::now());
    let mut replay = Replay { world: &world, hollow: &hollow, stage, comparison, folder, begun };

    replay.create(&template).await;
    let calls = replay.scale().await;
    replay.roll_out().await;
    deletion::remediate(&mut replay).await;
    deletion::delete(&mut replay).await;
    assert!(world.cloud.inventory("demo").is_empty(), "{}", world.counts());
    let found = replay.comparison.finish();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    assert!(calls.len() <= CALLS_PER_MACHINE, "{} calls for one Machine:\n{}", calls.len(), calls.join("\n"));
    term.cancel();
    running.join_all().await;
}
