//! Templates: objects of kinds such as OpenStackMachineTemplate, from which the objects of a Machine are made.

use std::collections::BTreeMap;

use apiserver_types::{
    BOOTSTRAP_REVISION, CLONED_FROM_REVISION, ContractVersionedObjectReference, FIRST_REVISION,
    INFRASTRUCTURE_REVISION, MachineSpec, TEMPLATE_DIGESTS, TEMPLATE_REVISION, revision_annotation,
    template_revision,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::machine_labels::UPDATING;
use crate::{CLUSTER_NAME_LABEL, names, ownership};

/// Annotation with the name of the template that an object was made from.
pub(crate) const CLONED_FROM_NAME: &str = "cluster.x-k8s.io/cloned-from-name";

/// Annotation with kind and group of the template that an object was made from: `<Kind>.<group>`.
pub(crate) const CLONED_FROM_GROUP_KIND: &str = "cluster.x-k8s.io/cloned-from-groupkind";

/// Annotations that say which template an object was made from.
pub(crate) const ORIGIN: [&str; 3] = [CLONED_FROM_NAME, CLONED_FROM_GROUP_KIND, CLONED_FROM_REVISION];

/// Revision in the intent of an object that must not exist yet. The server refuses to apply it to an object, because that
/// has another revision, and does not compare it if there is none. Its owner was written before any new object, so none has
/// the first revision.
pub(crate) const NEW_OBJECT: &str = "1";

/// Object to make from a template.
#[derive(Debug)]
pub(crate) struct Clone<'a> {
    /// Template, in the namespace of the object.
    pub template: &'a ContractVersionedObjectReference,
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Name of the Cluster, for the label.
    pub cluster: &'a str,
    /// Labels beside those of the template.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations beside those of the template.
    pub annotations: &'a BTreeMap<String, String>,
    pub owner: OwnerReference,
    /// Template as it was at an earlier revision, in place of the present one.
    pub earlier: Option<&'a DynamicObject>,
}

/// Object of a reference in the template of Machines that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub kind: String,
    pub name: String,
    /// Field of the reference in the template.
    pub field: &'static str,
}

impl Missing {
    /// Returns the absence of the object of a reference.
    pub(crate) fn new(field: &'static str, reference: &ContractVersionedObjectReference) -> Self {
        Self { kind: reference.kind.clone(), name: reference.name.clone(), field }
    }

    /// Returns what to do about it.
    pub(crate) fn remedy(&self) -> String {
        format!("Create {} {}, or correct spec.template.spec.{}", self.kind, self.name, self.field)
    }
}

/// Returns the resource of an object that is referred to by group and kind, in its stored version.
pub(crate) fn resource(context: &ControllerContext, group: &str, kind: &str) -> Option<ApiResource> {
    let mut kinds = context.kinds.iter();
    kinds.find(|it| it.resource.group == group && it.resource.kind == kind).map(|it| it.resource.clone())
}

/// Returns an API of objects of a group and kind in a namespace.
///
/// # Errors
/// No such kind is served.
pub(crate) fn api(
    context: &ControllerContext,
    namespace: &str,
    group: &str,
    kind: &str,
) -> Result<(Api<DynamicObject>, ApiResource), ReconcileError> {
    let found = resource(context, group, kind);
    let resource = found.ok_or_else(|| {
        ReconcileError::waiting("UnknownKind", format!("kind {kind} of group {group} is not served here"))
    })?;
    Ok((Api::namespaced_with(context.client.clone(), namespace, &resource), resource))
}

/// Returns why Machines cannot be made from the object of a reference, if its kind is the reason. `field` names the
/// reference in the template of the Machines.
pub(crate) fn unusable(
    context: &ControllerContext,
    field: &str,
    reference: &ContractVersionedObjectReference,
) -> Option<String> {
    let (kind, group) = (&reference.kind, &reference.api_group);
    let named = format!("spec.template.spec.{field} names {kind} {} of group {group}", reference.name);
    if !kind.ends_with("Template") {
        return Some(format!("{named}, which is no template"));
    }
    let is_served = is_served(context, reference);
    (!is_served).then(|| format!("{named}, and that kind is not served here"))
}

/// Returns the references of a Machine's spec to what its parts are made from, with their fields.
pub(crate) fn references(
    spec: &MachineSpec,
) -> impl Iterator<Item = (&'static str, &ContractVersionedObjectReference)> {
    let bootstrap = spec.bootstrap.config_ref.iter().map(|reference| ("bootstrap.configRef", reference));
    bootstrap.chain([("infrastructureRef", &spec.infrastructure_ref)])
}

/// Returns the annotation with the revision of the template of a field, as [`references`] names it.
pub(crate) fn revision_key(field: &str) -> &'static str {
    if field == "infrastructureRef" { INFRASTRUCTURE_REVISION } else { BOOTSTRAP_REVISION }
}

/// Returns the revision of the present content of a template.
pub(crate) fn revision(template: &DynamicObject) -> i64 {
    template_revision(template.annotations(), TEMPLATE_REVISION)
}

/// Returns the revision of the present content of a template; `None` without a record of edits. Such a template was not
/// edited since it was created, perhaps in place of a deleted one, and is not compared with the numbers of that one.
pub(crate) fn recorded_revision(template: &DynamicObject) -> Option<i64> {
    let number = revision(template);
    let is_recorded = number > FIRST_REVISION || template.annotations().contains_key(TEMPLATE_DIGESTS);
    is_recorded.then_some(number)
}

/// Returns true if objects of the kind of a reference are served here.
pub(crate) fn is_served(context: &ControllerContext, reference: &ContractVersionedObjectReference) -> bool {
    resource(context, &reference.api_group, &reference.kind).is_some()
}

/// Reads the object of a reference; `None` if it does not exist.
///
/// # Errors
/// No such kind is served, or the API's own failure.
pub(crate) async fn read(
    context: &ControllerContext,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
) -> Result<Option<DynamicObject>, ReconcileError> {
    let (api, _) = api(context, namespace, &reference.api_group, &reference.kind)?;
    Ok(api.get_opt(&reference.name).await?)
}

/// Makes an object from a template. An object of this name that has the same owner is returned as it is, unless it is being
/// deleted.
///
/// # Errors
/// The template does not exist, its kind is not served, or the API's own failure.
pub(crate) async fn clone(
    context: &ControllerContext,
    wish: &Clone<'_>,
) -> Result<DynamicObject, ReconcileError> {
    let template = required(context, wish).await?;
    let (api, resource) = api(context, wish.namespace, &wish.template.api_group, kind_of(wish.template))?;
    let object = made(&template, &resource, wish);
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let known = api.get(wish.name).await?;
            let is_going = known.metadata.deletion_timestamp.is_some();
            let ours = known.owner_references().iter().any(|owner| owner.uid == wish.owner.uid);
            if ours && !is_going { Ok(known) } else { Err(kube::Error::Api(status).into()) }
        }
        result => Ok(result?),
    }
}

/// Makes an object from a template, by server-side apply. The labels and annotations of the wish belong to a field manager
/// of their own, which can remove them again; see [`apply_metadata`]. Those of the template stay.
///
/// # Errors
/// A conflict if an object has the name, or the template does not exist, its kind is not served, or the API's own failure.
pub(crate) async fn apply_clone(
    context: &ControllerContext,
    wish: &Clone<'_>,
    manager: &str,
    metadata_manager: &str,
) -> Result<DynamicObject, ReconcileError> {
    let template = required(context, wish).await?;
    let (api, resource) = api(context, wish.namespace, &wish.template.api_group, kind_of(wish.template))?;
    let mut object = made(&template, &resource, wish);
    let (labels, annotations) = without_those_of_the_template(&mut object, wish);
    object.metadata.resource_version = Some(NEW_OBJECT.to_owned());
    let params = PatchParams::apply(manager).force();
    let made = api.patch(wish.name, &params, &Patch::Apply(&object)).await?;
    apply_metadata(&api, &made, &labels, &annotations, metadata_manager).await
}

/// Makes an object from a template, by server-side apply, with all labels and annotations of one field manager.
///
/// # Errors
/// A conflict if an object has the name, or the template does not exist, its kind is not served, or the API's own failure.
pub(crate) async fn apply_new(
    context: &ControllerContext,
    wish: &Clone<'_>,
    manager: &str,
) -> Result<DynamicObject, ReconcileError> {
    let template = required(context, wish).await?;
    let (api, resource) = api(context, wish.namespace, &wish.template.api_group, kind_of(wish.template))?;
    let mut object = made(&template, &resource, wish);
    object.metadata.resource_version = Some(NEW_OBJECT.to_owned());
    let params = PatchParams::apply(manager).force();
    Ok(api.patch(wish.name, &params, &Patch::Apply(&object)).await?)
}

/// Brings an object with this uid up to date with a template, by server-side apply, and marks it as being updated in place.
/// The labels and annotations of the wish stay as they are, apart from those that name the template. What others set stays,
/// too. With `is_dry`, nothing is stored.
///
/// # Errors
/// A conflict if the object was deleted since, or the template does not exist, its kind is not served, or the API's own
/// failure.
pub(crate) async fn apply_update(
    context: &ControllerContext,
    wish: &Clone<'_>,
    uid: Option<String>,
    manager: &str,
    is_dry: bool,
) -> Result<DynamicObject, ReconcileError> {
    let template = required(context, wish).await?;
    let (api, resource) = api(context, wish.namespace, &wish.template.api_group, kind_of(wish.template))?;
    let object = updated(&template, &resource, wish, uid);
    let params = PatchParams { dry_run: is_dry, ..PatchParams::apply(manager).force() };
    Ok(api.patch(wish.name, &params, &Patch::Apply(&object)).await?)
}

/// Applies labels and annotations to an object. Those that `manager` applied before and that are no longer there are
/// removed; those of others stay.
///
/// # Errors
/// A conflict if the object was deleted since, or the API's own failure.
pub(crate) async fn apply_metadata(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
    manager: &str,
) -> Result<DynamicObject, ReconcileError> {
    let types = object.types.clone().unwrap_or_default();
    // With the uid, so that an object that was deleted since is not made anew.
    let intent = json!({
        "apiVersion": types.api_version, "kind": types.kind,
        "metadata": {
            "name": object.name_any(), "namespace": object.namespace(), "uid": object.uid(),
            "labels": labels, "annotations": annotations,
        },
    });
    let params = PatchParams::apply(manager).force();
    Ok(api.patch(&object.name_any(), &params, &Patch::Apply(&intent)).await?)
}

/// Adds an owner that does not control to an object. Nothing is written if it is there already.
///
/// # Errors
/// A conflict if another client has written since, or the API's own failure.
pub(crate) async fn add_owner(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    owner: OwnerReference,
) -> Result<(), ReconcileError> {
    if ownership::has(object.owner_references(), &owner) {
        return Ok(());
    }
    let owners = ownership::with_owner(object.owner_references(), owner);
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "uid": object.uid(), "ownerReferences": owners,
    }});
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Returns the kind of the objects that are made from a template.
pub(crate) fn kind_of(template: &ContractVersionedObjectReference) -> &str {
    template.kind.strip_suffix("Template").unwrap_or(&template.kind)
}

/// Reads the template of a wish.
async fn required(context: &ControllerContext, wish: &Clone<'_>) -> Result<DynamicObject, ReconcileError> {
    let reference = wish.template;
    if let Some(earlier) = wish.earlier {
        return Ok(earlier.clone());
    }
    read(context, wish.namespace, reference).await?.ok_or_else(|| {
        let message = format!("{} {} does not exist", reference.kind, reference.name);
        ReconcileError::waiting("TemplateNotFound", message)
    })
}

/// Returns the object that a template and a wish describe.
fn made(template: &DynamicObject, resource: &ApiResource, wish: &Clone<'_>) -> DynamicObject {
    let inner = template.data.pointer("/spec/template").cloned().unwrap_or_default();
    let mut object = DynamicObject::new(wish.name, resource).within(wish.namespace);
    // A template may lack a spec; the schema of a KubeadmConfig accepts no empty one.
    let spec = inner.get("spec").filter(|spec| spec.as_object().is_some_and(|fields| !fields.is_empty()));
    object.data = spec.map_or_else(|| json!({}), |spec| json!({ "spec": spec }));
    object.labels_mut().extend(pairs(inner.pointer("/metadata/labels")));
    object.labels_mut().extend(wish.labels.clone());
    object.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), wish.cluster.to_owned());
    object.annotations_mut().extend(pairs(inner.pointer("/metadata/annotations")));
    object.annotations_mut().extend(wish.annotations.clone());
    // It is about all machines of a template, and its schema has no metadata of its own for them.
    let placement = template.annotations().get_key_value(names::ANTI_AFFINITY);
    object.annotations_mut().extend(placement.map(|(key, value)| (key.clone(), value.clone())));
    let reference = wish.template;
    let group_kind = format!("{}.{}", reference.kind, reference.api_group);
    object.annotations_mut().insert(CLONED_FROM_NAME.to_owned(), reference.name.clone());
    object.annotations_mut().insert(CLONED_FROM_GROUP_KIND.to_owned(), group_kind);
    let number = revision_annotation(revision(template));
    object.annotations_mut().extend(number.map(|number| (CLONED_FROM_REVISION.to_owned(), number)));
    object.metadata.owner_references = Some(vec![wish.owner.clone()]);
    object
}

/// Returns what a template and a wish say of an existing object that is updated in place.
fn updated(
    template: &DynamicObject,
    resource: &ApiResource,
    wish: &Clone<'_>,
    uid: Option<String>,
) -> DynamicObject {
    let mut object = made(template, resource, wish);
    let (_, annotations) = without_those_of_the_template(&mut object, wish);
    let origin = annotations.into_iter().filter(|(key, _)| ORIGIN.contains(&key.as_str()));
    object.annotations_mut().extend(origin);
    // An object of a later revision would keep the number.
    let revision = object.annotations_mut().entry(CLONED_FROM_REVISION.to_owned());
    revision.or_insert_with(|| FIRST_REVISION.to_string());
    object.annotations_mut().insert(UPDATING.to_owned(), String::new());
    // With the uid, so that an object that was deleted since is not made anew. Its owners stay.
    object.metadata.uid = uid;
    object.metadata.owner_references = None;
    object
}

/// Takes the labels and annotations out of an object that are not from its template, and returns them.
fn without_those_of_the_template(
    object: &mut DynamicObject,
    wish: &Clone<'_>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let split = |all: Option<BTreeMap<String, String>>, wished: &BTreeMap<String, String>, own: &[&str]| {
        let is_wished = |key: &str| wished.contains_key(key) || own.contains(&key);
        all.unwrap_or_default().into_iter().partition(|(key, _)| is_wished(key))
    };
    let metadata = &mut object.metadata;
    let (labels, kept) = split(metadata.labels.take(), wish.labels, &[CLUSTER_NAME_LABEL]);
    metadata.labels = Some(kept);
    let (annotations, kept) = split(metadata.annotations.take(), wish.annotations, &ORIGIN);
    metadata.annotations = Some(kept);
    (labels, annotations)
}

fn pairs(map: Option<&Value>) -> BTreeMap<String, String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(kind: &str) -> ApiResource {
        ApiResource {
            group: "bootstrap.cluster.x-k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            api_version: "bootstrap.cluster.x-k8s.io/v1beta2".to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
        }
    }

    fn reference(name: &str) -> ContractVersionedObjectReference {
        ContractVersionedObjectReference {
            api_group: "bootstrap.cluster.x-k8s.io".to_owned(),
            kind: "KubeadmConfigTemplate".to_owned(),
            name: name.to_owned(),
        }
    }

    /// Returns labels or annotations of a Machine.
    fn own() -> BTreeMap<String, String> {
        BTreeMap::from([("of-machine".to_owned(), "1".to_owned())])
    }

    fn wish<'a>(
        template: &'a ContractVersionedObjectReference,
        own: &'a BTreeMap<String, String>,
    ) -> Clone<'a> {
        Clone {
            template,
            namespace: "n",
            name: "m",
            cluster: "c",
            labels: own,
            annotations: own,
            owner: OwnerReference::default(),
            earlier: None,
        }
    }

    /// The anti-affinity of a template was lost when the labels of the Machine were brought up to date.
    #[test]
    fn labels_and_annotations_of_a_template_stay_when_those_of_the_machine_change() {
        let (reference, own) = (reference("t"), own());
        let wish = wish(&reference, &own);
        let mut template = DynamicObject::new("t", &resource("KubeadmConfigTemplate")).within("n");
        template.data = json!({"spec": {"template": {"metadata": {"labels": {"of-template": "1"}}}}});
        template.annotations_mut().insert(names::ANTI_AFFINITY.to_owned(), "hard".to_owned());
        template.annotations_mut().insert(TEMPLATE_REVISION.to_owned(), "2".to_owned());
        let mut object = made(&template, &resource("KubeadmConfig"), &wish);
        let (labels, annotations) = without_those_of_the_template(&mut object, &wish);
        assert_eq!(object.labels().keys().collect::<Vec<_>>(), ["of-template"]);
        assert_eq!(object.annotations().keys().collect::<Vec<_>>(), [names::ANTI_AFFINITY]);
        assert_eq!(labels.keys().collect::<Vec<_>>(), [CLUSTER_NAME_LABEL, "of-machine"]);
        assert_eq!(
            annotations.keys().collect::<Vec<_>>(),
            [CLONED_FROM_REVISION, CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME, "of-machine"]
        );
    }

    #[test]
    fn an_object_that_is_updated_in_place_gets_spec_origin_and_mark_and_keeps_labels_and_owners() {
        let (reference, own) = (reference("new"), own());
        let wish = wish(&reference, &own);
        let mut template = DynamicObject::new("new", &resource("KubeadmConfigTemplate")).within("n");
        template.data = json!({"spec": {"template": {"spec": {"verbosity": 2}}}});
        let object = updated(&template, &resource("KubeadmConfig"), &wish, Some("u".to_owned()));
        assert_eq!(object.data, json!({"spec": {"verbosity": 2}}));
        assert!(object.labels().is_empty() && object.metadata.owner_references.is_none());
        assert_eq!((object.name_any().as_str(), object.metadata.uid.as_deref()), ("m", Some("u")));
        let annotations = json!({
            CLONED_FROM_NAME: "new", CLONED_FROM_GROUP_KIND: "KubeadmConfigTemplate.bootstrap.cluster.x-k8s.io",
            CLONED_FROM_REVISION: "1", UPDATING: "",
        });
        assert_eq!(json!(object.annotations()), annotations);
    }

    #[test]
    fn an_object_of_a_template_without_a_spec_has_none() {
        let reference = ContractVersionedObjectReference {
            api_group: "bootstrap.cluster.x-k8s.io".to_owned(),
            kind: "KubeadmConfigTemplate".to_owned(),
            name: "md-0".to_owned(),
        };
        let wish = Clone {
            template: &reference,
            namespace: "n",
            name: "md-0-a",
            cluster: "c",
            labels: &BTreeMap::new(),
            annotations: &BTreeMap::new(),
            owner: OwnerReference::default(),
            earlier: None,
        };
        for (template, spec) in [
            (json!({}), Value::Null),
            (json!({"spec": {"template": {"spec": {}}}}), Value::Null),
            (json!({"spec": {"template": {"spec": {"verbosity": 2}}}}), json!({"verbosity": 2})),
        ] {
            let mut object = DynamicObject::new("md-0", &resource("KubeadmConfigTemplate")).within("n");
            object.data = template;
            let made = made(&object, &resource("KubeadmConfig"), &wish);
            assert_eq!(made.data.get("spec").cloned().unwrap_or_default(), spec);
            assert_eq!(made.labels()[CLUSTER_NAME_LABEL], "c");
        }
    }
}
