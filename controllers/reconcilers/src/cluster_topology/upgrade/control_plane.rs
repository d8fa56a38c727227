//! Version of the control plane in a pass.

use super::hooks::{Hook, Hooks};
use super::plan::Plan;

/// State of the control plane at the beginning of a pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct State {
    pub version: String,
    /// No version is reported yet.
    pub is_provisioning: bool,
    /// A reported version is older than the demanded one.
    pub is_upgrading: bool,
}

/// Version of the control plane, and the state of its upgrade in this pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Decision {
    pub version: String,
    pub is_provisioning: bool,
    pub is_upgrading: bool,
    /// This pass begins a step.
    pub is_starting: bool,
    /// The version of the topology is not reached, and this pass begins no step. The object is not written then, since
    /// another change would roll out all Machines once more.
    pub is_pending: bool,
    /// It is pending only because the workers must catch up first.
    pub waits_for_workers: bool,
}

impl Decision {
    /// Returns true if the workers can be upgraded, and new ones made.
    pub(in crate::cluster_topology) const fn is_stable(&self) -> bool {
        !self.is_provisioning && !self.is_upgrading && !self.is_starting && !self.is_pending
    }
}

/// Decides on the version of the control plane. `workers_upgrading`: a Machine of a worker group has another version
/// than its group.
pub(in crate::cluster_topology) fn decide(
    current: Option<&State>,
    target: &str,
    plan: &Plan,
    workers_upgrading: bool,
    hooks: &mut Hooks,
) -> Decision {
    let Some(current) = current else {
        return Decision { version: target.to_owned(), ..Decision::default() };
    };
    let is_pending = current.version != target;
    let kept = Decision {
        version: current.version.clone(),
        is_provisioning: current.is_provisioning,
        is_upgrading: current.is_upgrading,
        is_starting: false,
        is_pending,
        waits_for_workers: false,
    };
    if current.is_provisioning || current.is_upgrading {
        return kept;
    }
    if hooks.blocks(Hook::AfterControlPlaneUpgrade) || hooks.blocks(Hook::BeforeWorkersUpgrade) {
        return kept;
    }
    if plan.workers.first() == Some(&current.version) {
        return Decision { waits_for_workers: is_pending, ..kept };
    }
    if workers_upgrading || hooks.blocks(Hook::AfterWorkersUpgrade) || !is_pending {
        return kept;
    }
    if hooks.blocks(Hook::BeforeClusterUpgrade) {
        return kept;
    }
    hooks.begin_upgrade();
    if hooks.blocks(Hook::BeforeControlPlaneUpgrade) {
        return kept;
    }
    let Some(version) = plan.control_plane.first().cloned() else { return kept };
    hooks.begin_step(plan.workers.first() == Some(&version));
    Decision { version, is_starting: true, is_pending: false, ..kept }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Cluster, ClusterSpec};
    use kube::ResourceExt;

    use super::*;
    use crate::cluster_topology::upgrade::hooks::PENDING_HOOKS;

    fn hooks(annotations: &[(&str, &str)]) -> Hooks {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        for (key, value) in annotations {
            cluster.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
        }
        Hooks::of(&cluster)
    }

    fn plan(control_plane: &[&str], workers: &[&str]) -> Plan {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        Plan { control_plane: owned(control_plane), workers: owned(workers) }
    }

    fn state(version: &str) -> State {
        State { version: version.to_owned(), ..State::default() }
    }

    /// Each case is one row of the table in the specification; a row that comes first wins.
    #[test]
    #[allow(clippy::too_many_lines, reason = "one table")]
    fn the_control_plane_takes_the_next_step_only_when_nothing_holds_it_up() {
        let hook = |hook: &str| format!("{hook}.hook.cluster.cluster.x-k8s.io/x");
        let two = plan(&["v1.32.0", "v1.33.0"], &["v1.33.0"]);
        let pending = |names: &str| (PENDING_HOOKS.to_owned(), names.to_owned());
        let annotation = |name: &str| (hook(name), String::new());
        let provisioning = State { is_provisioning: true, ..state("v1.31.0") };
        let upgrading = State { is_upgrading: true, ..state("v1.31.0") };
        let lagging = plan(&["v1.34.0"], &["v1.33.0", "v1.34.0"]);
        type Row = (
            &'static str,
            Option<State>,
            &'static str,
            Plan,
            bool,
            Vec<(String, String)>,
            (&'static str, bool, bool),
        );
        let table: Vec<Row> = vec![
            ("no control plane", None, "v1.33.0", Plan::default(), false, vec![], ("v1.33.0", false, false)),
            (
                "provisioning",
                Some(provisioning),
                "v1.33.0",
                two.clone(),
                false,
                vec![],
                ("v1.31.0", false, true),
            ),
            ("upgrading", Some(upgrading), "v1.33.0", two.clone(), false, vec![], ("v1.31.0", false, true)),
            (
                "hook after the control plane",
                Some(state("v1.32.0")),
                "v1.33.0",
                plan(&["v1.33.0"], &["v1.33.0"]),
                false,
                vec![pending("AfterControlPlaneUpgrade"), annotation("after-control-plane")],
                ("v1.32.0", false, true),
            ),
            (
                "hook before the workers",
                Some(state("v1.32.0")),
                "v1.33.0",
                plan(&["v1.33.0"], &["v1.33.0"]),
                false,
                vec![pending("BeforeWorkersUpgrade"), annotation("before-workers")],
                ("v1.32.0", false, true),
            ),
            (
                "workers are due",
                Some(state("v1.33.0")),
                "v1.34.0",
                lagging,
                false,
                vec![],
                ("v1.33.0", false, true),
            ),
            (
                "workers are upgrading",
                Some(state("v1.31.0")),
                "v1.33.0",
                two.clone(),
                true,
                vec![],
                ("v1.31.0", false, true),
            ),
            (
                "hook after the workers",
                Some(state("v1.31.0")),
                "v1.33.0",
                two.clone(),
                false,
                vec![pending("AfterWorkersUpgrade"), annotation("after-workers")],
                ("v1.31.0", false, true),
            ),
            (
                "done",
                Some(state("v1.33.0")),
                "v1.33.0",
                Plan::default(),
                false,
                vec![],
                ("v1.33.0", false, false),
            ),
            (
                "hook before the upgrade",
                Some(state("v1.31.0")),
                "v1.33.0",
                two.clone(),
                false,
                vec![annotation("before-upgrade")],
                ("v1.31.0", false, true),
            ),
            (
                "hook before the control plane",
                Some(state("v1.31.0")),
                "v1.33.0",
                two.clone(),
                false,
                vec![annotation("before-control-plane")],
                ("v1.31.0", false, true),
            ),
            ("next step", Some(state("v1.31.0")), "v1.33.0", two, false, vec![], ("v1.32.0", true, false)),
        ];
        for (case, current, target, plan, upgrading, annotations, (version, starts, pending)) in table {
            let annotations: Vec<(&str, &str)> =
                annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let found = decide(current.as_ref(), target, &plan, upgrading, &mut hooks(&annotations));
            let shown = (found.version.as_str(), found.is_starting, found.is_pending);
            assert_eq!(shown, (version, starts, pending), "{case}");
            assert_eq!(found.waits_for_workers, case == "workers are due", "{case}");
        }
    }

    #[test]
    fn a_step_announces_the_hooks_that_follow_it() {
        let mut first = hooks(&[]);
        let two = plan(&["v1.32.0", "v1.33.0"], &["v1.33.0"]);
        decide(Some(&state("v1.31.0")), "v1.33.0", &two, false, &mut first);
        assert_eq!(first.pending().as_deref(), Some("AfterClusterUpgrade,AfterControlPlaneUpgrade"));
        let mut last = hooks(&[]);
        let one = plan(&["v1.33.0"], &["v1.33.0"]);
        decide(Some(&state("v1.32.0")), "v1.33.0", &one, false, &mut last);
        let all = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
        assert_eq!(last.pending().as_deref(), Some(all));
    }
}
