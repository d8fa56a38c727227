//! Decision on the next step for an object, from the graph alone.

use super::graph::{Graph, Node, Owner, Uid};

/// Next step for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Read these owners, all absent from the graph. If all are absent from the API, delete the object.
    DeleteUnowned(Uid, Vec<Owner>),
    /// Read these owners, absent from the graph while others are present. Remove the references to those
    /// that are absent from the API.
    StrikeAbsent(Uid, Vec<Owner>),
    /// Delete the object, because its owner waits for it. Its own dependents first, if it has any.
    DeleteForOwner(Uid, bool),
    /// Let no owner wait for this object any longer, because a dependent of it waits for it, too.
    Unblock(Uid),
    /// Remove the owner from this dependent.
    Strike(Uid, Uid),
    /// Remove the finalizer of an owner that waits for nothing any more.
    RemoveFinalizer(Uid, &'static str),
}

/// Decides on the next step for `uid`; `None` is nothing.
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
    // Dependents are deleted by their own steps; here only their absence counts.
    if dependents.iter().any(|dependent| blocks(&dependent)) {
        return None;
    }
    Some(Step::RemoveFinalizer(node.uid.clone(), "foregroundDeletion"))
}

fn as_dependent(graph: &Graph, node: &Node) -> Option<Step> {
    if node.owners.is_empty() {
        return None;
    }
    let (mut absent, mut waiting, mut stays) = (Vec::new(), None, false);
    for owner in &node.owners {
        match graph.owner(node, owner) {
            None => absent.push(owner.clone()),
            Some(found) if found.waits_for_dependents() => waiting = Some(found),
            Some(_) => stays = true,
        }
    }
    match waiting {
        // It stays with another owner, so this one need not wait for it.
        Some(owner) if stays => Some(Step::Strike(node.uid.clone(), owner.uid.clone())),
        Some(_) if absent.is_empty() => Some(for_owner(graph, node)),
        None if !stays => Some(Step::DeleteUnowned(node.uid.clone(), absent)),
        _ => (!absent.is_empty()).then(|| Step::StrikeAbsent(node.uid.clone(), absent)),
    }
}

/// Decides for an object that an owner waits for, and that no other owner keeps.
fn for_owner(graph: &Graph, node: &Node) -> Step {
    let own = graph.dependents(&node.uid);
    let waits = |uid: &Uid| graph.get(uid).is_some_and(Node::waits_for_dependents);
    // A circle would wait for ever.
    if node.owners.iter().any(|owner| owner.blocks) && own.iter().any(waits) {
        return Step::Unblock(node.uid.clone());
    }
    Step::DeleteForOwner(node.uid.clone(), !own.is_empty())
}

#[cfg(test)]
mod tests {
    use kube::api::ApiResource;

    use super::*;
    use controllers_runtime::ServedKind;

    fn node(uid: &str, owners: &[(&str, bool)], finalizers: &[&str]) -> Node {
        let owner = |(uid, blocks): &(&str, bool)| Owner {
            uid: (*uid).to_owned(),
            api_version: "g/v1".to_owned(),
            kind: "Thing".to_owned(),
            name: (*uid).to_owned(),
            blocks: *blocks,
        };
        Node {
            uid: uid.to_owned(),
            name: uid.to_owned(),
            namespace: Some("ns".to_owned()),
            owners: owners.iter().map(owner).collect(),
            deleting: !finalizers.is_empty(),
            finalizers: finalizers.iter().map(|name| (*name).to_owned()).collect(),
            ..Node::default()
        }
    }

    fn step(nodes: &[Node], uid: &str) -> String {
        let resource = ApiResource {
            group: "g".to_owned(),
            version: "v2".to_owned(),
            api_version: "g/v2".to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
        };
        let versions = vec!["v2".to_owned(), "v1".to_owned()];
        let mut graph = Graph::of([ServedKind { resource, namespaced: true, versions }].into());
        nodes.iter().for_each(|node| graph.put(node.clone()));
        match next_step(&graph, uid) {
            None => "nothing".to_owned(),
            Some(Step::DeleteUnowned(uid, _)) => format!("delete {uid} if unowned"),
            Some(Step::StrikeAbsent(uid, _)) => format!("strike absent from {uid}"),
            Some(Step::DeleteForOwner(uid, first)) => {
                format!("delete {uid} for its owner, foreground {first}")
            }
            Some(Step::Unblock(uid)) => format!("unblock {uid}"),
            Some(Step::Strike(dependent, owner)) => format!("strike {owner} from {dependent}"),
            Some(Step::RemoveFinalizer(uid, name)) => format!("remove {name} from {uid}"),
        }
    }

    #[test]
    fn each_state_has_its_step() {
        let foreground = ["foregroundDeletion"];
        let table: [(&str, Vec<Node>, &str, &str); 12] = [
            ("without an owner by design", vec![node("a", &[], &[])], "a", "nothing"),
            ("its owner is there", vec![node("o", &[], &[]), node("a", &[("o", true)], &[])], "a", "nothing"),
            ("its owner is absent", vec![node("a", &[("o", true)], &[])], "a", "delete a if unowned"),
            (
                "one of two owners is absent",
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
                "its owner waits for it, and an absent one is named, too",
                vec![node("o", &[], &foreground), node("a", &[("o", true), ("p", true)], &[])],
                "a",
                "strike absent from a",
            ),
            (
                "its owner waits for it, and what it owns waits for it",
                vec![node("o", &[("a", true)], &foreground), node("a", &[("o", true)], &[])],
                "a",
                "unblock a",
            ),
            (
                "one of two owners waits, the other stays",
                vec![
                    node("o", &[], &foreground),
                    node("p", &[], &[]),
                    node("a", &[("o", true), ("p", true)], &[]),
                ],
                "a",
                "strike o from a",
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
    #[test]
    fn an_ownership_cycle_is_deleted_once_no_member_blocks_it() {
        let nodes = [node("o", &[("a", true)], &["foregroundDeletion"]), node("a", &[("o", false)], &[])];
        assert_eq!(step(&nodes, "o"), "remove foregroundDeletion from o");
        assert_eq!(step(&nodes, "a"), "delete a for its owner, foreground true");
    }

    #[test]
    fn an_owner_reference_matches_name_kind_and_namespace() {
        let case = |change: fn(&mut Node)| {
            let mut owner = node("o", &[], &[]);
            change(&mut owner);
            step(&[owner, node("a", &[("o", true)], &[])], "a")
        };
        assert_eq!(case(|_| {}), "nothing");
        assert_eq!(case(|owner| owner.namespace = None), "nothing");
        assert_eq!(case(|owner| owner.namespace = Some("other".to_owned())), "delete a if unowned");
        assert_eq!(case(|owner| owner.name = "p".to_owned()), "delete a if unowned");
        assert_eq!(case(|owner| owner.kind = 1), "delete a if unowned");
    }
}
