use apiserver_types::MachineSpec;
use serde_json::json;

use super::*;
use crate::machine_health_check::judge::Cause;

fn failed(cause: Cause, order: Order) -> Mark {
    let messages = vec!["first".to_owned(), "second".to_owned()];
    Mark { health: Health::Failed { cause, messages }, order }
}

fn changed(mark: &Mark, external: &External) -> Machine {
    let mut machine = Machine::new("m", MachineSpec::default());
    change(&mut machine, mark, external);
    machine
}

fn old(machine: &Machine, kind: &str) -> serde_json::Value {
    let status = json!(machine.status);
    let old = status["deprecated"]["v1beta1"]["conditions"].as_array().cloned().unwrap_or_default();
    let mut found = old.into_iter().find(|it| it["type"] == kind).unwrap_or_default();
    if let Some(fields) = found.as_object_mut() {
        fields.remove("lastTransitionTime");
    }
    found
}

#[test]
fn an_unhealthy_machine_is_marked_in_both_forms() {
    let machine = changed(&failed(Cause::Node, Order::Owner), &External::Keep);
    let health = machine.condition(HEALTH).unwrap();
    assert_eq!(health.reason, "UnhealthyNode");
    assert_eq!(health.message, "Health check failed:\n  * first\n  * second");
    let owner = machine.condition(OWNER).unwrap();
    assert_eq!((owner.reason.as_str(), owner.message.as_str()), (WAITING, "Waiting for remediation"));
    let expected = json!({
        "type": HEALTH, "status": "False", "severity": "Warning", "reason": "UnhealthyNode",
        "message": "first; second",
    });
    assert_eq!(old(&machine, HEALTH), expected);
    let expected = json!({"type": OWNER, "status": "False", "severity": "Warning", "reason": WAITING});
    assert_eq!(old(&machine, OWNER), expected);
}

#[test]
fn the_form_of_v1beta1_has_reasons_of_its_own() {
    let of = |cause| old(&changed(&failed(cause, Order::None), &External::Keep), HEALTH);
    assert_eq!(of(Cause::NodeDeleted)["reason"], "NodeNotFound");
    assert_eq!(of(Cause::NodeDeleted)["message"], json!(null));
    assert_eq!(of(Cause::Annotation)["reason"], "HasRemediateMachineAnnotation");
    assert_eq!(of(Cause::NodeStartup)["reason"], "NodeStartupTimeout");
    assert_eq!(of(Cause::Machine)["reason"], "UnhealthyMachine");
}

#[test]
fn a_second_mark_of_the_same_kind_changes_nothing() {
    let mark = failed(Cause::Node, Order::Owner);
    let machine = changed(&mark, &External::Waiting);
    let mut again = machine.clone();
    change(&mut again, &mark, &External::Waiting);
    assert_eq!(again, machine);
}

#[test]
fn a_healthy_machine_loses_the_condition_of_its_request() {
    let mut machine = changed(&failed(Cause::Node, Order::CreateRequest), &External::Waiting);
    assert_eq!(machine.condition(EXTERNAL).unwrap().reason, WAITING);
    assert!(machine.condition(OWNER).is_none(), "the owner does nothing");
    change(&mut machine, &Mark { health: Health::Succeeded, order: Order::None }, &External::Ended);
    assert!(machine.condition(EXTERNAL).is_none());
    assert!(machine.condition(HEALTH).unwrap().holds());
    assert_eq!(old(&machine, HEALTH)["status"], "True");
}
