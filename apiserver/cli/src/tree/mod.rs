//! Tree of a cluster: a pure function from its objects.

mod condense;
mod infrastructure;
mod machine;
mod node;
mod operation;
mod sets;
mod severity;

use std::collections::BTreeSet;

use apiserver_types::{Condition, Machine};
use kube::ResourceExt;

pub use node::{Cause, Counts, Node};
pub use severity::Severity;

pub(crate) use severity::is_steady;

use crate::objects::ClusterObjects;

/// Label of Machines that are part of the control plane.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Tree of a cluster, with the Cluster as its root.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The Cluster.
    pub root: Node,
}

/// Failed object that no failed object below it explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Kind and name of the object, or of the Machine that it belongs to.
    pub subject: String,
    /// Reason for which the object failed.
    pub cause: Cause,
}

impl Tree {
    /// Creates the tree of a cluster's objects, with every object.
    #[must_use]
    pub fn of(objects: &ClusterObjects) -> Self {
        let mut root = infrastructure::cluster(&objects.cluster);
        let (cluster, spec) = (&objects.cluster, &objects.cluster.spec);
        let network = objects.infrastructure.as_ref().map(infrastructure::openstack_cluster);
        let absent = |reference, kind| infrastructure::referenced(cluster, reference, kind);
        root.children
            .extend(network.or_else(|| absent(spec.infrastructure_ref.as_ref(), "InfrastructureReady")));
        let plane = objects.control_plane.as_ref().map(|plane| sets::control_plane(plane, objects));
        root.children
            .extend(plane.or_else(|| absent(spec.control_plane_ref.as_ref(), "ControlPlaneAvailable")));
        root.children.extend(objects.deployments.iter().map(|it| sets::deployment(it, objects)));
        let sets = objects.sets.iter().filter(|set| !is_placed(set.owner_references(), &root));
        let sets: Vec<Node> = sets.map(|set| sets::machine_set(set, objects)).collect();
        root.children.extend(sets);
        let machines = alone(objects, &root);
        root.children.extend(machines);
        let machines: BTreeSet<String> = objects.machines.iter().map(ResourceExt::name_any).collect();
        let operations = objects.operations.iter().filter(|it| machines.contains(&it.spec.machine_name));
        root.children.extend(operations.filter_map(operation::operation));
        count_machines(&mut root);
        explain_root(&mut root);
        Self { root }
    }

    /// Returns the short form: healthy details are left out, and Machines that are alike share a line.
    #[must_use]
    pub fn condensed(&self) -> Self {
        Self { root: condense::condense(self.root.clone()) }
    }

    /// Returns true if the Available condition of the Cluster is True and no change is in flight.
    #[must_use]
    pub fn is_available(&self) -> bool {
        self.root.condition("Available").is_some_and(Condition::holds) && self.root.severity == Severity::Done
    }

    /// Returns the failed objects that are the deepest, in the order of the tree.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        collect_problems(&self.root, None, &mut problems);
        problems
    }
}

/// Returns the Machines that no node of the tree shows, with those of the control plane first.
fn alone(objects: &ClusterObjects, root: &Node) -> Vec<Node> {
    let shown: BTreeSet<String> =
        root.walk().into_iter().filter(|it| it.kind == "Machine").map(|it| it.name.clone()).collect();
    let mut machines: Vec<&Machine> =
        objects.machines.iter().filter(|it| !shown.contains(&it.name_any())).collect();
    machines.sort_by_key(|it| (!it.labels().contains_key(CONTROL_PLANE_LABEL), it.name_any()));
    machines.into_iter().map(|it| machine::machine(it, objects)).collect()
}

/// Returns true if one of the owners is in the tree.
fn is_placed(owners: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference], root: &Node) -> bool {
    owners.iter().any(|owner| root.children.iter().any(|it| it.kind == owner.kind && it.name == owner.name))
}

/// Counts the Machines in the tree if the status of the Cluster has no numbers.
fn count_machines(root: &mut Node) {
    if root.counts.is_some_and(|counts| counts.desired > 0) {
        return;
    }
    let nodes = root.walk();
    let machines = nodes.iter().filter(|node| node.kind == "Machine");
    let ready = machines.clone().filter(|machine| machine.holds("Ready")).count();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    root.counts = Some(Counts { ready: count(ready), desired: count(machines.count()) });
}

/// Replaces the message of the Cluster, which repeats those of other objects, by the first object that explains it.
fn explain_root(root: &mut Node) {
    if matches!(root.severity, Severity::Done) || root.state == "Paused" {
        return;
    }
    let mut problems = Vec::new();
    collect_problems(root, None, &mut problems);
    let problem = problems.iter().find(|problem| problem.kind != "Cluster");
    if let Some(problem) = problem {
        let (subject, reason) = (&problem.subject, problem.cause.brief());
        root.cause = Some(Cause { reason: String::new(), message: format!("{subject}: {reason}") });
        return;
    }
    let Some((node, cause)) = first_open(root).and_then(|node| Some((node, node.cause.as_ref()?))) else {
        return;
    };
    let message = format!("{} {}: {}", node.kind, node.name, cause.brief());
    root.cause = Some(Cause { reason: String::new(), message });
}

/// Returns the object that explains best why the Cluster is not as desired: the deepest one with a change in flight or
/// an unknown state, else the first one that waits.
fn first_open(root: &Node) -> Option<&Node> {
    let is_open = |node: &&Node| {
        node.severity != Severity::Done && node.kind != "MachineOperation" && node.cause.is_some()
    };
    let is_active = |node: &&Node| is_open(node) && node.severity > Severity::Waiting;
    let nodes = || root.walk().into_iter().skip(1);
    let deepest = |node: &&Node| !node.walk().into_iter().skip(1).any(|below| is_active(&below));
    nodes().filter(is_active).find(deepest).or_else(|| nodes().find(is_open))
}

fn collect_problems(node: &Node, machine: Option<&Node>, problems: &mut Vec<Problem>) {
    let before = problems.len();
    let machine = if node.kind == "Machine" { Some(node) } else { machine };
    for child in &node.children {
        collect_problems(child, machine, problems);
    }
    if node.severity == Severity::Failed && problems.len() == before {
        let subject = machine.unwrap_or(node);
        let unexplained = || Cause { reason: node.state.clone(), message: String::new() };
        problems.push(Problem {
            kind: node.kind.clone(),
            namespace: node.namespace.clone(),
            name: node.name.clone(),
            subject: format!("{} {}", subject.kind, subject.name),
            cause: node.cause.clone().unwrap_or_else(unexplained),
        });
    }
}
