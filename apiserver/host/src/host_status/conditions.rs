//! Conditions of HostStatus.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{HostFacts, MirrorFacts, seconds};
use crate::credential;
use crate::health::{HostState, Probe};

/// Status of a condition, in the words of an API.
const TRUE: &str = "True";
const FALSE: &str = "False";
const UNKNOWN: &str = "Unknown";

/// Maximum number of namespaces that a message names. The field `namespacesGone` has all of them.
const MOST_NAMES: usize = 10;

/// Condition without the time of its last change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostCondition {
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Memory of the conditions: since when each has its status.
#[derive(Debug, Default)]
pub struct Transitions(HashMap<&'static str, (&'static str, Timestamp)>);

impl Transitions {
    /// Returns the conditions with the times of their last changes. Those with another status than before change `now`.
    pub(super) fn note(&mut self, conditions: &[HostCondition], now: Timestamp) -> Vec<Value> {
        let timed = conditions.iter().map(|condition| {
            let known = self.0.entry(condition.kind).or_insert((condition.status, now));
            if known.0 != condition.status {
                *known = (condition.status, now);
            }
            json!({"type": condition.kind, "status": condition.status, "reason": condition.reason,
                "message": condition.message, "lastTransitionTime": seconds(known.1)})
        });
        timed.collect()
    }
}

/// Returns all conditions.
pub(super) fn of(facts: &HostFacts) -> [HostCondition; 5] {
    [
        reachable(facts),
        credential_refused(facts),
        mirror_fresh(facts),
        write_back_caught_up(facts),
        namespaces_gone(facts),
    ]
}

fn condition(
    kind: &'static str,
    (status, reason, message): (&'static str, &'static str, String),
) -> HostCondition {
    HostCondition { kind, status, reason, message }
}

fn reachable(facts: &HostFacts) -> HostCondition {
    let text = str::to_owned;
    let found = match facts.state {
        HostState::Up => (TRUE, "Up", text("the host cluster answers, and all its answers are believed")),
        HostState::Slow => {
            (TRUE, "Slow", text("the host cluster answers, and some answers take over a second"))
        }
        HostState::Other => (FALSE, "OtherCluster", other(facts)),
        HostState::Down if facts.was_seen() => {
            (FALSE, "Down", text("the host cluster does not answer; copies of its data are used"))
        }
        HostState::Down => (
            FALSE,
            "NeverSeen",
            text("the host cluster does not answer, and never did: check host.kubeconfig and the network"),
        ),
        HostState::Probation if matches!(facts.probe, None | Some(Probe::Silent)) => {
            (UNKNOWN, "NoAnswerYet", text("the host cluster has not answered yet"))
        }
        HostState::Probation => (
            TRUE,
            "Probation",
            text("the host cluster answers; its refusals are not believed until it is ready"),
        ),
    };
    condition("Reachable", found)
}

fn other(facts: &HostFacts) -> String {
    let pinned = facts.pinned.as_deref().unwrap_or("unknown");
    if let Some(Probe::Older(version)) = facts.probe {
        return format!(
            "the host cluster was restored from an older backup: its ConfigMap kube-system/extension-apiserver-authentication has the lower version {version} and other data. If this is wanted, set host.acceptNewIdentity to {pinned}@{version}"
        );
    }
    format!(
        "another cluster answers: the uid of its namespace kube-system is not {pinned}. If it is the new host cluster, set host.acceptNewIdentity to its uid"
    )
}

fn credential_refused(facts: &HostFacts) -> HostCondition {
    let text = str::to_owned;
    let ended = facts.credential_end.filter(|end| *end <= facts.now);
    let found = match (facts.probe, ended) {
        (_, Some(end)) => (
            TRUE,
            "Expired",
            format!(
                "the client certificate of Capstan in the host cluster ended at {}: renew it in host.kubeconfig",
                seconds(end)
            ),
        ),
        (Some(Probe::Refused), None) => (
            TRUE,
            "Refused",
            text(
                "the host cluster refuses Capstan's own user: renew the credential in host.kubeconfig, or apply the output of `capstan host manifests` again",
            ),
        ),
        (None | Some(Probe::Silent), None) => {
            (UNKNOWN, "NoAnswer", text("the host cluster does not answer the prober"))
        }
        (Some(Probe::Unready), None) => {
            (UNKNOWN, "NotReady", text("the host cluster is not ready, and may not check credentials"))
        }
        (Some(Probe::Ready(_) | Probe::Stranger | Probe::Older(_)), None) => accepted(facts),
    };
    condition("CredentialRefused", found)
}

/// Returns the condition of a credential that works.
fn accepted(facts: &HostFacts) -> (&'static str, &'static str, String) {
    match facts.credential_end.filter(|end| credential::ends_soon(*end, facts.now)) {
        Some(end) => (
            FALSE,
            "EndsSoon",
            format!(
                "the client certificate of Capstan in the host cluster ends at {}: renew it in host.kubeconfig",
                seconds(end)
            ),
        ),
        None => (FALSE, "Accepted", "the host cluster accepts Capstan's own user".to_owned()),
    }
}

fn mirror_fresh(facts: &HostFacts) -> HostCondition {
    let unusable: Vec<(&MirrorFacts, &str)> =
        facts.mirrors.iter().filter_map(|mirror| Some((mirror, mirror.unusable()?))).collect();
    let found = match unusable.first() {
        Some((_, reason)) => {
            let names: Vec<String> =
                unusable.iter().map(|(mirror, why)| format!("{} ({why})", mirror.name)).collect();
            (
                FALSE,
                *reason,
                format!("copies of the host cluster's data that are not used: {}", names.join(", ")),
            )
        }
        None if facts.mirrors.iter().any(|mirror| !mirror.unread.is_empty()) => {
            let unread: Vec<&str> =
                facts.mirrors.iter().flat_map(|mirror| &mirror.unread).map(String::as_str).collect();
            (
                FALSE,
                "Unread",
                format!(
                    "parameters of the host cluster's policies that cannot be read: {}. See `capstan host manifests --policy-parameters`",
                    unread.join("; ")
                ),
            )
        }
        None if facts.state == HostState::Up => (TRUE, "Followed", "all copies are followed".to_owned()),
        None => (TRUE, "WithinBounds", "all copies are younger than their bounds".to_owned()),
    };
    condition("MirrorFresh", found)
}

fn write_back_caught_up(facts: &HostFacts) -> HostCondition {
    let (waiting, refused) = facts
        .outbox
        .iter()
        .fold((0_usize, 0_usize), |(waiting, refused), (_, it)| (waiting + it.objects, refused + it.refused));
    let found = match (waiting, refused) {
        _ if facts.outbox.is_empty() => (
            UNKNOWN,
            "NotLeader",
            "another replica writes to the host cluster: read the object of the leader".to_owned(),
        ),
        (0, 0) => (TRUE, "CaughtUp", "the host cluster has all Events and Secrets".to_owned()),
        (0, _) => (
            FALSE,
            "Refused",
            format!(
                "the host cluster refuses {refused} objects: see the conditions of their Clusters and the log"
            ),
        ),
        _ => (FALSE, "Waiting", format!("{waiting} objects wait, and the host cluster refuses {refused}")),
    };
    condition("WriteBackCaughtUp", found)
}

fn namespaces_gone(facts: &HostFacts) -> HostCondition {
    let text = str::to_owned;
    let found = match &facts.gone {
        None => (
            UNKNOWN,
            "NotCompared",
            text(
                "the namespaces with objects of Capstan have not been compared with those of the host cluster yet",
            ),
        ),
        Some(gone) if gone.is_empty() => {
            (FALSE, "AllPresent", text("the host cluster has all namespaces with objects of Capstan"))
        }
        Some(gone) => {
            let names: Vec<&str> = gone.iter().take(MOST_NAMES).map(String::as_str).collect();
            let more = gone.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            (
                TRUE,
                "NamespacesGone",
                format!(
                    "the host cluster does not have these namespaces, and Capstan keeps the objects in them: {}{more}",
                    names.join(", ")
                ),
            )
        }
    };
    condition("NamespacesGone", found)
}
