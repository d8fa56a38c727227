//! Limits of the remediations in flight: of one set, and of all workers of a Cluster.

use apiserver_types::rollout_settings::{REMEDIATION_MAX_IN_FLIGHT, max_in_flight};
use apiserver_types::{Cluster, IntOrString, Machine, MachineDeployment, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::remediation::is_in_flight;
use crate::machine_labels::DEPLOYMENT_NAME;
use crate::replica_counts::scaled;
use crate::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL};

/// Limit of the remediations at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limit {
    pub number: usize,
    /// Setting with its value, for people.
    pub text: String,
    /// Remediations in flight in other sets that count, too. `None`: the limit is that of one set.
    pub elsewhere: Option<usize>,
}

/// Returns the limit of a set: the field of its MachineDeployment, or the annotation of a set without one.
pub(super) fn of_set(set: &MachineSet, deployment: Option<&MachineDeployment>) -> Option<Limit> {
    let (value, replicas, name) = match deployment {
        Some(deployment) => {
            let value = deployment.spec.remediation.as_ref()?.max_in_flight.clone()?;
            (value, deployment.spec.replicas, "spec.remediation.maxInFlight".to_owned())
        }
        None => (setting(set)?, set.spec.replicas, format!("annotation {REMEDIATION_MAX_IN_FLIGHT}")),
    };
    limit(&value, i64::from(replicas.unwrap_or(1)), &name, None)
}

/// Reads the limit of a Cluster, with the remediations in flight in its other sets. Without the annotation, nothing is read.
///
/// # Errors
/// The API's own failure.
pub(super) async fn of_cluster(
    context: &ControllerContext,
    set: &MachineSet,
    cluster: Option<&Cluster>,
) -> Result<Option<Limit>, ReconcileError> {
    let Some((cluster, value)) = cluster.and_then(|it| Some((it, setting(it)?))) else { return Ok(None) };
    let (namespace, client) = (set.namespace().unwrap_or_default(), &context.client);
    let (name, all) = (cluster.name_any(), ListParams::default());
    let label = all.clone().labels(&format!("{CLUSTER_NAME_LABEL}={name}"));
    let deployments = Api::<MachineDeployment>::namespaced(client.clone(), &namespace).list(&all).await?;
    let sets = Api::<MachineSet>::namespaced(client.clone(), &namespace).list(&all).await?;
    let machines = Api::<Machine>::namespaced(client.clone(), &namespace).list(&label).await?;
    let of_deployments =
        deployments.items.iter().filter(|it| it.spec.cluster_name == name).map(|it| it.spec.replicas);
    let is_alone =
        |it: &&MachineSet| it.spec.cluster_name == name && !it.labels().contains_key(DEPLOYMENT_NAME);
    let of_sets = sets.items.iter().filter(is_alone).map(|it| it.spec.replicas);
    let replicas = of_deployments.chain(of_sets).map(|it| i64::from(it.unwrap_or(1))).sum();
    let setting = format!("annotation {REMEDIATION_MAX_IN_FLIGHT} of Cluster {name}");
    Ok(limit(&value, replicas, &setting, Some(elsewhere(set, &machines.items))))
}

/// Returns the number of remediations in flight of the workers of other sets.
fn elsewhere(set: &MachineSet, machines: &[Machine]) -> usize {
    let is_ours = |it: &Machine| {
        let mut owners = it.owner_references().iter();
        owners.any(|owner| owner.controller == Some(true) && set.metadata.uid.as_ref() == Some(&owner.uid))
    };
    let is_worker = |it: &Machine| !it.labels().contains_key(CONTROL_PLANE_LABEL);
    machines.iter().filter(|it| is_in_flight(it) && is_worker(it) && !is_ours(it)).count()
}

/// Returns the setting of an object. A value that cannot be used counts as absent.
fn setting<K: kube::Resource>(object: &K) -> Option<IntOrString> {
    max_in_flight(object.annotations().get(REMEDIATION_MAX_IN_FLIGHT)?)
}

fn limit(value: &IntOrString, replicas: i64, name: &str, elsewhere: Option<usize>) -> Option<Limit> {
    let number = usize::try_from(scaled(value, replicas, true)?).unwrap_or_default();
    let value = match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    };
    Some(Limit { number, text: format!("{name} is {value}"), elsewhere })
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, ConditionStatus, MachineSpec, MachineStatus, ReplicaRemediation, Time};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time as Instant};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn of(value: &str, replicas: i32) -> Option<(usize, String)> {
        let mut set = MachineSet::default();
        set.spec.replicas = Some(replicas);
        set.annotations_mut().insert(REMEDIATION_MAX_IN_FLIGHT.to_owned(), value.to_owned());
        of_set(&set, None).map(|limit| (limit.number, limit.text))
    }

    #[test]
    fn a_set_alone_has_the_limit_of_its_annotation_and_another_one_that_of_the_field() {
        let text = |value: &str| format!("annotation capstan.dev/remediation-max-in-flight is {value}");
        assert_eq!(of("1", 9), Some((1, text("1"))));
        assert_eq!(of("25%", 9), Some((3, text("25%"))));
        assert_eq!(of("0", 9), Some((0, text("0"))));
        assert_eq!((of("few", 9), of("", 9)), (None, None), "no limit, as without the annotation");
        assert_eq!(of_set(&MachineSet::default(), None), None);
        let mut deployment = MachineDeployment::default();
        deployment.annotations_mut().insert(REMEDIATION_MAX_IN_FLIGHT.to_owned(), "1".to_owned());
        assert_eq!(of_set(&MachineSet::default(), Some(&deployment)), None);
        let remediation = ReplicaRemediation { max_in_flight: Some(IntOrString::Int(2)) };
        deployment.spec.remediation = Some(remediation);
        let found = of_set(&MachineSet::default(), Some(&deployment)).unwrap();
        assert_eq!((found.number, found.text.as_str()), (2, "spec.remediation.maxInFlight is 2"));
    }

    #[test]
    fn only_workers_of_other_sets_count_elsewhere() {
        let machine = |owner: &str, reason: &str| {
            let no = ConditionStatus::False;
            let condition = Condition::new("OwnerRemediated", no, reason, "", Time::default());
            let mut machine = Machine::new("m", MachineSpec::default());
            machine.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
            machine.metadata.owner_references = Some(vec![OwnerReference {
                controller: Some(true),
                uid: owner.to_owned(),
                ..OwnerReference::default()
            }]);
            machine.status =
                Some(MachineStatus { conditions: Some(vec![condition]), ..MachineStatus::default() });
            machine
        };
        let mut set = MachineSet::default();
        set.metadata.uid = Some("own".to_owned());
        let mut control_plane = machine("cp", "MachineDeleting");
        control_plane.labels_mut().insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
        let deferred = machine("other", "RemediationDeferred");
        let mut all = vec![machine("own", "MachineDeleting"), control_plane, deferred];
        assert_eq!(elsewhere(&set, &all), 0);
        all.push(machine("other", "MachineDeleting"));
        assert_eq!(elsewhere(&set, &all), 1);
    }
}
