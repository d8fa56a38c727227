//! Tests of operations after a restore of the store from a backup.

use apiserver_types::{MachineOperation, OperationPhase, StepState};
use serde_json::{Value, json};

use crate::world::{TERM, World, message, path, phase};

fn reboot() -> Value {
    json!({"action": "Reboot", "reboot": {"type": "Hard"}})
}

fn reason(operation: &MachineOperation) -> String {
    let of = |name| operation.condition(name).map(|condition| condition.reason.clone());
    [of("Succeeded"), of("Failed"), of("Progressing")].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn is_announced(operation: &MachineOperation) -> bool {
    let steps = operation.status.as_ref().and_then(|status| status.steps.as_deref()).unwrap_or_default();
    steps.iter().any(|step| step.state == StepState::Running)
}

#[tokio::test]
async fn hv_35_an_operation_that_had_not_begun_in_the_backup_is_not_carried_out() {
    let world = World::new(false);
    world.request("op", reboot());
    let backup = world.api.get(&path("op")).unwrap();
    // It was carried out after the backup.
    let done = world.finish("op").await;
    assert_eq!((phase(&done), world.nova().count("reboot")), (Some(OperationPhase::Complete), 1));
    let term = done.status.and_then(|status| status.epoch).map(i64::unsigned_abs);
    assert_eq!(term, Some(TERM), "HV-02: the status names the leader's term");
    world.restore("op", backup);
    let restored = world.finish("op").await;
    assert_eq!(phase(&restored), Some(OperationPhase::Failed));
    assert!(message(&restored).contains("had not begun") && reason(&restored).contains("Restored"));
    assert_eq!(world.nova().count("reboot"), 1, "not once more");
    // A new one is carried out.
    world.request("again", reboot());
    assert_eq!(phase(&world.finish("again").await), Some(OperationPhase::Complete));
    assert_eq!(world.nova().count("reboot"), 2);
}

#[tokio::test]
async fn hv_35_the_action_log_decides_about_an_operation_that_was_running_in_the_backup() {
    for is_carried_out in [true, false] {
        let world = World::new(false);
        world.request("op", reboot());
        world.until("op", is_announced).await;
        let backup = world.api.get(&path("op")).unwrap();
        assert_eq!(world.nova().count("reboot"), 0, "only announced");
        if is_carried_out {
            world.finish("op").await;
        }
        world.restore("op", backup);
        let restored = world.finish("op").await;
        let expected = if is_carried_out { OperationPhase::Complete } else { OperationPhase::Failed };
        assert_eq!(phase(&restored), Some(expected), "{}", message(&restored));
        assert_eq!(world.nova().count("reboot"), usize::from(is_carried_out));
        if !is_carried_out {
            assert!(message(&restored).contains("does not prove its end"), "{}", message(&restored));
        }
    }
}
