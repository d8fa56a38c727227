//! Generator of policies, questions about them, and writes of roles and bindings.

use std::sync::Arc;

use apiserver_access::rbac::{Binding, Policy, Role, RoleRef, Subject};
use apiserver_access::{Attributes, Rule, User};

use super::random::Random;

/// Questions about one policy.
const QUESTIONS: usize = 400;

/// Writes in one policy.
const WRITES: usize = 24;

/// Users of one policy.
const USERS: usize = 6;

/// Groups of one policy.
const GROUPS: usize = 3;

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "reboot", "*", "g*"];
const API_GROUPS: [&str; 4] = ["", "apps", "cluster.x-k8s.io", "*"];
const RESOURCES: [&str; 12] = [
    "pods",
    "pods/log",
    "*/log",
    "*",
    "machines",
    "machines/*",
    "mach*",
    "*/*",
    "secrets",
    "machines/reboot",
    "*/reboot",
    "nodes",
];
const NAMES: [&str; 3] = ["a", "b", "c"];
const PATHS: [&str; 8] = ["/x", "/x/y", "/x*", "/x/*", "/x/y**", "*", "/metrics", "/m*s"];

/// A policy, with requests whose verdicts depend on it.
#[derive(Debug, Clone)]
pub struct World {
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// Roles and bindings.
    pub policy: Policy,
    /// Questions about permissions.
    pub questions: Vec<Attributes>,
    /// Writes of roles and bindings.
    pub writes: Vec<Write>,
}

impl World {
    /// Returns true if the policy has this very object.
    pub fn has(&self, object: &Granting) -> bool {
        match object {
            Granting::Role(role) => self.policy.roles.contains(role),
            Granting::Binding(binding) => self.policy.bindings.contains(binding),
        }
    }
}

/// Object of a write.
#[derive(Debug, Clone)]
pub enum Granting {
    /// A Role or a ClusterRole.
    Role(Role),
    /// A RoleBinding or a ClusterRoleBinding.
    Binding(Binding),
}

/// Write of a role or a binding by a user.
#[derive(Debug, Clone)]
pub struct Write {
    /// User.
    pub user: User,
    /// True if it replaces an object of the policy; else it creates one.
    pub is_update: bool,
    /// Object.
    pub object: Granting,
}

/// Names of one policy, and the random numbers.
struct Generator {
    random: Random,
    prefix: String,
    namespaces: Vec<String>,
}

impl World {
    /// Generates the policy with this number, and its requests.
    pub fn generate(seed: u64, number: u32) -> Self {
        let prefix = format!("w{number}");
        let namespaces = vec![format!("{prefix}-a"), format!("{prefix}-b")];
        let random = Random::new(seed, number);
        let mut generator = Generator { random, prefix, namespaces: namespaces.clone() };
        let policy = generator.policy();
        let questions = (0..QUESTIONS).map(|_| generator.question()).collect();
        let writes = (0..WRITES).map(|index| generator.write(index, &policy)).collect();
        Self { namespaces, policy, questions, writes }
    }
}

impl Generator {
    fn policy(&mut self) -> Policy {
        let mut policy = Policy::default();
        for index in 0..6 {
            let name = self.cluster_role(index);
            let rules = self.rules(true);
            policy.roles.push(Role { namespace: String::new(), name, rules });
        }
        for namespace in self.namespaces.clone() {
            for index in 0..3 {
                let (namespace, name) = (namespace.clone(), format!("r{index}"));
                policy.roles.push(Role { namespace, name, rules: self.rules(false) });
            }
        }
        policy.roles.push(self.writer());
        for index in 0..16 {
            let namespace = match index % 3 {
                0 => String::new(),
                other => self.namespaces.get(other - 1).cloned().unwrap_or_default(),
            };
            let binding = self.binding(&namespace, format!("{}:b{index}", self.prefix));
            policy.bindings.push(binding);
        }
        // Every user may write roles and bindings, so that the verdict depends on the granted rules.
        policy.bindings.push(Binding {
            namespace: String::new(),
            name: format!("{}:writers", self.prefix),
            role: RoleRef { is_cluster_role: true, name: format!("{}:writer", self.prefix) },
            subjects: (0..USERS).map(|index| Subject::User(self.user(index))).collect(),
            admits_host: false,
            of_project: false,
        });
        policy
    }

    fn cluster_role(&self, index: usize) -> String {
        format!("{}:c{index}", self.prefix)
    }

    fn user(&self, index: usize) -> String {
        format!("{}-u{index}", self.prefix)
    }

    fn group(&self, index: usize) -> String {
        format!("{}-g{index}", self.prefix)
    }

    fn namespace(&mut self) -> String {
        let index = self.random.below(self.namespaces.len());
        self.namespaces.get(index).cloned().unwrap_or_default()
    }

    fn writer(&mut self) -> Role {
        let texts = |list: &[&str]| -> Vec<String> { list.iter().map(|text| (*text).to_owned()).collect() };
        let rule = |verbs: &[&str], resources: &[&str]| Rule {
            verbs: texts(verbs),
            groups: texts(&["rbac.authorization.k8s.io"]),
            resources: texts(resources),
            ..Rule::default()
        };
        let kinds = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
        let mut rules = vec![rule(&["create", "update"], &kinds)];
        if self.random.one_in(5) {
            rules.push(rule(&["escalate"], &["roles"]));
        }
        if self.random.one_in(5) {
            let names = vec![self.cluster_role(0)];
            rules.push(Rule { names, ..rule(&["bind"], &["clusterroles"]) });
        }
        Role { namespace: String::new(), name: format!("{}:writer", self.prefix), rules }
    }

    fn rules(&mut self, with_paths: bool) -> Vec<Rule> {
        let count = 1 + self.random.below(3);
        (0..count).map(|_| self.rule(with_paths)).collect()
    }

    fn rule(&mut self, with_paths: bool) -> Rule {
        let verbs = self.random.some(&VERBS, 1, 3);
        if with_paths && self.random.one_in(4) {
            return Rule { verbs, paths: self.random.some(&PATHS, 1, 2), ..Rule::default() };
        }
        let names = if self.random.one_in(4) { self.random.some(&NAMES, 1, 2) } else { Vec::new() };
        Rule {
            verbs,
            groups: self.random.some(&API_GROUPS, 1, 2),
            resources: self.random.some(&RESOURCES, 1, 3),
            names,
            ..Rule::default()
        }
    }

    fn binding(&mut self, namespace: &str, name: String) -> Binding {
        let is_cluster_role = namespace.is_empty() || self.random.one_in(2);
        // One index has no role: the binding refers to a missing one.
        let role = if is_cluster_role {
            let index = self.random.below(7);
            self.cluster_role(index)
        } else {
            format!("r{}", self.random.below(4))
        };
        let count = 1 + self.random.below(2);
        let subjects = (0..count).map(|_| self.subject(namespace)).collect();
        let role = RoleRef { is_cluster_role, name: role };
        Binding { namespace: namespace.to_owned(), name, role, subjects, ..Binding::default() }
    }

    fn subject(&mut self, namespace: &str) -> Subject {
        match self.random.below(4) {
            0 | 1 => {
                let index = self.random.below(USERS);
                Subject::User(self.user(index))
            }
            2 => {
                let index = self.random.below(GROUPS);
                Subject::Group(self.group(index))
            }
            _ => {
                let own = !namespace.is_empty() && self.random.one_in(2);
                let namespace = if own { String::new() } else { self.namespace() };
                Subject::ServiceAccount { namespace, name: format!("s{}", self.random.below(2)) }
            }
        }
    }

    fn asker(&mut self) -> User {
        let index = self.random.below(USERS + 2);
        let name = if index < USERS {
            self.user(index)
        } else {
            format!("system:serviceaccount:{}:s{}", self.namespace(), index - USERS)
        };
        let count = self.random.below(3);
        let groups = (0..count).map(|_| {
            let index = self.random.below(GROUPS);
            self.group(index)
        });
        let groups = groups.collect();
        User { name, groups, ..User::default() }
    }

    fn question(&mut self) -> Attributes {
        let user = Arc::new(self.asker());
        let verb = self.random.one(&VERBS[..6]).to_owned();
        if self.random.one_in(6) {
            let path = self.random.one(&["/x", "/x/", "/x/y", "/x/y/z", "/metrics", "/ms"]).to_owned();
            return Attributes { user, verb, path, ..Attributes::default() };
        }
        let resource = self.random.one(&["pods", "machines", "secrets", "nodes"]).to_owned();
        let subresource = self.random.one(&["", "", "log", "reboot", "status"]).to_owned();
        let namespace = if self.random.one_in(4) { String::new() } else { self.namespace() };
        let name = self.random.one(&["", "a", "b"]).to_owned();
        let group = self.random.one(&API_GROUPS[..3]).to_owned();
        Attributes { user, verb, group, resource, subresource, namespace, name, ..Attributes::default() }
    }

    fn write(&mut self, index: usize, policy: &Policy) -> Write {
        let number = self.random.below(USERS);
        let user = User { name: self.user(number), ..User::default() };
        let namespace = if self.random.one_in(3) { String::new() } else { self.namespace() };
        if self.random.one_in(2) {
            let binding = self.binding(&namespace, format!("{}:n{index}", self.prefix));
            return Write { user, is_update: false, object: Granting::Binding(binding) };
        }
        let is_update = self.random.one_in(3);
        let name = match (is_update, namespace.is_empty()) {
            (true, true) => self.cluster_role(1),
            (true, false) => "r1".to_owned(),
            (false, _) => format!("n{index}"),
        };
        // A part of the user's own rules is often covered.
        let rules = if self.random.one_in(2) {
            let known = policy.roles.get(self.random.below(12)).map(|role| role.rules.clone());
            let without_paths = |rule: &Rule| namespace.is_empty() || rule.paths.is_empty();
            known.unwrap_or_default().into_iter().filter(without_paths).take(1).collect()
        } else {
            vec![self.rule(namespace.is_empty())]
        };
        Write { user, is_update, object: Granting::Role(Role { namespace, name, rules }) }
    }
}
