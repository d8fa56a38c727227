//! Comparison of a MachineSet's template with that of its MachineDeployment: what needs new Machines, and the set that
//! has the present template. Pure.

use std::cmp::Reverse;

use apiserver_types::{ContractVersionedObjectReference, MachineDeployment, MachineSet, MachineSpec};
use k8s_openapi::jiff::Timestamp;

/// Returns the differences that only new Machines can remove, as lines for people. All other fields of a template are
/// changed on existing Machines.
pub(crate) fn differences(current: &MachineSpec, wanted: &MachineSpec) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mut lines = Vec::new();
    if current.version != wanted.version {
        lines.push(format!("Version {}, {} required", text(&current.version), text(&wanted.version)));
    }
    let (bootstrap, wanted_bootstrap) = (&current.bootstrap, &wanted.bootstrap);
    if bootstrap.config_ref != wanted_bootstrap.config_ref {
        let reference = wanted_bootstrap.config_ref.as_ref().or(bootstrap.config_ref.as_ref());
        lines.extend(reference.map(not_up_to_date));
    }
    if bootstrap.data_secret_name != wanted_bootstrap.data_secret_name {
        let (is, should) = (text(&bootstrap.data_secret_name), text(&wanted_bootstrap.data_secret_name));
        lines.push(format!("spec.bootstrap.dataSecretName {is}, {should} required"));
    }
    if current.infrastructure_ref != wanted.infrastructure_ref {
        lines.push(not_up_to_date(&wanted.infrastructure_ref));
    }
    if current.failure_domain != wanted.failure_domain {
        let (is, should) = (text(&current.failure_domain), text(&wanted.failure_domain));
        lines.push(format!("Failure domain {is}, {should} required"));
    }
    lines
}

fn not_up_to_date(reference: &ContractVersionedObjectReference) -> String {
    format!("{} is not up-to-date", crate::templates::kind_of(reference))
}

/// Returns the time of a requested rollout, if it has passed.
pub(crate) fn rollout_after(deployment: &MachineDeployment, now: Timestamp) -> Option<Timestamp> {
    requested_rollout(deployment).filter(|after| *after <= now)
}

/// Returns the time of a requested rollout.
pub(super) fn requested_rollout(deployment: &MachineDeployment) -> Option<Timestamp> {
    deployment.spec.rollout.as_ref()?.after.as_ref()?.0.parse().ok()
}

/// Returns the set with the present template. After a requested rollout, only a set that was created since counts.
pub(super) fn find_new<'a>(
    deployment: &MachineDeployment,
    sets: &'a [MachineSet],
    now: Timestamp,
) -> Option<&'a MachineSet> {
    let after = rollout_after(deployment, now);
    let wanted = &deployment.spec.template.spec;
    let created = |set: &MachineSet| set.metadata.creation_timestamp.as_ref().map(|created| created.0);
    let candidates = sets.iter().filter(|set| {
        let is_late = after.is_none_or(|after| created(set).is_some_and(|created| created >= after));
        is_late && differences(&set.spec.template.spec, wanted).is_empty()
    });
    candidates.min_by_key(|set| (Reverse(set.spec.replicas), created(set), set.metadata.name.clone()))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        Gate, MachineDeletionSpec, MachineDeploymentRollout, MachineDeploymentSpec, MachineSetSpec, Time,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;

    use super::*;

    fn reference(kind: &str, name: &str) -> ContractVersionedObjectReference {
        let (api_group, kind, name) = ("g".to_owned(), kind.to_owned(), name.to_owned());
        ContractVersionedObjectReference { api_group, kind, name }
    }

    fn spec() -> MachineSpec {
        let mut spec = MachineSpec { version: Some("v1.33.0".to_owned()), ..MachineSpec::default() };
        spec.infrastructure_ref = reference("OpenStackMachineTemplate", "a");
        spec.bootstrap.config_ref = Some(reference("KubeadmConfigTemplate", "a"));
        spec
    }

    #[test]
    fn only_what_makes_another_machine_needs_a_rollout() {
        let change = |change: fn(&mut MachineSpec)| {
            let mut wanted = spec();
            change(&mut wanted);
            differences(&spec(), &wanted)
        };
        let none: [&str; 0] = [];
        assert_eq!(change(|_| {}), none);
        assert_eq!(change(|it| it.cluster_name = "other".to_owned()), none);
        assert_eq!(change(|it| it.provider_id = Some("x".to_owned())), none);
        assert_eq!(change(|it| it.min_ready_seconds = Some(1)), none);
        assert_eq!(change(|it| it.readiness_gates = Some(vec![Gate::default()])), none);
        assert_eq!(change(|it| it.deletion = Some(MachineDeletionSpec::default())), none);
        assert_eq!(change(|it| it.taints = Some(Vec::new())), none);
        assert_eq!(
            change(|it| it.version = Some("v1.34.0".to_owned())),
            ["Version v1.33.0, v1.34.0 required"]
        );
        assert_eq!(
            change(|it| it.infrastructure_ref.name = "b".to_owned()),
            ["OpenStackMachine is not up-to-date"]
        );
        assert_eq!(
            change(|it| it.bootstrap.config_ref = Some(reference("KubeadmConfigTemplate", "b"))),
            ["KubeadmConfig is not up-to-date"]
        );
        assert_eq!(
            change(|it| it.bootstrap.data_secret_name = Some("s".to_owned())),
            ["spec.bootstrap.dataSecretName , s required"]
        );
        assert_eq!(change(|it| it.failure_domain = Some("b".to_owned())), ["Failure domain , b required"]);
    }

    fn set(name: &str, replicas: i32, second: i64) -> MachineSet {
        let mut set = MachineSet::new(name, MachineSetSpec::default());
        set.metadata.creation_timestamp = Some(Instant(Timestamp::from_second(second).unwrap()));
        set.spec.replicas = Some(replicas);
        set.spec.template.spec = spec();
        set
    }

    #[test]
    fn the_largest_and_then_the_oldest_equal_set_is_the_new_one_unless_a_rollout_was_requested() {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.spec.template.spec = spec();
        let mut other = set("other", 9, 1);
        other.spec.template.spec.version = None;
        let sets = [other, set("late", 2, 30), set("early", 2, 20), set("small", 1, 10)];
        let now = Timestamp::from_second(100).unwrap();
        let new = |deployment: &MachineDeployment| {
            find_new(deployment, &sets, now).and_then(|set| set.metadata.name.clone())
        };
        assert_eq!(new(&deployment).as_deref(), Some("early"));
        let mut request = |second: i64| {
            let after = Some(Time(Timestamp::from_second(second).unwrap().to_string()));
            deployment.spec.rollout =
                Some(MachineDeploymentRollout { after, ..MachineDeploymentRollout::default() });
            new(&deployment)
        };
        assert_eq!(request(25).as_deref(), Some("late"));
        assert_eq!(request(50), None, "a new set is needed");
        assert_eq!(request(200).as_deref(), Some("early"), "not yet");
    }
}
