//! Content of the object HostStatus: a pure function of what one replica knows about the host cluster.

mod conditions;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub use conditions::Transitions;

use crate::connection::HostConnection;
use crate::health::{Backlog, HostState, Probe};

/// Name of the only object.
const NAME: &str = "host";

/// Copies of one kind of the host's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorFacts {
    /// Name of the kind, in lower case.
    pub name: &'static str,
    /// Number of objects in the copy.
    pub objects: usize,
    /// Time since the copy had all changes; the longest time if it never had.
    pub age: Duration,
    /// Longest age at which the copy is used. `None`: it is used at any age.
    pub bound: Option<Duration>,
    /// True if the copy is not used because the host decides otherwise.
    pub is_closed: bool,
    /// Objects that are copied and have no effect, as `Kind/name`.
    pub left_out: Vec<String>,
    /// Objects that should be copied and cannot be read, each with the reason.
    pub unread: Vec<String>,
}

impl MirrorFacts {
    /// Creates the facts about a copy that is open.
    pub fn new(name: &'static str, objects: usize, age: Duration, bound: Option<Duration>) -> Self {
        Self { name, objects, age, bound, is_closed: false, left_out: Vec::new(), unread: Vec::new() }
    }

    /// Returns the reason why the copy is not used; `None` if it is.
    fn unusable(&self) -> Option<&'static str> {
        match self.bound {
            _ if self.is_closed => Some("Closed"),
            _ if self.age == Duration::MAX => Some("NeverRead"),
            Some(bound) if self.age > bound => Some("Stale"),
            _ => None,
        }
    }
}

/// All that one replica knows about the host.
#[derive(Debug, Clone)]
pub struct HostFacts {
    replica: String,
    begun: Timestamp,
    now: Timestamp,
    state: HostState,
    since: Timestamp,
    since_contact: Duration,
    probe: Option<Probe>,
    pinned: Option<String>,
    credential_end: Option<Timestamp>,
    mirrors: Vec<MirrorFacts>,
    /// Namespaces that the host does not have, with objects of Capstan. `None`: they are not known.
    gone: Option<BTreeSet<String>>,
    /// Backlogs by the name of the kind. Empty: another replica writes to the host.
    outbox: Vec<(&'static str, Backlog)>,
}

impl HostFacts {
    /// Observes a host now. `replica` is the name of this process, which began at `begun`; `pinned` is the uid of the
    /// host that it knows. `gone` are the namespaces that the host does not have and that have objects of Capstan; `None`
    /// if the replica has not compared them.
    pub fn observe(
        connection: &HostConnection,
        pinned: Option<String>,
        mirrors: Vec<MirrorFacts>,
        gone: Option<BTreeSet<String>>,
        replica: String,
        begun: Timestamp,
    ) -> Self {
        let health = connection.health();
        let observed = health.observations();
        Self {
            replica,
            begun,
            now: Timestamp::now(),
            state: health.state(),
            since: observed.since,
            since_contact: health.since_contact(),
            probe: observed.probe,
            pinned,
            credential_end: connection.credential_end(),
            mirrors,
            gone,
            outbox: observed.backlogs().iter().map(|(kind, backlog)| (*kind, *backlog)).collect(),
        }
    }

    fn was_seen(&self) -> bool {
        self.since_contact != Duration::MAX
    }

    /// Returns the time that was this long ago; `None` if it never was.
    fn ago(&self, age: Duration) -> Option<Timestamp> {
        self.now.checked_sub(SignedDuration::try_from(age).ok()?).ok()
    }
}

/// Returns the object, and notes in `transitions` which conditions have changed.
pub fn host_status(facts: &HostFacts, transitions: &mut Transitions) -> Value {
    let conditions = transitions.note(&conditions::of(facts), facts.now);
    let mut status = json!({
        "state": word(facts.state),
        "since": seconds(facts.since),
        "replica": facts.replica,
        "mirrors": facts.mirrors.iter().map(|mirror| of_mirror(facts, mirror)).collect::<Vec<_>>(),
        "outbox": facts.outbox.iter().map(|(kind, it)| of_outbox(facts, kind, *it)).collect::<Vec<_>>(),
        "conditions": conditions,
    });
    let optional = [
        ("lastContactTime", facts.ago(facts.since_contact).map(seconds)),
        ("pinnedUID", facts.pinned.clone()),
        ("credentialEndTime", facts.credential_end.map(seconds)),
    ];
    set(&mut status, optional.map(|(name, value)| (name, value.map(Value::from))));
    let gone = facts.gone.iter().flatten().cloned().collect::<Vec<_>>();
    set(&mut status, [("namespacesGone", (!gone.is_empty()).then(|| gone.into()))]);
    json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "HostStatus",
        "metadata": {"name": NAME, "creationTimestamp": seconds(facts.begun)}, "status": status})
}

fn of_mirror(facts: &HostFacts, mirror: &MirrorFacts) -> Value {
    let mut shown =
        json!({"name": mirror.name, "objects": mirror.objects, "usable": mirror.unusable().is_none()});
    let is_read = mirror.age != Duration::MAX;
    set(
        &mut shown,
        [
            ("ageSeconds", is_read.then(|| mirror.age.as_secs().into())),
            ("boundSeconds", mirror.bound.map(|bound| bound.as_secs().into())),
            ("lastSyncTime", facts.ago(mirror.age).map(|at| seconds(at).into())),
            ("leftOut", (!mirror.left_out.is_empty()).then(|| mirror.left_out.clone().into())),
            ("unread", (!mirror.unread.is_empty()).then(|| mirror.unread.clone().into())),
        ],
    );
    shown
}

fn of_outbox(facts: &HostFacts, kind: &str, backlog: Backlog) -> Value {
    let mut shown = json!({"kind": kind, "objects": backlog.objects, "refused": backlog.refused});
    let oldest = facts.ago(backlog.oldest).filter(|_| backlog.objects > 0);
    set(&mut shown, [("oldestTime", oldest.map(|at| seconds(at).into()))]);
    shown
}

fn set<const N: usize>(object: &mut Value, fields: [(&str, Option<Value>); N]) {
    for (name, value) in fields {
        if let (Some(value), Some(object)) = (value, object.as_object_mut()) {
            object.insert(name.to_owned(), value);
        }
    }
}

/// Returns a time as metav1.Time writes it: without fractions of a second.
fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// Returns the state as a word of an API.
const fn word(state: HostState) -> &'static str {
    match state {
        HostState::Up => "Up",
        HostState::Slow => "Slow",
        HostState::Down => "Down",
        HostState::Probation => "Probation",
        HostState::Other => "Other",
    }
}
