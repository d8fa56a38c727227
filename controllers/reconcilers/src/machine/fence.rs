//! Proof that the server of a silent Node is off. Then nothing runs on it, and its deletion need not wait for its Pods.
//!
//! The Node alone proves nothing: its kubelet may only have lost the network, while Pods still write to volumes.

use std::time::Duration;

use apiserver_types::{Machine, OpenStackCluster};
use controllers_infrastructure::{ActionRecord, Server};
use controllers_runtime::ReconcileError;
use controllers_workload::drain;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};

use super::act::Actor;
use super::deletion::node_name;
use super::node;
use super::observe::{Observed, Outcome};

/// Status of a server without a running guest, and the action after which it has it.
const OFF: [(&str, &[&str]); 4] = [
    ("SHUTOFF", &["stop"]),
    ("SUSPENDED", &["suspend"]),
    ("SHELVED", &["shelve"]),
    ("SHELVED_OFFLOADED", &["shelve", "shelveOffload"]),
];

/// Statuses of a server that Nova has deleted.
const DELETED: [&str; 2] = ["DELETED", "SOFT_DELETED"];

/// Returns what proves that a server is off, for people; `None` if nothing does. `server`: as Nova shows it, `None` if
/// it does not exist. `actions`: its log, newest first. `off_time`: time for which it must be off, so that an action that
/// starts it again would be seen.
pub(super) fn proof(
    server: Option<&Server>,
    actions: &[ActionRecord],
    off_time: Duration,
    now: Timestamp,
) -> Option<String> {
    let last = actions.first()?;
    let finished: Timestamp = last.finished_at.as_deref()?.parse().ok()?;
    let off = Duration::try_from(now.duration_since(finished)).unwrap_or_default();
    if last.result.as_deref() != Some("Success") || off < off_time {
        return None;
    }
    let status = server.map_or("DELETED", |server| server.status.as_str());
    let is_idle = server.is_none_or(|server| server.task_state.is_none());
    let is_off = OFF.iter().any(|(off, by)| *off == status && by.contains(&last.action.as_str()));
    let is_deleted = DELETED.contains(&status) && matches!(last.action.as_str(), "delete" | "softDelete");
    (is_idle && (is_off || is_deleted)).then(|| {
        format!(
            "Nova says {status}, and its action {} ended with Success at {finished} (request {})",
            last.action, last.request_id
        )
    })
}

/// Returns true if the kubelet of a Node does not report any more.
fn is_silent(node: Option<&Node>) -> bool {
    let conditions =
        node.and_then(|node| node.status.as_ref()).and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}

impl Actor<'_> {
    /// Takes the Node of a server that is off out of service. Returns what proves that the server is off; `None` if
    /// nothing does, and the drain has to wait.
    pub(super) async fn fence(
        &self,
        machine: &Machine,
        observed: &Observed,
    ) -> Result<Option<String>, ReconcileError> {
        if !is_silent(observed.node.found()) {
            return Ok(None);
        }
        let Some(proof) = self.proof(machine, observed).await? else { return Ok(None) };
        let name = node_name(machine, observed).unwrap_or_default();
        let client = match self.context.workloads.client(&node::cluster_key(machine)) {
            Ok(client) => client,
            Err(error) => return Err(ReconcileError::waiting("NotConnected", error.to_string())),
        };
        let tainted = drain::take_out_of_service(&client, &name).await;
        tainted.map_err(|error| ReconcileError::waiting("TaintFailed", error.to_string()))?;
        Ok(Some(proof))
    }

    async fn proof(&self, machine: &Machine, observed: &Observed) -> Result<Option<String>, ReconcileError> {
        let id =
            node::provider_id(machine, observed).and_then(|id| id.rsplit('/').next()).unwrap_or_default();
        let Some(object) = observed.infrastructure.as_ref().filter(|_| !id.is_empty()) else {
            return Ok(None);
        };
        let namespace = machine.namespace().unwrap_or_default();
        let reference = observed.cluster.as_ref().and_then(|it| it.spec.infrastructure_ref.as_ref());
        let of_cluster = match reference.filter(|it| it.kind == "OpenStackCluster") {
            Some(reference) if object.spec.identity_ref.is_none() => {
                let api: Api<OpenStackCluster> = Api::namespaced(self.context.client.clone(), &namespace);
                api.get_opt(&reference.name).await?.map(|it| it.spec.identity_ref)
            }
            _ => None,
        };
        let Some(identity) = object.spec.identity_ref.clone().or(of_cluster) else { return Ok(None) };
        let cloud = self.context.cloud(&namespace, &identity).await?;
        let server = match cloud.server(id).await {
            Ok(server) => Some(server),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let actions = match cloud.actions(id).await {
            Ok(actions) => actions,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        Ok(proof(server.as_ref(), &actions, observed.settings.server_off_time, observed.now))
    }

    /// Returns the outcome of a drain that its Pods hold up: done, if the server is proved to be off.
    pub(super) async fn fenced(&self, machine: &Machine, observed: &Observed, outcome: Outcome) -> Outcome {
        if outcome == Outcome::Done {
            return outcome;
        }
        match self.fence(machine, observed).await {
            Ok(None) => outcome,
            Ok(Some(proof)) => {
                let name = node_name(machine, observed).unwrap_or_default();
                let message = format!(
                    "The server of Node {name:?} is off: {proof}. The Node was taken out of service, and its Pods and \
                     volumes are not waited for"
                );
                let events = &self.context.events;
                events.record(machine, controllers_runtime::Severity::Warning, "ServerIsOff", &message).await;
                Outcome::Done
            }
            Err(error) => match outcome {
                Outcome::Waiting(text) => Outcome::Waiting(format!(
                    "{text}\n* The Node does not report, and OpenStack cannot be asked whether its server is off: {error}"
                )),
                other => other,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(status: &str, task: Option<&str>) -> Server {
        Server { status: status.to_owned(), task_state: task.map(str::to_owned), ..Server::default() }
    }

    fn action(name: &str, result: Option<&str>, second: i64) -> ActionRecord {
        ActionRecord {
            action: name.to_owned(),
            request_id: "req-1".to_owned(),
            result: result.map(str::to_owned),
            finished_at: Some(Timestamp::from_second(second).unwrap().to_string()),
            ..ActionRecord::default()
        }
    }

    #[test]
    fn only_an_action_that_nova_finished_a_minute_ago_proves_that_a_server_is_off() {
        let ok = Some("Success");
        let off = server("SHUTOFF", None);
        let stop = || vec![action("stop", ok, 0)];
        let table = [
            ("stopped", Some(off.clone()), stop(), 60, true),
            ("stopped a moment ago", Some(off.clone()), stop(), 59, false),
            ("no action", Some(off.clone()), vec![], 600, false),
            ("the guest has stopped itself", Some(off.clone()), vec![action("create", ok, 0)], 600, false),
            ("the stop failed", Some(off.clone()), vec![action("stop", Some("Error"), 0)], 600, false),
            ("the stop runs", Some(off.clone()), vec![action("stop", None, 0)], 600, false),
            (
                "started since",
                Some(off.clone()),
                vec![action("start", ok, 5), action("stop", ok, 0)],
                600,
                false,
            ),
            ("it is being started", Some(server("SHUTOFF", Some("powering-on"))), stop(), 600, false),
            ("it runs", Some(server("ACTIVE", None)), stop(), 600, false),
            ("paused", Some(server("PAUSED", None)), vec![action("pause", ok, 0)], 600, false),
            ("suspended", Some(server("SUSPENDED", None)), vec![action("suspend", ok, 0)], 600, true),
            ("deleted", None, vec![action("delete", ok, 0)], 600, true),
            ("gone without a trace", None, vec![], 600, false),
            ("gone, and the log says nothing of it", None, stop(), 600, false),
        ];
        for (case, server, actions, second, expected) in table {
            let now = Timestamp::from_second(second).unwrap();
            assert_eq!(
                proof(server.as_ref(), &actions, Duration::from_mins(1), now).is_some(),
                expected,
                "{case}"
            );
        }
        let text = proof(Some(&off), &stop(), Duration::ZERO, Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.contains("action stop") && text.contains("request req-1"), "{text}");
    }
}
