//! Volumes that the Cinder CSI driver of the workload cluster made.
//!
//! They hold data, so they stay when the cluster is deleted, and an Event names them. An annotation has them deleted.
//! Several workload clusters of a project may have the same name, so a volume is the cluster's only if it was seen on
//! one of its servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, Snapshot, Volume};
use controllers_runtime::ReconcileError;
use kube::ResourceExt;

use super::act::gone;
use super::blockers::BLOCKED;
use super::workload_notes::WorkloadNotes;
use crate::names;
use crate::resource_events::deletion_error;

/// Annotation with the volumes that are deleted with the cluster: `all`, or their ids, separated by commas.
pub(super) const DELETE: &str = "capstan.dev/delete-volumes";

/// Reason of a deletion that waits for the volumes.
pub(super) const WAITING: &str = "WaitingForVolumes";

/// Metadata of the driver's volumes: the name that it has for the workload cluster.
const CLUSTER: &str = "cinder.csi.openstack.org/cluster";

/// Number of volumes, or of shares, that a message lists.
const LISTED: usize = 10;

/// Volumes of a cluster that is being deleted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CsiVolumes {
    /// The user has these deleted.
    pub deleted: Vec<Volume>,
    /// These stay.
    pub kept: Vec<Volume>,
    /// Snapshots of both.
    pub snapshots: Vec<Snapshot>,
}

/// Returns true if volumes of the cluster may exist.
pub(super) fn may_exist(object: &OpenStackCluster) -> bool {
    object.annotations().contains_key(DELETE) || !WorkloadNotes::read(object).volumes.is_empty()
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
    let mut volumes = match cloud.volumes().await {
        Err(error) if is_without_cinder(&error) => return Ok(CsiVolumes::default()),
        result => sorted(result?, &WorkloadNotes::read(object), requested),
    };
    if !volumes.deleted.is_empty() || !volumes.kept.is_empty() {
        volumes.snapshots = snapshots(cloud).await?;
    }
    Ok(volumes)
}

async fn snapshots(cloud: &Arc<dyn Cloud>) -> Result<Vec<Snapshot>, ReconcileError> {
    match cloud.snapshots().await {
        Err(error) if is_without_cinder(&error) => Ok(Vec::new()),
        result => Ok(result?),
    }
}

/// Returns true for the error of a cloud without volumes, or of a user who may have none.
fn is_without_cinder(error: &CloudError) -> bool {
    let absent = error.class == ErrorClass::Broken && error.status.is_none();
    absent || matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound)
}

/// Decides which volumes of the project are deleted, and which are the cluster's and stay: the driver has written the name of
/// the workload cluster on them, and a server of the cluster had them. Pure.
fn sorted(found: Vec<Volume>, notes: &WorkloadNotes, requested: &str) -> CsiVolumes {
    let requested: Vec<&str> = requested.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    let mut volumes = CsiVolumes::default();
    for volume in found {
        let name = volume.metadata.get(CLUSTER);
        let is_named = name.is_some_and(|name| notes.csi_name.as_ref().is_none_or(|known| known == name));
        let ours = is_named && notes.volumes.contains(&volume.id);
        if requested.contains(&volume.id.as_str()) || (ours && requested.contains(&"all")) {
            volumes.deleted.push(volume);
        } else if ours {
            volumes.kept.push(volume);
        }
    }
    volumes
}

/// Describes volumes, with the claims that they were made for, and their snapshots.
pub(super) fn describe(volumes: &[Volume], snapshots: &[Snapshot]) -> String {
    let one = |volume: &Volume| {
        let claim = claim(&volume.metadata);
        let own = snapshots.iter().filter(|it| it.volume_id == volume.id);
        let own: Vec<String> = own.map(|it| format!(", snapshot {} ({})", it.name, it.id)).collect();
        format!("{} ({}, {} GiB{claim}{})", volume.name, volume.id, volume.size_gib, own.join(""))
    };
    listed(volumes, one)
}

/// Describes the first of several things, and says how many more there are.
pub(super) fn listed<T>(all: &[T], one: impl Fn(&T) -> String) -> String {
    let more = all.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", all.iter().take(LISTED).map(one).collect::<Vec<_>>().join(", "))
}

/// Describes the claim that a volume or a share was made for, if its metadata name one.
pub(super) fn claim(metadata: &BTreeMap<String, String>) -> String {
    let of = |key: &str| metadata.get(&format!("csi.storage.k8s.io/pvc/{key}"));
    let claim = of("namespace").zip(of("name"));
    claim.map(|(namespace, name)| format!(", claim {namespace}/{name}")).unwrap_or_default()
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
    let snapshots = snapshots(cloud).await?;
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
    fn r17_3_a_volume_is_the_clusters_if_the_driver_made_it_and_a_server_had_it() {
        let found =
            || vec![volume("a", Some("kubernetes")), volume("b", Some("kubernetes")), volume("c", None)];
        let mut notes =
            WorkloadNotes { volumes: vec!["a".to_owned(), "c".to_owned()], ..WorkloadNotes::default() };
        let ids = |volumes: &[Volume]| volumes.iter().map(|it| it.id.clone()).collect::<Vec<_>>().join(" ");
        for (requested, deleted, kept) in [("", "", "a"), ("all", "a", ""), ("b, c", "b c", "a")] {
            let volumes = sorted(found(), &notes, requested);
            assert_eq!((ids(&volumes.deleted).as_str(), ids(&volumes.kept).as_str()), (deleted, kept));
        }
        notes.csi_name = Some("prod".to_owned());
        assert_eq!(sorted(found(), &notes, "all"), CsiVolumes::default(), "of another workload cluster");
        assert_eq!(describe(&found()[..1], &[]), "pvc-a (a, 10 GiB, claim default/data)");
        let of = |id: &str, volume: &str| Snapshot {
            id: id.to_owned(),
            name: "daily".to_owned(),
            volume_id: volume.to_owned(),
            ..Snapshot::default()
        };
        let text = describe(&found()[..1], &[of("s", "a"), of("t", "b")]);
        assert_eq!(text, "pvc-a (a, 10 GiB, claim default/data, snapshot daily (s))");
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
