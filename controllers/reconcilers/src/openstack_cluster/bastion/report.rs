//! Status of a bastion.

use apiserver_types::{
    BastionStatus, Condition, ConditionStatus, OpenStackClusterStatus, SecurityGroupStatus, Time,
    remove_condition, set_condition,
};
use kube::ResourceExt;

use super::super::desired::Desired;
use super::super::observe::Observed;
use super::super::rules::Role;
use super::Progress;

/// Condition of a bastion.
const READY: &str = "BastionReady";

/// Writes the observed bastion into the status of the cluster.
pub(in super::super) fn report(
    status: &mut OpenStackClusterStatus,
    desired: &Desired,
    observed: &Observed,
    generation: Option<i64>,
    now: &Time,
) {
    let wanted = desired.bastion.is_some();
    if observed.complete {
        status.bastion = bastion(observed);
        let group = observed.groups.get(&Role::Bastion).or(observed.bastion.retired_group.as_ref());
        status.bastion_security_group =
            group.map(|group| SecurityGroupStatus { id: group.id.clone(), name: group.name.clone() });
    }
    let conditions = status.conditions.get_or_insert_default();
    let condition = match &observed.bastion.progress {
        _ if wanted && !observed.complete => return,
        Progress::Waiting(reason, message) => {
            Condition::new(READY, ConditionStatus::False, reason, message, now.clone())
        }
        Progress::Settled if wanted => Condition::new(READY, ConditionStatus::True, "Ready", "", now.clone()),
        Progress::Settled => {
            remove_condition(conditions, READY);
            return;
        }
    };
    set_condition(conditions, condition.at_generation(generation));
}

fn bastion(observed: &Observed) -> Option<BastionStatus> {
    let view = &observed.bastion;
    let server = view.server.as_ref().filter(|_| !view.foreign)?;
    let status = server.status.as_ref();
    let key = Some(server.spec.ssh_key_name.clone()).filter(|name| !name.is_empty());
    Some(BastionStatus {
        floating_ip: view.floating_ip.as_ref().map(|ip| ip.address.clone()),
        id: status.and_then(|status| status.instance_id.clone()),
        ip: view.port.as_ref().and_then(|(_, address)| address.clone()),
        name: Some(server.name_any()),
        resolved: None,
        resources: None,
        ssh_key_name: key,
        state: status.and_then(|status| status.instance_state.clone()),
    })
}
