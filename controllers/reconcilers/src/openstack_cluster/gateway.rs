//! External gateway of a router that Capstan created.

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{ErrorClass, Router};
use controllers_runtime::ReconcileError;

use super::act::{Actor, EventText};
use super::decide::Step;
use super::desired::{Desired, RouterWish};
use super::drift;
use super::observe::Observed;
use crate::cidrs::same_address;

/// Reason of a gateway that the cloud did not set as requested. Upstream's name.
const FAILED: &str = "RouterCreateFailed";

/// Returns true if the router has the gateway that the spec requests, or the spec requests none. Pure.
pub(super) fn is_as_wanted(desired: &Desired, observed: &Observed) -> bool {
    match (&desired.router, &observed.router, &observed.external) {
        (RouterWish::Managed { .. }, Some(router), Some(external)) => {
            router.external_network_id.as_ref() == Some(&external.id)
                && has_addresses(router, &observed.gateway_ips)
        }
        _ => true,
    }
}

/// Returns true if a router has these addresses, and no other one in their subnets. Those in other subnets are Neutron's
/// choice, for example one of each IP version. Without any, Neutron chooses all.
fn has_addresses(router: &Router, wanted: &[(String, Option<String>)]) -> bool {
    if wanted.is_empty() {
        return true;
    }
    let mut left = router.external_fixed_ips.clone();
    // Those with an address first: the others take any address of their subnet.
    let (named, free): (Vec<_>, Vec<_>) = wanted.iter().partition(|(_, address)| address.is_some());
    for (subnet, address) in named.into_iter().chain(free) {
        let fits = |held: &(String, String)| {
            held.0 == *subnet && address.as_ref().is_none_or(|address| same_address(address, &held.1))
        };
        let Some(index) = left.iter().position(fits) else { return false };
        left.remove(index);
    }
    !left.iter().any(|(held, _)| wanted.iter().any(|(subnet, _)| subnet == held))
}

/// Decides on the gateway. The cloud may refuse it, and the other parts do not wait for it. Pure.
pub(super) fn step(desired: &Desired, observed: &Observed) -> Option<Step> {
    if is_as_wanted(desired, observed) {
        return None;
    }
    let (router, external) = (observed.router.as_ref()?, observed.external.as_ref()?);
    let step = Step::SetGateway { router: router.id.clone(), network: external.id.clone() };
    drift::permitted(step, observed)
}

/// Decides on a gateway without which no floating IP of the cluster can work: none, or one on another network. After a
/// refusal, it is not urgent any more. Pure.
pub(super) fn urgent_step(desired: &Desired, observed: &Observed) -> Option<Step> {
    if observed.gateway_refused.is_some() {
        return None;
    }
    let (router, external) = (observed.router.as_ref()?, observed.external.as_ref()?);
    let is_urgent = match &router.external_network_id {
        None => true,
        // Neutron refuses another network while floating IPs are in use.
        Some(network) => {
            let is_used = observed.floating_ip.as_ref().is_some_and(|ip| ip.port_id.is_some());
            *network != external.id && !is_used
        }
    };
    if is_urgent { step(desired, observed) } else { None }
}

/// Returns true if Neutron refuses a gateway: floating IPs need the present one, the user may not set its addresses, or
/// they are taken or wrong.
const fn is_refusal(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Conflict | ErrorClass::Forbidden | ErrorClass::Invalid | ErrorClass::NoValidHost
    )
}

/// Notes that Neutron refuses the gateway. The pass goes on with the other parts. Other results stay.
fn note_refusal(
    made: Result<EventText, ReconcileError>,
    observed: &mut Observed,
) -> Result<EventText, ReconcileError> {
    match made {
        Err(ReconcileError::Cloud(error)) if is_refusal(error.class) => {
            observed.gateway_refused = Some(error);
            Ok(None)
        }
        made => made,
    }
}

/// Returns the Event about a refused gateway, if the pass did not end with the refusal itself. Pure.
pub(super) fn unreported<T>(
    observed: &Observed,
    result: &Result<T, ReconcileError>,
) -> Option<(&'static str, String)> {
    let refused = observed.gateway_refused.as_ref()?;
    match result {
        Err(ReconcileError::Cloud(error)) if error == refused => None,
        _ => Some((refused.event_reason(), refused.to_string())),
    }
}

/// Returns the gateway of a router as text.
pub(super) fn known(router: &Router) -> String {
    let Some(network) = &router.external_network_id else { return "none".to_owned() };
    format!("network {network} with [{}]", router.external_ips.join(", "))
}

/// Returns a requested gateway as text.
pub(super) fn wanted(network: &str, ips: &[(String, Option<String>)]) -> String {
    if ips.is_empty() {
        return format!("network {network}");
    }
    let address = |(subnet, address): &(String, Option<String>)| match address {
        Some(address) => address.clone(),
        None => format!("any of subnet {subnet}"),
    };
    format!("network {network} with [{}]", ips.iter().map(address).collect::<Vec<_>>().join(", "))
}

impl Actor<'_> {
    /// Makes the step of the gateway. After a refusal the pass goes on, and a second step ends it with that refusal.
    ///
    /// # Errors
    /// Those of [`Self::set_gateway`]; a refusal only at the second step.
    pub(super) async fn change_gateway(
        &self,
        step: Step,
        object: &mut OpenStackCluster,
        observed: &mut Observed,
    ) -> Result<EventText, ReconcileError> {
        if let Some(refused) = observed.gateway_refused.clone() {
            return Err(refused.into());
        }
        let made = self.change_cloud(step, object, observed).await;
        note_refusal(made, observed)
    }

    /// Sets the gateway of the router. Unless Neutron refuses that, what other fields have after it is no drift.
    ///
    /// # Errors
    /// Those of the cloud, and a wait if the router has another gateway after that.
    pub(super) async fn set_gateway(
        &self,
        observed: &mut Observed,
        router: &str,
        network: &str,
    ) -> Result<EventText, ReconcileError> {
        let answer = self.cloud.set_router_gateway(router, network, &observed.gateway_ips).await;
        if !matches!(&answer, Err(error) if is_refusal(error.class)) {
            observed.drift.forget();
        }
        let changed = answer?;
        let has = known(&changed);
        observed.router = Some(changed);
        if !is_as_wanted(self.desired, observed) {
            let requested = wanted(network, &observed.gateway_ips);
            let message = format!("the cloud gave router {router} the gateway {has}, and not {requested}");
            return Err(ReconcileError::waiting(FAILED, message));
        }
        Ok(Some(("UpdatedRouter", format!("set the external gateway of router {router} to {has}"))))
    }
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::{CloudError, FloatingIp, Network};
    use controllers_runtime::now;
    use serde_json::json;

    use super::super::report::{self, Ending};
    use super::*;

    fn managed() -> Desired {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "managedSubnets": [{"cidr": "10.6.0.0/24"}]});
        Desired::read(&OpenStackCluster::new("c", serde_json::from_value(spec).unwrap()), "c")
    }

    fn observed(network: Option<&str>, held: &[(&str, &str)], wanted: &[(&str, Option<&str>)]) -> Observed {
        let text = str::to_owned;
        let held = held.iter().map(|(subnet, address)| (text(subnet), text(address)));
        let router = Router {
            id: text("r"),
            external_network_id: network.map(text),
            external_fixed_ips: held.collect(),
            ..Router::default()
        };
        Observed {
            router: Some(router),
            external: Some(Network { id: text("e"), external: true, ..Network::default() }),
            gateway_ips: wanted.iter().map(|(subnet, address)| (text(subnet), address.map(text))).collect(),
            ..Observed::default()
        }
    }

    #[test]
    fn r16_the_gateway_is_compared_by_network_and_requested_addresses() {
        let (eight, nine) = (("s", "203.0.113.8"), ("s", "203.0.113.9"));
        let (any, named) = (("s", None), ("s", Some("203.0.113.9")));
        let table = [
            (Some("e"), vec![eight], vec![], true),
            (None, vec![], vec![], false),
            (Some("other"), vec![eight], vec![], false),
            (Some("e"), vec![nine], vec![named], true),
            (Some("e"), vec![eight], vec![named], false),
            (Some("e"), vec![eight], vec![any], true),
            (Some("e"), vec![("t", "203.0.113.8")], vec![any], false),
            (Some("e"), vec![nine, eight], vec![any, named], true),
            (Some("e"), vec![nine, eight], vec![named], false),
            (Some("e"), vec![nine, ("v6", "2001:db8::1")], vec![named], true),
            (Some("e"), vec![eight, ("v6", "2001:db8::1")], vec![any], true),
            (Some("e"), vec![eight, ("v6", "2001:db8::1")], vec![named], false),
            (Some("e"), vec![nine, eight, ("v6", "2001:db8::1")], vec![any], false),
            (Some("e"), vec![("s", "2001:db8::1")], vec![("s", Some("2001:DB8:0::1"))], true),
        ];
        for (network, held, wanted, expected) in table {
            let observed = observed(network, &held, &wanted);
            assert_eq!(is_as_wanted(&managed(), &observed), expected, "{network:?} {held:?} {wanted:?}");
            assert_eq!(step(&managed(), &observed).is_none(), expected, "{network:?} {held:?} {wanted:?}");
        }
    }

    #[test]
    fn r16_only_a_gateway_that_no_floating_ip_can_use_precedes_the_other_parts() {
        let port_id = Some("p".to_owned());
        let used = FloatingIp { port_id, ..FloatingIp::default() };
        let is_urgent = |network: Option<&str>, floating_ip: Option<FloatingIp>| {
            let observed = Observed { floating_ip, ..observed(network, &[], &[("s", None)]) };
            urgent_step(&managed(), &observed).is_some()
        };
        assert!(is_urgent(None, None) && is_urgent(Some("other"), None));
        assert!(!is_urgent(Some("other"), Some(used)), "the cloud would refuse it");
        assert!(!is_urgent(Some("e"), None), "only the address differs");
    }

    fn error(class: ErrorClass) -> ReconcileError {
        let step = Step::SetGateway { router: "r".to_owned(), network: "e".to_owned() };
        let error = CloudError::new(class, step.attempt(&managed()), "a floating IP needs it");
        ReconcileError::from(error).of_step(step.failure())
    }

    #[test]
    fn r16_a_gateway_that_neutron_refuses_holds_up_no_other_part() {
        let mut observed = observed(Some("other"), &[], &[]);
        assert!(note_refusal(Err(error(ErrorClass::Broken)), &mut observed).is_err());
        assert!(urgent_step(&managed(), &observed).is_some() && unreported(&observed, &Ok(())).is_none());

        assert!(matches!(note_refusal(Err(error(ErrorClass::Conflict)), &mut observed), Ok(None)));
        assert_eq!(urgent_step(&managed(), &observed), None, "the other parts are next");
        assert!(step(&managed(), &observed).is_some(), "the pass ends with the refusal");
        let (reason, message) = unreported(&observed, &Ok(())).unwrap();
        assert!(reason == "FailedUpdateRouter" && message.contains("a floating IP needs it"), "{message}");
        let refused = Err::<(), _>(error(ErrorClass::Conflict));
        assert_eq!(unreported(&observed, &refused), None, "the end of the pass has the Event");
        assert!(unreported(&observed, &Err::<(), _>(error(ErrorClass::Broken))).is_some());
    }

    /// In most clouds only an administrator may set the addresses of a gateway.
    #[test]
    fn r16_a_gateway_that_the_user_may_not_set_holds_up_no_other_part() {
        for class in [ErrorClass::Forbidden, ErrorClass::Invalid, ErrorClass::NoValidHost] {
            let mut observed = observed(Some("other"), &[], &[("s", Some("203.0.113.9"))]);
            assert!(urgent_step(&managed(), &observed).is_some(), "{class:?}");
            assert!(matches!(note_refusal(Err(error(class)), &mut observed), Ok(None)), "{class:?}");
            assert_eq!(urgent_step(&managed(), &observed), None, "{class:?}: the other parts are next");
            assert!(step(&managed(), &observed).is_some(), "{class:?}: the pass ends with the refusal");
        }
    }

    #[test]
    fn r16_the_condition_of_the_router_has_the_refusal_also_if_another_part_ends_the_pass() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "managedSubnets": [{"cidr": "10.6.0.0/24"}]});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        object.metadata.uid = Some("u".to_owned());
        let mut observed = Observed { connected: true, complete: true, ..observed(Some("other"), &[], &[]) };
        assert!(note_refusal(Err(error(ErrorClass::Conflict)), &mut observed).is_ok());
        let end = ReconcileError::waiting("LoadBalancerPending", "Octavia changes it");
        report::report(&mut object, &managed(), &observed, &Ending::Stopped(&end), &now());
        let router = object.condition("RouterReady").unwrap();
        assert_eq!((router.holds(), router.reason.as_str()), (false, FAILED));
        assert!(router.message.contains("a floating IP needs it"), "{}", router.message);
    }
}
