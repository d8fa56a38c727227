//! Comparison of a MachineSet's template with that of its MachineDeployment: what needs new Machines, and the set that
//! has the present template. Pure.

use std::borrow::Cow;
use std::cmp::Reverse;

use apiserver_types::{
    BOOTSTRAP_REVISION, ContractVersionedObjectReference, INFRASTRUCTURE_REVISION, MachineDeployment,
    MachineSet, MachineSpec, template_revision,
};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::machine_set::spread;

/// Line for people about a Machine that was made before a requested rollout.
pub(crate) const EXPIRED: &str = "MachineDeployment spec.rolloutAfter expired";

/// Returns the differences that only new Machines can remove, as lines for people: of the fields of the template, and of
/// the revisions of the templates that it refers to. All other fields are changed on existing Machines.
pub(crate) fn differences(set: &MachineSet, deployment: &MachineDeployment) -> Vec<String> {
    let (mut current, wanted) = (Cow::Borrowed(&set.spec.template.spec), &deployment.spec.template.spec);
    // The spread determines the failure domains of new Machines, and the existing ones stay where they are.
    if spread::is_spread(deployment) && current.failure_domain != wanted.failure_domain {
        current.to_mut().failure_domain.clone_from(&wanted.failure_domain);
    }
    let mut lines = of_specs(&current, wanted);
    let is_edited = |key: &str| {
        template_revision(set.annotations(), key) != template_revision(deployment.annotations(), key)
    };
    let bootstrap = wanted.bootstrap.config_ref.as_ref();
    let edited = [
        bootstrap.filter(|_| is_edited(BOOTSTRAP_REVISION)),
        Some(&wanted.infrastructure_ref).filter(|_| is_edited(INFRASTRUCTURE_REVISION)),
    ];
    for line in edited.into_iter().flatten().map(not_up_to_date) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Returns the reasons for which the Machines of a set are replaced: the differences, and a requested rollout.
pub(super) fn all_differences(
    set: &MachineSet,
    deployment: &MachineDeployment,
    now: Timestamp,
) -> Vec<String> {
    let mut lines = differences(set, deployment);
    let created = set.metadata.creation_timestamp.as_ref().map(|created| created.0);
    let after = rollout_after(deployment, now);
    if after.is_some_and(|after| created.is_none_or(|created| created < after)) {
        lines.push(EXPIRED.to_owned());
    }
    lines
}

/// Returns the differences between the fields of two templates.
fn of_specs(current: &MachineSpec, wanted: &MachineSpec) -> Vec<String> {
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
    let created = |set: &MachineSet| set.metadata.creation_timestamp.as_ref().map(|created| created.0);
    let candidates = sets.iter().filter(|set| {
        let is_late = after.is_none_or(|after| created(set).is_some_and(|created| created >= after));
        is_late && differences(set, deployment).is_empty()
    });
    candidates.min_by_key(|set| (Reverse(set.spec.replicas), created(set), set.metadata.name.clone()))
}

#[cfg(test)]
mod tests {
    use apiserver_types::failure_domain_spread::SPREAD_FAILURE_DOMAINS;
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
            of_specs(&spec(), &wanted)
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
    fn an_edit_of_a_template_needs_a_rollout_unless_its_content_is_the_earlier_one_again() {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.spec.template.spec = spec();
        let mut set = set("s", 1, 1);
        assert_eq!(differences(&set, &deployment), [""; 0]);
        let mut edit = |key: &str, number: Option<&str>, set: &MachineSet| {
            deployment.annotations_mut().remove(key);
            deployment.annotations_mut().extend(number.map(|number| (key.to_owned(), number.to_owned())));
            differences(set, &deployment)
        };
        let (bootstrap, infrastructure) =
            ("KubeadmConfig is not up-to-date", "OpenStackMachine is not up-to-date");
        assert_eq!(edit(INFRASTRUCTURE_REVISION, Some("2"), &set), [infrastructure]);
        assert_eq!(edit(BOOTSTRAP_REVISION, Some("3"), &set), [bootstrap, infrastructure]);
        assert_eq!(edit(INFRASTRUCTURE_REVISION, None, &set), [bootstrap]);
        set.annotations_mut().insert(BOOTSTRAP_REVISION.to_owned(), "3".to_owned());
        assert_eq!(edit(INFRASTRUCTURE_REVISION, None, &set), [""; 0]);
        set.spec.template.spec.bootstrap.config_ref = Some(reference("KubeadmConfigTemplate", "b"));
        assert_eq!(edit(BOOTSTRAP_REVISION, Some("4"), &set), [bootstrap], "one line for both");
    }

    #[test]
    fn a_spread_over_failure_domains_replaces_no_set() {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.spec.template.spec = spec();
        let mut set = set("s", 1, 1);
        set.spec.template.spec.failure_domain = Some("az1".to_owned());
        assert_eq!(differences(&set, &deployment), ["Failure domain az1,  required"]);
        deployment.annotations_mut().insert(SPREAD_FAILURE_DOMAINS.to_owned(), "all".to_owned());
        assert_eq!(differences(&set, &deployment), [""; 0]);
        deployment.spec.template.spec.version = None;
        assert_eq!(differences(&set, &deployment), ["Version v1.33.0,  required"]);
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
