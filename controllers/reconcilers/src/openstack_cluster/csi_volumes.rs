//! Volumes that the Cinder CSI driver of the workload cluster made.
//!
//! They hold data, so they stay when the cluster is deleted, and an Event names them. An annotation has them deleted.
//! Several workload clusters of a project may have the same name, so a volume is the cluster's only if it was seen on
//! one of its servers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, Snapshot, Volume};
use controllers_runtime::{Journal, ReconcileError, ServerLists};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::act::gone;
use super::leftovers::BLOCKED;
use crate::names;
use crate::resource_events::deletion_error;

/// Annotation with what is known of the workload cluster only while it lives.
pub(super) const WORKLOAD: &str = "capstan.dev/workload";

/// Annotation with the volumes that are deleted with the cluster: `all`, or their ids, separated by commas.
pub(super) const DELETE: &str = "capstan.dev/delete-volumes";

/// Reason of a deletion that waits for the volumes.
pub(super) const WAITING: &str = "WaitingForVolumes";

/// Metadata of the driver's volumes: the name that it has for the workload cluster.
const CLUSTER: &str = "cinder.csi.openstack.org/cluster";

/// Most volumes that are noted, so that the annotation stays small.
const NOTED: usize = 200;

/// Age of the list of servers that is good enough: a volume is attached for longer.
const LIST_AGE: Duration = Duration::from_mins(5);

/// Number of volumes that a message lists.
const LISTED: usize = 10;

/// Contents of the annotation. Fields of other versions stay.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Workload {
    #[serde(default)]
    volumes: Vec<String>,
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

impl Workload {
    fn read(object: &OpenStackCluster) -> Self {
        let text = object.annotations().get(WORKLOAD).map(String::as_str).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }
}

/// Volumes of a cluster that is being deleted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CsiVolumes {
    /// The user has these deleted.
    pub deleted: Vec<Volume>,
    /// These stay.
    pub kept: Vec<Volume>,
}

/// Returns true if volumes of the cluster may exist.
pub(super) fn may_exist(object: &OpenStackCluster) -> bool {
    object.annotations().contains_key(DELETE) || !Workload::read(object).volumes.is_empty()
}

/// Notes the volumes that are attached to the cluster's servers and that no machine of the cluster made.
pub(super) async fn note(
    api: &Api<OpenStackCluster>,
    object: &mut OpenStackCluster,
    cluster: &str,
    servers: &ServerLists,
    cloud: &Arc<dyn Cloud>,
) -> Result<(), ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let machines: Api<OpenStackMachine> = Api::namespaced(api.clone().into_client(), &namespace);
    let params = ListParams::default().labels(&format!("{}={cluster}", crate::CLUSTER_NAME_LABEL));
    let machines = machines.list(&params).await?;
    let ids = machines.iter().filter_map(|machine| machine.status.as_ref()?.instance_id.as_deref());
    let ids: BTreeSet<&str> = ids.collect();
    if ids.is_empty() {
        return Ok(());
    }
    let listed = servers.list(cloud, LIST_AGE).await?;
    let attached = ids.into_iter().filter_map(|id| listed.get(id)).flat_map(|server| &server.volumes);
    let journals: Vec<Journal> = machines.iter().map(Journal::of).collect();
    let own: BTreeSet<&str> = journals
        .iter()
        .flat_map(|journal| journal.of_kind(names::VOLUME))
        .filter_map(|entry| entry.id.as_deref())
        .collect();
    let workload = Workload::read(object);
    let foreign = attached.map(String::as_str).filter(|id| !own.contains(id));
    let Some(volumes) = with(&workload.volumes, foreign) else { return Ok(()) };
    let text = serde_json::to_string(&Workload { volumes, ..workload }).unwrap_or_default();
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "annotations": {WORKLOAD: text},
    }});
    *object = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Returns the noted volumes with further ones; `None` if nothing is new. The oldest give way.
fn with<'a>(noted: &[String], attached: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
    let new: BTreeSet<&str> = attached.filter(|id| !noted.iter().any(|known| known == id)).collect();
    if new.is_empty() {
        return None;
    }
    let all = noted.iter().cloned().chain(new.into_iter().map(str::to_owned));
    let mut all: Vec<String> = all.collect();
    all.drain(..all.len().saturating_sub(NOTED));
    Some(all)
}

/// Finds the volumes of a cluster that is being deleted.
pub(super) async fn find(
    cloud: &Arc<dyn Cloud>,
    object: &OpenStackCluster,
) -> Result<CsiVolumes, ReconcileError> {
    if !may_exist(object) {
        return Ok(CsiVolumes::default());
    }
    let requested = object.annotations().get(DELETE).map(String::as_str).unwrap_or_default();
    match cloud.volumes().await {
        Err(error) if is_without_cinder(&error) => Ok(CsiVolumes::default()),
        result => Ok(sorted(result?, &Workload::read(object).volumes, requested)),
    }
}

/// Returns true for the error of a cloud without volumes, or of a user who may have none.
fn is_without_cinder(error: &CloudError) -> bool {
    let absent = error.class == ErrorClass::Broken && error.status.is_none();
    absent || matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound)
}

/// Decides which volumes of the project are deleted, and which are the cluster's and stay. Pure.
fn sorted(found: Vec<Volume>, noted: &[String], requested: &str) -> CsiVolumes {
    let requested: Vec<&str> = requested.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    let mut volumes = CsiVolumes::default();
    for volume in found {
        let ours = noted.contains(&volume.id) && volume.metadata.contains_key(CLUSTER);
        if requested.contains(&volume.id.as_str()) || (ours && requested.contains(&"all")) {
            volumes.deleted.push(volume);
        } else if ours {
            volumes.kept.push(volume);
        }
    }
    volumes
}

/// Describes volumes, with the claims that they were made for.
pub(super) fn describe(volumes: &[Volume]) -> String {
    let one = |volume: &Volume| {
        let of = |key: &str| volume.metadata.get(&format!("csi.storage.k8s.io/pvc/{key}"));
        let claim = of("namespace").zip(of("name"));
        let claim = claim.map(|(namespace, name)| format!(", claim {namespace}/{name}")).unwrap_or_default();
        format!("{} ({}, {} GiB{claim})", volume.name, volume.id, volume.size_gib)
    };
    let more = volumes.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", volumes.iter().take(LISTED).map(one).collect::<Vec<_>>().join(", "))
}

/// Next step of the deletion of one volume.
#[derive(Debug, PartialEq)]
enum Step<'a> {
    /// Delete its snapshots, which Cinder wants gone first.
    DeleteSnapshots(Vec<&'a Snapshot>),
    /// Delete the volume.
    Delete,
    /// Wait for this.
    Wait(&'static str),
    /// Only a person can go on.
    Blocked(&'static str),
}

fn next_step<'a>(volume: &Volume, snapshots: &'a [Snapshot]) -> Step<'a> {
    let own: Vec<&Snapshot> = snapshots.iter().filter(|it| it.volume_id == volume.id).collect();
    match volume.status.as_str() {
        "deleting" => Step::Wait("to be deleted"),
        "error_deleting" => {
            Step::Blocked("Cinder could not delete it. Only the operator of the cloud can go on")
        }
        // A server in deletion still has it for a moment.
        "in-use" | "attaching" | "detaching" | "reserved" => Step::Wait("to be detached"),
        _ if own.iter().any(|it| it.status == "error_deleting") => Step::Blocked(
            "Cinder could not delete a snapshot of it. Only the operator of the cloud can go on",
        ),
        _ if own.iter().any(|it| it.status == "deleting") => Step::Wait("to lose its snapshots"),
        _ if !own.is_empty() => Step::DeleteSnapshots(own),
        _ => Step::Delete,
    }
}

/// Deletes the volumes that the user has deleted, their snapshots first. Describes what was done.
pub(super) async fn delete(
    cloud: &Arc<dyn Cloud>,
    volumes: &[Volume],
    made: &mut Vec<(&'static str, String)>,
) -> Result<(), ReconcileError> {
    if volumes.is_empty() {
        return Ok(());
    }
    let snapshots = match cloud.snapshots().await {
        Err(error) if is_without_cinder(&error) => Vec::new(),
        result => result?,
    };
    let (mut waiting, mut blocked) = (None, None);
    for volume in volumes {
        let title = format!("volume {} ({})", volume.name, volume.id);
        let attempt = |error| deletion_error(names::VOLUME, &volume.name, error);
        let why = match next_step(volume, &snapshots) {
            Step::DeleteSnapshots(own) => {
                for snapshot in own {
                    gone(cloud.delete_snapshot(&snapshot.id).await).map_err(attempt)?;
                    let message = format!("deleted snapshot {} ({}) of {title}", snapshot.name, snapshot.id);
                    made.push(("DeletedSnapshot", message));
                }
                "to lose its snapshots"
            }
            Step::Delete => {
                gone(cloud.delete_volume(&volume.id).await).map_err(attempt)?;
                made.push(("DeletedVolume", format!("deleted {title} of the workload cluster")));
                "to be deleted"
            }
            Step::Wait(why) => why,
            Step::Blocked(why) => {
                blocked = Some(format!("{title}: {why}"));
                continue;
            }
        };
        let servers = volume.servers.join(", ");
        let from = if servers.is_empty() { servers } else { format!(" from server {servers}") };
        waiting = Some(format!("waiting for {title} {why}{from}"));
    }
    match (blocked, waiting) {
        (Some(message), _) => Err(ReconcileError::waiting(BLOCKED, message)),
        (None, Some(message)) => Err(ReconcileError::waiting(WAITING, message)),
        (None, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(id: &str, cluster: Option<&str>) -> Volume {
        let of = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let mut metadata = BTreeMap::from([
            of("csi.storage.k8s.io/pvc/namespace", "default"),
            of("csi.storage.k8s.io/pvc/name", "data"),
        ]);
        metadata.extend(cluster.map(|name| of(CLUSTER, name)));
        let (id, name) = (id.to_owned(), format!("pvc-{id}"));
        Volume { id, name, metadata, size_gib: 10, status: "available".to_owned(), ..Volume::default() }
    }

    #[test]
    fn r17_2_volumes_seen_on_the_servers_are_noted_and_the_oldest_give_way() {
        let noted: Vec<String> = (0..NOTED).map(|index| format!("v{index}")).collect();
        assert_eq!(with(&noted, ["v0", "v199"].into_iter()), None);
        let found = with(&noted, ["new", "v5"].into_iter()).unwrap();
        assert_eq!((found.len(), found[0].as_str(), found[NOTED - 1].as_str()), (NOTED, "v1", "new"));
        assert_eq!(with(&[], std::iter::empty()), None);
    }

    #[test]
    fn r17_2_what_another_version_noted_stays_in_the_annotation() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        assert!(!may_exist(&object));
        object.annotations_mut().insert(WORKLOAD.to_owned(), r#"{"ccm":"prod","volumes":["v"]}"#.to_owned());
        assert!(may_exist(&object));
        let text = serde_json::to_value(Workload::read(&object)).unwrap();
        assert_eq!(text, json!({"ccm": "prod", "volumes": ["v"]}));
    }

    #[test]
    fn r17_3_a_volume_is_the_clusters_if_the_driver_made_it_and_a_server_had_it() {
        let found =
            || vec![volume("a", Some("kubernetes")), volume("b", Some("kubernetes")), volume("c", None)];
        let noted = ["a".to_owned(), "c".to_owned()];
        let ids = |volumes: &[Volume]| volumes.iter().map(|it| it.id.clone()).collect::<Vec<_>>().join(" ");
        for (requested, deleted, kept) in [("", "", "a"), ("all", "a", ""), ("b, c", "b c", "a")] {
            let volumes = sorted(found(), &noted, requested);
            assert_eq!((ids(&volumes.deleted).as_str(), ids(&volumes.kept).as_str()), (deleted, kept));
        }
        assert_eq!(describe(&found()[..1]), "pvc-a (a, 10 GiB, claim default/data)");
    }

    #[test]
    fn r17_3_snapshots_go_first_and_attached_volumes_wait() {
        let own = |status: &str| Snapshot {
            volume_id: "v".to_owned(),
            status: status.to_owned(),
            ..Snapshot::default()
        };
        let other = Snapshot { volume_id: "w".to_owned(), ..own("available") };
        let table = [
            ("available", vec![other.clone()], "Delete"),
            ("error", vec![], "Delete"),
            ("available", vec![other, own("available")], "DeleteSnapshots"),
            ("available", vec![own("deleting")], "Wait"),
            ("available", vec![own("error_deleting")], "Blocked"),
            ("in-use", vec![own("available")], "Wait"),
            ("deleting", vec![], "Wait"),
            ("error_deleting", vec![], "Blocked"),
        ];
        for (status, snapshots, expected) in table {
            let volume = Volume { status: status.to_owned(), ..volume("v", None) };
            let step = format!("{:?}", next_step(&volume, &snapshots));
            assert!(step.starts_with(expected), "{status}: {step}");
        }
    }
}
