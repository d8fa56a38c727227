//! Tests of a store that was restored from a backup: what no object knows may have been created since.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver_types::{Cluster, OpenStackCluster};
use async_trait::async_trait;
use controllers_runtime::{ControllerSettings, OwnershipTag, RestoreRecord};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;

use super::*;

/// Record of a restore that happens now, until an operator ends the time after it.
#[derive(Debug, Default)]
struct Restored {
    is_done: AtomicBool,
}

impl Restored {
    fn settings(self: &Arc<Self>) -> Arc<ControllerSettings> {
        let record: Arc<dyn RestoreRecord> = Arc::<Self>::clone(self);
        Arc::new(ControllerSettings { restores: Some(record), ..ControllerSettings::default() })
    }
}

#[async_trait]
impl RestoreRecord for Restored {
    async fn last(&self) -> Result<Option<Timestamp>, String> {
        Ok(Some(Timestamp::now()))
    }

    async fn unfinished(&self) -> Result<Option<Timestamp>, String> {
        Ok(Some(Timestamp::now()).filter(|_| !self.is_done.load(Ordering::SeqCst)))
    }
}

/// Waits until the machine runs.
async fn runs(machines: &Api<OpenStackMachine>) -> OpenStackMachine {
    eventually("the machine runs", || async {
        let machine = machines.get("m").await.unwrap();
        machine.condition("Ready").is_some_and(apiserver_types::Condition::holds).then_some(machine)
    })
    .await
}

/// Has the controllers make the machine, and stops them.
async fn made(world: &World, machines: &Api<OpenStackMachine>) -> OpenStackMachine {
    let term = CancellationToken::new();
    let running = run(world, &term);
    let machine = runs(machines).await;
    term.cancel();
    running.join_all().await;
    machine
}

/// Removes the machine from the store, and nothing from the cloud.
async fn forget(machines: &Api<OpenStackMachine>) {
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    machines.patch("m", &PatchParams::default(), &bare).await.unwrap();
    machines.delete("m", &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_35_what_the_restored_objects_do_not_know_stays_until_the_operator_has_looked() {
    const NAMESPACE: &str = "restored";
    let mut world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let owners: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    runs(&machines).await;
    term.cancel();
    running.join_all().await;
    // The backup is older than the machine.
    let bare = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    forget(&machines).await;
    owners.patch("m", &PatchParams::default(), &bare).await.unwrap();
    owners.delete("m", &DeleteParams::default()).await.unwrap();
    let record = Arc::new(Restored::default());
    world.settings = record.settings();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let clusters: Api<Cluster> = Api::namespaced(world.admin(), NAMESPACE);
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
    let objects: Api<OpenStackCluster> = Api::namespaced(world.admin(), NAMESPACE);
    let message = eventually("the deletion waits", || async {
        let object = objects.get_opt("c").await.unwrap()?;
        let all = object.status?.conditions?;
        all.into_iter().find(|it| it.reason == "ReconcilingAfterRestore").map(|it| it.message)
    })
    .await;
    assert!(message.contains("of a machine that is gone stays"), "{message}");
    let left = world.cloud.inventory("demo");
    assert!(!left.servers.is_empty() && !left.volumes.is_empty() && !left.ports.is_empty(), "{left:#?}");

    record.is_done.store(true, Ordering::SeqCst);
    let mut round = 0;
    eventually("the cluster is gone", || {
        round += 1;
        // A change of an object makes its pass due.
        let touch = Patch::Merge(json!({"metadata": {"annotations": {"round": round.to_string()}}}));
        let (clusters, objects) = (&clusters, &objects);
        async move {
            let _ = objects.patch("c", &PatchParams::default(), &touch).await;
            clusters.get_opt("c").await.unwrap().is_none().then_some(())
        }
    })
    .await;
    let left = world.cloud.inventory("demo");
    assert!(left.is_empty(), "{left:#?}");
    term.cancel();
    running.join_all().await;
}

/// Returns the machine as a backup has it: with its ownership tag, and without its journal, its status and its server.
fn from_before_its_journal(before: &OpenStackMachine) -> Value {
    let (mut restored, tag) = (json!(before), OwnershipTag::id(before));
    let metadata = &before.metadata;
    restored["metadata"] = json!({"name": metadata.name, "namespace": metadata.namespace,
        "finalizers": metadata.finalizers, "ownerReferences": metadata.owner_references,
        "labels": metadata.labels, "annotations": {OwnershipTag::ANNOTATION: tag}});
    restored["spec"].as_object_mut().unwrap().remove("providerID");
    restored.as_object_mut().unwrap().remove("status");
    restored
}

/// Returns the names of the servers, volumes and ports that the machine had.
fn of_machine(world: &World) -> Vec<String> {
    let left = world.cloud.inventory("demo");
    let all = left.servers.into_iter().chain(left.volumes).chain(left.ports);
    all.map(|it| it.name).filter(|name| name == "m" || name.starts_with("m-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_35_a_machine_from_before_its_journal_that_is_deleted_takes_what_has_its_tag_along() {
    const NAMESPACE: &str = "forgotten";
    let mut world = world(NAMESPACE, &[]).await;
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = made(&world, &machines).await;
    let known = of_machine(&world);
    assert!(known.len() >= 3, "a server, a volume and a port: {known:?}");
    forget(&machines).await;
    world.create(&from_before_its_journal(&before).to_string()).await.unwrap();
    // It is deleted before the first pass.
    machines.delete("m", &DeleteParams::default()).await.unwrap();
    assert!(machines.get("m").await.unwrap().metadata.deletion_timestamp.is_some());
    world.settings = Arc::new(Restored::default()).settings();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    eventually("the machine is gone", || async {
        machines.get_opt("m").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(of_machine(&world), Vec::<String>::new(), "nothing stays without an object");
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_35_a_machine_from_before_its_journal_adopts_the_server_with_its_tag() {
    const NAMESPACE: &str = "adopting";
    let mut world = world(NAMESPACE, &[]).await;
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = made(&world, &machines).await;
    let resources = world.counts();
    forget(&machines).await;
    world.create(&from_before_its_journal(&before).to_string()).await.unwrap();
    world.settings = Arc::new(Restored::default()).settings();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let after = runs(&machines).await;
    assert_eq!(after.spec.provider_id, before.spec.provider_id, "the same server");
    assert_eq!(world.counts(), resources, "nothing was created twice");
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moved_machine_with_a_server_needs_no_bootstrap_data() {
    const NAMESPACE: &str = "moved";
    let world = world(NAMESPACE, &[]).await;
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = made(&world, &machines).await;
    let resources = world.counts();
    forget(&machines).await;
    // clusterctl keeps metadata and spec. Through a host it does not see Secrets of the own store.
    let mut moved = from_before_its_journal(&before);
    moved["metadata"]["annotations"] = json!(before.metadata.annotations);
    moved["spec"]["providerID"] = json!(before.spec.provider_id);
    world.create(&moved.to_string()).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(world.admin(), NAMESPACE);
    secrets.delete("bootstrap", &DeleteParams::default()).await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let after = runs(&machines).await;
    assert_eq!(after.spec.provider_id, before.spec.provider_id, "the same server");
    assert_eq!(world.counts(), resources, "nothing was created twice");
    term.cancel();
    running.join_all().await;
}
