//! Created networks, subnets and routers that the cloud does not have any more.
//!
//! Machines have their addresses there, so a second network is of no use to them. It also hides the first one, if the
//! credentials lead to another region.

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_runtime::{Journal, ReconcileError};

use super::OpenStackClusterReconciler;
use super::desired::{Desired, NetworkWish, RouterWish, SubnetWish};
use super::observe::Observed;
use crate::names;

/// Reason of a cluster with machines whose network is gone.
pub(super) const NETWORK_LOST: &str = "NetworkLost";

impl OpenStackClusterReconciler {
    /// Notes if machines need a lost network. If there are none, the journal forgets it, so that it is created again.
    pub(super) async fn note_lost(
        &self,
        object: &OpenStackCluster,
        desired: &Desired,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        if lost(desired, observed).is_empty() {
            return Ok(());
        }
        observed.has_machines = self.held_machines(object).await?.iter().any(has_resources);
        if !observed.has_machines {
            forget(desired, observed);
        }
        Ok(())
    }
}

/// Returns the message about a lost network that machines need. Pure.
pub(super) fn message(desired: &Desired, observed: &Observed) -> Option<String> {
    let lost = lost(desired, observed);
    if lost.is_empty() || !observed.has_machines {
        return None;
    }
    let titles: Vec<String> =
        lost.iter().map(|(kind, id)| format!("{kind} {} ({id})", desired.name)).collect();
    Some(format!(
        "not in the cloud any more: {}. It is not created again while the cluster has Machines. Correct the region or \
         the credentials of spec.identityRef, or delete the Machines; then it is created again",
        titles.join(", ")
    ))
}

/// Returns kinds and ids of what was created and is not in the cloud any more. Pure.
fn lost(desired: &Desired, observed: &Observed) -> Vec<(&'static str, String)> {
    let parts = [
        (
            names::NETWORK,
            matches!(desired.network, NetworkWish::Managed { .. }) && observed.network.is_none(),
        ),
        (names::SUBNET, matches!(desired.subnets, SubnetWish::Managed { .. }) && observed.subnets.is_empty()),
        (names::ROUTER, matches!(desired.router, RouterWish::Managed { .. }) && observed.router.is_none()),
    ];
    let absent = parts.into_iter().filter(|(_, is_absent)| *is_absent).map(|(kind, _)| kind);
    // The id is known only after the creation.
    absent
        .filter_map(|kind| observed.journal.id(kind, &desired.name).map(|id| (kind, id.to_owned())))
        .collect()
}

/// Removes the ids of what is lost from the journal. If its creation fails, machines that appear later do not prevent
/// it.
fn forget(desired: &Desired, observed: &mut Observed) {
    for (kind, _) in lost(desired, observed) {
        observed.journal.strike(kind, &desired.name);
        observed.journal.intend(kind, &desired.name);
    }
}

/// Returns true if a machine has resources in the cloud, or may have them. One that waits for its cluster has none.
fn has_resources(machine: &OpenStackMachine) -> bool {
    machine.spec.provider_id.as_ref().is_some_and(|id| !id.is_empty())
        || !Journal::of(machine).entries().is_empty()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackMachineSpec, condition};
    use controllers_infrastructure::{Network, Router, Subnet};
    use controllers_runtime::{JOURNAL_ANNOTATION, OwnershipTag, now};
    use kube::ResourceExt;
    use serde_json::json;

    use super::super::decide::{Step, next_step};
    use super::super::observe::intended;
    use super::super::report::{self, Ending};
    use super::*;

    /// Returns a cluster whose parts were created and exist.
    fn complete(spec: &serde_json::Value) -> (OpenStackCluster, Desired, Observed) {
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec.clone()).unwrap());
        object.metadata.uid = Some("u".to_owned());
        let desired = Desired::read(&object, "c");
        let id = |kind: &str| format!("{kind}-1");
        let external = Network { id: "e".to_owned(), external: true, ..Network::default() };
        let mut observed = Observed {
            network: Some(Network { id: id(names::NETWORK), ..Network::default() }),
            subnets: vec![Subnet { id: id(names::SUBNET), ..Subnet::default() }],
            router: Some(Router { id: id(names::ROUTER), ..Router::default() }),
            external: Some(external),
            connected: true,
            complete: true,
            ..Observed::default()
        };
        for (kind, name) in intended(&desired) {
            observed.journal.learn(kind, &name, &id(kind));
        }
        (object, desired, observed)
    }

    fn managed() -> (OpenStackCluster, Desired, Observed) {
        complete(&json!({"identityRef": {"name": "s", "cloudName": "c"},
            "managedSubnets": [{"cidr": "10.6.0.0/24"}], "managedSecurityGroups": {}}))
    }

    /// Removes a part, and what Neutron cannot have without it.
    fn remove(observed: &mut Observed, kind: &str) {
        match kind {
            names::NETWORK => (observed.network, observed.subnets) = (None, Vec::new()),
            names::SUBNET => observed.subnets = Vec::new(),
            _ => observed.router = None,
        }
    }

    /// A changed region led to a second network, and the first one was forgotten.
    #[test]
    fn r16_what_machines_need_is_not_created_again_and_network_ready_names_it() {
        for kind in [names::NETWORK, names::SUBNET, names::ROUTER] {
            let (mut object, desired, mut observed) = managed();
            let tag = OwnershipTag::of(&object);
            observed.has_machines = true;
            assert_eq!(message(&desired, &observed), None, "nothing is lost");
            remove(&mut observed, kind);
            let Step::Wait { reason, message } = next_step(&desired, &tag, &observed) else {
                panic!("{kind} was created again");
            };
            assert_eq!(reason, NETWORK_LOST);
            assert!(message.contains(&format!("{kind} {} ({kind}-1)", desired.name)), "{message}");
            let error = ReconcileError::waiting(reason, message.clone());
            report::report(&mut object, &desired, &observed, &Ending::Stopped(&error), &now());
            let conditions = object.status.unwrap().conditions.unwrap();
            let network = condition(&conditions, "NetworkReady").unwrap();
            assert!(!network.holds() && network.message == message, "{kind}: {network:?}");
            for of in ["NetworkReady", "Ready"] {
                assert_eq!(condition(&conditions, of).unwrap().reason, NETWORK_LOST, "{kind}: {of}");
            }
        }
    }

    #[test]
    fn r16_without_machines_and_before_the_first_creation_the_network_is_created() {
        for kind in [names::NETWORK, names::SUBNET, names::ROUTER] {
            let (object, desired, mut observed) = managed();
            let tag = OwnershipTag::of(&object);
            remove(&mut observed, kind);
            let step = next_step(&desired, &tag, &observed);
            assert!(step.creates(), "{kind}: {step:?}");
            forget(&desired, &mut observed);
            assert!(observed.journal.has(kind, &desired.name), "it is announced");
            // A call that failed leaves a part without an id, whatever machines come after it.
            observed.has_machines = true;
            assert_eq!(next_step(&desired, &tag, &observed), step, "{kind}");
        }
    }

    #[test]
    fn r16_a_network_of_another_owner_is_not_lost() {
        let (_, desired, mut observed) = complete(
            &json!({"identityRef": {"name": "s", "cloudName": "c"}, "network": {"id": "n"}, "router": {"id": "r"}}),
        );
        (observed.network, observed.subnets, observed.router) = (None, Vec::new(), None);
        assert_eq!(lost(&desired, &observed), Vec::new());
    }

    #[test]
    fn r16_only_machines_with_resources_need_the_network() {
        let mut machine = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        assert!(!has_resources(&machine), "it waits for its cluster");
        let journal = r#"[{"kind":"server","name":"m"}]"#;
        machine.annotations_mut().insert(JOURNAL_ANNOTATION.to_owned(), journal.to_owned());
        assert!(has_resources(&machine));
        machine.annotations_mut().clear();
        machine.spec.provider_id = Some("openstack:///1".to_owned());
        assert!(has_resources(&machine), "its journal is gone");
    }
}
