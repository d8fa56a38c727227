//! Servers, trunks, ports and volumes that machines of the cluster left in the cloud. Their objects lost the finalizer by
//! force, so no one else deletes them. They have the tag of the cluster.

use std::sync::Arc;

use controllers_infrastructure::{
    Cloud, CloudError, ErrorClass, Port, PortQuery, Server, Trunk, TrunkQuery, Volume,
};
use controllers_runtime::ReconcileError;

use super::act::gone;
use crate::names;
use crate::resource_events::deletion_error;

/// Reason of a deletion that waits for them.
pub(super) const WAITING: &str = "WaitingForLeftovers";

/// Resources that machines of a cluster left.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    servers: Vec<Server>,
    trunks: Vec<Trunk>,
    ports: Vec<Port>,
    volumes: Vec<Volume>,
}

impl Orphans {
    /// Describes each, for the plan of the deletion.
    pub(super) fn titles(&self) -> Vec<String> {
        let title =
            |kind: &str, name: &str, id: &str| format!("{kind} {name} ({id}) of a machine that is gone");
        let servers = self.servers.iter().map(|it| title("server", &it.name, &it.id));
        let trunks = self.trunks.iter().map(|it| title("trunk", &it.name, &it.id));
        let ports = self.ports.iter().map(|it| title("port", &it.name, &it.id));
        let volumes = self.volumes.iter().map(|it| title("volume", &it.name, &it.id));
        servers.chain(trunks).chain(ports).chain(volumes).collect()
    }
}

/// Finds what has the tag of the cluster.
pub(super) async fn find(cloud: &Arc<dyn Cloud>, tag: &str) -> Result<Orphans, ReconcileError> {
    let tags = vec![tag.to_owned()];
    let is_tagged = |held: &[String]| held.iter().any(|held| held == tag);
    // Nova may keep a deleted server for a while.
    let exists = |server: &Server| !matches!(server.status.as_str(), "DELETED" | "SOFT_DELETED");
    let servers = cloud.servers().await?.into_iter().filter(|it| is_tagged(&it.tags) && exists(it));
    let trunks = unless_absent(cloud.trunks(&TrunkQuery::default()).await)?;
    let ports = cloud.ports(&PortQuery { tags, ..PortQuery::default() }).await?;
    let volumes = unless_absent(cloud.volumes().await)?;
    let of_cluster =
        |volume: &Volume| volume.metadata.get(names::CLUSTER_METADATA).is_some_and(|held| held == tag);
    Ok(Orphans {
        servers: servers.collect(),
        trunks: trunks.into_iter().filter(|it| is_tagged(&it.tags)).collect(),
        ports,
        volumes: volumes.into_iter().filter(of_cluster).collect(),
    })
}

/// Returns nothing for a cloud without the service or extension, and for a user who may have none of it.
fn unless_absent<T>(result: Result<Vec<T>, CloudError>) -> Result<Vec<T>, CloudError> {
    match result {
        Err(error) if matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound) => Ok(Vec::new()),
        Err(error) if error.class == ErrorClass::Broken && error.status.is_none() => Ok(Vec::new()),
        result => result,
    }
}

/// Deletes them as far as that is possible now: servers first, which use the others. Describes what was done.
pub(super) async fn delete(
    cloud: &Arc<dyn Cloud>,
    orphans: &Orphans,
    made: &mut Vec<(&'static str, String)>,
) -> Result<(), ReconcileError> {
    for server in &orphans.servers {
        if server.task_state.as_deref() != Some("deleting") {
            let deleted = gone(cloud.delete_server(&server.id).await);
            deleted.map_err(|error| deletion_error(names::SERVER, &server.name, error))?;
            made.push((
                "DeletedServer",
                format!("deleted server {} ({}) of a machine that is gone", server.name, server.id),
            ));
        }
    }
    if let Some(server) = orphans.servers.first() {
        return Err(waiting(&format!("server {} ({})", server.name, server.id)));
    }
    for trunk in &orphans.trunks {
        if !trunk.subports.is_empty() {
            cloud.remove_subports(&trunk.id, &trunk.subports).await?;
        }
        let deleted = gone(cloud.delete_trunk(&trunk.id).await);
        deleted.map_err(|error| deletion_error(names::TRUNK, &trunk.name, error))?;
        made.push((
            "DeletedTrunk",
            format!("deleted trunk {} ({}) of a machine that is gone", trunk.name, trunk.id),
        ));
    }
    for port in &orphans.ports {
        let deleted = gone(cloud.delete_port(&port.id).await);
        deleted.map_err(|error| deletion_error(names::PORT, &port.name, error))?;
        made.push((
            "DeletedPort",
            format!("deleted port {} ({}) of a machine that is gone", port.name, port.id),
        ));
    }
    let mut pending = None;
    for volume in &orphans.volumes {
        let title = format!("volume {} ({})", volume.name, volume.id);
        if matches!(volume.status.as_str(), "available" | "error") {
            let deleted = gone(cloud.delete_volume(&volume.id).await);
            deleted.map_err(|error| deletion_error(names::VOLUME, &volume.name, error))?;
            made.push(("DeletedVolume", format!("deleted {title} of a machine that is gone")));
        }
        pending = Some(title);
    }
    pending.map_or(Ok(()), |title| Err(waiting(&title)))
}

fn waiting(title: &str) -> ReconcileError {
    ReconcileError::waiting(WAITING, format!("waiting for {title} to be deleted"))
}
