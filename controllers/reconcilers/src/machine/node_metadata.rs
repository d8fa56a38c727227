//! Labels, annotations and taints that a Machine passes on to its Node.

use std::collections::BTreeMap;

use apiserver_types::node_labels::{NODE_LABELS, NodeLabels};
use apiserver_types::{Machine, MachineTaint, TaintPropagation};
use controllers_workload::drain;
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::observe::Observed;
use crate::machine_labels::REVISION;
use crate::ownership;

/// Annotation with the keys of the labels that came from the Machine.
const LABELS_FROM_MACHINE: &str = "cluster.x-k8s.io/labels-from-machine";
/// Annotation with the keys of the annotations that came from the Machine.
const ANNOTATIONS_FROM_MACHINE: &str = "cluster.x-k8s.io/annotations-from-machine";
/// Annotation with the taints that came from the Machine, as `key:effect`.
const TAINTS_FROM_MACHINE: &str = "cluster.x-k8s.io/taints-from-machine";
/// Taint that keeps pods away until the labels are there.
const UNINITIALIZED: (&str, &str) = ("node.cluster.x-k8s.io/uninitialized", "NoSchedule");
/// Taint of a Node whose MachineSet is not the current one of its MachineDeployment.
const OUTDATED: (&str, &str) = ("node.cluster.x-k8s.io/outdated-revision", "PreferNoSchedule");

/// Label of a Node whose server the cloud may stop at any time.
const INTERRUPTIBLE: &str = "cluster.x-k8s.io/interruptible";

/// Annotations that every Node has, whatever the Machine says.
const CONSTANT: [&str; 5] = [
    "cluster.x-k8s.io/cluster-name",
    "cluster.x-k8s.io/cluster-namespace",
    "cluster.x-k8s.io/machine",
    "cluster.x-k8s.io/owner-kind",
    "cluster.x-k8s.io/owner-name",
];

/// Returns the merge patch that brings a Node to what its Machine wants; `None` if the Node has it.
pub(super) fn patch(machine: &Machine, observed: &Observed, node: &Node) -> Option<Value> {
    let settings = &observed.settings;
    let listed = listed(observed);
    let mut labels = passed_on(machine.labels(), |key| {
        label_is_passed_on(key) || listed.matches(key) || settings.node_labels.matches(key)
    });
    if is_interruptible(machine, observed) {
        labels.insert(INTERRUPTIBLE.to_owned(), String::new());
    }
    let annotations = passed_on(machine.annotations(), |key| {
        annotation_is_passed_on(key) || (settings.node_annotations.matches(key) && !is_own(key))
    });
    let mut wanted = constant(machine);
    wanted.insert(LABELS_FROM_MACHINE.to_owned(), keys(&labels));
    wanted.insert(ANNOTATIONS_FROM_MACHINE.to_owned(), keys(&annotations));
    wanted.insert(TAINTS_FROM_MACHINE.to_owned(), always_taints(machine));
    wanted.extend(annotations);
    let label_changes = changes(node.labels(), &labels, &tracked(node, LABELS_FROM_MACHINE));
    let mut owned = tracked(node, ANNOTATIONS_FROM_MACHINE);
    owned.extend(CONSTANT.map(str::to_owned));
    let annotation_changes = changes(node.annotations(), &wanted, &owned);
    let present = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let taints = taints(machine, observed, node, &present);
    if label_changes.is_empty() && annotation_changes.is_empty() && taints == present {
        return None;
    }
    let mut patch = json!({"metadata": {
        "resourceVersion": node.resource_version(), "uid": node.uid(),
        "labels": label_changes, "annotations": annotation_changes,
    }});
    if taints != present {
        patch["spec"] = json!({ "taints": taints });
    }
    Some(patch)
}

/// Returns the labels that the Cluster lists for its Nodes. A list that cannot be used counts as absent.
fn listed(observed: &Observed) -> NodeLabels {
    let list = observed.cluster.as_ref().and_then(|cluster| cluster.annotations().get(NODE_LABELS));
    list.and_then(|list| NodeLabels::parse(list).ok()).unwrap_or_default()
}

/// Reports whether the cloud may stop the server at any time: its flavor says so, or the Machine has the label. The API
/// of OpenStackMachines has no `status.interruptible`, from which other providers' Machines take it.
fn is_interruptible(machine: &Machine, observed: &Observed) -> bool {
    let server = observed.infrastructure.as_ref();
    let flavor = server.map(|server| &server.spec.flavor).and_then(|flavor| {
        let name = || flavor.filter.as_ref()?.name.as_deref();
        flavor.id.as_deref().or_else(name)
    });
    machine.labels().contains_key(INTERRUPTIBLE)
        || flavor.is_some_and(|flavor| observed.settings.interruptible_flavors.matches(flavor))
}

/// Reports whether a write gave the Node the label of interruptible servers.
pub(super) fn became_interruptible(before: &Node, after: &Node) -> bool {
    let has = |node: &Node| node.labels().contains_key(INTERRUPTIBLE);
    has(after) && !has(before)
}

/// Reports whether a Machine wrote to the Node before.
pub(super) fn is_written(node: &Node) -> bool {
    node.annotations().contains_key(TAINTS_FROM_MACHINE)
}

/// Returns the name of another Machine of the namespace, if it is the one that wrote to the Node.
pub(super) fn other_machine(node: &Node, machine: &Machine) -> Option<String> {
    let [_, namespace, name, ..] = CONSTANT.map(|key| node.annotations().get(key));
    let is_other = namespace == machine.metadata.namespace.as_ref() && name != machine.metadata.name.as_ref();
    name.filter(|_| is_other).cloned()
}

/// Reports whether the domain of a key is `domain` or one of its sub-domains.
fn within(key: &str, domain: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    prefix == domain || prefix.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn label_is_passed_on(key: &str) -> bool {
    key.starts_with("node-role.kubernetes.io/")
        || within(key, "node-restriction.kubernetes.io")
        || within(key, "node.cluster.x-k8s.io")
}

fn annotation_is_passed_on(key: &str) -> bool {
    within(key, "node.cluster.x-k8s.io")
}

/// Reports whether Capstan itself writes an annotation, so that no expression of the operator may.
fn is_own(key: &str) -> bool {
    CONSTANT.contains(&key)
        || [LABELS_FROM_MACHINE, ANNOTATIONS_FROM_MACHINE, TAINTS_FROM_MACHINE].contains(&key)
}

fn passed_on(from: &BTreeMap<String, String>, filter: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    from.iter().filter(|(key, _)| filter(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn constant(machine: &Machine) -> BTreeMap<String, String> {
    let owner = ownership::controller_of(machine);
    let values = [
        Some(machine.spec.cluster_name.clone()),
        machine.namespace(),
        Some(machine.name_any()),
        owner.map(|owner| owner.kind.clone()),
        owner.map(|owner| owner.name.clone()),
    ];
    let pairs = CONSTANT.iter().zip(values);
    pairs.filter_map(|(key, value)| Some(((*key).to_owned(), value?))).collect()
}

fn keys(map: &BTreeMap<String, String>) -> String {
    map.keys().cloned().collect::<Vec<_>>().join(",")
}

fn tracked(node: &Node, annotation: &str) -> Vec<String> {
    let list = node.annotations().get(annotation).map(String::as_str).unwrap_or_default();
    list.split(',').filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// Returns the entries to set, and as `null` those to remove: owned ones that are no longer wanted.
fn changes(
    present: &BTreeMap<String, String>,
    wanted: &BTreeMap<String, String>,
    owned: &[String],
) -> Map<String, Value> {
    let set = wanted.iter().filter(|(key, value)| present.get(*key) != Some(value));
    let set = set.map(|(key, value)| (key.clone(), Value::from(value.clone())));
    let removed = owned.iter().filter(|key| present.contains_key(*key) && !wanted.contains_key(*key));
    set.chain(removed.map(|key| (key.clone(), Value::Null))).collect()
}

fn is(taint: &Taint, (key, effect): (&str, &str)) -> bool {
    taint.key == key && taint.effect == effect
}

fn identity(taint: &MachineTaint) -> String {
    format!("{}:{:?}", taint.key, taint.effect)
}

fn always_taints(machine: &Machine) -> String {
    let taints = machine.spec.taints.iter().flatten();
    let mut names: Vec<String> =
        taints.filter(|taint| taint.propagation == TaintPropagation::Always).map(identity).collect();
    names.sort();
    names.join(",")
}

fn taints(machine: &Machine, observed: &Observed, node: &Node, present: &[Taint]) -> Vec<Taint> {
    let first_pass = !is_written(node);
    let (outdated, known) = (is_outdated(observed), tracked(node, TAINTS_FROM_MACHINE));
    let wanted: Vec<&MachineTaint> = machine.spec.taints.iter().flatten().collect();
    let reports = !drain::is_unreachable(node);
    let kept = |taint: &&Taint| {
        let name = format!("{}:{}", taint.key, taint.effect);
        // One that is for the initialization by now belongs to the user.
        let is_old = known.contains(&name) || (reports && drain::is_own_taint(taint));
        let dropped = is_old && !wanted.iter().any(|wish| identity(wish) == name);
        !is(taint, UNINITIALIZED) && (outdated || !is(taint, OUTDATED)) && !dropped
    };
    let mut taints: Vec<Taint> = present.iter().filter(kept).cloned().collect();
    if outdated && !taints.iter().any(|taint| is(taint, OUTDATED)) {
        taints.push(taint(OUTDATED.0, OUTDATED.1.to_owned(), None));
    }
    for wish in wanted.iter().filter(|it| it.propagation == TaintPropagation::Always || first_pass) {
        let effect = format!("{:?}", wish.effect);
        match taints.iter_mut().find(|taint| is(taint, (&wish.key, &effect))) {
            Some(found) => found.value = wish.value.clone(),
            None => taints.push(taint(&wish.key, effect, wish.value.clone())),
        }
    }
    taints
}

fn taint(key: &str, effect: String, value: Option<String>) -> Taint {
    Taint { key: key.to_owned(), effect, value, time_added: None }
}

/// Reports whether the MachineSet has a lower revision than its MachineDeployment.
fn is_outdated(observed: &Observed) -> bool {
    let revision = |annotations: &BTreeMap<String, String>| annotations.get(REVISION)?.parse::<u64>().ok();
    let (Some(set), Some(deployment)) = (&observed.set, &observed.deployment) else { return false };
    revision(set.annotations()) < revision(deployment.annotations())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apiserver_types::{Cluster, ClusterSpec, MachineSpec, OpenStackMachine, TaintEffect};
    use controllers_runtime::{ControllerSettings, Patterns};

    use super::*;

    fn machine() -> Machine {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.namespace = Some("n".to_owned());
        machine.spec.cluster_name = "c".to_owned();
        let labels = [
            "node-role.kubernetes.io/gpu",
            "x.node.cluster.x-k8s.io/pool",
            "team",
            "anode.cluster.x-k8s.io/x",
        ];
        machine.labels_mut().extend(labels.map(|key| (key.to_owned(), "v".to_owned())));
        machine
    }

    fn node(taints: &[(&str, &str)]) -> Node {
        let mut node = Node::default();
        let taints = taints.iter().map(|(key, effect)| taint(key, (*effect).to_owned(), None));
        node.spec.get_or_insert_default().taints = Some(taints.collect());
        node
    }

    fn applied(node: &Node, patch: &Value) -> Node {
        let mut tree = serde_json::to_value(node).unwrap();
        merge(&mut tree, patch);
        serde_json::from_value(tree).unwrap()
    }

    fn merge(tree: &mut Value, patch: &Value) {
        let Value::Object(entries) = patch else {
            *tree = patch.clone();
            return;
        };
        if !tree.is_object() {
            *tree = json!({});
        }
        for (key, value) in entries {
            if value.is_null() {
                tree.as_object_mut().unwrap().remove(key);
            } else {
                merge(&mut tree[key.as_str()], value);
            }
        }
    }

    #[test]
    fn labels_of_the_known_domains_are_passed_on_and_removed_with_the_machines() {
        let (mut machine, observed) = (machine(), Observed::default());
        let bare = node(&[UNINITIALIZED, ("mine", "NoExecute")]);
        let first = patch(&machine, &observed, &bare).unwrap();
        let labelled = applied(&bare, &first);
        let labels: Vec<&String> = labelled.labels().keys().collect();
        assert_eq!(labels, ["node-role.kubernetes.io/gpu", "x.node.cluster.x-k8s.io/pool"]);
        assert_eq!(labelled.annotations()["cluster.x-k8s.io/machine"], "m");
        let taints = labelled.spec.as_ref().unwrap().taints.clone().unwrap();
        assert_eq!(taints.iter().map(|it| it.key.as_str()).collect::<Vec<_>>(), ["mine"]);
        assert_eq!(patch(&machine, &observed, &labelled), None, "a Node that has everything is left alone");
        machine.labels_mut().remove("node-role.kubernetes.io/gpu");
        let second = applied(&labelled, &patch(&machine, &observed, &labelled).unwrap());
        assert_eq!(second.labels().keys().collect::<Vec<_>>(), ["x.node.cluster.x-k8s.io/pool"]);
    }

    #[test]
    fn metadata_that_the_operators_expressions_match_is_passed_on_and_removed_too() {
        let all = |expression: &str| Patterns::new(&[expression.to_owned()]).unwrap();
        let settings = ControllerSettings {
            node_labels: all("^team$"),
            node_annotations: all("."),
            ..ControllerSettings::default()
        };
        let mut observed = Observed { settings: Arc::new(settings), ..Observed::default() };
        let mut machine = machine();
        let annotations =
            ["example.org/rack", "cluster.x-k8s.io/machine", LABELS_FROM_MACHINE].map(str::to_owned);
        machine.annotations_mut().extend(annotations.map(|key| (key, "v".to_owned())));
        let bare = node(&[]);
        let labelled = applied(&bare, &patch(&machine, &observed, &bare).unwrap());
        let labels = ["node-role.kubernetes.io/gpu", "team", "x.node.cluster.x-k8s.io/pool"];
        assert_eq!(labelled.labels().keys().collect::<Vec<_>>(), labels);
        assert_eq!(labelled.annotations()["example.org/rack"], "v");
        assert_eq!(labelled.annotations()["cluster.x-k8s.io/machine"], "m", "Capstan's own stays");
        assert_eq!(labelled.annotations()[LABELS_FROM_MACHINE], labels.join(","));
        assert_eq!(labelled.annotations()[ANNOTATIONS_FROM_MACHINE], "example.org/rack");
        assert_eq!(patch(&machine, &observed, &labelled), None);
        observed.settings = Arc::default();
        let reset = applied(&labelled, &patch(&machine, &observed, &labelled).unwrap());
        assert!(!reset.labels().contains_key("team"), "without the expression it is removed");
        assert!(!reset.annotations().contains_key("example.org/rack"));
    }

    #[test]
    fn labels_that_the_cluster_lists_are_passed_on_until_it_lists_them_no_more() {
        let with_list = |list: &str| {
            let mut cluster = Cluster::new("c", ClusterSpec::default());
            cluster.annotations_mut().insert(NODE_LABELS.to_owned(), list.to_owned());
            Observed { cluster: Some(cluster), ..Observed::default() }
        };
        let (machine, bare, observed) = (machine(), node(&[]), with_list("team"));
        let labelled = applied(&bare, &patch(&machine, &observed, &bare).unwrap());
        assert!(labelled.labels().contains_key("team"), "{:?}", labelled.labels());
        assert!(!labelled.labels().contains_key("anode.cluster.x-k8s.io/x"));
        assert_eq!(patch(&machine, &observed, &labelled), None);
        let other = with_list("rack");
        let reset = applied(&labelled, &patch(&machine, &other, &labelled).unwrap());
        assert!(!reset.labels().contains_key("team"), "{:?}", reset.labels());
    }

    #[test]
    fn a_node_of_an_interruptible_flavor_has_the_label() {
        let flavors = Patterns::new(&["^spot[.]".to_owned()]).unwrap();
        let settings = ControllerSettings { interruptible_flavors: flavors, ..ControllerSettings::default() };
        let of_flavor = |flavor: Value| {
            let spec = json!({"flavor": flavor, "image": {"id": "i"}});
            let server = OpenStackMachine::new("m", serde_json::from_value(spec).unwrap());
            Observed {
                infrastructure: Some(server),
                settings: Arc::new(settings.clone()),
                ..Observed::default()
            }
        };
        let (mut machine, bare) = (machine(), node(&[]));
        let written = |machine: &Machine, observed: &Observed, node: &Node| {
            applied(node, &patch(machine, observed, node).unwrap())
        };
        let spot = of_flavor(json!({"filter": {"name": "spot.small"}}));
        let labelled = written(&machine, &spot, &bare);
        assert_eq!(labelled.labels()[INTERRUPTIBLE], "");
        assert!(labelled.annotations()[LABELS_FROM_MACHINE].contains(INTERRUPTIBLE));
        assert!(became_interruptible(&bare, &labelled) && !became_interruptible(&labelled, &labelled));
        let fixed = of_flavor(json!({"id": "m1.spot.small"}));
        let unlabelled = written(&machine, &fixed, &labelled);
        assert!(!unlabelled.labels().contains_key(INTERRUPTIBLE), "it is tracked and removed");
        machine.labels_mut().insert(INTERRUPTIBLE.to_owned(), "true".to_owned());
        assert_eq!(written(&machine, &fixed, &unlabelled).labels()[INTERRUPTIBLE], "");
    }

    #[test]
    fn taints_are_kept_always_or_set_once() {
        let wish = |key: &str, propagation| MachineTaint {
            key: key.to_owned(),
            effect: TaintEffect::NoSchedule,
            propagation,
            value: Some("1".to_owned()),
        };
        let (mut machine, observed) = (machine(), Observed::default());
        machine.spec.taints = Some(vec![
            wish("always", TaintPropagation::Always),
            wish("once", TaintPropagation::OnInitialization),
        ]);
        let keys = |node: &Node| {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            taints.into_iter().map(|taint| taint.key).collect::<Vec<_>>()
        };
        let bare = node(&[]);
        let mut tainted = applied(&bare, &patch(&machine, &observed, &bare).unwrap());
        assert_eq!(keys(&tainted), ["always", "once"]);
        tainted.spec.as_mut().unwrap().taints = None;
        let again = applied(&tainted, &patch(&machine, &observed, &tainted).unwrap());
        assert_eq!(keys(&again), ["always"], "a taint for the initialization belongs to the user afterwards");
        let mut relaxed = machine.clone();
        relaxed.spec.taints.as_mut().unwrap()[0].propagation = TaintPropagation::OnInitialization;
        let kept = applied(&again, &patch(&relaxed, &observed, &again).unwrap());
        assert_eq!(keys(&kept), ["always"], "a taint that was for always is left to the user, too");
        assert_eq!(kept.annotations()[TAINTS_FROM_MACHINE], "");
        machine.spec.taints = None;
        let dropped = applied(&again, &patch(&machine, &observed, &again).unwrap());
        assert_eq!(keys(&dropped), Vec::<String>::new());
    }
}
