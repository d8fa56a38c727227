//! Short form of a tree: what is wrong in full, what is alike in one line.

use super::node::Node;
use super::severity::Severity;

/// Number of objects that are alike, from which they share a line. Two or three lines are read faster than a group.
const FOLDED_FROM: usize = 4;

/// Number of names in the line of a group: enough to look up an example.
const NAMES_SHOWN: usize = 2;

/// Removes what repeats other lines, and folds Machines that are alike.
pub(super) fn condense(mut node: Node) -> Node {
    node.children = match node.kind.as_str() {
        "Machine" => node.children.into_iter().filter(|child| child.severity != Severity::Done).collect(),
        "MachineDeployment" => without_single_set(node.children),
        _ => node.children,
    };
    let children = std::mem::take(&mut node.children).into_iter().map(condense).collect();
    node.children = fold(children);
    node
}

/// Replaces the MachineSet by its Machines if only one has Machines. During a rollout there are two.
fn without_single_set(sets: Vec<Node>) -> Vec<Node> {
    let mut used: Vec<Node> = sets.into_iter().filter(|set| !set.children.is_empty()).collect();
    match used.pop() {
        Some(only) if used.is_empty() => only.children,
        last => used.into_iter().chain(last).collect(),
    }
}

/// Folds nodes that are alike, at the position of the first.
fn fold(nodes: Vec<Node>) -> Vec<Node> {
    let mut groups: Vec<Vec<Node>> = Vec::new();
    for node in nodes {
        let group = groups.iter_mut().find(|group| group.first().is_some_and(|first| alike(first, &node)));
        match group {
            Some(group) => group.push(node),
            None => groups.push(vec![node]),
        }
    }
    groups
        .into_iter()
        .flat_map(|group| if group.len() < FOLDED_FROM { group } else { merged(group) })
        .collect()
}

/// Returns true if the lines of two Machines, or of the objects below two Machines, differ only in names and ages.
fn alike(first: &Node, second: &Node) -> bool {
    let is_single =
        |node: &Node| !matches!(node.kind.as_str(), "Machine" | "OpenStackMachine" | "KubeadmConfig");
    if is_single(first) || first.kind != second.kind {
        return false;
    }
    let same = first.severity == second.severity
        && first.version == second.version
        && first.state == second.state
        && first.cause == second.cause
        && first.children.len() == second.children.len();
    same && first.children.iter().zip(&second.children).all(|(first, second)| alike(first, second))
}

/// Returns one node for nodes that are alike, with the oldest time, and the folded children of all.
fn merged(group: Vec<Node>) -> Vec<Node> {
    let count = group.len();
    let names: Vec<String> = group.iter().map(|node| node.name.clone()).collect();
    let since = group.iter().filter_map(|node| node.since).min();
    let mut group = group.into_iter();
    let Some(mut first) = group.next() else { return Vec::new() };
    first.children.extend(group.flat_map(|node| node.children));
    first.children = fold(first.children);
    first.title = format!("{count} {}s", first.kind);
    first.since = since;
    first.uid = String::new();
    first.conditions = Vec::new();
    let shown: Vec<&str> = names.iter().take(NAMES_SHOWN).map(String::as_str).collect();
    // The objects below Machines have the names of the Machines.
    first.note = if first.kind == "Machine" { format!("{}, …", shown.join(", ")) } else { String::new() };
    first.name = names.join(",");
    vec![first]
}
