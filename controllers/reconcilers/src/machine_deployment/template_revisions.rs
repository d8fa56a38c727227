//! Revisions of the templates from which a MachineDeployment makes new Machines. Pure.
//!
//! The MachineDeployment and its sets have them as annotations, so that others can compare both without the templates.

use std::collections::BTreeMap;

use apiserver_types::{
    BOOTSTRAP_REVISION, ContractVersionedObjectReference, FIRST_REVISION, INFRASTRUCTURE_REVISION,
    MachineDeployment, MachineDeploymentRevision, PIN_REVISIONS, revision_annotation, template_revision,
};
use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::{kept_revisions, templates};

/// Annotations with the revisions of the templates.
pub(super) const KEYS: [&str; 2] = [BOOTSTRAP_REVISION, INFRASTRUCTURE_REVISION];

/// Template that a MachineDeployment refers to.
#[derive(Debug, Clone)]
pub(super) struct Template {
    /// Field of the reference, as [`templates::references`] names it.
    pub field: &'static str,
    pub object: DynamicObject,
}

/// Returns the annotations that a MachineDeployment lacks, or that it has to lose: their new values by key.
pub(super) fn unrecorded(
    deployment: &MachineDeployment,
    found: &[Template],
    kept: &[MachineDeploymentRevision],
) -> BTreeMap<&'static str, Option<String>> {
    let is_pinned = deployment.annotations().get(PIN_REVISIONS).is_some_and(|pin| pin == "true");
    let references: Vec<_> = templates::references(&deployment.spec.template.spec).collect();
    let mut changes = BTreeMap::new();
    for key in KEYS {
        let recorded = template_revision(deployment.annotations(), key);
        let reference = references.iter().find(|(field, _)| templates::revision_key(field) == key);
        let template = found.iter().find(|it| templates::revision_key(it.field) == key);
        let wanted = match (reference, template) {
            (None, _) => revision_annotation(1),
            // It may come back.
            (Some(_), None) => continue,
            (Some((_, reference)), Some(_)) if is_pinned && is_kept(kept, reference, recorded) => continue,
            (Some((_, reference)), Some(template))
                if is_created_again(template, kept, reference, recorded) =>
            {
                continue;
            }
            (Some(_), Some(template)) => revision_annotation(templates::revision(&template.object)),
        };
        if deployment.annotations().get(key) != wanted.as_ref() {
            changes.insert(key, wanted);
        }
    }
    changes
}

fn is_kept(
    kept: &[MachineDeploymentRevision],
    reference: &ContractVersionedObjectReference,
    number: i64,
) -> bool {
    kept_revisions::copy(kept, reference, number).is_some()
}

/// Reports whether a template was deleted and created again since its newest copy was made. Its number says nothing then,
/// so that nothing rolls. `kept` begins with the newest revision; one of another template means another reference.
fn is_created_again(
    template: &Template,
    kept: &[MachineDeploymentRevision],
    reference: &ContractVersionedObjectReference,
    recorded: i64,
) -> bool {
    let has_copy =
        |it: &MachineDeploymentRevision| kept_revisions::copy_in(it, reference, recorded).is_some();
    recorded > FIRST_REVISION
        && templates::recorded_revision(&template.object).is_none()
        && kept.first().is_some_and(has_copy)
}

/// Returns the annotations with revisions among those of an object.
pub(super) fn recorded(annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let entries = KEYS.iter().filter_map(|key| annotations.get_key_value(*key));
    entries.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        AnyObject, MachineDeploymentRevisionSpec, MachineDeploymentSpec, TEMPLATE_DIGESTS, TEMPLATE_REVISION,
    };
    use serde_json::{Value, json};

    use super::*;

    fn template(number: Option<&str>) -> Template {
        let annotations = number.map(|number| json!({TEMPLATE_REVISION: number}));
        let object = json!({
            "apiVersion": "g/v1", "kind": "KTemplate", "metadata": {"name": "t", "annotations": annotations},
        });
        Template { field: "infrastructureRef", object: serde_json::from_value(object).unwrap() }
    }

    /// Returns a template whose first content was restored by an edit.
    fn restored() -> Template {
        let mut template = template(None);
        template.object.annotations_mut().insert(TEMPLATE_DIGESTS.to_owned(), "1:a,2:b".to_owned());
        template
    }

    fn kept(number: Option<&str>) -> MachineDeploymentRevision {
        let Value::Object(copy) = json!(template(number).object) else { panic!("it is an object") };
        let spec = MachineDeploymentRevisionSpec {
            infrastructure_template: Some(AnyObject(copy)),
            ..MachineDeploymentRevisionSpec::default()
        };
        MachineDeploymentRevision { spec, ..MachineDeploymentRevision::default() }
    }

    fn deployment(annotations: &[(&str, &str)]) -> MachineDeployment {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.spec.template.spec.infrastructure_ref = ContractVersionedObjectReference {
            api_group: "g".to_owned(),
            kind: "KTemplate".to_owned(),
            name: "t".to_owned(),
        };
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        deployment.annotations_mut().extend(annotations);
        deployment
    }

    #[test]
    fn a_deployment_follows_the_newest_revision_unless_it_is_pinned_to_a_kept_one() {
        let key = INFRASTRUCTURE_REVISION;
        let set = |number: Option<&str>| BTreeMap::from([(key, number.map(str::to_owned))]);
        let pin = (PIN_REVISIONS, "true");
        let table = [
            (deployment(&[]), template(None), vec![], BTreeMap::new()),
            (deployment(&[]), template(Some("2")), vec![], set(Some("2"))),
            (deployment(&[(key, "2")]), template(Some("2")), vec![], BTreeMap::new()),
            (deployment(&[(key, "2")]), template(None), vec![], set(None)),
            // It was created again, restored, and named by another reference.
            (deployment(&[(key, "2")]), template(None), vec![kept(Some("2"))], BTreeMap::new()),
            (deployment(&[(key, "2")]), restored(), vec![kept(Some("2"))], set(None)),
            (deployment(&[(key, "2")]), template(None), vec![kept(None), kept(Some("2"))], set(None)),
            (deployment(&[pin]), template(Some("2")), vec![kept(None)], BTreeMap::new()),
            (deployment(&[pin, (key, "2")]), template(Some("3")), vec![kept(Some("2"))], BTreeMap::new()),
            (deployment(&[pin, (key, "2")]), template(Some("3")), vec![kept(None)], set(Some("3"))),
            (deployment(&[(PIN_REVISIONS, "no")]), template(Some("2")), vec![kept(None)], set(Some("2"))),
        ];
        for (deployment, template, kept, expected) in table {
            let annotations = deployment.annotations();
            assert_eq!(unrecorded(&deployment, &[template], &kept), expected, "{annotations:?}");
        }
        let gone = deployment(&[(key, "2")]);
        assert_eq!(unrecorded(&gone, &[], &[]), BTreeMap::new(), "the template does not exist");
        let secret = deployment(&[(BOOTSTRAP_REVISION, "2")]);
        let expected = BTreeMap::from([(BOOTSTRAP_REVISION, None)]);
        assert_eq!(unrecorded(&secret, &[template(None)], &[]), expected, "no bootstrap template");
    }
}
