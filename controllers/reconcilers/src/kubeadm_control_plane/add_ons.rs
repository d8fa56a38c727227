//! Add-ons of the workload cluster that follow the control plane after a rollout: kube-proxy and CoreDNS.

use apiserver_types::{Condition, ConditionStatus, KubeadmControlPlane, Time};
use controllers_runtime::Severity;

use super::act::Actor;
use super::inspection::Workload;
use super::observe::Observed;
use super::{connection, core_dns, kube_proxy};

/// Type of the condition. It is no part of any summary, because a cluster with an old add-on works.
const CONDITION: &str = "AddonsUpToDate";

/// State of the add-ons. An error is text, because it goes into the condition.
pub(super) type AddOns = Result<(), String>;

/// Changes the add-ons that need it. An error is no obstacle for the control plane itself, nor for the other add-on.
pub(super) async fn follow(actor: &Actor<'_>, control_plane: &KubeadmControlPlane, observed: &mut Observed) {
    let client = actor.context.workloads.client(&connection::key(observed));
    let is_reached = matches!(observed.workload, Workload::Reached(_));
    let Some(client) = client.ok().filter(|_| is_reached) else { return };
    let proxy = match kube_proxy::is_ours(control_plane) {
        true => kube_proxy::update(&client, control_plane).await,
        false => Ok(None),
    };
    let dns = match core_dns::wish(control_plane) {
        Some(wish) => core_dns::update(&client, wish).await,
        None => Ok(None),
    };
    let mut errors = Vec::new();
    for (name, reason, outcome) in
        [("kube-proxy", "KubeProxyUpdated", proxy), ("CoreDNS", "CoreDNSUpdated", dns)]
    {
        match outcome {
            Ok(Some(image)) => {
                let message = format!("{name} of the workload cluster gets the image {image}");
                actor.context.events.record(control_plane, Severity::Normal, reason, &message).await;
            }
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    observed.add_ons = Some(if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) });
}

/// Returns the condition. It is absent until something is wrong for the first time.
pub(super) fn condition(
    control_plane: &KubeadmControlPlane,
    add_ons: Option<&AddOns>,
    now: &Time,
) -> Option<Condition> {
    let new =
        |status, reason, message: &str| Some(Condition::new(CONDITION, status, reason, message, now.clone()));
    match add_ons? {
        Err(message) => new(ConditionStatus::False, "NotUpToDate", message),
        Ok(()) if control_plane.condition(CONDITION).is_some() => new(ConditionStatus::True, "UpToDate", ""),
        Ok(()) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_appears_with_the_first_error_and_is_true_afterwards() {
        let mut control_plane = KubeadmControlPlane::default();
        let now = Time::default();
        assert_eq!(condition(&control_plane, None, &now), None);
        assert_eq!(condition(&control_plane, Some(&Ok(())), &now), None);
        let bad = condition(&control_plane, Some(&Err("no".to_owned())), &now).unwrap();
        assert_eq!((bad.reason.as_str(), bad.message.as_str()), ("NotUpToDate", "no"));
        control_plane.status.get_or_insert_default().conditions = Some(vec![bad]);
        assert!(condition(&control_plane, Some(&Ok(())), &now).is_some_and(|it| it.holds()));
        assert_eq!(condition(&control_plane, None, &now), None, "what is known stays");
    }
}
