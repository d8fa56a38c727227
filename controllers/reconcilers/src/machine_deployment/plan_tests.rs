//! Tests of the plan of a MachineDeployment.

use apiserver_types::{
    Cluster, IntOrString, MachineDeploymentRollout, MachineDeploymentSpec, MachineSetSpec, MachineSpec,
    RollingUpdate, RolloutStrategy,
};

use super::*;
use crate::api_in_memory::FakeApi;

fn set(version: &str, replicas: i32) -> MachineSet {
    let mut set = MachineSet::new("old", MachineSetSpec::default());
    set.metadata.uid = Some("u".to_owned());
    set.metadata.creation_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
    set.spec.replicas = Some(replicas);
    set.spec.template.spec.version = Some(version.to_owned());
    set
}

fn observed(version: &str, names: &[&str]) -> Observed {
    let set = set(version, i32::try_from(names.len()).unwrap());
    let machine = |name: &&str| new_machine(&set, name, Timestamp::UNIX_EPOCH);
    let machines = names.iter().map(machine).collect();
    Observed { cluster: Some(Cluster::default()), machines, sets: vec![set], ..Observed::default() }
}

fn deployment(version: &str, replicas: i32) -> MachineDeployment {
    let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
    deployment.spec.replicas = Some(replicas);
    deployment.spec.template.spec =
        MachineSpec { version: Some(version.to_owned()), ..MachineSpec::default() };
    deployment
}

fn plan(changed: &MachineDeployment, observed: Observed) -> Plan {
    planned(changed, &deployment("v1", 2), observed, Timestamp::from_second(100).unwrap())
}

fn told(plan: &Plan) -> Vec<(&str, Effect, Vec<&str>)> {
    plan.machines
        .iter()
        .map(|it| (it.name.as_str(), it.effect, it.reasons.iter().map(String::as_str).collect()))
        .collect()
}

fn create(name: &str) -> PlannedStep {
    PlannedStep::Create(name.to_owned())
}

fn delete(name: &str) -> PlannedStep {
    PlannedStep::Delete(name.to_owned())
}

#[test]
fn another_version_replaces_one_machine_after_the_other() {
    let plan = plan(&deployment("v2", 2), observed("v1", &["a", "b"]));
    let reason = vec!["Version v1, v2 required"];
    let expected = [("a", Effect::Replace, reason.clone()), ("b", Effect::Replace, reason)];
    assert_eq!(told(&plan), expected);
    let steps = [create("md-(new-1)"), delete("a"), create("md-(new-2)"), delete("b")];
    assert_eq!(plan.steps, steps);
}

#[test]
fn a_pause_is_an_obstacle_if_machines_are_out_of_date() {
    let mut changed = deployment("v2", 2);
    changed.spec.paused = Some(true);
    let held = plan(&changed, observed("v1", &["a", "b"]));
    assert_eq!(held.steps, []);
    assert_eq!(held.obstacles, ["spec.paused is true, so that no Machine is replaced"]);
    changed.spec.template.spec.version = Some("v1".to_owned());
    assert_eq!(plan(&changed, observed("v1", &["a", "b"])).obstacles, Vec::<String>::new());
}

#[tokio::test]
async fn preflight_checks_of_the_changed_template_are_found_before_a_set_exists() {
    let api = FakeApi::default();
    let put = |spec: Value| {
        let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/blue";
        api.put(path, json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "spec": spec}));
    };
    let mut changed = deployment("v2", 2);
    changed.metadata.namespace = Some("ns".to_owned());
    changed.spec.cluster_name = "blue".to_owned();
    let context = api.context("rollout-planner");
    assert_eq!(preflight(&context, &changed).await.unwrap(), Vec::<String>::new(), "without a Cluster");
    put(json!({}));
    assert_eq!(preflight(&context, &changed).await.unwrap(), Vec::<String>::new(), "without a control plane");
    let group = "controlplane.cluster.x-k8s.io";
    put(json!({"controlPlaneRef": {"apiGroup": group, "kind": "KubeadmControlPlane", "name": "cp"}}));
    let expected =
        "KubeadmControlPlane ns/cp does not exist (\"ControlPlaneIsStable\" preflight check failed)";
    assert_eq!(preflight(&context, &changed).await.unwrap(), [expected]);
}

#[test]
fn another_number_creates_or_deletes_and_the_same_keeps() {
    let kept = plan(&deployment("v1", 2), observed("v1", &["a", "b"]));
    assert_eq!(told(&kept), [("a", Effect::Keep, vec![]), ("b", Effect::Keep, vec![])]);
    assert_eq!(kept.steps, []);
    let more = plan(&deployment("v1", 3), observed("v1", &["a", "b"]));
    assert_eq!(told(&more)[2], ("md-(new-1)", Effect::Create, vec!["spec.replicas is 3"]));
    let less = plan(&deployment("v1", 1), observed("v1", &["a", "b"]));
    assert_eq!(told(&less)[0], ("a", Effect::Delete, vec!["spec.replicas is 1"]));
    assert_eq!(less.steps, [delete("a")]);
    let both = plan(&deployment("v2", 1), observed("v1", &["a", "b"]));
    let effects: Vec<Effect> = told(&both).iter().map(|(_, effect, _)| *effect).collect();
    assert_eq!(effects, [Effect::Replace, Effect::Delete]);
}

/// Returns a MachineDeployment that replaces its Machines, of which so many may be missing.
fn with_unavailable(unavailable: i32) -> MachineDeployment {
    let mut changed = deployment("v2", 2);
    let max_unavailable = Some(IntOrString::Int(unavailable));
    let rolling_update = Some(RollingUpdate { max_unavailable, ..RollingUpdate::default() });
    let strategy = Some(RolloutStrategy { rolling_update, ..RolloutStrategy::default() });
    changed.spec.rollout = Some(MachineDeploymentRollout { strategy, ..Default::default() });
    changed
}

#[test]
fn a_surge_that_never_fits_is_named_before_a_first_try_and_left_out_if_the_rollout_can_do_without() {
    let line = "spec.replicas 2 with maxSurge 1 can never fit the quota";
    let with = |unavailable, is_full| {
        let changed = with_unavailable(unavailable);
        let observed = |shortage| Observed { shortage, ..observed("v1", &["a", "b"]) };
        let forecast = Forecast { line: Some(line.to_owned()), is_full };
        foreseen(plan(&changed, observed(None)), forecast, |short| plan(&changed, observed(short)))
    };
    let steps = [delete("a"), create("md-(new-1)"), delete("b"), create("md-(new-2)")];
    let without_surge = with(1, true);
    assert_eq!((&without_surge.steps[..], without_surge.obstacles.len()), (&steps[..], 0));
    assert_eq!(without_surge.forecasts, [line]);
    let needs_surge = with(0, true);
    assert_eq!(needs_surge.steps.first(), Some(&create("md-(new-1)")));
    assert_eq!(needs_surge.forecasts, [line]);
    assert_eq!(with(1, false).steps, plan(&with_unavailable(1), observed("v1", &["a", "b"])).steps);
}

#[test]
fn a_plan_goes_on_without_the_surge_that_had_no_room_and_says_so() {
    let line = "The rollout goes on without maxSurge: in project p, spec.flavor needs 4 cores, 1 left of 40";
    let mut stored = deployment("v1", 2);
    let scaling_up = Condition::new("ScalingUp", ConditionStatus::True, "ScalingUp", line, Time::default());
    set_condition(stored.status.get_or_insert_default().conditions.get_or_insert_default(), scaling_up);
    let with = |unavailable| {
        let changed = with_unavailable(unavailable);
        let now = Timestamp::from_second(100).unwrap();
        planned(&changed, &stored, observed("v1", &["a", "b"]), now)
    };
    let without_surge = with(1);
    let steps = [delete("a"), create("md-(new-1)"), delete("b"), create("md-(new-2)")];
    assert_eq!(
        (&without_surge.obstacles[..], &without_surge.steps[..]),
        (&[line.to_owned()][..], &steps[..])
    );
    let needs_surge = with(0);
    assert_eq!(needs_surge.obstacles, [""; 0]);
    assert_eq!(needs_surge.steps.first(), Some(&create("md-(new-1)")));
}

#[test]
fn what_changes_in_place_is_named_and_an_obstacle_stops_the_plan() {
    let mut changed = deployment("v1", 2);
    changed.spec.template.spec.min_ready_seconds = Some(5);
    let plan_in_place = plan(&changed, observed("v1", &["a"]));
    let reasons = vec!["spec.template.spec.minReadySeconds changes in place"];
    assert_eq!(told(&plan_in_place)[0], ("a", Effect::InPlace, reasons));
    let absent =
        crate::templates::Missing { kind: "T".to_owned(), name: "t".to_owned(), field: "infrastructureRef" };
    let stuck = Observed { missing: vec![absent], ..observed("v1", &["a", "b"]) };
    let stuck = plan(&deployment("v2", 2), stuck);
    assert_eq!(stuck.steps, []);
    assert!(stuck.obstacles[0].starts_with("T t does not exist. "), "{:?}", stuck.obstacles);
}

#[test]
fn machines_that_are_not_available_go_first_and_a_rollout_without_progress_ends() {
    let mut observed = observed("v1", &["a", "b"]);
    let conditions = observed.machines[1].status.as_mut().unwrap().conditions.as_mut().unwrap();
    for condition in conditions {
        condition.status = ConditionStatus::False;
    }
    let plan = plan(&deployment("v2", 2), observed);
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, PlannedStep::Delete(_))).count(), 2);
    assert_eq!(plan.machines.iter().filter(|it| it.effect == Effect::Replace).count(), 2);
}

#[test]
fn a_machine_that_still_boots_becomes_available_unless_it_is_unhealthy() {
    let running = |conditions: Vec<Condition>| {
        let mut observed = observed("v1", &["a", "b", "c"]);
        let mut new = set("v2", 1);
        (new.metadata.name, new.metadata.uid) = (Some("new".to_owned()), Some("n".to_owned()));
        let mut machine = new_machine(&new, "d", Timestamp::UNIX_EPOCH);
        let status = machine.status.as_mut().unwrap();
        (status.node_ref, status.conditions) = (None, Some(conditions));
        observed.machines.push(machine);
        observed.sets.push(new);
        observed
    };
    let booting = plan(&deployment("v2", 3), running(Vec::new()));
    let steps = [delete("a"), create("md-(new-1)"), delete("b"), create("md-(new-2)"), delete("c")];
    assert_eq!(booting.steps, steps);
    assert_eq!(told(&booting)[3], ("d", Effect::Keep, vec![]));
    let mut excess = observed("v1", &["a", "b"]);
    excess.machines[1].status = None;
    assert_eq!(plan(&deployment("v1", 1), excess).steps, [delete("b")], "it still goes first");
    let failed = Condition::new("HealthCheckSucceeded", ConditionStatus::False, "R", "", Time::default());
    let unhealthy = plan(&deployment("v2", 3), running(vec![failed]));
    assert_eq!(unhealthy.steps, [], "old Machines wait for it");
}

#[test]
fn a_requested_rollout_has_the_line_of_the_condition_of_its_machines() {
    let mut restarted = deployment("v1", 1);
    let after = Some(Time("1970-01-01T00:01:00Z".to_owned()));
    restarted.spec.rollout = Some(MachineDeploymentRollout { after, ..MachineDeploymentRollout::default() });
    let plan = plan(&restarted, observed("v1", &["a"]));
    let reasons = vec!["MachineDeployment spec.rolloutAfter expired"];
    assert_eq!(told(&plan), [("a", Effect::Replace, reasons)]);
}

#[test]
fn a_plan_shows_the_steps_of_the_next_window_and_none_against_the_policy() {
    let mut changed = deployment("v2", 1);
    let window = "0 2 * * 6 4h UTC".to_owned();
    changed.annotations_mut().insert("capstan.dev/maintenance-window".to_owned(), window);
    let waits = plan(&changed, observed("v1", &["a"]));
    assert_eq!(waits.steps, [create("md-(new-1)"), delete("a")]);
    let obstacle =
        "The maintenance window of MachineDeployment md (0 2 * * 6 4h UTC) begins at 1970-01-03 02:00 UTC";
    assert_eq!(waits.obstacles, [obstacle]);
    let policy = ("capstan.dev/rollout-policy".to_owned(), "InPlaceOnly".to_owned());
    changed.annotations_mut().extend([policy]);
    let blocked = plan(&changed, observed("v1", &["a"]));
    assert_eq!(blocked.steps, []);
    assert_eq!(told(&blocked), [("a", Effect::Keep, vec!["Version v1, v2 required"])]);
    assert!(blocked.obstacles[0].starts_with("Annotation capstan.dev/rollout-policy is InPlaceOnly"));
}

#[test]
fn a_budget_that_blocks_the_drain_of_a_machine_is_an_obstacle() {
    let budget = format!("PodDisruptionBudget web/all {}", controllers_workload::drain::NEVER);
    let message = format!("Drain not completed yet:\n* Pod web/x: cannot evict pod. {budget}");
    let mut observed = observed("v1", &["a", "b"]);
    let draining = &mut observed.machines[0];
    draining.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
    let condition =
        Condition::new("Deleting", ConditionStatus::True, "DrainingNode", &message, Time::default());
    set_condition(draining.status.get_or_insert_default().conditions.get_or_insert_default(), condition);
    let plan = plan(&deployment("v2", 2), observed);
    assert_eq!(plan.obstacles, [format!("Machine a is being drained, and {budget}")]);
}
