//! Patches of a ClusterClass, applied to the templates of one Cluster.

mod generated;
mod items;
mod json_patch;
mod select;
#[cfg(test)]
mod tests;
mod value;
mod variable_path;

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::{ClusterClass, ClusterClassPatch, PatchDefinition};
use serde_json::{Map, Value};

pub use generated::{Generated, applied};
pub use items::{GroupTemplates, Templates, items};

/// Source of the variables that the class itself defines.
const INLINE: &str = "inline";

/// Name of the built-in variables.
const BUILTIN: &str = "builtin";

/// Use of a template in a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Template of the infrastructure object of the Cluster.
    InfrastructureCluster,
    /// Template of the control plane object.
    ControlPlane,
    /// Template of the infrastructure objects of control plane Machines.
    ControlPlaneInfrastructureMachine,
    /// Bootstrap template of a MachineDeployment.
    DeploymentBootstrap {
        /// Worker class in the ClusterClass.
        class: String,
        /// Name of the worker group in the topology.
        topology_name: String,
    },
    /// Infrastructure template of a MachineDeployment.
    DeploymentInfrastructure {
        /// Worker class in the ClusterClass.
        class: String,
        /// Name of the worker group in the topology.
        topology_name: String,
    },
    /// Bootstrap template of a MachinePool.
    PoolBootstrap {
        /// Worker class in the ClusterClass.
        class: String,
        /// Name of the worker group in the topology.
        topology_name: String,
    },
    /// Infrastructure template of a MachinePool.
    PoolInfrastructure {
        /// Worker class in the ClusterClass.
        class: String,
        /// Name of the worker group in the topology.
        topology_name: String,
    },
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InfrastructureCluster => f.write_str("infrastructure cluster"),
            Self::ControlPlane => f.write_str("control plane"),
            Self::ControlPlaneInfrastructureMachine => f.write_str("control plane infrastructure machine"),
            Self::DeploymentBootstrap { topology_name, .. } => {
                write!(f, "bootstrap of MachineDeployment topology {topology_name}")
            }
            Self::DeploymentInfrastructure { topology_name, .. } => {
                write!(f, "infrastructure of MachineDeployment topology {topology_name}")
            }
            Self::PoolBootstrap { topology_name, .. } => {
                write!(f, "bootstrap of MachinePool topology {topology_name}")
            }
            Self::PoolInfrastructure { topology_name, .. } => {
                write!(f, "infrastructure of MachinePool topology {topology_name}")
            }
        }
    }
}

/// Template of a topology, with the variables that its patches see.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Use of the template.
    pub place: Place,
    /// Whole template object: `apiVersion`, `kind`, `metadata` and `spec.template`.
    pub template: Value,
    /// Overrides of variables for this item. Each replaces the whole variable of the Cluster.
    pub variables: BTreeMap<String, Value>,
    /// Built-in variables of this item, without those of the Cluster: an object with `controlPlane`,
    /// `machineDeployment` or `machinePool`. Null if the item has none.
    pub builtin: Value,
}

/// Error of a patch. The text is stable: it contains no generated names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("patch {patch:?}: {cause}")]
pub struct PatchError {
    /// Name of the patch.
    pub patch: String,
    /// Cause, with the definition and the item.
    pub cause: String,
}

/// Patching of the templates of one Cluster. The patches come one after the other, each on top of those before it. Between them,
/// the caller calls the extension server of an external patch.
///
/// Of a template, only `spec.template.spec` and the labels and annotations of `spec.template.metadata` can change; by an
/// external patch also the labels and annotations of its own metadata. Other changes have no effect.
#[derive(Debug, Clone)]
pub struct Patching<'a> {
    class: &'a ClusterClass,
    cluster_variables: &'a BTreeMap<String, Value>,
    global_builtin: &'a Value,
    items: Vec<Item>,
}

impl<'a> Patching<'a> {
    /// Creates the patching of templates. `global_builtin` is the value of [`crate::builtins::cluster`].
    pub fn new(
        class: &'a ClusterClass,
        cluster_variables: &'a BTreeMap<String, Value>,
        global_builtin: &'a Value,
        items: Vec<Item>,
    ) -> Self {
        Self { class, cluster_variables, global_builtin, items }
    }

    /// Returns the items after the patches so far.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the items after the patches so far.
    pub fn into_items(self) -> Vec<Item> {
        self.items
    }

    /// Applies the definitions of a patch to all items.
    ///
    /// # Errors
    /// The first definition that fails.
    pub fn apply_definitions(&mut self, patch: &ClusterClassPatch) -> Result<(), PatchError> {
        let known = known_variables(self.class, &patch.name);
        let global = (self.cluster_variables, self.global_builtin);
        for item in &mut self.items {
            let place = item.place.to_string();
            patch_item(patch, &known, global, item).map_err(|cause| refusal(patch, &place, &cause))?;
        }
        Ok(())
    }

    /// Applies a patch that an extension server generated for the item at this position.
    ///
    /// # Errors
    /// The patch cannot be applied to the template, or there is no such item.
    pub fn apply_generated(
        &mut self,
        patch: &ClusterClassPatch,
        position: usize,
        generated: Generated<'_>,
    ) -> Result<(), PatchError> {
        let Some(item) = self.items.get_mut(position) else {
            let cause = format!("there is no template {position}");
            return Err(PatchError { patch: patch.name.clone(), cause });
        };
        let place = item.place.to_string();
        let patched = generated::patched(&item.template, generated);
        item.template = patched.map_err(|cause| refusal(patch, &place, &cause))?;
        Ok(())
    }

    /// Returns the variables of the Cluster that an external patch sees: those that it declares, by name, and then the
    /// built-in ones.
    pub fn variables(&self, patch: &ClusterClassPatch) -> Vec<(String, Value)> {
        self.declared(patch, self.cluster_variables, self.global_builtin)
    }

    /// Returns the variables of an item alone that an external patch sees: overrides, and the built-in ones of the item.
    pub fn item_variables(&self, patch: &ClusterClassPatch, item: &Item) -> Vec<(String, Value)> {
        self.declared(patch, &item.variables, &item.builtin)
    }

    fn declared(
        &self,
        patch: &ClusterClassPatch,
        variables: &BTreeMap<String, Value>,
        builtin: &Value,
    ) -> Vec<(String, Value)> {
        let declared: BTreeSet<&str> =
            collected(self.class, |from| from == patch.name).filter(|name| *name != BUILTIN).collect();
        let seen = variables.iter().filter(|(name, _)| declared.contains(name.as_str()));
        let owned = |(name, value): (&String, &Value)| (name.clone(), value.clone());
        let mut seen: Vec<(String, Value)> = seen.map(owned).collect();
        if !builtin.is_null() {
            seen.push((BUILTIN.to_owned(), builtin.clone()));
        }
        seen
    }
}

/// Applies the patches of the class that have definitions to the items, in order. Those of extension servers are left out:
/// no server is called. The arguments are those of [`Patching::new`].
///
/// # Errors
/// [`PatchError`] of the first patch that fails.
pub fn apply_definitions(
    class: &ClusterClass,
    cluster_variables: &BTreeMap<String, Value>,
    global_builtin: &Value,
    items: Vec<Item>,
) -> Result<Vec<Item>, PatchError> {
    let mut patching = Patching::new(class, cluster_variables, global_builtin, items);
    for patch in class.spec.patches.iter().flatten().filter(|patch| patch.external.is_none()) {
        patching.apply_definitions(patch)?;
    }
    Ok(patching.into_items())
}

fn refusal(patch: &ClusterClassPatch, place: &str, cause: &str) -> PatchError {
    PatchError { patch: patch.name.clone(), cause: format!("{place}: {cause}") }
}

/// Returns the names of the variables in the status of a class that have a definition from a matching source.
fn collected(class: &ClusterClass, is_source: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let collected = class.status.iter().flat_map(|status| status.variables.iter().flatten());
    let known = collected
        .filter(move |variable| variable.definitions.iter().any(|definition| is_source(&definition.from)));
    known.map(|variable| variable.name.as_str())
}

/// Returns the names of the variables that a patch sees: those of the class, and those that the patch declares.
fn known_variables<'a>(class: &'a ClusterClass, patch: &str) -> BTreeSet<&'a str> {
    let own = class.spec.variables.iter().flatten().map(|variable| variable.name.as_str());
    own.chain(collected(class, |from| from == patch || from == INLINE)).collect()
}

/// Applies one patch to one item.
fn patch_item(
    patch: &ClusterClassPatch,
    known: &BTreeSet<&str>,
    (cluster_variables, global_builtin): (&BTreeMap<String, Value>, &Value),
    item: &mut Item,
) -> Result<(), String> {
    let definitions = patch.definitions.iter().flatten().enumerate();
    let selected: Vec<(usize, &PatchDefinition)> =
        definitions.filter(|(_, definition)| select::selects(&definition.selector, item)).collect();
    if selected.is_empty() {
        return Ok(());
    }
    let overlaid = cluster_variables.iter().chain(&item.variables);
    let is_known = |(name, _): &(&String, &Value)| known.contains(name.as_str()) && *name != BUILTIN;
    let mut variables: BTreeMap<String, Value> =
        overlaid.filter(is_known).map(|(name, value)| (name.clone(), value.clone())).collect();
    variables.insert(BUILTIN.to_owned(), merged(global_builtin, &item.builtin));
    if !value::is_enabled(patch.enabled_if.as_deref(), &variables)? {
        return Ok(());
    }
    let before = item.template.clone();
    for (index, definition) in selected {
        for (number, operation) in definition.json_patches.iter().enumerate() {
            let result = value::value(operation, &variables).and_then(|value| {
                json_patch::apply(&mut item.template, &operation.op, &operation.path, value)
            });
            result.map_err(|cause| format!("definitions[{index}].jsonPatches[{number}]: {cause}"))?;
        }
    }
    item.template = confined(before, &item.template)?;
    Ok(())
}

/// Returns the built-in variables of the Cluster and of an item as one object.
fn merged(global: &Value, own: &Value) -> Value {
    let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut all = fields(global);
    all.extend(fields(own));
    Value::Object(all)
}

/// Takes from the patched template only what patches may change.
fn confined(before: Value, patched: &Value) -> Result<Value, String> {
    let spec = patched.pointer("/spec/template/spec").cloned();
    let metadata = patched.pointer("/spec/template/metadata").and_then(Value::as_object);
    let mut template = before;
    let Some(holder) = template.pointer_mut("/spec/template").and_then(Value::as_object_mut) else {
        return Err("the template has no field spec.template".to_owned());
    };
    match spec {
        Some(spec) => holder.insert("spec".to_owned(), spec),
        None if holder.contains_key("spec") => return Err("spec.template.spec was removed".to_owned()),
        None => None,
    };
    let mut kept = holder.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    take_maps(&mut kept, metadata);
    match kept.is_empty() {
        true => holder.remove("metadata"),
        false => holder.insert("metadata".to_owned(), Value::Object(kept)),
    };
    Ok(template)
}

/// Gives metadata the labels and annotations of other metadata.
fn take_maps(kept: &mut Map<String, Value>, from: Option<&Map<String, Value>>) {
    for name in ["labels", "annotations"] {
        match from.and_then(|metadata| metadata.get(name)) {
            Some(map) => kept.insert(name.to_owned(), map.clone()),
            None => kept.remove(name),
        };
    }
}
