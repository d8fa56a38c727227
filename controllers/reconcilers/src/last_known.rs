//! Last known conditions of a Machine: an annotation keeps them before they become unknown with the connection to the
//! workload cluster. People read it. No decision depends on it.

use apiserver_types::last_known::{LastKnown, is_unread, last_known};
use apiserver_types::{Condition, Machine};
use controllers_runtime::ReconcileError;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

/// Keeps the conditions that `next` replaces by unread ones. Returns the Machine as it is stored then. A refusal is only
/// logged: it must not hold up the conditions themselves.
///
/// # Errors
/// Another client wrote first.
pub(crate) async fn keep(
    api: &Api<Machine>,
    machine: Machine,
    annotation: &str,
    next: &[&Condition],
) -> Result<Machine, ReconcileError> {
    let Some(value) = kept(&machine, annotation, next) else { return Ok(machine) };
    let change = json!({"metadata": {
        "resourceVersion": machine.resource_version(), "uid": machine.uid(), "annotations": {annotation: value},
    }});
    let name = machine.name_any();
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(&change)).await {
        Ok(written) => Ok(written),
        Err(error) => {
            let error = ReconcileError::from(error);
            if error.is_conflict() {
                return Err(error);
            }
            tracing::debug!(%error, machine = name, annotation, "last known conditions were not kept");
            Ok(machine)
        }
    }
}

/// Returns the new value of the annotation; `None` if nothing gets lost that it does not have. It has no times, so a
/// condition that becomes unknown again and again with the same state causes no writes.
fn kept(machine: &Machine, annotation: &str, next: &[&Condition]) -> Option<String> {
    let before = last_known(machine.annotations().get(annotation).map(String::as_str));
    let mut after = before.clone();
    for condition in next.iter().filter(|it| is_unread(&it.reason)) {
        if let Some(lost) = machine.condition(&condition.kind).filter(|it| !is_unread(&it.reason)) {
            let state = LastKnown { status: lost.status, reason: lost.reason.clone() };
            after.insert(condition.kind.clone(), state);
        }
    }
    if after == before { None } else { serde_json::to_string(&after).ok() }
}

#[cfg(test)]
mod tests {
    use apiserver_types::last_known::LAST_KNOWN_NODE;
    use apiserver_types::{ConditionStatus, Time};

    use super::*;
    use crate::api_in_memory::FakeApi;

    const PATH: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m";

    fn condition(status: ConditionStatus, reason: &str) -> Condition {
        Condition::new("NodeReady", status, reason, "", Time::default())
    }

    fn machine(known: &Condition) -> Machine {
        let mut machine = Machine::default();
        machine.status.get_or_insert_default().conditions = Some(vec![known.clone()]);
        machine
    }

    #[test]
    fn only_a_state_that_gets_lost_is_kept_and_only_once() {
        let ready = condition(ConditionStatus::True, "NodeReady");
        let silent = condition(ConditionStatus::Unknown, "NodeReadyUnknown");
        let down = condition(ConditionStatus::Unknown, "ConnectionDown");
        let value = |status: &str, reason: &str| {
            Some(format!(r#"{{"NodeReady":{{"status":"{status}","reason":"{reason}"}}}}"#))
        };
        let of = |known: &Condition, next: &Condition| kept(&machine(known), LAST_KNOWN_NODE, &[next]);
        assert_eq!(of(&ready, &down), value("True", "NodeReady"));
        assert_eq!(of(&silent, &down), value("Unknown", "NodeReadyUnknown"));
        assert_eq!(of(&ready, &silent), None, "the Node was read");
        assert_eq!(of(&down, &down), None, "it was lost before");
        assert_eq!(kept(&Machine::default(), LAST_KNOWN_NODE, &[&down]), None, "it was never known");
        let mut again = machine(&ready);
        again.annotations_mut().extend([(LAST_KNOWN_NODE.to_owned(), of(&ready, &down).unwrap())]);
        assert_eq!(kept(&again, LAST_KNOWN_NODE, &[&down]), None, "it is kept already");
    }

    #[tokio::test]
    async fn a_refusal_does_not_end_the_pass_and_a_conflict_does() {
        let fake = FakeApi::default();
        fake.put(PATH, json!(machine(&condition(ConditionStatus::True, "NodeReady"))));
        let api: Api<Machine> = Api::namespaced(fake.client(), "ns");
        let down = condition(ConditionStatus::Unknown, "ConnectionDown");
        let stored = async || api.get("m").await.unwrap();
        let machine = stored().await;
        fake.refuse_writes(Some(PATH));
        let refused = keep(&api, machine.clone(), LAST_KNOWN_NODE, &[&down]).await.unwrap();
        assert_eq!(refused, machine);
        fake.refuse_writes(None);
        let written = keep(&api, machine.clone(), LAST_KNOWN_NODE, &[&down]).await.unwrap();
        assert!(written.annotations().contains_key(LAST_KNOWN_NODE));
        assert_eq!(written, stored().await);
        let late = keep(&api, machine, LAST_KNOWN_NODE, &[&down]).await;
        assert!(late.is_err_and(|error| error.is_conflict()));
    }
}
