//! Plan of a change of a MachineDeployment: its decisions and those of its sets, repeated on a model.

use std::collections::BTreeMap;

use apiserver_types::{
    Cluster, Condition, ConditionStatus, Machine, MachineDeployment, MachineSet, MachineSetStatus,
    NodeReference, Time, set_condition,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time as Instant};
use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::decide::{self, TO_BE_CREATED};
use super::desired;
use super::observe::{self, Observed};
use super::{hold, quota, sameness, template_revisions};
use crate::blocked_drains::blocked_drains;
use crate::machine_labels::{DESIRED_REPLICAS, DISABLE_CREATE};
use crate::machine_set::preflight as checks;
use crate::machine_set::spread::{self, Spread};
use crate::plan::{Effect, Plan, PlannedMachine, PlannedStep, changed_fields, held_by};
use crate::quota_forecast::{Forecast, Forecaster, Surge};
use crate::replica_status::{counts, is_deleting, is_unhealthy};
use crate::rollout_gate;

/// Most rounds per Machine. Each round of a rollout that goes on makes or deletes one.
const ROUNDS: usize = 4;

/// Returns the plan for a changed MachineDeployment.
///
/// # Errors
/// The objects around it cannot be read.
pub(crate) async fn plan(
    context: &ControllerContext,
    forecaster: &Forecaster,
    mut changed: MachineDeployment,
    stored: &MachineDeployment,
) -> Result<Plan, ReconcileError> {
    let observed = observe::observe(context, &changed).await?;
    for (key, value) in template_revisions::unrecorded(&changed, &observed.templates, &observed.revisions) {
        match value {
            Some(value) => drop(changed.annotations_mut().insert(key.to_owned(), value)),
            None => drop(changed.annotations_mut().remove(key)),
        }
    }
    let now = Timestamp::now();
    let plan = planned(&changed, stored, observed.clone(), now);
    let Some(cluster) = observed.cluster.as_ref().filter(|_| plan.creates()) else { return Ok(plan) };
    let (limits, mut templates) = (decide::limits(&changed), observed.templates.iter());
    let surge = Surge {
        reference: &changed.spec.template.spec.infrastructure_ref,
        template: templates.find(|it| it.field == "infrastructureRef").map(|it| &it.object),
        cluster,
        replicas: limits.replicas,
        most: limits.surge,
    };
    let forecast = forecaster.forecast(context, surge).await;
    Ok(foreseen(plan, forecast, |shortage| {
        planned(&changed, stored, Observed { shortage, ..observed.clone() }, now)
    }))
}

/// Returns the preflight checks that keep the sets of a changed MachineDeployment from making Machines at present.
///
/// # Errors
/// The objects around it cannot be read.
pub(crate) async fn preflight(
    context: &ControllerContext,
    changed: &MachineDeployment,
) -> Result<Vec<String>, ReconcileError> {
    let namespace = changed.namespace().unwrap_or_default();
    let clusters: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    let Some(cluster) = clusters.get_opt(&changed.spec.cluster_name).await? else { return Ok(Vec::new()) };
    let intent = desired::new_set(changed, "plan", 0, &desired::new_revision(None, &[]));
    match serde_json::from_value::<MachineSet>(intent) {
        Ok(set) => checks::check(context, &set, &cluster).await,
        Err(_) => Ok(Vec::new()),
    }
}

/// Adds a forecast to a plan. If not even one surplus Machine can ever fit, the plan is made again, for a project without
/// room. Pure.
fn foreseen(plan: Plan, forecast: Forecast, again: impl FnOnce(Option<String>) -> Plan) -> Plan {
    let Forecast { line, is_full } = forecast;
    let mut plan = if is_full { again(line.clone()) } else { plan };
    plan.forecasts.extend(line);
    plan
}

/// Simulates the rollout. Pure.
fn planned(
    changed: &MachineDeployment,
    stored: &MachineDeployment,
    mut observed: Observed,
    now: Timestamp,
) -> Plan {
    let held = held_by(changed, &changed.spec.cluster_name, observed.cluster.as_ref());
    let missing = observed
        .missing
        .iter()
        .map(|missing| format!("{} {} does not exist. {}", missing.kind, missing.name, missing.remedy()));
    let hold = hold::hold(changed, &observed, now).map(|hold| hold.message);
    let is_paused =
        changed.spec.paused == Some(true) && !hold::differences(changed, &observed, now).is_empty();
    let pause = is_paused.then(|| "spec.paused is true, so that no Machine is replaced".to_owned());
    // As the last pass found it: the forecast knows limits alone.
    let short = quota::reported(stored).filter(|_| decide::is_surge_optional(changed)).map(str::to_owned);
    let quota = short.clone().into_iter().chain(quota::waiting(&observed));
    let unusable = observed.unusable.iter().cloned();
    let drains = blocked_drains(&observed.machines);
    let obstacles = held.into_iter().chain(missing).chain(unusable).chain(pause).chain(hold).chain(quota);
    let obstacles = obstacles.chain(drains).collect();
    let foreseen = observed.shortage.take();
    observed.shortage = short.or(foreseen);
    super::in_place::settle(&mut observed);
    let before = observed.clone();
    let open = rollout_gate::without_window(changed.clone());
    observed.cluster = observed.cluster.map(rollout_gate::without_window);
    let mut model = Model { changed: &open, observed, steps: Vec::new(), now };
    model.boot();
    let replicas = usize::try_from(changed.spec.replicas.unwrap_or(1)).unwrap_or_default();
    let most = (before.machines.len() + replicas + 1).saturating_mul(ROUNDS);
    for _ in 0..most {
        if !model.round() {
            break;
        }
    }
    let machines = effects(changed, stored, &before, &model.steps, now);
    Plan { machines, steps: model.steps, obstacles, ..Plan::default() }
}

/// Model of a MachineDeployment with its sets and Machines.
struct Model<'a> {
    changed: &'a MachineDeployment,
    observed: Observed,
    steps: Vec<PlannedStep>,
    now: Timestamp,
}

impl Model<'_> {
    /// Makes the Machines of the present set that still boot available, as those that the model makes. They still have no
    /// Node, so that a scale-down takes them first.
    fn boot(&mut self) {
        let Some(new) = sameness::find_new(self.changed, &self.observed.sets, self.now) else { return };
        for machine in self.observed.machines.iter_mut().filter(|it| is_of(it, new)) {
            if !is_deleting(machine) && !is_unhealthy(machine) {
                set_true(machine, "Available", self.now);
            }
        }
    }

    /// Makes a pass of the MachineDeployment, and one of each set. Returns false if nothing is left to do.
    fn round(&mut self) -> bool {
        self.observed.machines.retain(|machine| !is_deleting(machine));
        self.count();
        let roll = decide::roll(self.changed, &self.observed, self.now);
        let mut has_changed = false;
        if roll.new.as_deref() == Some(TO_BE_CREATED) {
            self.add_set();
            has_changed = true;
        }
        let wanted = self.changed.spec.replicas.unwrap_or(1).to_string();
        for set in &mut self.observed.sets {
            set.annotations_mut().insert(DESIRED_REPLICAS.to_owned(), wanted.clone());
            let name = set.name_any();
            let key = if name == NEW { TO_BE_CREATED } else { name.as_str() };
            let planned = roll.replicas.get(&name).or_else(|| roll.replicas.get(key));
            if let Some(planned) = planned.and_then(|number| i32::try_from(*number).ok()) {
                has_changed |= set.spec.replicas != Some(planned);
                set.spec.replicas = Some(planned);
            }
        }
        for index in 0..self.observed.sets.len() {
            has_changed |= self.scale(index);
        }
        has_changed
    }

    /// Adds the set that the MachineDeployment would create.
    fn add_set(&mut self) {
        let old: Vec<&MachineSet> = self.observed.sets.iter().collect();
        let intent = desired::new_set(self.changed, "plan", 0, &desired::new_revision(None, &old));
        let Ok(mut set) = serde_json::from_value::<MachineSet>(intent) else { return };
        set.metadata.name = Some(NEW.to_owned());
        set.metadata.uid = Some(NEW.to_owned());
        set.metadata.creation_timestamp = Some(Instant(self.now));
        self.observed.sets.push(set);
    }

    /// Counts the Machines of each set.
    fn count(&mut self) {
        for set in &mut self.observed.sets {
            let own: Vec<&Machine> = self.observed.machines.iter().filter(|it| is_of(it, set)).collect();
            let status = set.status.get_or_insert_with(MachineSetStatus::default);
            let number = |count: usize| i32::try_from(count).ok();
            status.replicas = number(own.len());
            status.available_replicas = number(own.iter().filter(|it| counts(it, "Available")).count());
        }
    }

    /// Brings a set to its number. Returns true if that made or deleted Machines.
    fn scale(&mut self, index: usize) -> bool {
        let set = self.observed.sets[index].clone();
        let (own, others): (Vec<&Machine>, Vec<&Machine>) =
            self.observed.machines.iter().partition(|it| is_of(it, &set));
        let cluster = self.observed.cluster.as_ref();
        let mut spread = Spread::of(self.changed, cluster, own.iter().copied(), others);
        let desired = usize::try_from(set.spec.replicas.unwrap_or(1)).unwrap_or_default();
        let order = set.spec.deletion.as_ref().and_then(|it| it.order).unwrap_or_default();
        let (excess, order) = (own.len().saturating_sub(desired), (order, self.now));
        let gone = spread::surplus(own.iter().copied(), order, excess, spread.as_ref());
        let gone: Vec<String> = gone.into_iter().map(ResourceExt::name_any).collect();
        let is_disabled = set.annotations().get(DISABLE_CREATE).is_some_and(|it| it == "true");
        let more = if is_disabled { 0 } else { desired.saturating_sub(own.len()) };
        self.observed.machines.retain(|machine| !gone.contains(&machine.name_any()));
        let has_changed = more > 0 || !gone.is_empty();
        self.steps.extend(gone.into_iter().map(PlannedStep::Delete));
        for _ in 0..more {
            let name = format!("{}-{}", self.changed.name_any(), new_name(&self.steps));
            let mut machine = new_machine(&set, &name, self.now);
            if let Some(domain) = spread.as_mut().and_then(Spread::take) {
                machine.spec.failure_domain = Some(domain);
            }
            self.observed.machines.push(machine);
            self.steps.push(PlannedStep::Create(name));
        }
        has_changed
    }
}

/// Name and uid of the set that does not exist yet. No object has this name.
const NEW: &str = "(new)";

/// Returns the end of the name of the next new Machine in a plan.
fn new_name(steps: &[PlannedStep]) -> String {
    let known = steps.iter().filter(|step| matches!(step, PlannedStep::Create(_))).count();
    format!("(new-{})", known.saturating_add(1))
}

/// Returns a Machine of a set that is available.
fn new_machine(set: &MachineSet, name: &str, now: Timestamp) -> Machine {
    let mut machine = Machine::new(name, set.spec.template.spec.clone());
    machine.metadata.creation_timestamp = Some(Instant(now));
    machine.metadata.owner_references = Some(vec![OwnerReference {
        controller: Some(true),
        kind: "MachineSet".to_owned(),
        name: set.name_any(),
        uid: set.uid().unwrap_or_default(),
        ..OwnerReference::default()
    }]);
    machine.status.get_or_insert_default().node_ref = Some(NodeReference { name: name.to_owned() });
    for kind in ["Ready", "Available"] {
        set_true(&mut machine, kind, now);
    }
    machine
}

fn set_true(machine: &mut Machine, kind: &str, now: Timestamp) {
    let condition = Condition::new(kind, ConditionStatus::True, kind, "", Time(now.to_string()));
    let status = machine.status.get_or_insert_default();
    set_condition(status.conditions.get_or_insert_default(), condition);
}

fn is_of(machine: &Machine, set: &MachineSet) -> bool {
    let mut owners = machine.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == set.metadata.uid.as_ref())
}

/// Returns the effects of the steps on all Machines.
fn effects(
    changed: &MachineDeployment,
    stored: &MachineDeployment,
    before: &Observed,
    steps: &[PlannedStep],
    now: Timestamp,
) -> Vec<PlannedMachine> {
    let created = steps.iter().filter_map(|step| match step {
        PlannedStep::Create(name) => Some(name.clone()),
        PlannedStep::Delete(_) => None,
    });
    let mut created: Vec<String> = created.collect();
    let sets: BTreeMap<&str, &MachineSet> =
        before.sets.iter().filter_map(|set| Some((set.metadata.uid.as_deref()?, set))).collect();
    let mut planned = Vec::new();
    for machine in before.machines.iter().filter(|it| !is_deleting(it)) {
        let controller = machine.owner_references().iter().find(|it| it.controller == Some(true));
        let Some(set) = controller.and_then(|owner| sets.get(owner.uid.as_str())) else { continue };
        let name = machine.name_any();
        let mut reasons = sameness::all_differences(set, changed, now);
        let is_gone = steps.contains(&PlannedStep::Delete(name.clone()));
        let effect = match (is_gone, reasons.is_empty()) {
            (true, false) if !created.is_empty() => {
                created.remove(0);
                Effect::Replace
            }
            (true, _) => {
                let wanted = changed.spec.replicas.unwrap_or(1);
                reasons.push(format!("spec.replicas is {wanted}"));
                Effect::Delete
            }
            (false, _) => {
                let in_place = in_place(changed, stored, set);
                let effect = if in_place.is_empty() { Effect::Keep } else { Effect::InPlace };
                reasons.extend(in_place);
                effect
            }
        };
        planned.push(PlannedMachine { name, effect, reasons });
    }
    planned.extend(created.into_iter().map(|name| {
        let reasons = vec![format!("spec.replicas is {}", changed.spec.replicas.unwrap_or(1))];
        PlannedMachine { name, effect: Effect::Create, reasons }
    }));
    planned
}

/// Returns the fields of a template that change on existing Machines.
fn in_place(changed: &MachineDeployment, stored: &MachineDeployment, set: &MachineSet) -> Vec<String> {
    let revision = desired::old_revision(set);
    let template = |deployment: &MachineDeployment| {
        let intent = desired::existing_set(deployment, set, 0, &revision, false);
        intent.pointer("/spec/template").cloned().unwrap_or_else(|| json!({}))
    };
    let mut lines = Vec::new();
    let (old, new): (Value, Value) = (template(stored), template(changed));
    changed_fields("spec.template", &old, &new, &mut lines);
    lines.into_iter().map(|path| format!("{path} changes in place")).collect()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
