//! Write of the components' conditions to the status of the Machines, next to the conditions of others.

use apiserver_types::last_known::LAST_KNOWN_CONTROL_PLANE;
use apiserver_types::{Condition, KubeadmControlPlane, Machine, condition, set_condition};
use controllers_runtime::{ControllerContext, ReconcileError, now, write_status};
use kube::{Api, ResourceExt};

use super::machine_conditions::{self, Update};
use super::observe::Observed;
use super::replica::managed_etcd;
use crate::{deprecated_conditions, last_known};

/// Attempts of a write; others write to the same status at the same time.
const ATTEMPTS: usize = 5;

/// Writes the conditions of all Machines. One that is gone needs none.
pub(super) async fn write(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let namespace = control_plane.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let (managed, now) = (managed_etcd(control_plane), now());
    let workload = &observed.workload;
    for replica in &mut observed.replicas {
        let updates = machine_conditions::updates(replica, workload, managed, &now);
        let lost: Vec<&Condition> = updates.iter().filter(|it| it.replaces).map(|it| &it.condition).collect();
        let machine =
            last_known::keep(&api, replica.machine.clone(), LAST_KNOWN_CONTROL_PLANE, &lost).await?;
        let update = |machine: &mut Machine| *machine = updated(std::mem::take(machine), &updates);
        if let Some(machine) = change(&api, machine, update).await? {
            replica.machine = machine;
        }
    }
    Ok(())
}

/// Changes the status of a Machine. Returns it as it is stored then; `None` if it is gone.
///
/// # Errors
/// The write failed, or other clients wrote first each time.
pub(super) async fn change(
    api: &Api<Machine>,
    mut machine: Machine,
    change: impl Fn(&mut Machine),
) -> Result<Option<Machine>, ReconcileError> {
    let changed = |machine: &Machine| {
        let mut new = machine.clone();
        change(&mut new);
        new
    };
    for _ in 1..ATTEMPTS {
        let new = changed(&machine);
        match write_status(api, &machine, &new).await {
            Err(error) if error.is_conflict() => {}
            Err(ReconcileError::Api(kube::Error::Api(status))) if status.code == 404 => return Ok(None),
            result => return result.map(Some),
        }
        let Some(current) = api.get_opt(&machine.name_any()).await? else { return Ok(None) };
        machine = current;
    }
    let new = changed(&machine);
    write_status(api, &machine, &new).await.map(Some)
}

/// Returns a Machine with its conditions set; those of other owners stay.
fn updated(mut machine: Machine, updates: &[Update]) -> Machine {
    let generation = machine.metadata.generation;
    let status = machine.status.get_or_insert_default();
    let conditions = status.conditions.get_or_insert_default();
    for update in updates {
        if update.replaces || condition(conditions, &update.condition.kind).is_none() {
            set_condition(conditions, update.condition.clone().at_generation(generation));
        }
    }
    let states = updates.iter().filter_map(|update| Some((&update.condition, update.old.clone()?)));
    for (condition, state) in states {
        let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
        let old = old.conditions.get_or_insert_default();
        deprecated_conditions::set(old, &condition.kind, state, &condition.last_transition_time);
    }
    machine
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ConditionStatus, Time};
    use serde_json::json;

    use super::super::inspection::Workload;
    use super::super::replica::Replica;
    use super::*;
    use crate::api_in_memory::FakeApi;
    use crate::deprecated_conditions::Old;

    #[tokio::test]
    async fn the_state_that_a_lost_connection_ends_is_kept_in_an_annotation() {
        const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m";
        let (kind, good) = ("SchedulerPodHealthy", ConditionStatus::True);
        let condition = Condition::new(kind, good, "Running", "", Time::default());
        let known = updated(Machine::default(), &[Update { condition, replaces: true, old: None }]);
        let api = FakeApi::default();
        api.put(PATH, json!(known));
        let machine = serde_json::from_value(api.get(PATH).unwrap()).unwrap();
        let lost =
            |is_over| Workload::Unreachable { message: "down".to_owned(), is_over, reason: "ConnectionDown" };
        let replicas = vec![Replica { machine, ..Replica::default() }];
        let mut observed = Observed { replicas, workload: lost(false), ..Observed::default() };
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.metadata.namespace = Some("ns".to_owned());
        let context = api.context("kubeadmcontrolplane-controller");
        for (is_over, status, kept) in [
            (false, good, None),
            (
                true,
                ConditionStatus::Unknown,
                Some(r#"{"SchedulerPodHealthy":{"status":"True","reason":"Running"}}"#),
            ),
        ] {
            observed.workload = lost(is_over);
            write(&context, &control_plane, &mut observed).await.unwrap();
            let machine = &observed.replicas[0].machine;
            assert_eq!(machine.condition(kind).map(|it| it.status), Some(status));
            let annotation = machine.annotations().get(LAST_KNOWN_CONTROL_PLANE);
            assert_eq!(annotation.map(String::as_str), kept);
        }
    }

    #[test]
    fn conditions_of_others_stay_and_a_short_loss_of_the_connection_keeps_what_is_known() {
        let new = |kind: &str, status, replaces| Update {
            condition: Condition::new(kind, status, "Reason", "", Time::default()),
            replaces,
            old: (status == ConditionStatus::True).then_some(Old::True),
        };
        let mut machine = Machine::default();
        let before = [
            new("Ready", ConditionStatus::True, true),
            new("SchedulerPodHealthy", ConditionStatus::True, true),
        ];
        machine = updated(machine, &before);
        let lost = [
            new("SchedulerPodHealthy", ConditionStatus::Unknown, false),
            new("APIServerPodHealthy", ConditionStatus::Unknown, false),
        ];
        machine = updated(machine, &lost);
        let status = |kind| machine.condition(kind).map(|it| it.status);
        assert_eq!(status("Ready"), Some(ConditionStatus::True));
        assert_eq!(status("SchedulerPodHealthy"), Some(ConditionStatus::True));
        assert_eq!(status("APIServerPodHealthy"), Some(ConditionStatus::Unknown));
        let old = machine.status.unwrap().deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
        assert_eq!(old.len(), 2, "a condition without a state in the form of v1beta1 leaves what is known");
    }
}
