//! Rollback of a MachineDeployment to an earlier revision.

use apiserver_machinery::action::ActionCall;
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{
    BOOTSTRAP_REVISION, FIRST_REVISION, INFRASTRUCTURE_REVISION, MachineTemplateSpec, PIN_REVISIONS,
    revision_annotation,
};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::revisions::{self, number_of};
use crate::rules::json_fields::{self, annotation, text};
use crate::rules::rollout_verb::{RolloutEffect, RolloutVerb};
use crate::rules::template_revision;

/// Label of a MachineDeployment that the topology of its Cluster made.
const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Label with the name of the worker group in the topology.
const TOPOLOGY_NAME: &str = "topology.cluster.x-k8s.io/deployment-name";

/// Copies of a revision, and the references of the template to what they are copies of.
const COPIES: [(&str, &str); 2] = [
    ("bootstrapTemplate", "/spec/bootstrap/configRef"),
    ("infrastructureTemplate", "/spec/infrastructureRef"),
];

/// API groups of the templates. The server writes a copy with its own permissions, and users can write revisions. So a copy
/// of any other kind counts as none.
const GROUPS: [&str; 2] = ["bootstrap.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"];

/// Kinds that refer to templates, with the paths of their references.
const USERS: [(&str, &str, [&str; 2]); 3] = [
    ("cluster.x-k8s.io", "machinedeployments", WORKERS),
    ("cluster.x-k8s.io", "machinesets", WORKERS),
    (
        "controlplane.cluster.x-k8s.io",
        "kubeadmcontrolplanes",
        ["spec.machineTemplate.spec.infrastructureRef", ""],
    ),
];

/// Paths of the references of a MachineDeployment or MachineSet.
const WORKERS: [&str; 2] = ["spec.template.spec.bootstrap.configRef", "spec.template.spec.infrastructureRef"];

/// Attempts to restore the content of a template that its controller writes at the same time.
const ATTEMPTS: usize = 5;

/// Earlier template as the present one.
#[derive(Debug)]
pub(super) struct Rollback;

/// Content that a template is to have again.
#[derive(Debug)]
struct Edit {
    group: String,
    plural: String,
    name: String,
    spec: Value,
}

#[async_trait]
impl RolloutEffect for Rollback {
    async fn run(&self, verb: &RolloutVerb, call: &ActionCall<'_>, mut owner: Value) -> ApiResult<Value> {
        if let Some(why) = topology(&owner) {
            return Err(verb.conflict(call, &why));
        }
        let all = revisions::list(call, &owner).await?;
        let wanted = call.body.get("toRevision").and_then(Value::as_i64).unwrap_or_default();
        let found = match wanted {
            0 => previous(call, &owner, &all).await?,
            number => all.iter().find(|it| number_of(it) == number),
        };
        let Some(revision) = found else { return Err(unknown(verb, call, wanted, &all)) };
        let dry_run = call.dry_run || call.body.get("dryRun") == Some(&json!(true));
        let number = number_of(revision);
        let mut template = revision["spec"]["template"].clone();
        let mut edits = Vec::new();
        for (copy, reference) in COPIES {
            let copy = &revision["spec"][copy];
            edits.extend(restore(call, &mut owner, &mut template, (copy, reference), number, dry_run).await?);
        }
        owner["spec"]["template"] = template;
        let stored = verb.store(call, owner, &format!("rollback to revision {number}"), dry_run).await?;
        // The last step, so that a refused change of the MachineDeployment leaves the templates as they are.
        for edit in edits {
            edit.write(call, dry_run).await?;
        }
        Ok(stored)
    }

    async fn needless(&self, call: &ActionCall<'_>, owner: &Value) -> ApiResult<Option<String>> {
        let wanted = call.body.get("toRevision").and_then(Value::as_i64).unwrap_or_default();
        if wanted == 0 || topology(owner).is_some() {
            return Ok(None);
        }
        let all = revisions::list(call, owner).await?;
        let Some(revision) = all.iter().find(|it| number_of(it) == wanted) else { return Ok(None) };
        let is_present = has_template(owner, revision)
            && has_contents(call, owner, revision).await?
            && has_originals(call, revision).await?;
        Ok(is_present.then(|| format!("revision {wanted} is the present template: nothing is changed")))
    }
}

impl Edit {
    /// Writes the content.
    async fn write(&self, call: &ActionCall<'_>, dry_run: bool) -> ApiResult<()> {
        for attempt in 1.. {
            let (group, plural) = (self.group.as_str(), self.plural.as_str());
            let Some(mut template) = call.objects.get(group, plural, call.namespace, &self.name).await?
            else {
                return Ok(());
            };
            template["spec"] = self.spec.clone();
            let written =
                call.objects.update(group, plural, call.namespace, &self.name, template, dry_run).await;
            match written {
                Err(error) if error.code == 409 && attempt < ATTEMPTS => {}
                result => return result.map(drop),
            }
        }
        Ok(())
    }
}

/// Returns why a MachineDeployment cannot be rolled back if the topology of its Cluster determines it.
fn topology(owner: &Value) -> Option<String> {
    let label = |key: &str| owner.get("metadata")?.get("labels")?.get(key)?.as_str();
    label(TOPOLOGY_OWNED)?;
    let cluster = text(owner, "spec.clusterName").unwrap_or_default();
    let group = label(TOPOLOGY_NAME).unwrap_or_default();
    Some(format!(
        "the topology of Cluster {cluster} determines it; change \
         spec.topology.workers.machineDeployments[name={group}] and spec.topology.version of the Cluster instead"
    ))
}

/// Returns the revision before the present template. The newest one is that until a pass of the controller has recorded the
/// present template.
async fn previous<'a>(
    call: &ActionCall<'_>,
    owner: &Value,
    all: &'a [Value],
) -> ApiResult<Option<&'a Value>> {
    let Some(newest) = all.first() else { return Ok(None) };
    let is_present = has_template(owner, newest) && has_contents(call, owner, newest).await?;
    Ok(if is_present { all.get(1) } else { Some(newest) })
}

/// Returns true if a revision has the present template. The one in the revision was written by a typed client, which drops
/// empty values.
fn has_template(owner: &Value, revision: &Value) -> bool {
    let typed = |object: &Value| {
        serde_json::from_value::<MachineTemplateSpec>(object["spec"]["template"].clone()).ok()
    };
    typed(owner) == typed(revision)
}

/// Returns true if a revision with the present template has the present contents of what it refers to.
async fn has_contents(call: &ActionCall<'_>, owner: &Value, revision: &Value) -> ApiResult<bool> {
    let is_pinned = annotation(owner, PIN_REVISIONS) == Some("true");
    for (copy, reference) in COPIES {
        let copy = &revision["spec"][copy];
        let Some((group, _, plural)) = kind_of(copy) else { continue };
        if is_pinned {
            let number = annotation(owner, revision_key(reference)).and_then(|text| text.parse().ok());
            if number.unwrap_or(FIRST_REVISION) != template_revision::revision(copy) {
                return Ok(false);
            }
            continue;
        }
        let found = call.objects.get(group, &plural, call.namespace, object::name(copy)).await?;
        let content = |object: &Value| object.get("spec").and_then(template_revision::without_empty);
        // A copy stays when its original is deleted.
        if found.is_some_and(|found| content(&found) != content(copy)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if all that a revision has copies of still exists. The copies of others are still to be made.
async fn has_originals(call: &ActionCall<'_>, revision: &Value) -> ApiResult<bool> {
    for (copy, _) in COPIES {
        let copy = &revision["spec"][copy];
        let Some((group, _, plural)) = kind_of(copy) else { continue };
        if call.objects.get(group, &plural, call.namespace, object::name(copy)).await?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns group, kind and plural of a copy; `None` if the revision has no copy of a template.
fn kind_of(copy: &Value) -> Option<(&str, &str, String)> {
    let (kind, api_version) = (text(copy, "kind")?, text(copy, "apiVersion")?);
    let (group, _) = api_version.rsplit_once('/')?;
    let is_template = GROUPS.contains(&group) && kind.ends_with("Template");
    is_template.then(|| (group, kind, format!("{}s", kind.to_lowercase())))
}

/// Returns the annotation of a MachineDeployment with the revision of the template of a reference.
fn revision_key(reference: &str) -> &'static str {
    if reference.ends_with("/infrastructureRef") { INFRASTRUCTURE_REVISION } else { BOOTSTRAP_REVISION }
}

/// Returns the 422 error of a revision that is not kept.
fn unknown(verb: &RolloutVerb, call: &ActionCall<'_>, wanted: i64, all: &[Value]) -> ApiError {
    let known: Vec<String> = all.iter().map(|it| number_of(it).to_string()).collect();
    let detail = match wanted {
        0 => "there is no revision before the present one".to_owned(),
        _ => format!("this revision is not kept; known revisions: {}", known.join(", ")),
    };
    let error = FieldError::invalid(FieldPath::new("toRevision"), &json!(wanted), &detail);
    match call.objects.resource(verb.owner.group, verb.owner.plural) {
        Some(resource) => ApiError::invalid(resource, call.name, &[error]),
        None => ApiError::internal(format!("{} is not served", verb.owner.plural)),
    }
}

/// Lets a reference of the template lead to an object like the copy. A MachineDeployment that is pinned to revisions of its
/// templates gets the revision of the copy. A template that only this MachineDeployment uses, and that was edited since, is
/// to have the content of the copy again: the result. One that was deleted, or that others use, is made again under
/// another name.
async fn restore(
    call: &ActionCall<'_>,
    owner: &mut Value,
    template: &mut Value,
    (copy, reference): (&Value, &str),
    revision: i64,
    dry_run: bool,
) -> ApiResult<Option<Edit>> {
    let Some((group, kind, plural)) = kind_of(copy) else { return Ok(None) };
    let name = object::name(copy).to_owned();
    let again = format!("{name}-r{revision}");
    let mut exists = false;
    for known in [name.as_str(), again.as_str()] {
        let found = call.objects.get(group, &plural, call.namespace, known).await?;
        if found.as_ref().is_some_and(|found| found.get("spec") == copy.get("spec")) {
            set_name(template, reference, known)?;
            return Ok(None);
        }
        exists |= known == name && found.is_some();
    }
    let is_present = exists && is_present(owner, reference, &name);
    if is_present && annotation(owner, PIN_REVISIONS) == Some("true") {
        set_name(template, reference, &name)?;
        pin(owner, reference, template_revision::revision(copy));
        return Ok(None);
    }
    if is_present && !is_shared(call, owner, kind, &name).await? {
        set_name(template, reference, &name)?;
        let spec = copy.get("spec").cloned().unwrap_or_default();
        return Ok(Some(Edit { group: group.to_owned(), plural, name, spec }));
    }
    let mut new = copy.clone();
    new["metadata"]["name"] = json!(again);
    new["metadata"]["namespace"] = json!(call.namespace);
    call.objects.create(group, &plural, call.namespace, new, dry_run, None).await?;
    set_name(template, reference, &again)?;
    Ok(None)
}

/// Pins a MachineDeployment to a revision of a template.
fn pin(owner: &mut Value, reference: &str, number: i64) {
    let key = revision_key(reference);
    let Some(annotations) = json_fields::object(owner, "metadata.annotations") else { return };
    match revision_annotation(number) {
        Some(number) => drop(annotations.insert(key.to_owned(), json!(number))),
        None => drop(annotations.remove(key)),
    }
}

/// Returns true if the present template of a MachineDeployment refers to the object of this name.
fn is_present(owner: &Value, reference: &str, name: &str) -> bool {
    let present = owner.pointer("/spec/template").and_then(|template| template.pointer(reference));
    present.and_then(|present| present.get("name")).and_then(Value::as_str) == Some(name)
}

/// Returns true if an object besides this MachineDeployment and its MachineSets refers to a template.
async fn is_shared(call: &ActionCall<'_>, owner: &Value, kind: &str, name: &str) -> ApiResult<bool> {
    let uid = object::meta(owner, "uid");
    let refers = |user: &Value, path: &&str| {
        let field = |field: &str| object::at(user, path)?.get(field)?.as_str();
        field("kind") == Some(kind) && field("name") == Some(name)
    };
    for (group, plural, paths) in USERS {
        let users = call.objects.list(group, plural, call.namespace, "").await?;
        let mut others = users.iter().filter(|user| object::meta(user, "uid") != uid && !is_owned(user, uid));
        if others.any(|user| paths.iter().any(|path| refers(user, path))) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_owned(object: &Value, uid: &str) -> bool {
    let owners = object::metadata_field(object, "ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|known| known.get("uid").and_then(Value::as_str) == Some(uid))
}

fn set_name(template: &mut Value, reference: &str, name: &str) -> ApiResult<()> {
    match template.pointer_mut(reference) {
        Some(reference) => {
            reference["name"] = json!(name);
            Ok(())
        }
        None => Err(ApiError::internal(format!("the revision has a copy without the reference {reference}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_of_a_topology_names_the_field_of_its_cluster() {
        let labels = json!({TOPOLOGY_OWNED: "", TOPOLOGY_NAME: "blue"});
        let owner = json!({"metadata": {"labels": labels}, "spec": {"clusterName": "c"}});
        let why = topology(&owner).unwrap();
        assert!(why.contains("spec.topology.workers.machineDeployments[name=blue]"), "{why}");
        assert!(why.contains("Cluster c"), "{why}");
        assert_eq!(topology(&json!({"metadata": {"labels": {}}})), None);
    }

    #[test]
    fn iz_13_a_rollback_writes_copies_of_templates_and_of_no_other_kind() {
        let plural = |api_version: &str, kind: &str| {
            let copy = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
            kind_of(&copy).map(|(_, _, plural)| plural)
        };
        let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta2";
        let found = plural(infrastructure, "OpenStackMachineTemplate");
        assert_eq!(found.as_deref(), Some("openstackmachinetemplates"));
        let found = plural("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate");
        assert_eq!(found.as_deref(), Some("kubeadmconfigtemplates"));
        for (api_version, kind) in [
            ("rbac.authorization.k8s.io/v1", "RoleBinding"),
            ("v1", "Secret"),
            (infrastructure, "OpenStackMachine"),
            ("example.org/v1", "KubeadmConfigTemplate"),
        ] {
            assert_eq!(plural(api_version, kind), None, "{kind}");
        }
    }

    #[test]
    fn a_template_that_is_not_recorded_yet_differs_from_the_newest_revision() {
        let with = |version: &str, extra: Value| {
            let mut spec = json!({
                "clusterName": "c", "version": version, "bootstrap": {"dataSecretName": "s"},
                "infrastructureRef": {"apiGroup": "g", "kind": "KTemplate", "name": "t"},
            });
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"spec": {"template": {"spec": spec}}})
        };
        let newest = with("v1.33.0", json!({}));
        assert!(has_template(&newest, &newest));
        assert!(!has_template(&with("v1.34.0", json!({})), &newest));
        assert!(has_template(&with("v1.33.0", json!({"failureDomain": null})), &newest), "what is not set");
    }
}
