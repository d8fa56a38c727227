//! Decision on the next step of a replacement.

use std::collections::BTreeMap;

use apiserver_types::{OperationPhase, OperationResult, StepState};
use controllers_infrastructure::Server;

use super::{AWAIT, CREATE, DELETE, Effect, Observed, RECORD, SNAPSHOT, Slot, VOLUMES};
use crate::core::claim;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::rejoin;
use crate::core::target::find;

/// Decides on the next step. Each part returns what is still to be done, or `None`.
pub(super) fn decide(observed: &Observed) -> Decision<Effect> {
    prepare(observed)
        .or_else(|| delete_old(observed))
        .or_else(|| abandon(observed))
        .or_else(|| observed.volumes.iter().find_map(|slot| volume(observed, slot)))
        .or_else(|| create(observed))
        .unwrap_or_else(|| finish(observed))
}

fn state(observed: &Observed, step: &str) -> StepState {
    find(&observed.steps, step).map(|step| step.state).unwrap_or_default()
}

/// Decides before the deletion of the old server.
fn prepare(observed: &Observed) -> Option<Decision<Effect>> {
    if state(observed, DELETE) != StepState::Pending {
        return None;
    }
    if let Some(stop) = &observed.stop {
        return Some(Decision::End(Outcome::stopped(stop, "the server was not replaced")));
    }
    let end = |reason, message: &str| Some(Decision::End(Outcome::failed(SNAPSHOT, reason, message)));
    let Some(old) = &observed.old else {
        return end("ServerMissing", "Nova does not know the Machine's server (any more)");
    };
    if !observed.ours {
        return end(
            "NotOurs",
            "the server does not carry the ownership tag of its OpenStackMachine, so it is not deleted",
        );
    }
    if !observed.claimed {
        return Some(Decision::act(claim::STEP, Effect::Claim));
    }
    if !observed.bootstrapped {
        return Some(Decision::wait(SNAPSHOT, "waiting for the Machine's bootstrap data"));
    }
    if observed.blueprint.is_none() {
        return Some(Decision::act(SNAPSHOT, Effect::Snapshot));
    }
    if let Some(decision) = observed.rejoin.prepare(&observed.steps, Effect::Rejoin) {
        return Some(decision);
    }
    let mut updates = vec![
        StepUpdate::done(claim::STEP, "claimed the server; its reconciler does not change it"),
        StepUpdate::done(SNAPSHOT, "stored the description of the new server"),
        StepUpdate::running(DELETE, "deleting the old server; its ports stay"),
    ];
    updates.extend(observed.rejoin.announcement());
    let result = OperationResult { previous_server_id: Some(old.id.clone()), ..OperationResult::default() };
    Some(Decision::record(Change::of(updates).with(result)))
}

fn delete_old(observed: &Observed) -> Option<Decision<Effect>> {
    let Some(old) = &observed.old else {
        let announced = state(observed, DELETE) == StepState::Running;
        return announced.then(|| {
            let mut updates = vec![
                StepUpdate::done(DELETE, "the old server is gone"),
                StepUpdate::running(VOLUMES, "creating the volumes that the new server boots from"),
            ];
            updates.extend(rejoin::deleted(&observed.steps));
            Decision::record(Change::of(updates))
        });
    };
    if old.task_state.as_deref() == Some("deleting") || observed.deleted_lately {
        return Some(Decision::wait(DELETE, "waiting for Nova to delete the old server"));
    }
    if let Some(stop) = observed.rejoin.late_stop(observed.stop.as_ref()) {
        if !observed.delete_settled {
            return Some(Decision::wait(
                DELETE,
                "looking for a deletion that may still be on its way to Nova",
            ));
        }
        return Some(Decision::End(Outcome::stopped(stop, "the server was not replaced")));
    }
    let delete = observed.rejoin.delete_node(Effect::Rejoin);
    Some(delete.unwrap_or_else(|| Decision::act(DELETE, Effect::DeleteServer(old.id.clone()))))
}

/// A Machine that is being deleted needs no new server. What was created carries its owner's tag, by
/// which the Machine's deletion finds it. A call that may still be on its way must arrive first.
fn abandon(observed: &Observed) -> Option<Decision<Effect>> {
    let stop = observed.stop.as_ref().filter(|stop| stop.reason == "MachineDeleting")?;
    let unsettled = observed.volumes.iter().any(|slot| slot.new.is_empty() && !slot.settled);
    if unsettled || (observed.new.is_empty() && !observed.settled) {
        return Some(Decision::wait(CREATE, "looking for a call that may still be on its way to the cloud"));
    }
    // The Machine's deletion uses the server's id, too.
    if let Some(new) = observed.new.first().filter(|_| !observed.recorded) {
        return Some(Decision::act(RECORD, Effect::Record(new.id.clone())));
    }
    let message = format!("{}; the old server was already deleted", stop.why);
    let outcome =
        Outcome { phase: OperationPhase::Failed, reason: stop.reason, ..Outcome::cancelled(message) };
    Some(Decision::End(outcome))
}

/// Decides on one volume of the new server.
fn volume(observed: &Observed, slot: &Slot) -> Option<Decision<Effect>> {
    if !observed.new.is_empty() {
        return None;
    }
    let delete =
        |id: &str| Decision::act_on(VOLUMES, format!("delete {id}"), Effect::DeleteVolume(id.to_owned()));
    if let Some(stale) = slot.stale.first() {
        return Some(match stale.status.as_str() {
            "available" | "error" => delete(&stale.id),
            other => Decision::wait(
                VOLUMES,
                format!("waiting for the deletion of old volume {}: it is {other}", stale.id),
            ),
        });
    }
    if let Some(surplus) = slot.new.get(1) {
        return Some(delete(&surplus.id));
    }
    let Some(volume) = slot.new.first() else {
        let create = || Decision::act_on(VOLUMES, slot.name.clone(), Effect::CreateVolume(slot.name.clone()));
        let wait = || Decision::wait(VOLUMES, "looking for a volume that may still be on its way");
        return Some(if slot.settled { create() } else { wait() });
    };
    match volume.status.as_str() {
        "available" => None,
        "error" if !slot.created_lately => Some(delete(&volume.id)),
        "error" => {
            Some(Decision::wait(VOLUMES, format!("Cinder could not create volume {:?}; retrying", slot.name)))
        }
        other => Some(Decision::wait(VOLUMES, format!("waiting for volume {:?}: it is {other}", slot.name))),
    }
}

/// Decides on the new server.
fn create(observed: &Observed) -> Option<Decision<Effect>> {
    let delete = |server: &Server| {
        Decision::act_on(CREATE, format!("delete {}", server.id), Effect::DeleteServer(server.id.clone()))
    };
    if let Some(surplus) = observed.new.get(1) {
        return Some(delete(surplus));
    }
    if state(observed, CREATE) == StepState::Pending {
        return Some(Decision::record(Change::of([
            StepUpdate::done(VOLUMES, format!("{} volumes are ready", observed.volumes.len())),
            StepUpdate::running(CREATE, "requesting the new server from Nova"),
        ])));
    }
    let Some(new) = observed.new.first() else {
        if !observed.settled {
            return Some(Decision::wait(CREATE, "looking for a server that may still be on its way"));
        }
        let ids: BTreeMap<String, String> = observed
            .volumes
            .iter()
            .filter_map(|slot| Some((slot.name.clone(), slot.new.first()?.id.clone())))
            .collect();
        return Some(Decision::act(CREATE, Effect::CreateServer(ids)));
    };
    if new.task_state.as_deref() == Some("deleting") {
        return Some(Decision::wait(CREATE, "waiting for Nova to delete a server that it could not build"));
    }
    match new.status.as_str() {
        "ACTIVE" => None,
        "ERROR" if observed.created_lately => {
            let fault = new.fault.as_deref().unwrap_or("Nova gave no reason");
            Some(Decision::wait(CREATE, format!("Nova could not build the new server: {fault}; retrying")))
        }
        "ERROR" => Some(delete(new)),
        other => {
            Some(Decision::wait(CREATE, format!("waiting for Nova to build the new server: it is {other}")))
        }
    }
}

fn finish(observed: &Observed) -> Decision<Effect> {
    let id = observed.new.first().map(|server| server.id.clone()).unwrap_or_default();
    if state(observed, AWAIT) != StepState::Done {
        let updates = [
            StepUpdate::done(CREATE, format!("Nova has server {id}")),
            StepUpdate::done(AWAIT, "the new server is active"),
            StepUpdate::running(RECORD, "writing the new server and version"),
        ];
        let result = OperationResult { server_id: Some(id), ..OperationResult::default() };
        return Decision::record(Change::of(updates).with(result));
    }
    if !observed.recorded {
        return Decision::act(RECORD, Effect::Record(id));
    }
    if let Some(decision) = observed.rejoin.wait(&observed.steps, observed.stop.as_ref()) {
        return decision;
    }
    let update = StepUpdate::done(RECORD, "the Machine has its new server and version");
    Decision::End(Outcome::complete(observed.done.clone(), Change::of([update])))
}

#[cfg(test)]
mod tests {
    use apiserver_types::OperationStep;
    use controllers_infrastructure::Volume;

    use super::*;
    use crate::core::target::Stop;
    use crate::procedures::upgrade_replace::blueprint::Blueprint;

    fn server(id: &str, status: &str) -> Server {
        Server { id: id.to_owned(), status: status.to_owned(), ..Server::default() }
    }

    fn volume(id: &str, status: &str) -> Volume {
        Volume { id: id.to_owned(), status: status.to_owned(), ..Volume::default() }
    }

    /// Returns the state in which everything before `step` is done.
    fn at(step: &str) -> Observed {
        let all = [SNAPSHOT, DELETE, VOLUMES, CREATE, AWAIT, RECORD];
        let now = all.iter().position(|name| *name == step).unwrap();
        let state = |index: usize| match index.cmp(&now) {
            std::cmp::Ordering::Less => StepState::Done,
            std::cmp::Ordering::Equal => StepState::Running,
            std::cmp::Ordering::Greater => StepState::Pending,
        };
        let steps = all.iter().enumerate().map(|(index, name)| OperationStep {
            name: (*name).to_owned(),
            state: state(index),
            ..OperationStep::default()
        });
        Observed {
            steps: steps.collect(),
            blueprint: Some(Blueprint::default()),
            old: (now < 2).then(|| server("old", "ACTIVE")),
            ours: true,
            claimed: true,
            bootstrapped: true,
            settled: true,
            delete_settled: true,
            ..Observed::default()
        }
    }

    fn word(decision: &Decision<Effect>) -> String {
        match decision {
            Decision::Record(change) => {
                let updates =
                    change.updates.iter().map(|update| format!("{}:{:?}", update.step, update.state));
                updates.collect::<Vec<_>>().join(" ")
            }
            Decision::Act(call) => format!("{:?}", call.effect),
            Decision::Wait { step, .. } => format!("wait {step}"),
            Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
        }
    }

    #[track_caller]
    fn expect(step: &str, change: impl FnOnce(&mut Observed), expected: &str) {
        let mut observed = at(step);
        change(&mut observed);
        assert_eq!(word(&decide(&observed)), expected);
    }

    fn stop(reason: &'static str) -> Option<Stop> {
        Some(Stop { reason, why: "enough".to_owned() })
    }

    #[test]
    fn nothing_is_deleted_before_the_snapshot_is_recorded() {
        expect(SNAPSHOT, |observed| observed.claimed = false, "Claim");
        expect(SNAPSHOT, |observed| observed.bootstrapped = false, "wait SnapshotServer");
        expect(SNAPSHOT, |observed| observed.blueprint = None, "Snapshot");
        expect(SNAPSHOT, |_| (), "ClaimServer:Done SnapshotServer:Done DeleteServer:Running");
        expect(SNAPSHOT, |observed| observed.ours = false, "Failed NotOurs");
        expect(SNAPSHOT, |observed| observed.old = None, "Failed ServerMissing");
        expect(SNAPSHOT, |observed| observed.stop = stop("Requested"), "Cancelled Requested");
    }

    #[test]
    fn the_old_server_is_deleted_once_and_cancellation_is_possible_before() {
        let deleting = |observed: &mut Observed| {
            if let Some(old) = &mut observed.old {
                old.task_state = Some("deleting".to_owned());
            }
        };
        expect(DELETE, |_| (), "DeleteServer(\"old\")");
        expect(DELETE, deleting, "wait DeleteServer");
        expect(DELETE, |observed| observed.deleted_lately = true, "wait DeleteServer");
        expect(DELETE, |observed| observed.stop = stop("Requested"), "Cancelled Requested");
        let unsettled =
            |observed: &mut Observed| (observed.stop, observed.delete_settled) = (stop("Requested"), false);
        expect(DELETE, unsettled, "wait DeleteServer");
        expect(DELETE, |observed| observed.old = None, "DeleteServer:Done CreateVolumes:Running");
    }

    #[test]
    fn volumes_are_created_after_the_old_ones_are_deleted() {
        let slot = |stale: &[Volume], new: &[Volume], settled: bool| {
            let slot = Slot {
                name: "r".to_owned(),
                stale: stale.to_vec(),
                new: new.to_vec(),
                settled,
                ..Slot::default()
            };
            move |observed: &mut Observed| observed.volumes = vec![slot]
        };
        expect(VOLUMES, slot(&[volume("o", "in-use")], &[], true), "wait CreateVolumes");
        expect(VOLUMES, slot(&[volume("o", "available")], &[], true), "DeleteVolume(\"o\")");
        expect(VOLUMES, slot(&[], &[], false), "wait CreateVolumes");
        expect(VOLUMES, slot(&[], &[], true), "CreateVolume(\"r\")");
        expect(VOLUMES, slot(&[], &[volume("n", "creating")], true), "wait CreateVolumes");
        expect(VOLUMES, slot(&[], &[volume("n", "error")], true), "DeleteVolume(\"n\")");
        expect(
            VOLUMES,
            slot(&[], &[volume("a", "available"), volume("b", "available")], true),
            "DeleteVolume(\"b\")",
        );
        expect(
            VOLUMES,
            slot(&[], &[volume("n", "available")], true),
            "CreateVolumes:Done CreateServer:Running",
        );
    }

    #[test]
    fn one_server_is_created_and_again_if_its_build_fails() {
        let new = |status: &str| {
            let server = server("new", status);
            move |observed: &mut Observed| observed.new = vec![server]
        };
        expect(CREATE, |_| (), "CreateServer({})");
        expect(CREATE, |observed| observed.settled = false, "wait CreateServer");
        expect(CREATE, |observed| observed.stop = stop("Requested"), "CreateServer({})");
        expect(CREATE, new("BUILD"), "wait CreateServer");
        expect(CREATE, new("ERROR"), "DeleteServer(\"new\")");
        expect(
            CREATE,
            |observed| (observed.new, observed.created_lately) = (vec![server("new", "ERROR")], true),
            "wait CreateServer",
        );
        expect(
            CREATE,
            |observed| observed.new = vec![server("a", "BUILD"), server("b", "BUILD")],
            "DeleteServer(\"b\")",
        );
        expect(CREATE, new("ACTIVE"), "CreateServer:Done AwaitServer:Done RecordServer:Running");
        expect(RECORD, new("ACTIVE"), "Record(\"new\")");
        expect(
            RECORD,
            |observed| (observed.new, observed.recorded) = (vec![server("new", "ACTIVE")], true),
            "Complete Succeeded",
        );
    }

    #[test]
    fn a_deleted_machine_gets_no_new_server_and_an_existing_one_is_recorded() {
        let deleted = |observed: &mut Observed| observed.stop = stop("MachineDeleting");
        expect(CREATE, deleted, "Failed MachineDeleting");
        expect(
            CREATE,
            |observed| (observed.stop, observed.settled) = (stop("MachineDeleting"), false),
            "wait CreateServer",
        );
        let made = |observed: &mut Observed| {
            (observed.stop, observed.new) = (stop("MachineDeleting"), vec![server("new", "BUILD")])
        };
        expect(CREATE, made, "Record(\"new\")");
    }
}
