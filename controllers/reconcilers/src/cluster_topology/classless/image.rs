//! Templates of Machines with the image of another version.
//!
//! The name of an image of Kubernetes has the version. A new template is a copy of the present one, with the new version in the
//! name of the image, as in the machine action `upgrade`. It is made before the object that refers to it changes, under a name
//! that follows from both, so that a pass that was cut off finds it.

use std::collections::BTreeMap;

use apiserver_types::version::renamed;
use apiserver_types::{ContractVersionedObjectReference, Described, OpenStackMachineTemplate};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::super::blueprint::value;
use super::super::metadata::Metadata;
use super::BLOCKED;
use crate::templates;

/// Kind of the templates whose image is known.
const TEMPLATE: &str = OpenStackMachineTemplate::DESCRIPTOR.kind;

/// Name of the image in a template.
const IMAGE: &str = "/spec/template/spec/image/filter/name";

/// Label by which Argo CD knows the objects of an application. It deletes those that are not in the application's source, and
/// a copy is not.
const OF_APPLICATION: &str = "app.kubernetes.io/instance";

/// Template to be.
#[derive(Debug, Clone, PartialEq)]
struct Next {
    name: String,
    image: String,
    spec: Value,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Next {
    /// Returns the template for Machines of version `to`. `None` if the name of the image does not have the version `from`:
    /// the Machines get their programs in another way, and keep their template.
    fn of(template: &Value, from: &str, to: &str) -> Option<Self> {
        let image = renamed(image_of(template)?, from, to)?;
        let name = template.pointer("/metadata/name").and_then(Value::as_str)?;
        let mut spec = template.get("spec")?.clone();
        *spec.pointer_mut(IMAGE.strip_prefix("/spec")?)? = json!(image);
        let Metadata { mut labels, annotations } = Metadata::at(template, "/metadata");
        labels.remove(OF_APPLICATION);
        Some(Self { name: name_of(name, from, to), image, spec, labels, annotations })
    }
}

/// Returns the name of the image of a template.
fn image_of(template: &Value) -> Option<&str> {
    template.pointer(IMAGE).and_then(Value::as_str)
}

/// Returns the name of the next template: that of the present one with the new version in place of the old one, or behind it.
fn name_of(template: &str, from: &str, to: &str) -> String {
    let name = renamed(template, from, to).unwrap_or_else(|| format!("{template}-{to}"));
    name.replace('+', "-").to_lowercase()
}

/// Makes the template with the image of version `to`, unless it exists. Returns its name; `None` if the present one serves
/// all versions.
///
/// # Errors
/// A template of that name has another image, or the API's own failure.
pub(super) async fn bring(
    context: &ControllerContext,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
    (from, to): (&str, &str),
) -> Result<Option<String>, ReconcileError> {
    let Some(template) = present(context, namespace, reference).await? else { return Ok(None) };
    let Some(next) = Next::of(&template, from, to) else { return Ok(None) };
    let (api, resource) = templates::api(context, namespace, &reference.api_group, &reference.kind)?;
    if let Some(found) = api.get_opt(&next.name).await? {
        return match image_of(&value(&found)) {
            Some(image) if image == next.image => Ok(Some(next.name)),
            _ => Err(ReconcileError::waiting(BLOCKED, taken(namespace, &next))),
        };
    }
    let mut object = DynamicObject::new(&next.name, &resource).within(namespace);
    object.data = json!({"spec": next.spec});
    object.metadata.labels = Some(next.labels);
    object.metadata.annotations = Some(next.annotations);
    api.create(&PostParams::default(), &object).await?;
    Ok(Some(next.name))
}

/// Returns the names of the images of versions that follow each other, from the present template. None for a template
/// whose image does not name its version.
///
/// # Errors
/// The API's own failure.
pub(super) async fn names(
    context: &ControllerContext,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
    versions: &[&str],
) -> Result<Vec<String>, ReconcileError> {
    let Some(template) = present(context, namespace, reference).await? else { return Ok(Vec::new()) };
    Ok(image_of(&template).map(|image| chain(image, versions)).unwrap_or_default())
}

/// Returns the names of an image after each step from one version to the next.
fn chain(image: &str, versions: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for step in versions.windows(2) {
        let [from, to] = step else { continue };
        let Some(next) = renamed(names.last().map_or(image, String::as_str), from, to) else { break };
        names.push(next);
    }
    names
}

/// Reads the template of a reference. `None` if it does not exist, or if its kind has no image that is known.
async fn present(
    context: &ControllerContext,
    namespace: &str,
    reference: &ContractVersionedObjectReference,
) -> Result<Option<Value>, ReconcileError> {
    if reference.kind != TEMPLATE || !templates::is_served(context, reference) {
        return Ok(None);
    }
    let found = templates::read(context, namespace, reference).await?;
    Ok(found.as_ref().map(value))
}

/// Returns why a template cannot be made, and what to do.
fn taken(namespace: &str, next: &Next) -> String {
    format!(
        "{TEMPLATE} {namespace}/{} exists, and does not have the image {:?}. Delete it, or set that image in \
         it",
        next.name, next.image
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(name: &str, image: &Value) -> Value {
        let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "a"});
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": TEMPLATE,
            "metadata": {"name": name, "labels": {"a": "b", OF_APPLICATION: "x"}, "annotations": annotations},
            "spec": {"template": {"spec": {"flavor": {"id": "f"}, "image": image}}},
        })
    }

    #[test]
    fn the_next_template_has_the_image_of_the_version_and_all_else_of_the_present_one() {
        let named = |image: &str| json!({"filter": {"name": image}});
        let present = named("kube-v1.33.0");
        let next = |name: &str| Next::of(&template(name, &present), "v1.33.0", "v1.34.1").unwrap();
        let found = next("md");
        assert_eq!((found.name.as_str(), found.image.as_str()), ("md-v1.34.1", "kube-v1.34.1"));
        let expected = json!({"flavor": {"id": "f"}, "image": named("kube-v1.34.1")});
        assert_eq!(found.spec["template"]["spec"], expected);
        assert_eq!(found.labels, BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        assert_eq!(found.annotations.keys().collect::<Vec<_>>(), ["team"]);
        assert_eq!(next("md-v1.33.0").name, "md-v1.34.1");
        assert_eq!(name_of("md", "v1.33.0", "v1.34.1+Build.2"), "md-v1.34.1-build.2");
        for image in [named("ubuntu"), json!({"id": "i"}), named("kube-v1.33.00")] {
            assert_eq!(Next::of(&template("md", &image), "v1.33.0", "v1.34.1"), None, "{image}");
        }
    }

    #[test]
    fn the_images_of_a_chain_follow_from_each_other() {
        let versions = ["v1.33.0", "v1.34.1", "v1.35.0"];
        assert_eq!(chain("kube-v1.33.0", &versions), ["kube-v1.34.1", "kube-v1.35.0"]);
        assert_eq!(chain("ubuntu", &versions), [""; 0]);
        assert_eq!(chain("kube-v1.33.0", &versions[..1]), [""; 0]);
    }
}
