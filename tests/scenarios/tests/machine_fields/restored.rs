//! Tests of a store that was restored from a backup: what no object knows may have been created since.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver_types::{Cluster, OpenStackCluster};
use async_trait::async_trait;
use controllers_runtime::{ControllerSettings, OwnershipTag, RestoreRecord};
use jiff::Timestamp;

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

#[tokio::test(flavor = "multi_thread")]
async fn hv_35_a_machine_from_before_its_journal_adopts_the_server_with_its_tag() {
    const NAMESPACE: &str = "adopting";
    let mut world = world(NAMESPACE, &[]).await;
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let machines: Api<OpenStackMachine> = Api::namespaced(world.admin(), NAMESPACE);
    let before = runs(&machines).await;
    term.cancel();
    running.join_all().await;
    let resources = world.counts();
    // The backup has the machine with its ownership tag, and without its journal, its status and its server.
    let mut restored = json!(before);
    let tag = OwnershipTag::id(&before);
    restored["metadata"] = json!({"name": "m", "namespace": NAMESPACE, "finalizers": before.metadata.finalizers,
        "ownerReferences": before.metadata.owner_references, "labels": before.metadata.labels,
        "annotations": {OwnershipTag::ANNOTATION: tag}});
    restored["spec"].as_object_mut().unwrap().remove("providerID");
    restored.as_object_mut().unwrap().remove("status");
    forget(&machines).await;
    world.create(&restored.to_string()).await.unwrap();
    world.settings = Arc::new(Restored::default()).settings();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let after = runs(&machines).await;
    assert_eq!(after.spec.provider_id, before.spec.provider_id, "the same server");
    assert_eq!(world.counts(), resources, "nothing was created twice");
    term.cancel();
    running.join_all().await;
}
