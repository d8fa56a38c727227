//! The one next step for an object, from the graph alone.

use super::graph::{Graph, Node, Owner, Uid};

/// A step. `act` carries it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask for these owners, all absent from the graph; if all are gone, delete the object.
    DeleteUnowned(Uid, Vec<Owner>),
    /// Ask for these owners, absent from the graph while others are there; strike those that are gone.
    StrikeAbsent(Uid, Vec<Owner>),
    /// The owner waits for this object: delete it. With its own dependents first, if they block it.
    DeleteForOwner(Uid, bool),
    /// Strike the owner from this dependent.
    Strike(Uid, Uid),
    /// The owner has nothing left to wait for.
    RemoveFinalizer(Uid, &'static str),
}

/// What to do for `uid` next; `None` is nothing.
pub(super) fn next_step(graph: &Graph, uid: &str) -> Option<Step> {
    let node = graph.get(uid)?;
    if node.deleting { as_owner(graph, node) } else { as_dependent(graph, node) }
}

fn as_owner(graph: &Graph, node: &Node) -> Option<Step> {
    let dependents: Vec<&Node> =
        graph.dependents(&node.uid).iter().filter_map(|uid| graph.get(uid)).collect();
    if node.has_finalizer("orphan") {
        return Some(match dependents.first() {
            Some(dependent) => Step::Strike(dependent.uid.clone(), node.uid.clone()),
            None => Step::RemoveFinalizer(node.uid.clone(), "orphan"),
        });
    }
    if !node.waits_for_dependents() {
        return None;
    }
    let blocks =
        |dependent: &&&Node| dependent.owners.iter().any(|owner| owner.uid == node.uid && owner.blocks);
    // Dependents are deleted as their own turn comes; here only their absence counts.
    if dependents.iter().any(|dependent| blocks(&dependent)) {
        return None;
    }
    Some(Step::RemoveFinalizer(node.uid.clone(), "foregroundDeletion"))
}

fn as_dependent(graph: &Graph, node: &Node) -> Option<Step> {
    if node.owners.is_empty() {
        return None;
    }
    let absent: Vec<Owner> =
        node.owners.iter().filter(|owner| graph.get(&owner.uid).is_none()).cloned().collect();
    let present: Vec<&Node> = node.owners.iter().filter_map(|owner| graph.get(&owner.uid)).collect();
    if present.is_empty() {
        return Some(Step::DeleteUnowned(node.uid.clone(), absent));
    }
    let all_wait = present.iter().all(|owner| owner.waits_for_dependents());
    if all_wait && absent.is_empty() {
        let own = graph.dependents(&node.uid);
        let blocked = own.iter().filter_map(|uid| graph.get(uid));
        let blocked = blocked
            .flat_map(|dependent| &dependent.owners)
            .any(|owner| owner.uid == node.uid && owner.blocks);
        return Some(Step::DeleteForOwner(node.uid.clone(), blocked));
    }
    (!absent.is_empty()).then(|| Step::StrikeAbsent(node.uid.clone(), absent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(uid: &str, owners: &[(&str, bool)], finalizers: &[&str]) -> Node {
        let owner = |(uid, blocks): &(&str, bool)| Owner {
            uid: (*uid).to_owned(),
            blocks: *blocks,
            ..Owner::default()
        };
        Node {
            uid: uid.to_owned(),
            owners: owners.iter().map(owner).collect(),
            deleting: !finalizers.is_empty(),
            finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
            ..Node::default()
        }
    }

    fn step(nodes: &[Node], uid: &str) -> String {
        let mut graph = Graph::default();
        nodes.iter().for_each(|node| graph.put(node.clone()));
        match next_step(&graph, uid) {
            None => "nothing".to_owned(),
            Some(Step::DeleteUnowned(uid, _)) => format!("delete {uid} if unowned"),
            Some(Step::StrikeAbsent(uid, _)) => format!("strike absent from {uid}"),
            Some(Step::DeleteForOwner(uid, first)) => {
                format!("delete {uid} for its owner, foreground {first}")
            }
            Some(Step::Strike(dependent, owner)) => format!("strike {owner} from {dependent}"),
            Some(Step::RemoveFinalizer(uid, name)) => format!("remove {name} from {uid}"),
        }
    }

    #[test]
    fn each_situation_has_its_step() {
        let foreground = ["foregroundDeletion"];
        let table: [(&str, Vec<Node>, &str, &str); 10] = [
            ("nobody owns it by design", vec![node("a", &[], &[])], "a", "nothing"),
            ("its owner is there", vec![node("o", &[], &[]), node("a", &[("o", true)], &[])], "a", "nothing"),
            ("its owner is gone", vec![node("a", &[("o", true)], &[])], "a", "delete a if unowned"),
            (
                "one of two owners is gone",
                vec![node("o", &[], &[]), node("a", &[("o", true), ("p", true)], &[])],
                "a",
                "strike absent from a",
            ),
            (
                "its owner waits for it",
                vec![node("o", &[], &foreground), node("a", &[("o", true)], &[])],
                "a",
                "delete a for its owner, foreground false",
            ),
            (
                "its owner waits for it, and something blocks it in turn",
                vec![
                    node("o", &[], &foreground),
                    node("a", &[("o", true)], &[]),
                    node("b", &[("a", true)], &[]),
                ],
                "a",
                "delete a for its owner, foreground true",
            ),
            (
                "one of two owners waits",
                vec![
                    node("o", &[], &foreground),
                    node("p", &[], &[]),
                    node("a", &[("o", true), ("p", true)], &[]),
                ],
                "a",
                "nothing",
            ),
            (
                "an owner waits",
                vec![node("o", &[], &foreground), node("a", &[("o", true)], &[])],
                "o",
                "nothing",
            ),
            (
                "what is left does not block",
                vec![node("o", &[], &foreground), node("a", &[("o", false)], &[])],
                "o",
                "remove foregroundDeletion from o",
            ),
            (
                "an owner leaves its dependents",
                vec![node("o", &[], &["orphan"]), node("a", &[("o", true)], &[])],
                "o",
                "strike o from a",
            ),
        ];
        for (case, nodes, uid, expected) in table {
            assert_eq!(step(&nodes, uid), expected, "{case}");
        }
        assert_eq!(step(&[node("o", &[], &["orphan"])], "o"), "remove orphan from o");
    }
}
