//! Revisions of a MachineDeployment: its templates of the past, with copies of the templates that they refer to.
//!
//! MachineSets of the past are deleted, and with them what their Machines were made of.

use std::collections::BTreeSet;

use apiserver_types::rollout_settings::{REVISION_HISTORY_LIMIT, history_limit};
use apiserver_types::{
    AnyObject, CHANGE_CAUSE, CHANGED_BY, MachineDeployment, MachineDeploymentRevision,
    MachineDeploymentRevisionSpec, MachineSet, TEMPLATE_DIGESTS, TEMPLATE_REVISION, Time, template_revision,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value, json};

use super::observe::Observed;
use crate::machine_labels::DEPLOYMENT_NAME;
use crate::{CLUSTER_NAME_LABEL, kept_revisions, ownership, templates};

/// Number of revisions to keep, if the MachineDeployment does not say.
const DEFAULT_LIMIT: usize = 10;

/// Field manager of the verbs.
const SERVER: &str = "capstan";

/// Most changed fields that a revision lists. A whole new spec has no more.
const MOST_CHANGES: usize = 100;

/// Longest text in a revision. Unit: characters.
const LONGEST_TEXT: usize = 1024;

/// Records the present template as a revision if it is another one than the newest, and removes the oldest ones.
///
/// # Errors
/// The API's own failure.
pub(super) async fn keep(
    context: &ControllerContext,
    deployment: &MachineDeployment,
    observed: &Observed,
) -> Result<(), ReconcileError> {
    let namespace = deployment.namespace().unwrap_or_default();
    let api: Api<MachineDeploymentRevision> = Api::namespaced(context.client.clone(), &namespace);
    let mut known = observed.revisions.clone();
    for revision in &mut known {
        if !ownership::is_adopted(&revision.metadata, deployment) {
            let owner = ownership::reference(deployment, true);
            ownership::adopt(&api, revision, owner, &deployment.spec.cluster_name).await?;
        }
    }
    match next(deployment, known.first(), present(deployment, observed)) {
        Next::Nothing => return Ok(()),
        Next::Replace(revision) => {
            api.replace(&revision.name_any(), &PostParams::default(), &revision).await?;
            // None was added, so none is too many.
            return Ok(());
        }
        Next::Create(revision) => match api.create(&PostParams::default(), &revision).await {
            // An earlier MachineDeployment of this name left it. The garbage collector deletes it.
            Err(kube::Error::Api(status)) if status.code == 409 => return Ok(()),
            result => {
                result?;
            }
        },
    }
    for old in surplus(deployment, &known, &observed.sets) {
        ownership::delete(&api, &old.name_any(), old.uid()).await?;
    }
    Ok(())
}

/// Returns the revisions to remove after another one was added: the oldest ones, except those with the copies of which
/// a set makes its Machines.
fn surplus<'a>(
    deployment: &MachineDeployment,
    known: &'a [MachineDeploymentRevision],
    sets: &[MachineSet],
) -> Vec<&'a MachineDeploymentRevision> {
    let limit = deployment.annotations().get(REVISION_HISTORY_LIMIT).and_then(|text| history_limit(text));
    let kept = limit.unwrap_or(DEFAULT_LIMIT).max(1).saturating_sub(1);
    let of_sets = sets.iter().flat_map(|set| {
        let references = templates::references(&set.spec.template.spec);
        references.filter_map(move |(field, reference)| {
            let number = template_revision(set.annotations(), templates::revision_key(field));
            let holds =
                |it: &&MachineDeploymentRevision| kept_revisions::copy_in(it, reference, number).is_some();
            known.iter().find(holds).map(|it| it.spec.revision)
        })
    });
    let used: BTreeSet<i64> = of_sets.collect();
    known.iter().skip(kept).filter(|it| !used.contains(&it.spec.revision)).collect()
}

/// Template of a MachineDeployment, and copies of what it refers to.
#[derive(Debug, Clone, PartialEq, Default)]
struct Present {
    template: Map<String, Value>,
    bootstrap: Option<Map<String, Value>>,
    infrastructure: Option<Map<String, Value>>,
    /// Last edits of the templates.
    edits: Vec<Edit>,
}

/// Last change of a template: its time, whether it was made by a verb, and its field manager. Times have whole seconds, and
/// verbs come after what they change.
type Edit = (Option<Timestamp>, bool, Option<String>);

/// Step for the present template.
#[derive(Debug, Clone, PartialEq)]
enum Next {
    Nothing,
    Create(Box<MachineDeploymentRevision>),
    Replace(Box<MachineDeploymentRevision>),
}

/// Returns the present template, with the templates that it refers to: as they are, or as an earlier revision that the
/// MachineDeployment is pinned to.
fn present(deployment: &MachineDeployment, observed: &Observed) -> Present {
    let mut present = Present { template: object(json!(deployment.spec.template)), ..Present::default() };
    for (field, reference) in templates::references(&deployment.spec.template.spec) {
        let Some(found) = observed.templates.iter().find(|it| it.field == field) else { continue };
        let number = template_revision(deployment.annotations(), templates::revision_key(field));
        let copy = if templates::revision(&found.object) == number {
            present.edits.extend(last_edit(&found.object.metadata));
            Some(copy(&found.object))
        } else {
            let kept = kept_revisions::copy(&observed.revisions, reference, number);
            kept.map(|it| object(json!(it)))
        };
        match field {
            "infrastructureRef" => present.infrastructure = copy,
            _ => present.bootstrap = copy,
        }
    }
    present
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns what an object like this one is made of. What belongs to one Cluster or one object is left out.
fn copy(template: &DynamicObject) -> Map<String, Value> {
    let types = template.types.clone().unwrap_or_default();
    let mut labels = template.labels().clone();
    labels.remove(CLUSTER_NAME_LABEL);
    let mut annotations = template.annotations().clone();
    for key in ["kubectl.kubernetes.io/last-applied-configuration", TEMPLATE_DIGESTS] {
        annotations.remove(key);
    }
    object(json!({
        "apiVersion": types.api_version, "kind": types.kind,
        "metadata": {"name": template.name_any(), "labels": labels, "annotations": annotations},
        "spec": template.data.get("spec"),
    }))
}

/// Decides what to do about the present template. Pure.
fn next(
    deployment: &MachineDeployment,
    newest: Option<&MachineDeploymentRevision>,
    present: Present,
) -> Next {
    let known = newest.map(|revision| of_revision(&revision.spec)).unwrap_or_default();
    let is_like = |known: &Option<Map<String, Value>>, now: &Option<Map<String, Value>>| {
        // A copy stays when its original is deleted.
        known
            .as_ref()
            .zip(now.as_ref())
            .is_none_or(|(known, now)| known.get("spec") == now.get("spec") && number(known) == number(now))
    };
    let is_same = newest.is_some()
        && known.template == present.template
        && is_like(&known.bootstrap, &present.bootstrap)
        && is_like(&known.infrastructure, &present.infrastructure);
    let lacks = |known: &Option<Map<String, Value>>, now: &Option<Map<String, Value>>| {
        known.is_none() && now.is_some()
    };
    match newest {
        Some(newest) if is_same => {
            let incomplete = lacks(&known.bootstrap, &present.bootstrap)
                || lacks(&known.infrastructure, &present.infrastructure);
            if !incomplete {
                return Next::Nothing;
            }
            let mut complete = newest.clone();
            complete.spec.bootstrap_template = known.bootstrap.or(present.bootstrap).map(AnyObject);
            complete.spec.infrastructure_template =
                known.infrastructure.or(present.infrastructure).map(AnyObject);
            Next::Replace(Box::new(complete))
        }
        _ => Next::Create(Box::new(revision(deployment, newest, &known, present))),
    }
}

/// Returns the revision of the content of a copy.
fn number(copy: &Map<String, Value>) -> Option<&Value> {
    copy.get("metadata")?.get("annotations")?.get(TEMPLATE_REVISION)
}

fn of_revision(spec: &MachineDeploymentRevisionSpec) -> Present {
    Present {
        edits: Vec::new(),
        template: spec.template.0.clone(),
        bootstrap: spec.bootstrap_template.clone().map(|it| it.0),
        infrastructure: spec.infrastructure_template.clone().map(|it| it.0),
    }
}

fn revision(
    deployment: &MachineDeployment,
    newest: Option<&MachineDeploymentRevision>,
    known: &Present,
    present: Present,
) -> MachineDeploymentRevision {
    let number = newest.map_or(0, |newest| newest.spec.revision).saturating_add(1);
    let (by, at, is_verb) = author(deployment, known, &present);
    let digest = digest(&present);
    let spec = MachineDeploymentRevisionSpec {
        deployment_name: deployment.name_any(),
        revision: number,
        changes: newest.map(|_| changes(known, &present)),
        change_cause: cause(deployment, is_verb),
        changed_by: by,
        changed_at: Some(at),
        digest: Some(digest),
        template: AnyObject(present.template),
        bootstrap_template: present.bootstrap.map(AnyObject),
        infrastructure_template: present.infrastructure.map(AnyObject),
    };
    let mut revision = MachineDeploymentRevision { spec, ..MachineDeploymentRevision::default() };
    revision.metadata.name = Some(format!("{}-r{number}", deployment.name_any()));
    revision.metadata.namespace.clone_from(&deployment.metadata.namespace);
    let labels = [
        (DEPLOYMENT_NAME, deployment.name_any()),
        (CLUSTER_NAME_LABEL, deployment.spec.cluster_name.clone()),
    ];
    revision.metadata.labels = Some(labels.map(|(key, value)| (key.to_owned(), value)).into());
    revision.metadata.owner_references = Some(vec![ownership::reference(deployment, true)]);
    revision
}

/// Returns who made the present template what it is, and when: who edited the MachineDeployment, or a template that it
/// refers to. The last value is true if a verb did so.
fn author(
    deployment: &MachineDeployment,
    known: &Present,
    present: &Present,
) -> (Option<String>, Time, bool) {
    let own = last_edit(&deployment.metadata);
    let of_templates = present.edits.iter().max().cloned().filter(|_| known.template == present.template);
    let Some((at, is_verb, manager)) = of_templates.or(own) else {
        return (None, controllers_runtime::now(), false);
    };
    let by_verb = deployment.annotations().get(CHANGED_BY).filter(|_| is_verb);
    let at = at.map(|at| Time(at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()));
    let by = by_verb.cloned().or(manager).map(|text| short(&text));
    (by, at.unwrap_or_else(controllers_runtime::now), is_verb)
}

/// Returns the cause of a change. A verb writes its cause into the annotation, which stays there after the change of
/// another client.
fn cause(deployment: &MachineDeployment, is_verb: bool) -> Option<String> {
    let text = deployment.annotations().get(CHANGE_CAUSE)?;
    let annotation = format!("f:{CHANGE_CAUSE}");
    let entries = deployment.metadata.managed_fields.iter().flatten();
    let mut of_verbs = entries.filter(|entry| entry.manager.as_deref() == Some(SERVER));
    let is_of_verb = of_verbs.any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.and_then(|it| it.get("f:metadata")?.get("f:annotations")?.get(&annotation)).is_some()
    });
    (is_verb || !is_of_verb).then(|| short(text))
}

/// Returns the last change of `spec.template`, or the last verb: one that only removes fields owns none of the template
/// afterwards.
fn last_edit(metadata: &ObjectMeta) -> Option<Edit> {
    let annotation = format!("f:{CHANGED_BY}");
    let entries = metadata.managed_fields.iter().flatten();
    let of_template = entries.filter(|entry| {
        let Some(fields) = entry.fields_v1.as_ref().map(|fields| &fields.0) else { return false };
        let owns = |parent: &str, field: &str| fields.get(parent).and_then(|it| it.get(field));
        let is_verb = || {
            entry.manager.as_deref() == Some(SERVER)
                && owns("f:metadata", "f:annotations").is_some_and(|it| it.get(&annotation).is_some())
        };
        owns("f:spec", "f:template").is_some() || is_verb()
    });
    let edit = of_template.map(|entry| {
        let is_verb = entry.manager.as_deref() == Some(SERVER);
        (entry.time.as_ref().map(|time| time.0), is_verb, entry.manager.clone())
    });
    edit.max()
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

/// Returns a digest of a template and its copies: 64 bits of FNV-1a, because it only tells revisions apart.
fn digest(present: &Present) -> String {
    let text = json!([present.template, present.bootstrap, present.infrastructure]).to_string();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// Returns the fields that differ, as `path: old -> new`.
fn changes(old: &Present, new: &Present) -> Vec<String> {
    let mut lines = Vec::new();
    let whole = |present: &Present| {
        let spec = |copy: &Option<Map<String, Value>>| copy.as_ref().and_then(|it| it.get("spec").cloned());
        json!({
            "template": present.template, "bootstrapTemplate": spec(&present.bootstrap),
            "infrastructureTemplate": spec(&present.infrastructure),
        })
    };
    compare("", &whole(old), &whole(new), &mut lines);
    lines.truncate(MOST_CHANGES);
    lines
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            let none = Value::Null;
            compare(&path, old.get(key).unwrap_or(&none), new.get(key).unwrap_or(&none), lines);
        }
        return;
    }
    lines.push(short(&format!("{path}: {old} -> {new}")));
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineDeploymentSpec;
    use kube::Resource;

    use super::super::template_revisions::Template;
    use super::*;
    use crate::api_in_memory::FakeApi;

    fn present(version: &str, flavor: Option<&str>) -> Present {
        let copy = |flavor: &str| object(json!({"kind": "T", "spec": {"flavor": flavor}}));
        Present {
            template: object(json!({"spec": {"version": version}})),
            infrastructure: flavor.map(copy),
            ..Present::default()
        }
    }

    fn created(newest: Option<&MachineDeploymentRevision>, present: Present) -> MachineDeploymentRevision {
        let deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        match next(&deployment, newest, present) {
            Next::Create(revision) => *revision,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rollback_that_only_removes_fields_has_the_user_of_the_verb() {
        let entry = |manager: &str, time: &str, fields: Value| json!({"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields});
        let verb = json!({"f:metadata": {"f:annotations": {"f:capstan.dev/changed-by": {}}}});
        let by = |edited: &str, rolled_back: &str| {
            let deployment = serde_json::from_value::<MachineDeployment>(json!({
                "metadata": {"name": "md", "annotations": {"capstan.dev/changed-by": "alice"}, "managedFields": [
                    entry("kubectl", edited, json!({"f:spec": {"f:template": {}}})),
                    entry("capstan", rolled_back, verb.clone()),
                ]},
                "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
                    "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "k", "name": "n"}}}},
            }));
            author(&deployment.unwrap(), &Present::default(), &Present::default()).0.unwrap()
        };
        assert_eq!(by("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"), "alice");
        assert_eq!(by("2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z"), "kubectl");
    }

    #[test]
    fn each_change_of_a_template_or_of_what_it_refers_to_is_a_revision() {
        let deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        let first = created(None, present("v1", Some("small")));
        assert_eq!((first.name_any().as_str(), first.spec.revision), ("md-r1", 1));
        assert_eq!(first.spec.changes, None);
        let again = next(&deployment, Some(&first), present("v1", Some("small")));
        assert_eq!(again, Next::Nothing);
        assert_eq!(
            next(&deployment, Some(&first), present("v1", None)),
            Next::Nothing,
            "the template was deleted"
        );
        let second = created(Some(&first), present("v2", Some("large")));
        assert_eq!(second.spec.revision, 2);
        let expected = [
            "infrastructureTemplate.flavor: \"small\" -> \"large\"",
            "template.spec.version: \"v1\" -> \"v2\"",
        ];
        assert_eq!(second.spec.changes.as_deref().unwrap(), expected);
        assert_ne!(first.spec.digest, second.spec.digest);
    }

    #[test]
    fn a_revision_gets_the_copy_of_a_template_that_comes_later() {
        let deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        let first = created(None, present("v1", None));
        let Next::Replace(complete) = next(&deployment, Some(&first), present("v1", Some("small"))) else {
            panic!("it is completed");
        };
        assert_eq!(complete.spec.revision, 1);
        assert!(complete.spec.infrastructure_template.is_some());
    }

    #[test]
    fn the_cause_of_a_verb_is_no_cause_of_a_later_change() {
        let cause = |edited: &str, owner: &str| {
            let entry = |manager: &str, time: &str, fields: Value| json!({"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields});
            let annotation = json!({"f:metadata": {"f:annotations": {"f:kubernetes.io/change-cause": {}}}});
            let verb = json!({"f:metadata": {"f:annotations": {"f:capstan.dev/changed-by": {}}}});
            let deployment = serde_json::from_value::<MachineDeployment>(json!({
                "metadata": {"name": "md", "annotations": {"kubernetes.io/change-cause": "back"}, "managedFields": [
                    entry("kubectl", edited, json!({"f:spec": {"f:template": {}}})),
                    entry("capstan", "2026-01-01T00:00:01Z", verb),
                    entry(owner, "2026-01-01T00:00:01Z", annotation),
                ]},
                "spec": {"clusterName": "c", "selector": {}, "template": {"spec": {
                    "clusterName": "c", "bootstrap": {}, "infrastructureRef": {"apiGroup": "g", "kind": "k", "name": "n"}}}},
            }));
            revision(&deployment.unwrap(), None, &Present::default(), Present::default()).spec.change_cause
        };
        assert_eq!(cause("2026-01-01T00:00:00Z", "capstan").as_deref(), Some("back"), "the verb came last");
        assert_eq!(cause("2026-01-01T00:00:02Z", "capstan"), None, "kubectl came last");
        assert_eq!(cause("2026-01-01T00:00:02Z", "kubectl").as_deref(), Some("back"), "a person wrote it");
    }

    fn template() -> Template {
        let object =
            json!({"apiVersion": "g/v1", "kind": "KTemplate", "metadata": {"name": "t"}, "spec": {}});
        Template { field: "infrastructureRef", object: serde_json::from_value(object).unwrap() }
    }

    #[tokio::test]
    async fn a_revision_that_is_completed_takes_the_place_of_no_other() {
        for (limit, count) in [("10", 10), ("1", 1)] {
            let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
            deployment.metadata.namespace = Some("ns".to_owned());
            deployment.metadata.uid = Some("u".to_owned());
            deployment.annotations_mut().insert(REVISION_HISTORY_LIMIT.to_owned(), limit.to_owned());
            let mut revisions: Vec<MachineDeploymentRevision> = Vec::new();
            for _ in 0..count {
                let bare = super::present(&deployment, &Observed::default());
                let newest = revision(&deployment, revisions.first(), &Present::default(), bare);
                revisions.insert(0, newest);
            }
            assert_eq!(surplus(&deployment, &revisions, &[]).len(), 1, "another one would take its place");
            let (api, base) = (FakeApi::default(), MachineDeploymentRevision::url_path(&(), Some("ns")));
            let path = |it: &MachineDeploymentRevision| format!("{base}/{}", it.name_any());
            revisions.iter().for_each(|it| api.put(&path(it), json!(it)));
            let observed = Observed { templates: vec![template()], revisions, ..Observed::default() };
            let context = api.context("machinedeployment-controller");
            keep(&context, &deployment, &observed).await.unwrap();
            let kept: Vec<Value> = observed.revisions.iter().filter_map(|it| api.get(&path(it))).collect();
            assert_eq!(kept.len(), count, "limit {limit}");
            assert!(kept[0]["spec"]["infrastructureTemplate"].is_object(), "{}", kept[0]);
        }
    }
}
