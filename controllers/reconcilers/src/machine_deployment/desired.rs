//! MachineSet that a MachineDeployment wants: metadata and spec, from the template. Pure.

use std::collections::BTreeMap;

use apiserver_types::failure_domain_spread::SPREAD_FAILURE_DOMAINS;
use apiserver_types::maintenance_window::MAINTENANCE_WINDOW;
use apiserver_types::protection::PROTECTED;
use apiserver_types::rollout_settings::{
    ON_DEADLINE, PROGRESS, PROGRESS_DEADLINE, REMEDIATION_MAX_IN_FLIGHT, REMEDIATION_MAX_RETRY,
    REMEDIATION_MIN_HEALTHY_PERIOD, REMEDIATION_RETRY_PERIOD, ROLLOUT_POLICY,
};
use apiserver_types::{
    BOOTSTRAP_REVISION, CHANGED_AT, INFRASTRUCTURE_REVISION, LabelSelector, MachineDeployment, MachineSet,
    PIN_REVISIONS, TemplateMeta,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::decide::{is_on_delete, limits};
use super::template_revisions;
use crate::in_place::{ACKNOWLEDGED, MOVE_TO, RECEIVE_FROM};
use crate::machine_labels::{
    DEPLOYMENT_NAME, DESIRED_REPLICAS, DISABLE_CREATE, MAX_REPLICAS, REVISION, REVISION_HISTORY,
    TEMPLATE_HASH,
};
use crate::machine_set::spread;
use crate::{CLUSTER_NAME_LABEL, generated_names, ownership};

/// Annotations of a MachineDeployment that are not copied: they describe this object, or change with each write.
const NOT_COPIED: [&str; 24] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "cluster.x-k8s.io/conversion-data",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    BOOTSTRAP_REVISION,
    INFRASTRUCTURE_REVISION,
    PIN_REVISIONS,
    PROGRESS,
    PROGRESS_DEADLINE,
    ON_DEADLINE,
    PROTECTED,
    ROLLOUT_POLICY,
    // The sets read these from the MachineDeployment.
    REMEDIATION_MAX_IN_FLIGHT,
    REMEDIATION_MAX_RETRY,
    REMEDIATION_RETRY_PERIOD,
    REMEDIATION_MIN_HEALTHY_PERIOD,
    SPREAD_FAILURE_DOMAINS,
    MAINTENANCE_WINDOW,
    CHANGED_AT,
    // The controller alone has Machines move between sets.
    MOVE_TO,
    RECEIVE_FROM,
    ACKNOWLEDGED,
];

/// Revisions of the template: of the set that has it now, and those that this set had before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Revision {
    pub number: String,
    pub history: Option<String>,
}

/// Returns the revision of the set with the present template: above all others, and never lower than before.
pub(super) fn new_revision(new: Option<&MachineSet>, old: &[&MachineSet]) -> Revision {
    let of = |set: &MachineSet| set.annotations().get(REVISION)?.parse::<i64>().ok();
    let highest = old.iter().filter_map(|set| of(set)).max().unwrap_or_default();
    let (number, known) = (highest.saturating_add(1), new.and_then(of));
    let history = new.and_then(|new| new.annotations().get(REVISION_HISTORY).cloned());
    match known {
        Some(known) if known >= number => Revision { number: known.to_string(), history },
        Some(known) => {
            let before = history.map(|history| format!("{history},")).unwrap_or_default();
            Revision { number: number.to_string(), history: Some(format!("{before}{known}")) }
        }
        None => Revision { number: number.to_string(), history },
    }
}

/// Returns the revision that a set has.
pub(super) fn old_revision(set: &MachineSet) -> Revision {
    let annotation = |key: &str| set.annotations().get(key).cloned();
    Revision { number: annotation(REVISION).unwrap_or_default(), history: annotation(REVISION_HISTORY) }
}

/// Returns the intent of a set that does not exist yet, with a random end in its name.
pub(super) fn new_set(
    deployment: &MachineDeployment,
    end: &str,
    replicas: i64,
    revision: &Revision,
) -> Value {
    let template = json!(deployment.spec.template).to_string();
    let hash = format!("{}-{end}", generated_names::fnv32a(template.as_bytes()));
    let mut set =
        MachineSet::new(&generated_names::with_end(&deployment.name_any(), end), Default::default());
    set.spec.template.spec = deployment.spec.template.spec.clone();
    set.metadata.annotations = Some(template_revisions::recorded(deployment.annotations()));
    let mut selector = deployment.spec.selector.clone();
    let own = selector.match_labels.get_or_insert_default();
    own.insert(TEMPLATE_HASH.to_owned(), hash.clone());
    own.insert(CLUSTER_NAME_LABEL.to_owned(), deployment.spec.cluster_name.clone());
    intent(deployment, set, selector, &hash, replicas, (revision, false))
}

/// Returns the intent of an existing set. `is_old`: it has another template than the present one.
pub(super) fn existing_set(
    deployment: &MachineDeployment,
    live: &MachineSet,
    replicas: i64,
    revision: &Revision,
    is_old: bool,
) -> Value {
    // An adopted set may have no such label. Its name is unique, too.
    let hash = live.labels().get(TEMPLATE_HASH).cloned();
    let hash = hash.unwrap_or_else(|| generated_names::label_value(&live.name_any()));
    let mut set = MachineSet::new(&live.name_any(), Default::default());
    let mut spec = deployment.spec.template.spec.clone();
    let kept = &live.spec.template.spec;
    spec.version.clone_from(&kept.version);
    spec.bootstrap = kept.bootstrap.clone();
    spec.infrastructure_ref = kept.infrastructure_ref.clone();
    // The sets of a spread MachineDeployment name none, so that the end of the spread replaces no Machine.
    if !spread::is_spread(deployment) {
        spec.failure_domain.clone_from(&kept.failure_domain);
    }
    set.spec.template.spec = spec;
    set.metadata.annotations = Some(template_revisions::recorded(live.annotations()));
    // With the uid, so that a set that was deleted since is not made anew.
    set.metadata.uid.clone_from(&live.metadata.uid);
    intent(deployment, set, live.spec.selector.clone(), &hash, replicas, (revision, is_old))
}

fn intent(
    deployment: &MachineDeployment,
    mut set: MachineSet,
    selector: LabelSelector,
    hash: &str,
    replicas: i64,
    (revision, is_old): (&Revision, bool),
) -> Value {
    let labels = labels(deployment, hash);
    let spec = &deployment.spec;
    set.metadata.namespace.clone_from(&deployment.metadata.namespace);
    set.metadata.labels = Some(labels.clone());
    set.annotations_mut().extend(annotations(deployment, revision, is_old));
    set.metadata.owner_references = Some(vec![ownership::reference(deployment, true)]);
    set.spec.cluster_name.clone_from(&spec.cluster_name);
    set.spec.template.spec.cluster_name.clone_from(&spec.cluster_name);
    set.spec.replicas = Some(i32::try_from(replicas).unwrap_or(i32::MAX));
    set.spec.selector = selector;
    set.spec.deletion.clone_from(&spec.deletion);
    set.spec.machine_naming.clone_from(&spec.machine_naming);
    let annotations = spec.template.metadata.as_ref().and_then(|it| it.annotations.clone());
    set.spec.template.metadata = Some(TemplateMeta { labels: Some(labels), annotations });
    json!(set)
}

fn labels(deployment: &MachineDeployment, hash: &str) -> BTreeMap<String, String> {
    let template = deployment.spec.template.metadata.as_ref();
    let mut labels = template.and_then(|it| it.labels.clone()).unwrap_or_default();
    labels.insert(CLUSTER_NAME_LABEL.to_owned(), deployment.spec.cluster_name.clone());
    labels.insert(DEPLOYMENT_NAME.to_owned(), deployment.name_any());
    labels.insert(TEMPLATE_HASH.to_owned(), hash.to_owned());
    labels
}

fn annotations(
    deployment: &MachineDeployment,
    revision: &Revision,
    is_old: bool,
) -> BTreeMap<String, String> {
    let own = deployment.annotations().iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    let mut annotations: BTreeMap<String, String> =
        own.map(|(key, value)| (key.clone(), value.clone())).collect();
    let limits = limits(deployment);
    let is_disabled = is_old && is_on_delete(deployment);
    annotations.insert(DISABLE_CREATE.to_owned(), is_disabled.to_string());
    annotations.insert(DESIRED_REPLICAS.to_owned(), limits.replicas.to_string());
    annotations.insert(MAX_REPLICAS.to_owned(), (limits.replicas + limits.surge).to_string());
    if !revision.number.is_empty() {
        annotations.insert(REVISION.to_owned(), revision.number.clone());
    }
    annotations.extend(revision.history.clone().map(|history| (REVISION_HISTORY.to_owned(), history)));
    annotations
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineDeploymentSpec, MachineSetSpec, RolloutStrategy, RolloutStrategyType};

    use super::*;

    fn deployment() -> MachineDeployment {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.metadata.uid = Some("u".to_owned());
        deployment.metadata.namespace = Some("ns".to_owned());
        deployment.annotations_mut().insert("own".to_owned(), "1".to_owned());
        deployment.annotations_mut().insert(NOT_COPIED[0].to_owned(), "{}".to_owned());
        for key in [REVISION, MOVE_TO, RECEIVE_FROM, ACKNOWLEDGED] {
            deployment.annotations_mut().insert(key.to_owned(), "7".to_owned());
        }
        deployment.spec.cluster_name = "c".to_owned();
        deployment.spec.replicas = Some(2);
        let labels = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        deployment.spec.selector.match_labels = Some(labels.clone());
        deployment.spec.template.metadata =
            Some(TemplateMeta { labels: Some(labels), ..TemplateMeta::default() });
        deployment
    }

    fn revision(number: &str, history: Option<&str>) -> Revision {
        Revision { number: number.to_owned(), history: history.map(str::to_owned) }
    }

    /// The annotations were recorded from upstream's controller.
    #[test]
    fn a_new_set_has_a_hash_in_labels_selector_and_template() {
        let set = new_set(&deployment(), "abcde", 1, &revision("3", None));
        let hash = set["metadata"]["labels"][TEMPLATE_HASH].as_str().unwrap();
        assert!(hash.ends_with("-abcde"), "{hash}");
        assert_eq!(set["metadata"]["name"], "md-abcde");
        let labels = json!({"a": "b", CLUSTER_NAME_LABEL: "c", DEPLOYMENT_NAME: "md", TEMPLATE_HASH: hash});
        assert_eq!(set["metadata"]["labels"], labels);
        assert_eq!(set["spec"]["template"]["metadata"]["labels"], labels);
        let selector = json!({"matchLabels": {"a": "b", CLUSTER_NAME_LABEL: "c", TEMPLATE_HASH: hash}});
        assert_eq!(set["spec"]["selector"], selector);
        let annotations = json!({
            "own": "1", DISABLE_CREATE: "false", DESIRED_REPLICAS: "2", MAX_REPLICAS: "3", REVISION: "3",
        });
        assert_eq!(set["metadata"]["annotations"], annotations);
        assert_eq!(set["spec"]["replicas"], 1);
        assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "MachineDeployment");
    }

    #[test]
    fn an_existing_set_keeps_what_makes_its_machines_and_follows_the_rest() {
        let mut deployment = deployment();
        let strategy = RolloutStrategy { kind: RolloutStrategyType::OnDelete, ..RolloutStrategy::default() };
        deployment.spec.rollout.get_or_insert_default().strategy = Some(strategy);
        deployment.spec.template.spec.version = Some("v2".to_owned());
        deployment.spec.template.spec.min_ready_seconds = Some(5);
        let mut live = MachineSet::new("md-x", MachineSetSpec::default());
        live.spec.template.spec.version = Some("v1".to_owned());
        let set = existing_set(&deployment, &live, 1, &old_revision(&live), true);
        assert_eq!(set["spec"]["template"]["spec"]["version"], "v1");
        assert_eq!(set["spec"]["template"]["spec"]["minReadySeconds"], 5);
        assert_eq!(set["metadata"]["annotations"][DISABLE_CREATE], "true");
        assert_eq!(set["metadata"]["annotations"].get(REVISION), None);
        assert_eq!(set["metadata"]["labels"][TEMPLATE_HASH], "md-x", "an adopted set without the label");
        live.spec.template.spec.failure_domain = Some("az1".to_owned());
        let domain = |deployment: &MachineDeployment| {
            let set = existing_set(deployment, &live, 1, &old_revision(&live), true);
            assert_eq!(set["metadata"]["annotations"].get(SPREAD_FAILURE_DOMAINS), None);
            set["spec"]["template"]["spec"]["failureDomain"].clone()
        };
        assert_eq!(domain(&deployment), "az1");
        deployment.annotations_mut().insert(SPREAD_FAILURE_DOMAINS.to_owned(), "all".to_owned());
        assert_eq!(domain(&deployment), Value::Null, "the spread determines it");
    }

    #[test]
    fn the_revision_of_the_present_template_is_the_highest_and_the_history_keeps_the_others() {
        let set = |number: &str, history: Option<&str>| {
            let mut set = MachineSet::new("s", MachineSetSpec::default());
            set.annotations_mut().insert(REVISION.to_owned(), number.to_owned());
            let history = history.map(|history| (REVISION_HISTORY.to_owned(), history.to_owned()));
            set.annotations_mut().extend(history);
            set
        };
        let (one, two) = (set("1", None), set("2", None));
        assert_eq!(new_revision(None, &[]), revision("1", None));
        assert_eq!(new_revision(None, &[&one, &two]), revision("3", None));
        assert_eq!(new_revision(Some(&two), &[&one]), revision("2", None));
        assert_eq!(new_revision(Some(&one), &[&two]), revision("3", Some("1")), "rolled back");
        let again = set("1", Some("0"));
        assert_eq!(new_revision(Some(&again), &[&two]), revision("3", Some("0,1")));
    }
}
