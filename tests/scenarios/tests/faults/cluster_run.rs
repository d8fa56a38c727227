//! Creation and deletion of a cluster, with injected failures or without.

use std::sync::{Arc, Mutex};

use anyhow::{Context, ensure};
use apiserver_types::{
    Cluster, ClusterPhase, IPAddress, IPAddressClaim, Machine, OpenStackCluster, OpenStackFloatingIPPool,
    OpenStackMachine,
};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, World};

use crate::Case;
use crate::injection::{Spot, spots};
use crate::scene::Scene;

/// Password of the project's user, which is also its name.
const PASSWORD: &str = "demo";

/// Rounds without a change in the cloud after which a cluster is at rest.
const QUIET: usize = 8;

/// Run without failures: its calls, and the project's resources after each stage.
#[derive(Debug)]
pub(crate) struct CleanRun {
    pub(crate) scene: Scene,
    pub(crate) creating: Vec<Spot>,
    pub(crate) changing: Vec<Spot>,
    pub(crate) deleting: Vec<Spot>,
    created: String,
    changed: String,
    empty: String,
}

/// Creates, changes and deletes a cluster without failures.
pub(crate) async fn run_without_failures(scene: Scene) -> anyhow::Result<CleanRun> {
    let world = World::start().await?;
    let run = Run { world: &world, scene, namespace: "without-failures" };
    let empty = world.counts();
    run.create(None).await?;
    let (creating, created) = (spots(&world.cloud.log()), world.counts());
    scene.change_monitors(&world).await?;
    world.cloud.clear_log();
    run.change(None).await?;
    let (changing, changed) = (spots(&world.cloud.log()), world.counts());
    world.cloud.clear_log();
    run.delete(&empty).await?;
    let deleting = spots(&world.cloud.log());
    Ok(CleanRun { scene, creating, changing, deleting, created, changed, empty })
}

/// Creates, changes and deletes a cluster with failures.
pub(crate) async fn run_with_failures(world: &World, whole: &CleanRun, case: &Case) -> anyhow::Result<()> {
    let namespace = format!("case-{}", case.number);
    let run = Run { world, scene: whole.scene, namespace: &namespace };
    inject_failure(world, case.creating.as_ref(), case);
    run.create(Some(&whole.created)).await.context("creating the cluster")?;
    check_failure_occurred(world, case.creating.as_ref(), case)?;
    world.cloud.clear_faults();
    whole.scene.change_monitors(world).await?;
    inject_failure(world, case.changing.as_ref(), case);
    run.change(Some(&whole.changed)).await.context("changing the cluster")?;
    check_failure_occurred(world, case.changing.as_ref(), case)?;
    inject_failure(world, case.deleting.as_ref(), case);
    run.delete(&whole.empty).await.context("deleting the cluster")?;
    check_failure_occurred(world, case.deleting.as_ref(), case)?;
    let events: Api<Event> = Api::namespaced(world.admin(), &namespace);
    for event in events.list(&ListParams::default()).await? {
        is_clean(&json!({"message": event.message, "reason": event.reason}))?;
    }
    Ok(())
}

fn inject_failure(world: &World, spot: Option<&Spot>, case: &Case) {
    world.cloud.clear_log();
    world.cloud.clear_faults();
    if let Some(spot) = spot {
        spot.inject(world, case.mode);
    }
}

/// Start of the error of a run in which nothing failed.
pub(crate) const NO_CALL: &str = "the injected failure hit no call";

fn check_failure_occurred(world: &World, spot: Option<&Spot>, case: &Case) -> anyhow::Result<()> {
    let hit = spot.is_none_or(|spot| spot.was_hit(world, case.mode));
    ensure!(hit, "{NO_CALL}: {spot:?}");
    Ok(())
}

/// Cluster of one namespace.
#[derive(Clone, Copy)]
struct Run<'a> {
    world: &'a World,
    scene: Scene,
    namespace: &'a str,
}

impl Run<'_> {
    /// Creates the cluster, until the project has these resources.
    async fn create(self, counts: Option<&str>) -> anyhow::Result<()> {
        self.world.create(&self.scene.manifest(self.world, self.namespace)).await?;
        self.until_at_rest("the cluster is provisioned", counts).await
    }

    /// Changes the cluster, until the project has these resources.
    async fn change(self, counts: Option<&str>) -> anyhow::Result<()> {
        let Some(change) = self.scene.change() else { return Ok(()) };
        let clusters: Api<OpenStackCluster> = Api::namespaced(self.world.admin(), self.namespace);
        clusters.patch("c", &PatchParams::default(), &Patch::Merge(&change)).await?;
        self.until_at_rest("the cluster is changed", counts).await
    }

    /// Runs the controllers until everything is ready, and they change nothing any more.
    async fn until_at_rest(self, state: &str, counts: Option<&str>) -> anyhow::Result<()> {
        let controllers = Controllers::start(self.world, &Arc::new(CrashPoint::never()));
        let rest = Mutex::new((0, 0));
        let at_rest = |client: Client| async {
            let log = self.world.cloud.log();
            let changes = log.iter().filter(|call| call.method != "GET").count();
            let quiet = {
                let mut rest = rest.lock().unwrap();
                *rest = if rest.1 == changes { (rest.0 + 1, changes) } else { (0, changes) };
                rest.0
            };
            let complete = counts.is_none_or(|counts| self.world.counts() == counts);
            Ok(is_up(client, self.namespace).await? && complete && quiet >= QUIET)
        };
        let reached = controllers.until(state, at_rest).await;
        let missing = not_up(self.world.admin(), self.namespace).await?;
        reached.with_context(|| {
            let log = self.world.cloud.log();
            let last: Vec<String> = log
                .iter()
                .rev()
                .take(10)
                .map(|it| format!("{} {} {} {}", it.time, it.method, it.path, it.status))
                .collect();
            let counts = format!("the project has {} instead of {counts:?}", self.world.counts());
            format!("{counts}\nnot ready: {}\nlast calls:\n{}", missing.join("\n"), last.join("\n"))
        })
    }

    async fn delete(self, empty: &str) -> anyhow::Result<()> {
        let clusters: Api<Cluster> = Api::namespaced(self.world.admin(), self.namespace);
        clusters.delete("c", &DeleteParams::background()).await?;
        if self.scene.has_pool() {
            let pools: Api<OpenStackFloatingIPPool> = Api::namespaced(self.world.admin(), self.namespace);
            pools.delete("pool", &DeleteParams::default()).await?;
        }
        let controllers = Controllers::start(self.world, &Arc::new(CrashPoint::never()));
        let gone =
            controllers.until("the cluster is deleted", |client| is_gone(client, self.namespace)).await;
        gone.with_context(|| format!("left are {} instead of {empty}", self.world.counts()))?;
        ensure!(self.world.counts() == empty, "left are {} instead of {empty}", self.world.counts());
        Ok(())
    }
}

async fn is_up(client: Client, namespace: &str) -> anyhow::Result<bool> {
    Ok(not_up(client, namespace).await?.is_empty())
}

/// Returns the objects that are not ready, each with its status.
async fn not_up(client: Client, namespace: &str) -> anyhow::Result<Vec<String>> {
    let all = ListParams::default();
    let clusters = Api::<Cluster>::namespaced(client.clone(), namespace).list(&all).await?;
    let infrastructure = Api::<OpenStackCluster>::namespaced(client.clone(), namespace).list(&all).await?;
    let machines = Api::<Machine>::namespaced(client.clone(), namespace).list(&all).await?;
    let servers = Api::<OpenStackMachine>::namespaced(client.clone(), namespace).list(&all).await?;
    statuses_are_clean(client, namespace).await?;
    let provisioned = |cluster: &Cluster| {
        cluster.status.as_ref().and_then(|status| status.phase) == Some(ClusterPhase::Provisioned)
    };
    let current = |cluster: &OpenStackCluster| {
        let ready = cluster.condition("Ready").filter(|ready| ready.holds());
        ready.is_some_and(|ready| ready.observed_generation == cluster.metadata.generation)
    };
    let ready = |machine: &Machine| machine.condition("InfrastructureReady").is_some_and(|it| it.holds());
    let complete = |server: &OpenStackMachine| {
        let mut parts = ["FloatingAddressFromPoolReady", "APIServerIngressReady"].into_iter();
        parts.all(|kind| server.condition(kind).is_none_or(|it| it.holds()))
    };
    let mut missing = Vec::new();
    missing.extend(clusters.iter().filter(|it| !provisioned(it)).map(|it| json!(it.status).to_string()));
    missing.extend(infrastructure.iter().filter(|it| !current(it)).map(|it| json!(it.status).to_string()));
    missing.extend(machines.iter().filter(|it| !ready(it)).map(|it| json!(it.status).to_string()));
    missing.extend(servers.iter().filter(|it| !complete(it)).map(|it| json!(it.status).to_string()));
    Ok(missing)
}

/// Deletes the addresses without a claim, as the garbage collector does.
async fn collect_addresses(client: Client, namespace: &str) -> anyhow::Result<()> {
    let addresses: Api<IPAddress> = Api::namespaced(client.clone(), namespace);
    let claims: Api<IPAddressClaim> = Api::namespaced(client, namespace);
    for address in addresses.list(&ListParams::default()).await? {
        let is_deleted = address.metadata.deletion_timestamp.is_some();
        if !is_deleted && claims.get_opt(&address.spec.claim_ref.name).await?.is_none() {
            addresses.delete(&address.name_any(), &DeleteParams::default()).await?;
        }
    }
    Ok(())
}

async fn is_gone(client: Client, namespace: &str) -> anyhow::Result<bool> {
    statuses_are_clean(client.clone(), namespace).await?;
    collect_addresses(client.clone(), namespace).await?;
    let all = ListParams::default();
    let clusters = Api::<Cluster>::namespaced(client.clone(), namespace).list(&all).await?;
    let pools = Api::<OpenStackFloatingIPPool>::namespaced(client, namespace).list(&all).await?;
    Ok(clusters.items.is_empty() && pools.items.is_empty())
}

/// Checks that no status contains a secret or markup.
async fn statuses_are_clean(client: Client, namespace: &str) -> anyhow::Result<()> {
    let all = ListParams::default();
    for object in Api::<Cluster>::namespaced(client.clone(), namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    for object in Api::<Machine>::namespaced(client.clone(), namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    for object in Api::<OpenStackCluster>::namespaced(client.clone(), namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    for object in Api::<OpenStackMachine>::namespaced(client, namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    Ok(())
}

fn is_clean(said: &Value) -> anyhow::Result<()> {
    let text = said.to_string();
    let mut tags = text.match_indices('<').filter_map(|(at, _)| text.get(at + 1..)?.chars().next());
    ensure!(!tags.any(|next| next == '/' || next.is_ascii_alphabetic()), "markup in {text}");
    ensure!(!text.contains(PASSWORD), "the password in {text}");
    Ok(())
}
