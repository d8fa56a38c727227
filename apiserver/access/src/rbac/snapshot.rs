//! Snapshot of all roles and bindings: immutable, and indexed for decisions.

use std::collections::HashMap;
use std::sync::Arc;

use super::authorizer::{NAME, OF_PROJECTS};
use super::index::{Place, SubjectIndex};
use super::policy::{Binding, Counted, Policy};
use super::reasons::{Refusal, not_found, reason, refusal_of_projects, shown};
use crate::authorizer::{Attributes, Decision, Rule, Verdict};
use crate::user::{Realm, User};

/// Reason of a refusal of a user whose token has no scope.
const NO_SCOPE: &str =
    "the token of Keystone has no scope, so bindings for its user do not count; log in with a project";

/// Rules of a role; `None` if the role does not exist.
type RoleRules = Option<Arc<Vec<Rule>>>;

/// Snapshot of the roles and bindings. A change of one of them makes a new snapshot.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Each binding with the rules of its role.
    bindings: Vec<(Binding, RoleRules)>,
    cluster: SubjectIndex,
    /// Index of the RoleBindings, by namespace.
    namespaces: HashMap<String, SubjectIndex>,
}

impl Snapshot {
    /// Creates the snapshot of a policy.
    pub fn new(policy: Policy) -> Self {
        let mut roles: HashMap<String, HashMap<String, Arc<Vec<Rule>>>> = HashMap::new();
        for role in policy.roles {
            roles.entry(role.namespace).or_default().insert(role.name, Arc::new(role.rules));
        }
        let mut snapshot = Self::default();
        for (number, binding) in policy.bindings.into_iter().enumerate() {
            let namespace: &str = if binding.role.is_cluster_role { "" } else { &binding.namespace };
            let rules = roles.get(namespace).and_then(|roles| roles.get(&binding.role.name)).cloned();
            let index = if binding.namespace.is_empty() {
                &mut snapshot.cluster
            } else {
                snapshot.namespaces.entry(binding.namespace.clone()).or_default()
            };
            index.add(number, &binding);
            snapshot.bindings.push((binding, rules));
        }
        snapshot
    }

    /// Returns the decision about a request, and the reason of an allowed one.
    pub fn decide(&self, attributes: &Attributes) -> (Decision, String) {
        self.decide_by(attributes, |_| true)
    }

    /// Returns the decision about a request with its origin: a stored binding, or a role in a project of Keystone.
    pub(super) fn judge(&self, attributes: &Attributes, counted: Counted) -> Verdict {
        match self.allowing(attributes, counted, |_| true) {
            Some((place, binding, _)) => {
                let origin = if binding.of_project { OF_PROJECTS } else { NAME };
                Verdict::new((Decision::Allow, reason(binding, place.subject)), origin)
            }
            None => Verdict::new((self.not_allowed(attributes, counted), String::new()), origin(counted)),
        }
    }

    /// Returns the decision of those rules that name the API group of the request. A rule about all groups counts for
    /// none.
    pub fn decide_by_named_group(&self, attributes: &Attributes) -> (Decision, String) {
        self.decide_by(attributes, |rule| rule.groups.contains(&attributes.group))
    }

    /// Returns the decision about a request, with a reason for people to read: the rule that allows it, or the bindings of
    /// the user.
    pub fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        self.explain_by(attributes, Counted::All)
    }

    /// The same by a part of the bindings.
    pub(super) fn explain_by(&self, attributes: &Attributes, counted: Counted) -> (Decision, String) {
        match self.allowing(attributes, counted, |_| true) {
            Some((place, binding, rule)) => {
                let why = format!("{}, by the rule {}", reason(binding, place.subject), shown(rule));
                (Decision::Allow, why)
            }
            None => (self.not_allowed(attributes, counted), self.refusal(attributes, counted)),
        }
    }

    fn decide_by(&self, attributes: &Attributes, counts: impl Fn(&Rule) -> bool) -> (Decision, String) {
        match self.allowing(attributes, Counted::All, counts) {
            Some((place, binding, _)) => (Decision::Allow, reason(binding, place.subject)),
            None => (self.not_allowed(attributes, Counted::All), String::new()),
        }
    }

    /// Returns the decision about a request that no rule allows.
    fn not_allowed(&self, attributes: &Attributes, counted: Counted) -> Decision {
        let is_unscoped = attributes.user.is_unscoped();
        // Bindings say it, and a project has no role of such a user.
        if is_unscoped && counted != Counted::OfProjects {
            return Decision::NoOpinion(format!("RBAC: {NO_SCOPE}"));
        }
        let missing = self.missing_roles_by(&attributes.user, &attributes.namespace, counted);
        let origin = origin(counted);
        Decision::NoOpinion(if missing.is_empty() { missing } else { format!("{origin}: {missing}") })
    }

    /// Returns the first rule that counts and allows a request, with its binding and the subject in it.
    fn allowing<'a>(
        &'a self,
        attributes: &'a Attributes,
        counted: Counted,
        counts: impl Fn(&Rule) -> bool,
    ) -> Option<(Place, &'a Binding, &'a Rule)> {
        self.of(&attributes.user, &attributes.namespace, counted).find_map(|(place, binding, rules)| {
            let mut rules = rules.iter().flat_map(|rules| rules.iter()).filter(|rule| counts(rule));
            rules.find(|rule| rule.allows(attributes)).map(|rule| (place, binding, rule))
        })
    }

    /// Returns why no binding allows a request.
    fn refusal(&self, attributes: &Attributes, counted: Counted) -> String {
        let (user, namespace) = (&attributes.user, attributes.namespace.as_str());
        if user.is_unscoped() {
            return NO_SCOPE.to_owned();
        }
        if counted == Counted::OfProjects {
            return refusal_of_projects(namespace, self.of(user, namespace, counted).map(|(_, it, _)| it));
        }
        let mut refusal = Refusal::in_namespace(namespace);
        for (place, binding, rules) in self.of(user, namespace, counted) {
            refusal.add(binding, place.subject, rules.is_some());
        }
        // The same user with a certificate of our own, to count the bindings that do not admit the host's users.
        let own = User { realm: Realm::Own, ..(**user).clone() };
        let count = |user: &User| self.of(user, namespace, counted).count();
        refusal.left_out = count(&own).saturating_sub(count(user));
        refusal.text()
    }

    /// Returns all rules of a user in a namespace, each once. An empty namespace has those of the cluster alone.
    pub fn rules(&self, user: &User, namespace: &str) -> Vec<Rule> {
        self.rules_by(user, namespace, Counted::All)
    }

    /// The same by a part of the bindings.
    pub(super) fn rules_by(&self, user: &User, namespace: &str, counted: Counted) -> Vec<Rule> {
        let mut all: Vec<Rule> = Vec::new();
        let roles = self.of(user, namespace, counted).filter_map(|(_, _, rules)| rules.as_ref());
        for rule in roles.flat_map(|it| it.iter()) {
            if !all.contains(rule) {
                all.push(rule.clone());
            }
        }
        all
    }

    /// Returns the roles that bindings of the user refer to and that do not exist, as text; empty if there are none.
    pub fn missing_roles(&self, user: &User, namespace: &str) -> String {
        self.missing_roles_by(user, namespace, Counted::All)
    }

    /// The same by a part of the bindings.
    pub(super) fn missing_roles_by(&self, user: &User, namespace: &str, counted: Counted) -> String {
        let mut missing: Vec<String> = Vec::new();
        for (_, binding, _) in self.of(user, namespace, counted).filter(|(_, _, rules)| rules.is_none()) {
            let text = not_found(&binding.role);
            if !missing.contains(&text) {
                missing.push(text);
            }
        }
        if missing.len() > 1 { format!("[{}]", missing.join(", ")) } else { missing.concat() }
    }

    /// Returns the bindings of a user that count: those of the cluster, then those of the namespace.
    fn of<'a>(
        &'a self,
        user: &'a User,
        namespace: &str,
        counted: Counted,
    ) -> impl Iterator<Item = (Place, &'a Binding, &'a RoleRules)> {
        let local = if namespace.is_empty() { None } else { self.namespaces.get(namespace) };
        let places = std::iter::once(&self.cluster).chain(local).flat_map(move |index| index.of(user));
        places.filter_map(move |place| {
            let (binding, rules) = self.bindings.get(place.binding)?;
            counted.has(binding).then_some((place, binding, rules))
        })
    }
}

/// Returns the name of the authorizer that decides by a part of the bindings.
fn origin(counted: Counted) -> &'static str {
    if counted == Counted::OfProjects { OF_PROJECTS } else { NAME }
}
