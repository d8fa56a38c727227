//! Hooks: points at which annotations of a Cluster and extension servers hold up its creation, its upgrade or its deletion.
//! Pure.
//!
//! Servers are called between two decisions. A hook whose servers have not answered yet is due, and a decision does not go
//! past it. The decision after the answer does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apiserver_types::Cluster;
pub(in crate::cluster_topology) use controllers_extensions::Hook;
use kube::ResourceExt;

/// Annotation of a Cluster with the hooks that are to come, sorted and separated by commas. Upstream's.
pub(in crate::cluster_topology) const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Hooks of one step of an upgrade that are due only after it has begun.
const OF_A_STEP: [Hook; 3] =
    [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade];

/// Returns the prefix of the annotations that block a hook. Upstream has that of `before-upgrade`.
const fn prefix(hook: Hook) -> Option<&'static str> {
    Some(match hook {
        Hook::BeforeClusterCreate => "before-create.hook.cluster.cluster.x-k8s.io/",
        Hook::BeforeClusterUpgrade => "before-upgrade.hook.cluster.cluster.x-k8s.io/",
        Hook::BeforeControlPlaneUpgrade => "before-control-plane.hook.cluster.cluster.x-k8s.io/",
        Hook::AfterControlPlaneUpgrade => "after-control-plane.hook.cluster.cluster.x-k8s.io/",
        Hook::BeforeWorkersUpgrade => "before-workers.hook.cluster.cluster.x-k8s.io/",
        Hook::AfterWorkersUpgrade => "after-workers.hook.cluster.cluster.x-k8s.io/",
        Hook::AfterClusterUpgrade => "after-upgrade.hook.cluster.cluster.x-k8s.io/",
        Hook::BeforeClusterDelete => "before-delete.hook.cluster.cluster.x-k8s.io/",
        _ => return None,
    })
}

/// Returns true if a hook is due only while it is pending.
fn follows_a_begin(hook: Hook) -> bool {
    OF_A_STEP.contains(&hook)
        || matches!(hook, Hook::AfterClusterUpgrade | Hook::AfterControlPlaneInitialized)
}

/// Answer of the servers of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cluster_topology) enum Answer {
    /// They hold nothing up.
    Agreed,
    /// One of them holds the Cluster up: the message, and the time until the next call.
    Waits(String, Duration),
}

/// Extension servers in a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Servers {
    /// Hooks with handlers.
    pub hooks: BTreeSet<Hook>,
    /// Answers that are known in this pass.
    pub answers: BTreeMap<Hook, Answer>,
}

/// Hooks of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Hooks {
    annotations: Vec<String>,
    /// Names in the annotation of pending hooks. Names of others stay.
    pending: BTreeSet<String>,
    /// Names of hooks that become pending by what begins in this pass.
    begun: BTreeSet<String>,
    servers: Servers,
    /// Hooks that hold up this pass, with the reason; an empty one if the server has given none.
    pub blocking: Vec<(Hook, String)>,
    /// Time until the next call of a server that holds up this pass.
    retry: Option<Duration>,
    due: Option<Hook>,
}

impl Hooks {
    /// Reads the annotations of a Cluster. No servers are known.
    pub(in crate::cluster_topology) fn of(cluster: &Cluster) -> Self {
        Self::with(cluster, Servers::default())
    }

    /// Reads the annotations of a Cluster that has these servers.
    pub(in crate::cluster_topology) fn with(cluster: &Cluster, servers: Servers) -> Self {
        let pending = cluster.annotations().get(PENDING_HOOKS).map(String::as_str).unwrap_or_default();
        Self {
            annotations: cluster.annotations().keys().cloned().collect(),
            pending: pending.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            servers,
            ..Self::default()
        }
    }

    /// Returns true if a hook blocks, and notes it. A hook that does not block is no longer pending. While a hook is due, all
    /// block: nothing may begin, and nothing ends.
    pub(in crate::cluster_topology) fn blocks(&mut self, hook: Hook) -> bool {
        if follows_a_begin(hook) && !self.is_pending(hook) {
            return false;
        }
        if self.due.is_some() {
            return true;
        }
        let blocks = match self.annotated(hook) {
            Some(message) => self.note(hook, message),
            None => self.is_served(hook) && self.waits_for_servers(hook),
        };
        if !blocks {
            self.pending.remove(&hook.name());
            self.begun.remove(&hook.name());
        }
        blocks
    }

    /// Returns the hook whose servers are to be called before the next decision.
    pub(in crate::cluster_topology) const fn due(&self) -> Option<Hook> {
        self.due
    }

    /// Returns true if no hook blocks.
    pub(in crate::cluster_topology) const fn is_free(&self) -> bool {
        self.blocking.is_empty() && self.due.is_none()
    }

    /// Returns the time until the next call of a server that blocks; `None` if no server does.
    pub(in crate::cluster_topology) const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Reports whether a hook is to come.
    pub(in crate::cluster_topology) fn is_pending(&self, hook: Hook) -> bool {
        self.pending.contains(&hook.name()) || self.begun.contains(&hook.name())
    }

    /// Returns the reason for which annotations block a hook.
    fn annotated(&self, hook: Hook) -> Option<String> {
        let prefix = prefix(hook)?;
        let found: Vec<&str> =
            self.annotations.iter().filter(|key| key.starts_with(prefix)).map(String::as_str).collect();
        match found.as_slice() {
            [] => None,
            [one] => Some(format!("annotation {one} is set")),
            several => Some(format!("annotations {} are set", several.join(", "))),
        }
    }

    /// Returns true if the servers of a hook count in this pass. Those that agreed to an upgrade are not called for its begin
    /// again.
    fn is_served(&self, hook: Hook) -> bool {
        let has_begun = hook == Hook::BeforeClusterUpgrade && self.is_pending(Hook::AfterClusterUpgrade);
        self.servers.hooks.contains(&hook) && !has_begun
    }

    /// Returns true if the servers of a hook block it, or have not answered.
    fn waits_for_servers(&mut self, hook: Hook) -> bool {
        match self.servers.answers.get(&hook).cloned() {
            Some(Answer::Agreed) => false,
            Some(Answer::Waits(message, rest)) => {
                self.retry = Some(self.retry.map_or(rest, |known| known.min(rest)));
                self.note(hook, message)
            }
            None => {
                self.due = Some(hook);
                true
            }
        }
    }

    /// Notes that a hook blocks. Returns true.
    fn note(&mut self, hook: Hook, message: String) -> bool {
        if !self.blocking.iter().any(|(known, _)| *known == hook) {
            self.blocking.push((hook, message));
        }
        true
    }

    /// Marks the hook that follows the creation of the objects, if it has servers. Without them, a Cluster has no such
    /// annotation, as upstream without its feature gate for servers.
    pub(in crate::cluster_topology) fn begin_creation(&mut self) {
        let hook = Hook::AfterControlPlaneInitialized;
        if self.servers.hooks.contains(&hook) {
            self.begun.insert(hook.name());
        }
    }

    /// Marks the end of an upgrade to whose begin servers have agreed. They are not called for it again.
    pub(in crate::cluster_topology) fn begin_upgrade(&mut self) {
        if self.servers.answers.get(&Hook::BeforeClusterUpgrade) == Some(&Answer::Agreed) {
            self.pending.insert(Hook::AfterClusterUpgrade.name());
        }
    }

    /// Marks the hooks that follow the begin of a step of an upgrade.
    pub(in crate::cluster_topology) fn begin_step(&mut self, with_workers: bool) {
        let workers: &[Hook] = &[Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade];
        let always = [Hook::AfterControlPlaneUpgrade, Hook::AfterClusterUpgrade];
        self.begun.extend(always.iter().map(|hook| hook.name()));
        if with_workers {
            self.begun.extend(workers.iter().map(|hook| hook.name()));
        }
    }

    /// Removes the marks of a step that was announced, and did not begin.
    pub(in crate::cluster_topology) fn forget_step(&mut self) {
        for hook in OF_A_STEP {
            self.pending.remove(&hook.name());
        }
    }

    /// Removes the marks of workers that do not take part in a step, if they have not begun with it.
    pub(in crate::cluster_topology) fn forget_workers(&mut self) {
        if self.pending.remove(&Hook::BeforeWorkersUpgrade.name()) {
            self.pending.remove(&Hook::AfterWorkersUpgrade.name());
        }
    }

    /// Returns the value of the annotation; `None` if it is to be removed.
    pub(in crate::cluster_topology) fn pending(&self) -> Option<String> {
        joined(self.pending.union(&self.begun))
    }

    /// Returns the value of the annotation before anything begins: hooks that do not block any more are left out.
    pub(in crate::cluster_topology) fn pending_before(&self) -> Option<String> {
        joined(self.pending.iter())
    }

    /// Returns the blocking hooks as in a condition.
    pub(in crate::cluster_topology) fn text(&self) -> String {
        let line = |(hook, message): &(Hook, String)| match message.is_empty() {
            true => hook.name(),
            false => format!("{hook}: {message}"),
        };
        self.blocking.iter().map(line).collect::<Vec<_>>().join("; ")
    }
}

fn joined<'a>(names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<&str> = names.map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(","))
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
