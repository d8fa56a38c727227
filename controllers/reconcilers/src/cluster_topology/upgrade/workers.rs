//! Versions of the worker groups in a pass.

use super::control_plane;
use super::hooks::{Hook, Hooks};
use super::plan::Plan;
use crate::machine_versions::parse;

/// Worker group at the beginning of a pass, in the order of the topology.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Group {
    /// Name in the topology.
    pub topology_name: String,
    /// Name of the object; empty if there is none yet.
    pub object: String,
    /// Version of the object; `None` if there is none yet.
    pub version: Option<String>,
    /// A Machine has another version than the object.
    pub is_upgrading: bool,
    /// Annotation that defers the upgrade of this group.
    pub defers: bool,
    /// Annotation that holds the upgrade of this group and of all later ones.
    pub holds: bool,
}

/// State of a group in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::cluster_topology) enum Progress {
    /// It has the version of the topology, and so have its Machines.
    #[default]
    Done,
    /// It is made in this pass.
    Create,
    /// It is not made yet, because the control plane is not stable.
    PendingCreate,
    /// Machines are being replaced by those of its version, and it is written.
    Upgrading,
    /// This pass gives it the next version.
    Starting,
    /// It waits, and is not written.
    Pending,
    /// It waits, and its Machines still come to an earlier version.
    PendingWhileUpgrading,
    /// An annotation holds it.
    Deferred,
}

/// Version of a group, and the state of its upgrade in this pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Decision {
    pub topology_name: String,
    pub object: String,
    pub version: String,
    pub progress: Progress,
}

impl Decision {
    /// Returns true if the object is written in this pass.
    pub(in crate::cluster_topology) const fn is_written(&self) -> bool {
        matches!(self.progress, Progress::Done | Progress::Create | Progress::Upgrading | Progress::Starting)
    }
}

/// Decides on the versions of all groups. `concurrency` is the number of groups that are upgraded at the same time.
pub(in crate::cluster_topology) fn decide(
    groups: &[Group],
    target: &str,
    plan: &Plan,
    control_plane: &control_plane::Decision,
    concurrency: usize,
    hooks: &mut Hooks,
) -> Vec<Decision> {
    let mut upgrading = groups.iter().filter(|group| group.is_upgrading).count();
    let is_at_target = |group: &&Group| group.is_upgrading && group.version.as_deref() == Some(target);
    let mut coming = groups.iter().filter(is_at_target).count();
    let mut holds = false;
    let mut decisions = Vec::with_capacity(groups.len());
    for group in groups {
        holds |= group.holds;
        let (version, progress) = match &group.version {
            None => (target.to_owned(), created(control_plane, hooks)),
            Some(version) if version == target => {
                let progress = if group.is_upgrading { Progress::Upgrading } else { Progress::Done };
                (version.clone(), progress)
            }
            Some(version) if group.defers || holds => (version.clone(), Progress::Deferred),
            Some(version) => {
                // Groups that come to other versions wait neither for themselves nor for each other: another client may
                // have given them versions that no Machine can get.
                let busy = if group.is_upgrading { coming } else { upgrading };
                let goal = goal(version, target, plan, control_plane);
                let next = next(goal, version, control_plane, busy < concurrency, hooks);
                coming = coming.saturating_add(usize::from(next.is_some()));
                upgrading = upgrading.saturating_add(usize::from(next.is_some() && !group.is_upgrading));
                match next {
                    Some(next) => (next, Progress::Starting),
                    None if group.is_upgrading => (version.clone(), Progress::PendingWhileUpgrading),
                    None => (version.clone(), Progress::Pending),
                }
            }
        };
        let (topology_name, object) = (group.topology_name.clone(), group.object.clone());
        decisions.push(Decision { topology_name, object, version, progress });
    }
    decisions
}

/// Returns the state of a group without an object.
fn created(control_plane: &control_plane::Decision, hooks: &mut Hooks) -> Progress {
    let mut is_held =
        || hooks.blocks(Hook::AfterControlPlaneUpgrade) || hooks.blocks(Hook::BeforeWorkersUpgrade);
    if control_plane.is_stable() && !is_held() { Progress::Create } else { Progress::PendingCreate }
}

/// Returns the version that a group takes next, when nothing holds it up. A version above the target is none of the
/// topology: the group returns to the target as soon as the control plane has it.
fn goal<'a>(
    version: &str,
    target: &'a str,
    plan: &'a Plan,
    control_plane: &control_plane::Decision,
) -> Option<&'a str> {
    let is_above = parse(version) > parse(target);
    let planned = plan.workers.first().map(String::as_str);
    if is_above && control_plane.version == target { Some(target) } else { planned }
}

/// Returns the goal of a group, if it may take it now.
fn next(
    goal: Option<&str>,
    version: &str,
    control_plane: &control_plane::Decision,
    is_free: bool,
    hooks: &mut Hooks,
) -> Option<String> {
    // These hooks come after the control plane: a question before that would remove them from the pending ones.
    if !control_plane.is_stable() && !control_plane.waits_for_workers {
        return None;
    }
    if hooks.blocks(Hook::AfterControlPlaneUpgrade) || hooks.blocks(Hook::BeforeWorkersUpgrade) {
        return None;
    }
    goal.filter(|goal| is_free && *goal != version).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Cluster, ClusterSpec};
    use kube::ResourceExt;

    use super::*;
    use crate::cluster_topology::upgrade::hooks::PENDING_HOOKS;

    fn group(name: &str, version: Option<&str>) -> Group {
        let object = version.map(|_| format!("c-{name}")).unwrap_or_default();
        Group {
            topology_name: name.to_owned(),
            object,
            version: version.map(str::to_owned),
            ..Group::default()
        }
    }

    fn at(version: &str) -> control_plane::Decision {
        control_plane::Decision { version: version.to_owned(), ..Default::default() }
    }

    fn decided(
        groups: &[Group],
        control_plane: &control_plane::Decision,
        steps: &[&str],
        concurrency: usize,
    ) -> Vec<(String, Progress)> {
        let workers = steps.iter().map(|&text| text.to_owned()).collect();
        let plan = Plan { control_plane: Vec::new(), workers };
        let mut hooks = Hooks::of(&Cluster::new("c", ClusterSpec::default()));
        let found = decide(groups, "v1.34.0", &plan, control_plane, concurrency, &mut hooks);
        found.into_iter().map(|it| (it.version, it.progress)).collect()
    }

    /// Each case is one row of the table in the specification.
    #[test]
    #[allow(clippy::too_many_lines, reason = "one table")]
    fn a_group_takes_the_next_version_only_when_nothing_holds_it_up() {
        use Progress::{
            Create, Deferred, Done, Pending, PendingCreate, PendingWhileUpgrading, Starting, Upgrading,
        };
        let stable = at("v1.34.0");
        let (mut pending, mut waits) = (at("v1.33.0"), at("v1.33.0"));
        pending.is_pending = true;
        (waits.is_pending, waits.waits_for_workers) = (true, true);
        let starting = control_plane::Decision { is_starting: true, ..at("v1.34.0") };
        let rolling = |name: &str, version: &str| Group { is_upgrading: true, ..group(name, Some(version)) };
        let old = || group("a", Some("v1.33.0"));
        let deferred = Group { defers: true, ..old() };
        let held = Group { holds: true, ..old() };
        let done_and_held = Group { holds: true, ..group("a", Some("v1.34.0")) };
        type Row<'a> =
            (&'a str, Vec<Group>, &'a control_plane::Decision, &'a [&'a str], Vec<(&'a str, Progress)>);
        let last: &[&str] = &["v1.34.0"];
        let table: Vec<Row<'_>> = vec![
            ("new, stable", vec![group("a", None)], &stable, &[], vec![("v1.34.0", Create)]),
            ("new, not stable", vec![group("a", None)], &starting, last, vec![("v1.34.0", PendingCreate)]),
            (
                "new, control plane waits",
                vec![group("a", None)],
                &waits,
                last,
                vec![("v1.34.0", PendingCreate)],
            ),
            ("done", vec![group("a", Some("v1.34.0"))], &stable, &[], vec![("v1.34.0", Done)]),
            ("rolls out", vec![rolling("a", "v1.34.0")], &stable, &[], vec![("v1.34.0", Upgrading)]),
            ("deferred", vec![deferred], &stable, last, vec![("v1.33.0", Deferred)]),
            (
                "held, and all later ones",
                vec![held, group("b", Some("v1.33.0"))],
                &stable,
                last,
                vec![("v1.33.0", Deferred), ("v1.33.0", Deferred)],
            ),
            (
                "later ones are held by one that is done",
                vec![done_and_held, group("b", Some("v1.33.0"))],
                &stable,
                last,
                vec![("v1.34.0", Done), ("v1.33.0", Deferred)],
            ),
            (
                "another one is upgrading",
                vec![rolling("b", "v1.34.0"), old()],
                &stable,
                last,
                vec![("v1.34.0", Upgrading), ("v1.33.0", Pending)],
            ),
            (
                "another client gave it an older version",
                vec![rolling("a", "v1.32.0")],
                &stable,
                last,
                vec![("v1.34.0", Starting)],
            ),
            (
                "another client gave it a newer version",
                vec![rolling("a", "v1.35.0")],
                &stable,
                &[],
                vec![("v1.34.0", Starting)],
            ),
            (
                "a newer version waits for the control plane",
                vec![rolling("a", "v1.35.0")],
                &starting,
                last,
                vec![("v1.35.0", PendingWhileUpgrading)],
            ),
            (
                "it counts for the groups after it",
                vec![rolling("a", "v1.32.0"), old()],
                &stable,
                last,
                vec![("v1.34.0", Starting), ("v1.33.0", Pending)],
            ),
            (
                "another client gave several of them an older version",
                vec![rolling("a", "v1.32.0"), rolling("b", "v1.32.0")],
                &stable,
                last,
                vec![("v1.34.0", Starting), ("v1.32.0", PendingWhileUpgrading)],
            ),
            (
                "it waits for one that comes to the target",
                vec![rolling("a", "v1.32.0"), rolling("b", "v1.34.0")],
                &stable,
                last,
                vec![("v1.32.0", PendingWhileUpgrading), ("v1.34.0", Upgrading)],
            ),
            ("control plane pending", vec![old()], &pending, last, vec![("v1.33.0", Pending)]),
            ("control plane starts", vec![old()], &starting, last, vec![("v1.33.0", Pending)]),
            (
                "has the next version",
                vec![old()],
                &waits,
                &["v1.33.0", "v1.34.0"],
                vec![("v1.33.0", Pending)],
            ),
            (
                "comes to an earlier version",
                vec![rolling("a", "v1.33.0")],
                &waits,
                &["v1.33.0", "v1.34.0"],
                vec![("v1.33.0", PendingWhileUpgrading)],
            ),
            (
                "one at a time, in order",
                vec![old(), group("b", Some("v1.33.0"))],
                &stable,
                last,
                vec![("v1.34.0", Starting), ("v1.33.0", Pending)],
            ),
            (
                "the control plane waits for it",
                vec![group("a", Some("v1.30.0"))],
                &waits,
                &["v1.33.0", "v1.34.0"],
                vec![("v1.33.0", Starting)],
            ),
        ];
        for (case, groups, control_plane, steps, expected) in table {
            let expected: Vec<(String, Progress)> =
                expected.into_iter().map(|(version, progress)| (version.to_owned(), progress)).collect();
            assert_eq!(decided(&groups, control_plane, steps, 1), expected, "{case}");
        }
        let both = decided(&[old(), group("b", Some("v1.33.0"))], &stable, last, 2);
        assert!(both.iter().all(|(_, progress)| *progress == Starting), "two at a time: {both:?}");
    }

    #[test]
    fn a_hook_stays_pending_while_the_control_plane_comes_to_its_version() {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let names = "AfterControlPlaneUpgrade,BeforeWorkersUpgrade";
        cluster.annotations_mut().insert(PENDING_HOOKS.to_owned(), names.to_owned());
        let plan = Plan { control_plane: Vec::new(), workers: vec!["v1.34.0".to_owned()] };
        let starting = control_plane::Decision { is_starting: true, ..at("v1.34.0") };
        let upgrading = control_plane::Decision { is_upgrading: true, ..at("v1.34.0") };
        for control_plane in [starting, upgrading] {
            let mut hooks = Hooks::of(&cluster);
            decide(&[group("a", Some("v1.33.0"))], "v1.34.0", &plan, &control_plane, 1, &mut hooks);
            assert_eq!(hooks.pending().as_deref(), Some(names), "{control_plane:?}");
        }
        let mut hooks = Hooks::of(&cluster);
        decide(&[group("a", Some("v1.33.0"))], "v1.34.0", &plan, &at("v1.34.0"), 1, &mut hooks);
        assert_eq!(hooks.pending(), None, "the control plane is done");
    }

    #[test]
    fn a_pending_hook_holds_up_all_groups() {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let annotations = cluster.annotations_mut();
        annotations.insert(PENDING_HOOKS.to_owned(), "BeforeWorkersUpgrade".to_owned());
        annotations.insert("before-workers.hook.cluster.cluster.x-k8s.io/x".to_owned(), String::new());
        let plan = Plan { control_plane: Vec::new(), workers: vec!["v1.34.0".to_owned()] };
        let groups = [group("a", Some("v1.33.0")), group("b", None)];
        let found = decide(&groups, "v1.34.0", &plan, &at("v1.34.0"), 1, &mut Hooks::of(&cluster));
        let progress: Vec<Progress> = found.iter().map(|it| it.progress).collect();
        assert_eq!(progress, [Progress::Pending, Progress::PendingCreate]);
    }
}
