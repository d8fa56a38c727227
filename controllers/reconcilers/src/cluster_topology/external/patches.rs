//! Patched templates of a Cluster, with the patches and the verdicts of extension servers.

use apiserver_types::{Cluster, ClusterClassPatch, ExternalPatchDefinition};
use controllers_extensions::{
    Call, GeneratePatchesItem, GeneratePatchesRequest, GeneratedPatch, HolderReference, NO_SETTINGS,
    PatchDocument, ValidateTopologyItem, ValidateTopologyRequest, Variable,
};
use controllers_topology::builtins;
use controllers_topology::patches::{Generated, Item, Patching, Place};
use controllers_topology::variables::by_name;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use super::super::blueprint::{Blueprint, topology};
use super::super::desired::{Parts, machine_template_field};
use super::super::patching::{self, Patched};
use super::{External, Obstacle, has_external_patch};

/// Field of a worker group with the reference to its bootstrap template.
const BOOTSTRAP: &str = "spec.template.spec.bootstrap.configRef";

/// Field of a worker group with the reference to its infrastructure template.
const INFRASTRUCTURE: &str = "spec.template.spec.infrastructureRef";

/// Begin of the identifiers of templates, which have the form of a UUID.
const UID: &str = "00000000-0000-4000-8000-";

/// Applies the patches of a class to its templates, in their order. Then all servers that validate see the result.
///
/// # Errors
/// A patch fails, a server refuses, or it cannot be called.
pub(in crate::cluster_topology) async fn patch(
    external: &External<'_>,
    cluster: &Cluster,
    blueprint: &Blueprint,
    parts: &Parts<'_>,
) -> Result<Patched, Obstacle> {
    let (variables, builtin) = (by_name(topology(cluster).variables.as_deref()), builtins::cluster(cluster));
    let items = patching::items(cluster, blueprint, parts);
    let holders = match has_external_patch(&blueprint.class) {
        true => items.iter().map(|item| holder(cluster, blueprint, parts, &item.place)).collect(),
        // No request has them.
        false => Vec::new(),
    };
    let namespace = cluster.namespace().unwrap_or_default();
    let calls = Calls { external, namespace, holders };
    let mut patching = Patching::new(&blueprint.class, &variables, &builtin, items);
    for patch in blueprint.class.spec.patches.iter().flatten() {
        match &patch.external {
            Some(definition) => calls.generate(&mut patching, patch, definition).await?,
            None => {
                let applied = patching.apply_definitions(patch);
                applied.map_err(|error| Obstacle::Refused(error.to_string()))?;
            }
        }
    }
    for patch in blueprint.class.spec.patches.iter().flatten() {
        if let Some(definition) = &patch.external {
            calls.validate(&patching, patch, definition).await?;
        }
    }
    Ok(patching::patched(patching.items(), blueprint, parts))
}

/// Calls about the templates of one Cluster.
struct Calls<'a> {
    external: &'a External<'a>,
    namespace: String,
    /// Users of the templates, in the order of the items.
    holders: Vec<HolderReference>,
}

impl Calls<'_> {
    /// Applies the patches that the server of an external patch generates. One without such a handler only validates.
    async fn generate(
        &self,
        patching: &mut Patching<'_>,
        patch: &ClusterClassPatch,
        definition: &ExternalPatchDefinition,
    ) -> Result<(), Obstacle> {
        let Some(handler) = &definition.generate_patches_extension else { return Ok(()) };
        let item = |((position, item), holder): ((usize, &Item), &HolderReference)| GeneratePatchesItem {
            uid: uid(position),
            holder_reference: holder.clone(),
            object: sent(&item.template),
            variables: named(patching.item_variables(patch, item)),
        };
        let items = patching.items().iter().enumerate().zip(&self.holders).map(item).collect();
        let request = GeneratePatchesRequest { variables: named(patching.variables(patch)), items };
        let call = self.call(handler, definition);
        let answer = self.external.extensions.call(&call, &request);
        let answer = self.external.answer((&of(patch), handler), answer).await?;
        for (index, generated) in answer.items.iter().enumerate() {
            apply(patching, patch, generated).map_err(|problem| {
                Obstacle::unusable(&format!(
                    "{problem}. Extension handler {handler} generated it, as items[{index}] of its answer"
                ))
            })?;
        }
        Ok(())
    }

    /// Lets the server of an external patch validate the patched templates, if it has a handler for that.
    async fn validate(
        &self,
        patching: &Patching<'_>,
        patch: &ClusterClassPatch,
        definition: &ExternalPatchDefinition,
    ) -> Result<(), Obstacle> {
        let Some(handler) = &definition.validate_topology_extension else { return Ok(()) };
        let item = |(item, holder): (&Item, &HolderReference)| ValidateTopologyItem {
            holder_reference: holder.clone(),
            object: sent(&item.template),
            variables: named(patching.item_variables(patch, item)),
        };
        let items = patching.items().iter().zip(&self.holders).map(item).collect();
        let request = ValidateTopologyRequest { variables: named(patching.variables(patch)), items };
        let call = self.call(handler, definition);
        let answer = self.external.extensions.call(&call, &request);
        self.external.answer((&of(patch), handler), answer).await.map(drop)
    }

    fn call<'b>(&'b self, handler: &'b str, definition: &'b ExternalPatchDefinition) -> Call<'b> {
        let settings = definition.settings.as_ref().unwrap_or(&NO_SETTINGS);
        Call { handler, namespace: &self.namespace, settings }
    }
}

/// Applies one generated patch. The error is for people.
fn apply(
    patching: &mut Patching<'_>,
    patch: &ClusterClassPatch,
    generated: &GeneratedPatch,
) -> Result<(), String> {
    let found = position(&generated.uid).filter(|position| *position < patching.items().len());
    let Some(position) = found else {
        return Err(format!("{}: uid {:?} is that of no template", of(patch), generated.uid));
    };
    let document = generated.document().map_err(|problem| format!("{}: {problem}", of(patch)))?;
    let generated = match &document {
        PatchDocument::Json(operations) => Generated::Operations(operations),
        PatchDocument::Merge(fields) => Generated::Fields(fields),
    };
    patching.apply_generated(patch, position, generated).map_err(|error| error.to_string())
}

fn of(patch: &ClusterClassPatch) -> String {
    format!("patch {:?}", patch.name)
}

/// Returns the identifier of the template at a position. It is the same in all passes, so that equal requests are equal texts.
fn uid(position: usize) -> String {
    format!("{UID}{position:012}")
}

/// Returns the position of the template with an identifier.
fn position(text: &str) -> Option<usize> {
    let position: usize = text.strip_prefix(UID)?.parse().ok()?;
    (uid(position) == text).then_some(position)
}

fn named(variables: Vec<(String, Value)>) -> Vec<Variable> {
    variables.into_iter().map(|(name, value)| Variable { name, value }).collect()
}

/// Returns a template as requests have it: without its field managers.
fn sent(template: &Value) -> Value {
    let mut sent = template.clone();
    if let Some(metadata) = sent.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    sent
}

/// Returns the reference of the object that uses the template of a place.
fn holder(cluster: &Cluster, blueprint: &Blueprint, parts: &Parts<'_>, place: &Place) -> HolderReference {
    let reference = |(api_version, kind): (&str, &str), name: &str, field_path: &str| HolderReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: cluster.namespace().unwrap_or_default(),
        name: name.to_owned(),
        field_path: field_path.to_owned(),
    };
    let core = Cluster::api_version(&());
    let of_cluster = |field: &str| reference((&core, "Cluster"), &cluster.name_any(), field);
    let of_group = |kind: &str, topology_name: &str, field: &str| {
        let group = parts.groups.iter().find(|group| group.topology.name == topology_name);
        reference((&core, kind), group.map(|group| group.name.as_str()).unwrap_or_default(), field)
    };
    match place {
        Place::InfrastructureCluster => of_cluster("spec.infrastructureRef"),
        Place::ControlPlane => of_cluster("spec.controlPlaneRef"),
        Place::ControlPlaneInfrastructureMachine => {
            let template = &blueprint.control_plane;
            let api_version = template.resource.api_version.as_str();
            let field = machine_template_field(api_version);
            reference((api_version, template.kind_of_object()), &parts.control_plane, &field)
        }
        Place::DeploymentBootstrap { topology_name, .. } => {
            of_group("MachineDeployment", topology_name, BOOTSTRAP)
        }
        Place::DeploymentInfrastructure { topology_name, .. } => {
            of_group("MachineDeployment", topology_name, INFRASTRUCTURE)
        }
        Place::PoolBootstrap { topology_name, .. } => of_group("MachinePool", topology_name, BOOTSTRAP),
        Place::PoolInfrastructure { topology_name, .. } => {
            of_group("MachinePool", topology_name, INFRASTRUCTURE)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use apiserver_types::ClusterClass;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;

    fn class() -> ClusterClass {
        let reference = json!({"templateRef": {"apiVersion": "g/v1", "kind": "T", "name": "t"}});
        let patch = json!({"name": "ext", "external": {"generatePatchesExtension": "p.ext"}});
        let spec = json!({"infrastructure": reference, "controlPlane": reference, "patches": [patch]});
        ClusterClass::new("c", serde_json::from_value(spec).unwrap())
    }

    fn item(place: Place) -> Item {
        let metadata = json!({"name": "t", "managedFields": [{"manager": "kubectl"}]});
        let template = json!({
            "apiVersion": "g/v1", "kind": "T", "metadata": metadata,
            "spec": {"template": {"spec": {"image": "old"}}},
        });
        Item { place, template, variables: BTreeMap::new(), builtin: Value::Null }
    }

    fn generated(uid: &str, patch_type: &str, patch: &Value) -> GeneratedPatch {
        let patch = STANDARD.encode(patch.to_string());
        GeneratedPatch { uid: uid.to_owned(), patch_type: patch_type.to_owned(), patch }
    }

    /// Returns the images of two templates after a patch.
    fn images(generated: &GeneratedPatch) -> Result<[Value; 2], String> {
        let (class, variables) = (class(), BTreeMap::new());
        let items = vec![item(Place::InfrastructureCluster), item(Place::ControlPlane)];
        let mut patching = Patching::new(&class, &variables, &Value::Null, items);
        let patch = class.spec.patches.as_ref().unwrap()[0].clone();
        apply(&mut patching, &patch, generated)?;
        let spec = |index: usize| patching.items()[index].template["spec"]["template"]["spec"].clone();
        Ok([0, 1].map(|index| spec(index)["image"].take()))
    }

    #[test]
    fn a_generated_patch_changes_the_template_that_its_uid_names() {
        let second = "00000000-0000-4000-8000-000000000001";
        let fields = json!({"spec": {"template": {"spec": {"image": "new"}}}});
        let merged = images(&generated(second, "JSONMergePatch", &fields));
        assert_eq!(merged, Ok([json!("old"), json!("new")]));
        let operations = json!([{"op": "replace", "path": "/spec/template/spec/image", "value": "new"}]);
        assert_eq!(images(&generated(&uid(0), "JSONPatch", &operations)), Ok([json!("new"), json!("old")]));
    }

    #[test]
    fn an_answer_that_cannot_be_applied_names_the_patch_and_the_problem() {
        let nowhere = json!([{"op": "remove", "path": "/spec/template/spec/none"}]);
        for (generated, expected) in [
            (generated("x", "JSONPatch", &json!([])), "patch \"ext\": uid \"x\" is that of no template"),
            (generated(&uid(2), "JSONPatch", &json!([])), "is that of no template"),
            (generated(&format!("{UID}1"), "JSONPatch", &json!([])), "is that of no template"),
            (generated(&uid(0), "JSONPatch", &json!({})), "patch \"ext\": the JSONPatch is no list"),
            (generated(&uid(0), "YAML", &json!([])), "patch \"ext\": patchType is \"YAML\""),
            (
                generated(&uid(1), "JSONPatch", &nowhere),
                "patch \"ext\": control plane: operation 0: path \"/spec/template/spec/none\" does not exist",
            ),
        ] {
            let error = images(&generated).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_template_is_sent_without_its_field_managers() {
        let item = item(Place::ControlPlane);
        assert_eq!(sent(&item.template)["metadata"], json!({"name": "t"}));
    }
}
