//! Decision on the next step of a Machine.

use std::time::Duration;

use apiserver_types::{Machine, OpenStackMachine};
use controllers_runtime::paused;
use kube::ResourceExt;

use super::observe::Observed;
use super::{FINALIZER, WAITING};
use crate::ownership::{self, Adoption};

/// Interval of a Machine that waits for nothing; watches report all changes sooner.
const RESYNC: Duration = Duration::from_mins(5);

/// Prefix of annotations that hold a deletion before the Node is drained.
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";

/// Prefix of annotations that hold a deletion before the server is deleted.
const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

/// Next step of a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Report only: the Machine or its Cluster is paused.
    Pause,
    /// Do nothing at all: the Machine is being deleted, and waits for the finalizers of others.
    Ignore,
    /// Add the finalizer.
    AddFinalizer,
    /// Add owner reference and label to the Machine itself.
    Adopt,
    /// Add owner reference and label to the OpenStackMachine.
    AdoptInfrastructure,
    /// Copy the OpenStackMachine's provider ID.
    SetProviderId(String),
    /// Nothing is left to do.
    Nothing,
    /// Wait for another system to remove its annotation: reason and annotation.
    WaitForHook(&'static str, String),
    /// Delete the OpenStackMachine.
    DeleteInfrastructure,
    /// Wait for the OpenStackMachine, for the reason that it gives.
    WaitForInfrastructure(String),
    /// Remove the finalizer: nothing is left.
    Release,
}

impl Step {
    /// Reports whether a pass ends with this step, because what follows needs another observation.
    pub(super) const fn ends_pass(&self) -> bool {
        !matches!(self, Self::AddFinalizer | Self::Adopt | Self::AdoptInfrastructure | Self::SetProviderId(_))
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(machine: &Machine, observed: &Observed) -> Step {
    if paused(machine, observed.cluster.as_ref()) {
        return Step::Pause;
    }
    let is_held = machine.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    match (machine.metadata.deletion_timestamp.is_some(), is_held) {
        (true, true) => deletion(machine, observed.infrastructure.as_ref()),
        (true, false) => Step::Ignore,
        (false, false) => Step::AddFinalizer,
        (false, true) => adoption(machine, observed)
            .or_else(|| provider_id(machine, observed).map(Step::SetProviderId))
            .unwrap_or(Step::Nothing),
    }
}

/// Returns the interval after a pass that ended with `step`.
pub(super) fn interval(step: &Step, observed: &Observed) -> Option<Duration> {
    let complete = observed.obstacle.is_none() && observed.infrastructure.is_some();
    match step {
        Step::Pause | Step::Ignore | Step::Release => None,
        Step::Nothing if complete => Some(RESYNC),
        _ => Some(WAITING),
    }
}

fn adoption(machine: &Machine, observed: &Observed) -> Option<Step> {
    let cluster = observed.cluster.as_ref()?;
    let name = cluster.name_any();
    let owner = ownership::reference(cluster, false);
    if ownership::adoption(machine, &owner, &name) == Adoption::Due {
        return Some(Step::Adopt);
    }
    let infrastructure = observed.infrastructure.as_ref()?;
    let owner = ownership::reference(machine, true);
    let is_due = ownership::adoption(infrastructure, &owner, &name) == Adoption::Due;
    is_due.then_some(Step::AdoptInfrastructure)
}

/// Returns the provider ID of a server that was complete once, if the Machine has another or none.
fn provider_id(machine: &Machine, observed: &Observed) -> Option<String> {
    let found = observed.infrastructure.as_ref()?.spec.provider_id.clone()?;
    (observed.provisioned() && machine.spec.provider_id.as_ref() != Some(&found)).then_some(found)
}

/// Nodes are not drained: workload clusters are not inspected yet.
fn deletion(machine: &Machine, infrastructure: Option<&OpenStackMachine>) -> Step {
    if let Some(annotation) = hook(machine, PRE_DRAIN) {
        return Step::WaitForHook("WaitingForPreDrainHook", annotation);
    }
    if let Some(annotation) = hook(machine, PRE_TERMINATE) {
        return Step::WaitForHook("WaitingForPreTerminateHook", annotation);
    }
    // An object that another Machine controls is not deleted with this one.
    match infrastructure.filter(|it| ownership::is_owned(*it, machine)) {
        None => Step::Release,
        Some(it) if it.metadata.deletion_timestamp.is_none() => Step::DeleteInfrastructure,
        Some(it) => {
            let ready = it.condition("Ready").map(|ready| ready.message.clone()).unwrap_or_default();
            Step::WaitForInfrastructure(format!("OpenStackMachine {}: {ready}", it.name_any()))
        }
    }
}

/// Returns the first annotation with this prefix.
fn hook(machine: &Machine, prefix: &str) -> Option<String> {
    let has_prefix =
        |key: &&String| key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    machine.annotations().keys().find(has_prefix).cloned()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        Cluster, ClusterSpec, Initialization, MachineSpec, OpenStackMachineSpec, OpenStackMachineStatus,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;
    use crate::CLUSTER_NAME_LABEL;

    fn machine() -> Machine {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        machine.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        machine
    }

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("of-cluster".to_owned());
        cluster
    }

    #[test]
    fn a_machine_is_adopted_then_its_infrastructure_and_then_gets_its_provider_id() {
        let label = || (CLUSTER_NAME_LABEL.to_owned(), "c".to_owned());
        let mut adopted = machine();
        adopted.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
        adopted.labels_mut().extend([label()]);
        let bare = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        let mut owned = bare.clone();
        owned.metadata.owner_references = Some(vec![ownership::reference(&machine(), true)]);
        owned.labels_mut().extend([label()]);
        owned.spec.provider_id = Some("openstack:///1".to_owned());
        let mut provisioned = owned.clone();
        let initialization = Some(Initialization { provisioned: Some(true) });
        provisioned.status =
            Some(OpenStackMachineStatus { initialization, ..OpenStackMachineStatus::default() });
        let mut complete = adopted.clone();
        complete.spec.provider_id = Some("openstack:///1".to_owned());
        let mut paused = cluster();
        paused.spec.paused = Some(true);
        let new = Machine { metadata: Default::default(), ..machine() };
        let mut going = new.clone();
        going.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        let table = [
            ("paused", machine(), Some(paused), None, Step::Pause),
            ("going, held by others", going, Some(cluster()), None, Step::Ignore),
            ("new", new, None, None, Step::AddFinalizer),
            ("without a cluster", machine(), None, Some(bare.clone()), Step::Nothing),
            ("with a cluster", machine(), Some(cluster()), Some(bare.clone()), Step::Adopt),
            ("adopted", adopted.clone(), Some(cluster()), None, Step::Nothing),
            (
                "with a server's object",
                adopted.clone(),
                Some(cluster()),
                Some(bare),
                Step::AdoptInfrastructure,
            ),
            ("not provisioned", adopted.clone(), Some(cluster()), Some(owned), Step::Nothing),
            (
                "provisioned",
                adopted,
                Some(cluster()),
                Some(provisioned.clone()),
                Step::SetProviderId("openstack:///1".to_owned()),
            ),
            ("complete", complete, Some(cluster()), Some(provisioned), Step::Nothing),
        ];
        for (case, machine, cluster, infrastructure, expected) in table {
            let observed = Observed { cluster, infrastructure, ..Observed::default() };
            assert_eq!(next_step(&machine, &observed), expected, "{case}");
        }
    }

    #[test]
    fn hooks_block_deletion_and_the_server_is_deleted_before_the_machine() {
        let mut machine = machine();
        let mut infrastructure = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        assert_eq!(deletion(&machine, Some(&infrastructure)), Step::Release, "another owner's");
        infrastructure.metadata.owner_references = Some(vec![ownership::reference(&machine, true)]);
        assert_eq!(deletion(&machine, Some(&infrastructure)), Step::DeleteInfrastructure);
        infrastructure.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(matches!(deletion(&machine, Some(&infrastructure)), Step::WaitForInfrastructure(_)));
        assert_eq!(deletion(&machine, None), Step::Release);
        let hook = format!("{PRE_TERMINATE}/backup");
        machine.annotations_mut().insert(hook.clone(), String::new());
        assert_eq!(deletion(&machine, None), Step::WaitForHook("WaitingForPreTerminateHook", hook));
    }
}
