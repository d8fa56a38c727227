//! Plan of a change of a control plane: its decisions, repeated on a model.

use apiserver_types::{
    Condition, ConditionStatus, KubeadmControlPlane, Machine, MachineSpec, NodeReference, Time, set_condition,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
use kube::ResourceExt;

use super::decide::{self, Step};
use super::desired;
use super::observe::{self, Observed};
use super::replica::{Replica, desired_replicas, managed_etcd, surge};
use super::workload_settings::Settings;
use crate::blocked_drains::blocked_drains;
use crate::plan::{Effect, Plan, PlannedMachine, PlannedStep, changed_fields, held_by};
use crate::quota_forecast::{Forecaster, Surge};
use crate::rollout_gate;

/// Most steps per Machine.
const STEPS: usize = 4;

/// Returns the plan for a changed control plane.
///
/// # Errors
/// The objects around it cannot be read.
pub(crate) async fn plan(
    context: &ControllerContext,
    forecaster: &Forecaster,
    changed: &KubeadmControlPlane,
    stored: &KubeadmControlPlane,
) -> Result<Plan, ReconcileError> {
    let cluster = match observe::cluster(context, changed).await {
        Ok(Some(cluster)) => cluster,
        Ok(None) => return Ok(held("No Cluster owns the control plane".to_owned())),
        Err(ReconcileError::Waiting { message, .. }) => return Ok(held(message)),
        Err(error) => return Err(error),
    };
    let observed = observe::observe(context, changed, cluster).await?;
    let (cluster, template) = (observed.cluster.clone(), observed.template.clone());
    let mut plan = planned(changed, stored, observed);
    if plan.creates() {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let surge = Surge {
            reference: &changed.spec.machine_template.spec.infrastructure_ref,
            template: template.as_ref(),
            cluster: &cluster,
            replicas: number(desired_replicas(changed)),
            most: number(surge(changed)),
        };
        plan.forecasts.extend(forecaster.forecast(context, surge).await.line);
    }
    Ok(plan)
}

/// Returns the plan of a control plane that has no Cluster.
fn held(obstacle: String) -> Plan {
    Plan { obstacles: vec![obstacle], ..Plan::default() }
}

/// Simulates the rollout. Pure.
fn planned(changed: &KubeadmControlPlane, stored: &KubeadmControlPlane, mut observed: Observed) -> Plan {
    // What a pass would read from the workload cluster, where all is well.
    observed.certificates.examined = true;
    observed.settings = Settings::Read(Vec::new());
    let obstacles = held_by(changed, &observed.cluster.name_any(), Some(&observed.cluster));
    let mut plan = Plan { machines: machines(changed, stored, &observed), obstacles, ..Plan::default() };
    plan.obstacles.extend(hold(changed, &observed));
    plan.obstacles.extend(blocked_drains(observed.replicas.iter().map(|it| &it.machine)));
    let changed = &rollout_gate::without_window(changed.clone());
    observed.cluster = rollout_gate::without_window(observed.cluster);
    observed.replicas.retain(|replica| !replica.is_deleting());
    if let Step::Block(blocked) = decide::change(changed, &observed) {
        plan.obstacles.extend(blocked.reasons);
        if observed.template.is_none() {
            return plan;
        }
    }
    // The first steps delete Machines that differ and have failed to join.
    let make_way: Vec<bool> =
        observed.replicas.iter().map(|it| decide::makes_way(changed, it, &observed)).collect();
    for (replica, _) in observed.replicas.iter_mut().zip(make_way).filter(|(_, makes_way)| !makes_way) {
        settle(&mut replica.machine, changed);
    }
    let wanted = desired_replicas(changed);
    for _ in 0..(observed.replicas.len() + wanted + 1).saturating_mul(STEPS) {
        match decide::change(changed, &observed) {
            Step::Create(_, domain) => {
                let known = plan.steps.iter().filter(|step| matches!(step, PlannedStep::Create(_))).count();
                let name = format!("{}-(new-{})", changed.name_any(), known.saturating_add(1));
                observed.replicas.push(new_replica(changed, &name, domain));
                plan.steps.push(PlannedStep::Create(name));
            }
            Step::Delete(name) => {
                observed.replicas.retain(|replica| replica.name() != name);
                plan.steps.push(PlannedStep::Delete(name));
            }
            _ => break,
        }
    }
    finish(&mut plan, wanted);
    plan
}

/// Returns the setting that holds the rollout.
fn hold(changed: &KubeadmControlPlane, observed: &Observed) -> Option<String> {
    let is_outdated = observed.replicas.iter().any(Replica::is_outdated);
    let hold = rollout_gate::hold(changed, Some(&observed.cluster), observed.now);
    hold.filter(|_| is_outdated).map(|hold| hold.message)
}

/// Returns the Machines that exist, with the causes for a replacement.
fn machines(
    changed: &KubeadmControlPlane,
    stored: &KubeadmControlPlane,
    observed: &Observed,
) -> Vec<PlannedMachine> {
    let cluster = observed.cluster.name_any();
    let machine = |replica: &Replica| {
        let mut reasons: Vec<String> = replica.causes.iter().map(ToString::to_string).collect();
        let in_place = |control_plane: &KubeadmControlPlane| {
            serde_json::json!(desired::in_place(control_plane, &cluster, &replica.machine))
        };
        let mut fields = Vec::new();
        changed_fields("machineTemplate", &in_place(stored), &in_place(changed), &mut fields);
        let effect = if fields.is_empty() { Effect::Keep } else { Effect::InPlace };
        if reasons.is_empty() {
            reasons.extend(fields.into_iter().map(|path| format!("{path} changes in place")));
        }
        PlannedMachine { name: replica.name(), effect, reasons }
    };
    observed.replicas.iter().filter(|it| !it.is_deleting()).map(machine).collect()
}

/// Sets the effects that follow from the steps.
fn finish(plan: &mut Plan, wanted: usize) {
    let created = plan.steps.iter().filter_map(|step| match step {
        PlannedStep::Create(name) => Some(name.clone()),
        PlannedStep::Delete(_) => None,
    });
    let mut created: Vec<String> = created.collect();
    let reason = format!("spec.replicas is {wanted}");
    for machine in &mut plan.machines {
        if !plan.steps.contains(&PlannedStep::Delete(machine.name.clone())) {
            continue;
        }
        if created.is_empty() {
            machine.effect = Effect::Delete;
            machine.reasons.push(reason.clone());
        } else {
            created.remove(0);
            machine.effect = Effect::Replace;
        }
    }
    plan.machines.extend(created.into_iter().map(|name| PlannedMachine {
        name,
        effect: Effect::Create,
        reasons: vec![reason.clone()],
    }));
}

/// Makes a Machine of the model healthy: what keeps a present one from that is an obstacle of the plan.
fn settle(machine: &mut Machine, control_plane: &KubeadmControlPlane) {
    let name = machine.name_any();
    let status = machine.status.get_or_insert_default();
    status.node_ref.get_or_insert(NodeReference { name });
    for kind in Replica::components(managed_etcd(control_plane)) {
        let condition = Condition::new(kind, ConditionStatus::True, "Running", "", Time::default());
        set_condition(status.conditions.get_or_insert_default(), condition);
    }
}

fn new_replica(control_plane: &KubeadmControlPlane, name: &str, failure_domain: Option<String>) -> Replica {
    let mut machine = Machine::new(name, MachineSpec { failure_domain, ..MachineSpec::default() });
    machine.metadata.creation_timestamp = Some(Instant(Timestamp::now()));
    settle(&mut machine, control_plane);
    Replica { machine, ..Replica::default() }
}

#[cfg(test)]
mod tests {
    use super::super::observe::examples::observed;
    use super::super::replica::examples::{healthy, outdated, replica};
    use super::*;

    fn control_plane(replicas: i32) -> KubeadmControlPlane {
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.metadata.name = Some("cp".to_owned());
        control_plane.spec.replicas = Some(replicas);
        control_plane
    }

    #[test]
    fn outdated_machines_are_replaced_one_by_one_the_oldest_first() {
        let three = vec![outdated(healthy("a", 1)), outdated(healthy("b", 2)), healthy("c", 3)];
        let plan = planned(&control_plane(3), &control_plane(3), observed(three));
        let steps = [
            PlannedStep::Create("cp-(new-1)".to_owned()),
            PlannedStep::Delete("a".to_owned()),
            PlannedStep::Create("cp-(new-2)".to_owned()),
            PlannedStep::Delete("b".to_owned()),
        ];
        assert_eq!(plan.steps, steps);
        let effects: Vec<Effect> = plan.machines.iter().map(|it| it.effect).collect();
        assert_eq!(effects, [Effect::Replace, Effect::Replace, Effect::Keep]);
        assert_eq!(plan.machines[0].reasons, ["Version v1.32.0, v1.33.0 required"]);
        assert_eq!(plan.obstacles, [""; 0]);
    }

    #[test]
    fn an_outdated_machine_that_has_failed_to_join_goes_first() {
        let four = [1, 2, 3].map(|second| outdated(healthy(&format!("m{second}"), second)));
        let four = four.into_iter().chain([outdated(replica("new", 4))]).collect();
        let plan = planned(&control_plane(3), &control_plane(3), observed(four));
        assert_eq!(plan.steps[0], PlannedStep::Delete("new".to_owned()));
        assert_eq!(plan.steps.len(), 7, "then one comes before each of the others goes: {:?}", plan.steps);
    }

    #[test]
    fn a_window_is_an_obstacle_and_a_policy_keeps_the_machines() {
        let mut changed = control_plane(1);
        let window = "0 2 * * 6 4h UTC".to_owned();
        changed.annotations_mut().insert("capstan.dev/maintenance-window".to_owned(), window);
        let plan = |changed: &KubeadmControlPlane| {
            planned(changed, &control_plane(1), observed(vec![outdated(healthy("a", 1))]))
        };
        let waits = plan(&changed);
        assert_eq!((waits.steps.len(), waits.machines[0].effect), (2, Effect::Replace));
        let obstacle = &waits.obstacles[0];
        assert!(obstacle.starts_with("The maintenance window of KubeadmControlPlane cp"), "{obstacle}");
        let policy = ("capstan.dev/rollout-policy".to_owned(), "InPlaceOnly".to_owned());
        changed.annotations_mut().extend([policy]);
        let blocked = plan(&changed);
        assert_eq!((blocked.steps.len(), blocked.machines[0].effect), (0, Effect::Keep));
        assert!(blocked.obstacles[0].starts_with("Annotation capstan.dev/rollout-policy"));
    }

    #[test]
    fn an_unhealthy_machine_is_an_obstacle_and_the_number_is_planned() {
        let plan = planned(
            &control_plane(3),
            &control_plane(1),
            observed(vec![outdated(healthy("a", 1)), replica("b", 2)]),
        );
        assert!(!plan.obstacles.is_empty());
        let effects: Vec<Effect> = plan.machines.iter().map(|it| it.effect).collect();
        assert_eq!(effects, [Effect::Replace, Effect::Keep, Effect::Create]);
    }
}
