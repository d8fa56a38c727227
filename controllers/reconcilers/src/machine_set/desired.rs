//! Machine that a set wants: metadata and spec, from the template.

use std::collections::BTreeMap;

use apiserver_types::{ContractVersionedObjectReference, Machine, MachineSet};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::machine_labels::{DEPLOYMENT_NAME, SET_NAME};
use crate::machine_names::Naming;
use crate::{CLUSTER_NAME_LABEL, deletion_timeouts, generated_names, in_place, ownership, templates};

/// Template of the name of a Machine, if the set has none.
const NAME: &str = "{{ .machineSet.name }}-{{ .random }}";

/// Returns the naming template of the Machines.
pub(super) fn naming(set: &MachineSet) -> Naming {
    let (cluster, own) = (set.spec.cluster_name.as_str(), set.name_any());
    let variables = [(".cluster.name", cluster), (".machineSet.name", own.as_str())];
    Naming::new(template_of_names(set), &variables)
}

/// Returns a new name with a random part for a Machine that is not among `taken`.
///
/// # Errors
/// The template of the name cannot be used. For people.
pub(super) fn name(set: &MachineSet, taken: &[String]) -> Result<String, String> {
    if template_of_names(set) == NAME {
        let own = set.name_any();
        let mut names =
            std::iter::repeat_with(|| generated_names::with_end(&own, &generated_names::random()));
        return names.find(|name| !taken.contains(name)).ok_or_else(String::new);
    }
    naming(set).random()
}

fn template_of_names(set: &MachineSet) -> &str {
    set.spec.machine_naming.as_ref().and_then(|it| it.template.as_deref()).unwrap_or(NAME)
}

/// Returns the labels of a Machine, of its server and of its bootstrap data.
pub(super) fn labels(set: &MachineSet) -> BTreeMap<String, String> {
    let template = set.spec.template.metadata.as_ref();
    let mut labels = template.and_then(|it| it.labels.clone()).unwrap_or_default();
    labels.insert(CLUSTER_NAME_LABEL.to_owned(), set.spec.cluster_name.clone());
    labels.insert(SET_NAME.to_owned(), generated_names::label_value(&set.name_any()));
    if let Some(deployment) = set.labels().get(DEPLOYMENT_NAME) {
        labels.insert(DEPLOYMENT_NAME.to_owned(), deployment.clone());
    }
    labels
}

/// Returns the annotations of a Machine, of its server and of its bootstrap data. The template marks none of them.
pub(super) fn annotations(set: &MachineSet) -> BTreeMap<String, String> {
    let template = set.spec.template.metadata.as_ref();
    in_place::without_marks(template.and_then(|it| it.annotations.clone()).unwrap_or_default())
}

/// Returns the intent of a new Machine, in this failure domain, else in that of the template.
pub(super) fn new_machine(set: &MachineSet, name: &str, domain: Option<String>) -> Value {
    let named = |template: &ContractVersionedObjectReference| ContractVersionedObjectReference {
        kind: templates::kind_of(template).to_owned(),
        name: name.to_owned(),
        api_group: template.api_group.clone(),
    };
    let mut machine = Machine::new(name, set.spec.template.spec.clone());
    machine.spec.infrastructure_ref = named(&set.spec.template.spec.infrastructure_ref);
    machine.spec.bootstrap.config_ref = set.spec.template.spec.bootstrap.config_ref.as_ref().map(named);
    machine.spec.failure_domain = domain.or(machine.spec.failure_domain);
    machine.metadata.resource_version = Some(templates::NEW_OBJECT.to_owned());
    intent(set, machine)
}

/// Returns the intent of an existing Machine. What makes a Machine another one is not changed.
pub(super) fn existing_machine(set: &MachineSet, live: &Machine) -> Value {
    let mut machine = Machine::new(&live.name_any(), set.spec.template.spec.clone());
    machine.spec.infrastructure_ref = live.spec.infrastructure_ref.clone();
    machine.spec.bootstrap.config_ref.clone_from(&live.spec.bootstrap.config_ref);
    machine.spec.version.clone_from(&live.spec.version);
    machine.spec.failure_domain.clone_from(&live.spec.failure_domain);
    // With the uid, so that a Machine that was deleted since is not made anew.
    machine.metadata.uid.clone_from(&live.metadata.uid);
    intent(set, machine)
}

/// Returns the intent of an existing Machine that is updated in place: as of any other, with the present version, and with the
/// present failure domain unless a spread has determined it.
pub(super) fn updated_machine(set: &MachineSet, live: &Machine, is_spread: bool) -> Value {
    let (mut updated, template) = (live.clone(), &set.spec.template.spec);
    updated.spec.version.clone_from(&template.version);
    if !is_spread {
        updated.spec.failure_domain.clone_from(&template.failure_domain);
    }
    existing_machine(set, &updated)
}

fn intent(set: &MachineSet, mut machine: Machine) -> Value {
    machine.spec.cluster_name.clone_from(&set.spec.cluster_name);
    machine.metadata.namespace.clone_from(&set.metadata.namespace);
    machine.metadata.labels = Some(labels(set));
    machine.metadata.annotations = Some(annotations(set));
    machine.metadata.finalizers = Some(vec![crate::machine::FINALIZER.to_owned()]);
    machine.metadata.owner_references = Some(vec![ownership::reference(set, true)]);
    json!(machine)
}

/// Returns the change of the settings of a Machine that is being deleted, if there is one. They decide on how its
/// deletion goes on.
pub(super) fn deleting_machine(set: &MachineSet, live: &Machine) -> Option<Value> {
    let (template, spec) = (&set.spec.template.spec, &live.spec);
    let wanted = deletion_timeouts::wanted(template.deletion.as_ref());
    let is_current = deletion_timeouts::is_current(live, &wanted)
        && spec.readiness_gates == template.readiness_gates
        && spec.min_ready_seconds == template.min_ready_seconds
        && spec.taints == template.taints;
    let change = || {
        json!({
            "metadata": {"uid": live.uid(), "resourceVersion": live.resource_version()},
            "spec": {
                "deletion": deletion_timeouts::patch(&wanted),
                "readinessGates": template.readiness_gates,
                "minReadySeconds": template.min_ready_seconds,
                "taints": template.taints,
            },
        })
    };
    (!is_current).then(change)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineDeletionSpec, MachineNaming, MachineSetSpec, MachineSpec, TemplateMeta};

    use super::*;

    fn set() -> MachineSet {
        let mut set = MachineSet::new("ms", MachineSetSpec::default());
        set.metadata.uid = Some("u".to_owned());
        set.metadata.namespace = Some("ns".to_owned());
        set.labels_mut().insert(DEPLOYMENT_NAME.to_owned(), "md".to_owned());
        set.spec.cluster_name = "c".to_owned();
        let reference = |kind: &str| ContractVersionedObjectReference {
            api_group: "g".to_owned(),
            kind: kind.to_owned(),
            name: "t".to_owned(),
        };
        let metadata = TemplateMeta {
            labels: Some(BTreeMap::from([("a".to_owned(), "b".to_owned())])),
            annotations: Some(BTreeMap::from([("x".to_owned(), "y".to_owned())])),
        };
        set.spec.template.metadata = Some(metadata);
        set.spec.template.spec.bootstrap.config_ref = Some(reference("KubeadmConfigTemplate"));
        set.spec.template.spec.infrastructure_ref = reference("OpenStackMachineTemplate");
        set.spec.template.spec.version = Some("v1.33.0".to_owned());
        set
    }

    #[test]
    fn a_machine_gets_labels_owner_and_references_of_its_own() {
        let machine = new_machine(&set(), "ms-abcde", None);
        let labels = json!({"a": "b", CLUSTER_NAME_LABEL: "c", SET_NAME: "ms", DEPLOYMENT_NAME: "md"});
        assert_eq!(machine["metadata"]["labels"], labels);
        assert_eq!(machine["metadata"]["annotations"], json!({"x": "y"}));
        assert_eq!(machine["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(machine["metadata"]["finalizers"], json!(["machine.cluster.x-k8s.io"]));
        let reference = |kind: &str| json!({"apiGroup": "g", "kind": kind, "name": "ms-abcde"});
        assert_eq!(machine["spec"]["infrastructureRef"], reference("OpenStackMachine"));
        assert_eq!(machine["spec"]["bootstrap"], json!({"configRef": reference("KubeadmConfig")}));
        assert_eq!(
            (&machine["apiVersion"], &machine["kind"]),
            (&json!("cluster.x-k8s.io/v1beta2"), &json!("Machine"))
        );
    }

    #[test]
    fn the_failure_domain_of_a_machine_is_that_of_the_spread_or_of_the_template_and_stays() {
        let mut set = set();
        let domain = |machine: &Value| machine["spec"]["failureDomain"].as_str().map(str::to_owned);
        assert_eq!(domain(&new_machine(&set, "m", None)), None);
        let mut spread = new_machine(&set, "m", Some("az2".to_owned()));
        assert_eq!(domain(&spread).as_deref(), Some("az2"));
        spread["metadata"]["uid"] = json!("u");
        let live: Machine = serde_json::from_value(spread).unwrap();
        assert_eq!(domain(&existing_machine(&set, &live)).as_deref(), Some("az2"));
        set.spec.template.spec.failure_domain = Some("az1".to_owned());
        assert_eq!(domain(&new_machine(&set, "m", None)).as_deref(), Some("az1"));
    }

    #[test]
    fn an_existing_machine_keeps_its_version_and_references() {
        let set = set();
        let mut live = Machine::new("m", MachineSpec::default());
        live.metadata.uid = Some("m".to_owned());
        live.spec.version = Some("v1.32.0".to_owned());
        live.spec.infrastructure_ref.name = "mine".to_owned();
        let intent = existing_machine(&set, &live);
        assert_eq!(intent["spec"]["version"], "v1.32.0");
        assert_eq!(intent["spec"]["infrastructureRef"]["name"], "mine");
        assert_eq!(intent["metadata"]["uid"], "m");
    }

    #[test]
    fn a_machine_that_is_updated_in_place_gets_version_and_failure_domain_and_keeps_its_objects() {
        let mut set = set();
        set.spec.template.spec.failure_domain = Some("az2".to_owned());
        let mut live = Machine::new("m", MachineSpec::default());
        live.metadata.uid = Some("m".to_owned());
        live.spec.version = Some("v1.32.0".to_owned());
        live.spec.failure_domain = Some("az1".to_owned());
        live.spec.infrastructure_ref.name = "mine".to_owned();
        for (is_spread, domain) in [(false, "az2"), (true, "az1")] {
            let intent = updated_machine(&set, &live, is_spread);
            assert_eq!(intent["spec"]["version"], "v1.33.0");
            assert_eq!(intent["spec"]["failureDomain"], domain);
            assert_eq!(intent["spec"]["infrastructureRef"]["name"], "mine");
            assert_eq!((&intent["metadata"]["uid"], &intent["metadata"]["name"]), (&json!("m"), &json!("m")));
        }
    }

    #[test]
    fn the_timeouts_of_a_machine_that_is_being_deleted_follow_the_template() {
        let mut set = set();
        let mut live = Machine::new("m", MachineSpec::default());
        let ten = Some(deletion_timeouts::NODE_DELETION_TIMEOUT);
        let deletion =
            MachineDeletionSpec { node_deletion_timeout_seconds: ten, ..MachineDeletionSpec::default() };
        live.spec.deletion = Some(deletion);
        assert_eq!(deleting_machine(&set, &live), None);
        let drain =
            MachineDeletionSpec { node_drain_timeout_seconds: Some(5), ..MachineDeletionSpec::default() };
        set.spec.template.spec.deletion = Some(drain);
        let change = deleting_machine(&set, &live).unwrap();
        assert_eq!(change["spec"]["deletion"]["nodeDrainTimeoutSeconds"], 5);
        assert_eq!(change["spec"]["deletion"]["nodeDeletionTimeoutSeconds"], 10);
    }

    #[test]
    fn the_set_determines_the_names_of_its_machines() {
        let mut set = set();
        assert!(name(&set, &[]).unwrap().starts_with("ms-"));
        assert!(!naming(&set).has_index());
        let template = Some("{{ .cluster.name }}-w-{{ .random }}".to_owned());
        set.spec.machine_naming = Some(MachineNaming { template });
        assert!(name(&set, &[]).unwrap().starts_with("c-w-"));
        assert!(!naming(&set).has_index());
        let template = Some("{{ .machineSet.name }}-{{ .index }}".to_owned());
        set.spec.machine_naming = Some(MachineNaming { template });
        assert!(naming(&set).has_index());
    }
}
