//! Deletion of the trunk of a port, and of the ports that it carries.
//!
//! A program in the guest network, such as a CNI, may have added subports. Those on the cluster's network were made for
//! the machine and go with it. Others are only removed from the trunk.

use controllers_infrastructure::{Port, PortQuery, Trunk};
use controllers_runtime::{Entry, ReconcileError};

use super::decide::Observed;
use super::delete::Gone;
use super::observe::Observer;
use crate::names;

/// Device owner of a port that a trunk carries.
const CARRIED: &str = "trunk:subport";

/// Deletes the trunk of an entry, if it exists and has our tag.
pub(super) async fn trunk(
    observer: &Observer<'_>,
    observed: &Observed,
    entry: &Entry,
    network: Option<&str>,
) -> Result<Gone, ReconcileError> {
    let Some(trunk) = observer.owned_trunk(&entry.name).await? else { return Ok(Gone::Yes(None)) };
    let subports = carried(observer, &trunk).await?;
    let (ours, others): (Vec<_>, Vec<_>) = subports.into_iter().partition(|port| is_ours(port, network));
    let known = |port: &&Port| observed.journal.has(names::SUBPORT, &port.id);
    let unknown: Vec<String> = ours.iter().filter(|port| !known(port)).map(|port| port.id.clone()).collect();
    if !unknown.is_empty() {
        return Ok(Gone::First(unknown));
    }
    if !trunk.subports.is_empty() {
        observer.cloud.remove_subports(&trunk.id, &trunk.subports).await?;
    }
    match observer.cloud.delete_trunk(&trunk.id).await {
        Err(error) if !error.is_not_found() => return Err(error.into()),
        _ => {}
    }
    let left: Vec<String> = others.iter().map(|port| format!("{} ({})", port.name, port.id)).collect();
    let left =
        if left.is_empty() { String::new() } else { format!("; its subports stay: {}", left.join(", ")) };
    Ok(Gone::Yes(Some(format!("deleted trunk {} ({}){left}", trunk.name, trunk.id))))
}

/// Deletes a port that a trunk of ours carried, unless something else uses it by now.
pub(super) async fn subport(observer: &Observer<'_>, entry: &Entry) -> Result<Gone, ReconcileError> {
    let query = PortQuery { id: Some(entry.name.clone()), ..PortQuery::default() };
    let found = observer.cloud.ports(&query).await?.into_iter().next();
    let Some(port) = found.filter(|port| port.device_id.is_empty()) else { return Ok(Gone::Yes(None)) };
    match observer.cloud.delete_port(&port.id).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Gone::Yes(Some(format!("deleted subport {} ({})", port.name, port.id)))),
    }
}

async fn carried(observer: &Observer<'_>, trunk: &Trunk) -> Result<Vec<Port>, ReconcileError> {
    let mut ports = Vec::new();
    for id in &trunk.subports {
        let query = PortQuery { id: Some(id.clone()), ..PortQuery::default() };
        ports.extend(observer.cloud.ports(&query).await?);
    }
    Ok(ports)
}

/// Returns true if a subport was made for the machine: only the trunk uses it, and it is on the cluster's network.
fn is_ours(port: &Port, network: Option<&str>) -> bool {
    port.device_owner == CARRIED && Some(port.network_id.as_str()) == network
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_4_only_subports_on_the_network_of_the_cluster_are_deleted() {
        let port = |owner: &str, network: &str| Port {
            device_owner: owner.to_owned(),
            network_id: network.to_owned(),
            ..Port::default()
        };
        assert!(is_ours(&port(CARRIED, "n"), Some("n")));
        assert!(!is_ours(&port(CARRIED, "pods"), Some("n")));
        assert!(!is_ours(&port("compute:nova", "n"), Some("n")));
        assert!(!is_ours(&port(CARRIED, "n"), None));
    }
}
