//! Parts of a tree.

use apiserver_types::{Condition, Time};
use jiff::Timestamp;
use kube::Resource;
use kube::ResourceExt;

use super::severity::{Severity, is_generic, is_steady};

/// Object in a tree, or a group of objects that are alike.
#[derive(Debug, Clone)]
pub struct Node {
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object. For a group, the names of all its objects, separated by commas.
    pub name: String,
    /// Uid of the object.
    pub uid: String,
    /// Text in the first column.
    pub title: String,
    /// Severity of the state.
    pub severity: Severity,
    /// Numbers of ready and of desired Machines. Unset for objects that are not sets.
    pub counts: Option<Counts>,
    /// Kubernetes version. Empty if the object has none.
    pub version: String,
    /// Phase, or the reason of the condition that describes the state best.
    pub state: String,
    /// Time since which the object is in the state.
    pub since: Option<Timestamp>,
    /// Reason for which the object waits or failed.
    pub cause: Option<Cause>,
    /// Properties that are shown while there is no cause, e.g. addresses.
    pub note: String,
    /// All conditions of the object.
    pub conditions: Vec<Condition>,
    /// Objects that belong to the object.
    pub children: Vec<Self>,
}

/// Numbers of Machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Machines whose Ready condition is True.
    pub ready: i32,
    /// Machines that are desired.
    pub desired: i32,
}

/// Reason and message of the condition that explains a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Reason, in CamelCase.
    pub reason: String,
    /// Message, possibly of several lines.
    pub message: String,
}

impl Cause {
    /// Returns the reason and message of a condition.
    pub(crate) fn of(condition: &Condition) -> Self {
        Self { reason: condition.reason.clone(), message: condition.message.trim_end().to_owned() }
    }

    /// Returns the lines of the text. The first has the reason, unless the message alone says more.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = self.message.lines().map(|line| line.trim_start_matches("* ").to_owned());
        let first = lines.next().unwrap_or_default();
        let first = match (is_generic(&self.reason), first.is_empty()) {
            (_, true) => self.reason.clone(),
            (true, false) => first,
            (false, false) => format!("{}: {first}", self.reason),
        };
        std::iter::once(first).chain(lines).collect()
    }

    /// Returns the reason, or the first line of the message if the reason says nothing.
    pub(crate) fn brief(&self) -> String {
        let first = self.message.lines().next().unwrap_or_default().trim_start_matches("* ");
        if is_generic(&self.reason) && !first.is_empty() { first.to_owned() } else { self.reason.clone() }
    }
}

impl Node {
    /// Creates a node for an object, with its name as the title.
    pub(crate) fn new<K>(object: &K, conditions: &[Condition]) -> Self
    where
        K: Resource<DynamicType = ()>,
    {
        let kind = K::kind(&()).into_owned();
        let name = object.name_any();
        Self {
            title: format!("{kind} {name}"),
            kind,
            namespace: object.namespace().unwrap_or_default(),
            name,
            uid: object.uid().unwrap_or_default(),
            severity: Severity::Waiting,
            counts: None,
            version: String::new(),
            state: String::new(),
            since: object.creation_timestamp().map(|time| time.0),
            cause: None,
            note: String::new(),
            conditions: conditions.to_vec(),
            children: Vec::new(),
        }
    }

    /// Creates a node for an object that could not be read, from the condition that says why.
    pub(crate) fn absent(kind: &str, namespace: &str, name: &str, condition: &Condition) -> Self {
        let mut node = Self {
            title: format!("{kind} {name}"),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            severity: Severity::Waiting,
            counts: None,
            version: String::new(),
            state: condition.reason.clone(),
            since: None,
            cause: None,
            note: String::new(),
            conditions: Vec::new(),
            children: Vec::new(),
        };
        node.explain(condition);
        node
    }

    /// Returns the condition of this type, or `None` if there is none.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        apiserver_types::condition(&self.conditions, kind)
    }

    /// Returns true if the condition of this type is True.
    pub(crate) fn holds(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(Condition::holds)
    }

    /// Returns the first of these conditions that needs attention. Among them, a failed one comes first.
    pub(crate) fn first_open(&self, kinds: &[&str]) -> Option<&Condition> {
        let open = || kinds.iter().filter_map(|kind| self.condition(kind)).filter(|it| !is_steady(it));
        open().find(|it| Severity::of(it) == Severity::Failed).or_else(|| open().next())
    }

    /// Takes severity, time and cause from a condition.
    pub(crate) fn explain(&mut self, condition: &Condition) {
        self.severity = Severity::of(condition);
        self.since = time(&condition.last_transition_time).or(self.since);
        self.cause = (self.severity != Severity::Done).then(|| Cause::of(condition));
    }

    /// Changes the node if the object is paused or being deleted. Both override every other state.
    pub(crate) fn override_state<K: Resource>(&mut self, object: &K) {
        if let Some(paused) = self.condition("Paused").filter(|it| it.holds()) {
            self.since = time(&paused.last_transition_time).or(self.since);
            self.state = "Paused".to_owned();
            self.severity = self.severity.max(Severity::Warning);
        }
        let Some(deleted) = &object.meta().deletion_timestamp else { return };
        self.state = "Deleting".to_owned();
        self.since = Some(deleted.0);
        self.severity = Severity::Running;
        let deleting = self.condition("Deleting").filter(|it| it.holds()).map(Cause::of);
        self.cause = deleting.or_else(|| self.cause.take());
    }

    /// Returns this node and all nodes below it, in the order of the tree.
    pub(crate) fn walk(&self) -> Vec<&Self> {
        let below = self.children.iter().flat_map(Self::walk);
        std::iter::once(self).chain(below).collect()
    }
}

/// Returns a time of the API, or `None` if it is not valid.
pub(crate) fn time(time: &Time) -> Option<Timestamp> {
    time.0.parse().ok()
}
