//! Hooks: points at which annotations of a Cluster hold up its creation, its upgrade or its deletion.

use std::collections::BTreeSet;

use apiserver_types::Cluster;
use kube::ResourceExt;

/// Annotation of a Cluster with the hooks that are to come, sorted and separated by commas. Upstream's.
pub(in crate::cluster_topology) const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Point in the life of a Cluster. Upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cluster_topology) enum Hook {
    BeforeClusterCreate,
    BeforeClusterUpgrade,
    BeforeControlPlaneUpgrade,
    AfterControlPlaneUpgrade,
    BeforeWorkersUpgrade,
    AfterWorkersUpgrade,
    AfterClusterUpgrade,
    BeforeClusterDelete,
}

/// Hooks that are due only after a step of an upgrade has begun.
const AFTER_A_BEGIN: [Hook; 4] = [
    Hook::AfterControlPlaneUpgrade,
    Hook::BeforeWorkersUpgrade,
    Hook::AfterWorkersUpgrade,
    Hook::AfterClusterUpgrade,
];

impl Hook {
    /// Returns the prefix of the annotations that block the hook. Upstream has that of `before-upgrade`.
    const fn prefix(self) -> &'static str {
        match self {
            Self::BeforeClusterCreate => "before-create.hook.cluster.cluster.x-k8s.io/",
            Self::BeforeClusterUpgrade => "before-upgrade.hook.cluster.cluster.x-k8s.io/",
            Self::BeforeControlPlaneUpgrade => "before-control-plane.hook.cluster.cluster.x-k8s.io/",
            Self::AfterControlPlaneUpgrade => "after-control-plane.hook.cluster.cluster.x-k8s.io/",
            Self::BeforeWorkersUpgrade => "before-workers.hook.cluster.cluster.x-k8s.io/",
            Self::AfterWorkersUpgrade => "after-workers.hook.cluster.cluster.x-k8s.io/",
            Self::AfterClusterUpgrade => "after-upgrade.hook.cluster.cluster.x-k8s.io/",
            Self::BeforeClusterDelete => "before-delete.hook.cluster.cluster.x-k8s.io/",
        }
    }

    /// Returns the name in conditions and in the annotation.
    pub(in crate::cluster_topology) fn name(self) -> String {
        format!("{self:?}")
    }
}

/// Hooks of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Hooks {
    annotations: Vec<String>,
    /// Names in the annotation of pending hooks. Names of others stay.
    pending: BTreeSet<String>,
    /// Hooks that hold up this pass, with the reason.
    pub blocking: Vec<(Hook, String)>,
}

impl Hooks {
    /// Reads the annotations of a Cluster.
    pub(in crate::cluster_topology) fn of(cluster: &Cluster) -> Self {
        let pending = cluster.annotations().get(PENDING_HOOKS).map(String::as_str).unwrap_or_default();
        Self {
            annotations: cluster.annotations().keys().cloned().collect(),
            pending: pending.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            blocking: Vec::new(),
        }
    }

    /// Returns true if a hook blocks, and notes it. A hook that does not block is no longer pending.
    pub(in crate::cluster_topology) fn blocks(&mut self, hook: Hook) -> bool {
        if AFTER_A_BEGIN.contains(&hook) && !self.pending.contains(&hook.name()) {
            return false;
        }
        let found = self.annotations.iter().filter(|key| key.starts_with(hook.prefix()));
        let found: Vec<&str> = found.map(String::as_str).collect();
        let message = match found.as_slice() {
            [] => {
                self.pending.remove(&hook.name());
                return false;
            }
            [one] => format!("annotation [{one}] is set"),
            several => format!("annotations [{}] are set", several.join(", ")),
        };
        if !self.blocking.iter().any(|(known, _)| *known == hook) {
            self.blocking.push((hook, message));
        }
        true
    }

    /// Marks the hooks that follow the begin of a step of an upgrade.
    pub(in crate::cluster_topology) fn begin_step(&mut self, with_workers: bool) {
        let workers: &[Hook] = &[Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade];
        let always = [Hook::AfterControlPlaneUpgrade, Hook::AfterClusterUpgrade];
        self.pending.extend(always.iter().map(|hook| hook.name()));
        if with_workers {
            self.pending.extend(workers.iter().map(|hook| hook.name()));
        }
    }

    /// Returns the value of the annotation; `None` if it is to be removed.
    pub(in crate::cluster_topology) fn pending(&self) -> Option<String> {
        let names: Vec<&str> = self.pending.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(","))
    }

    /// Returns the blocking hooks as in a condition.
    pub(in crate::cluster_topology) fn text(&self) -> String {
        let lines = self.blocking.iter().map(|(hook, message)| format!("{}: {message}", hook.name()));
        lines.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;

    use super::*;

    fn hooks(annotations: &[(&str, &str)]) -> Hooks {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        for (key, value) in annotations {
            cluster.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
        }
        Hooks::of(&cluster)
    }

    #[test]
    fn a_hook_before_something_blocks_while_its_annotations_exist() {
        let mut free = hooks(&[]);
        assert!(!free.blocks(Hook::BeforeClusterUpgrade));
        let one = "before-upgrade.hook.cluster.cluster.x-k8s.io/backup";
        let mut held = hooks(&[(one, "")]);
        assert!(held.blocks(Hook::BeforeClusterUpgrade) && held.blocks(Hook::BeforeClusterUpgrade));
        assert_eq!(held.text(), format!("BeforeClusterUpgrade: annotation [{one}] is set"));
        let other = "before-upgrade.hook.cluster.cluster.x-k8s.io/check";
        let mut twice = hooks(&[(one, ""), (other, "")]);
        assert!(twice.blocks(Hook::BeforeClusterUpgrade));
        assert_eq!(twice.text(), format!("BeforeClusterUpgrade: annotations [{one}, {other}] are set"));
    }

    #[test]
    fn a_hook_after_something_blocks_only_once_it_is_pending() {
        let annotation = "after-control-plane.hook.cluster.cluster.x-k8s.io/check";
        let mut before = hooks(&[(annotation, "")]);
        assert!(!before.blocks(Hook::AfterControlPlaneUpgrade), "no step has begun");
        before.begin_step(true);
        let all = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
        assert_eq!(before.pending().as_deref(), Some(all));
        assert!(before.blocks(Hook::AfterControlPlaneUpgrade));
        let mut passed = hooks(&[(PENDING_HOOKS, "AfterControlPlaneUpgrade,Other")]);
        assert!(!passed.blocks(Hook::AfterControlPlaneUpgrade));
        assert_eq!(passed.pending().as_deref(), Some("Other"), "of another controller");
    }
}
