//! Names of the Machines that one pass creates.

use apiserver_types::MachineSet;
use controllers_runtime::{ControllerContext, ReconcileError};
use controllers_workload::ClusterKey;
use kube::ResourceExt;

use super::desired;
use super::observe::{self, Observed};
use crate::machine_names::{self, FreeNames};
use crate::templates;

/// Source of names.
pub(super) enum Names {
    /// With a random part. None is among these.
    Random(Vec<String>),
    /// With an index.
    Free(FreeNames),
}

/// Prepares the names of the new Machines of a set.
///
/// # Errors
/// The API's own failure.
pub(super) async fn prepare(
    context: &ControllerContext,
    set: &MachineSet,
    observed: &Observed,
) -> Result<Names, ReconcileError> {
    let naming = desired::naming(set);
    if !naming.has_index() {
        return Ok(Names::Random(observed.machines.iter().map(ResourceExt::name_any).collect()));
    }
    let references = observe::template_references(set);
    let parts: Vec<(&str, &str)> =
        references.map(|it| (it.api_group.as_str(), templates::kind_of(it))).collect();
    let namespace = set.namespace().unwrap_or_default();
    let cluster = ClusterKey { namespace, name: set.spec.cluster_name.clone() };
    let needs_nodes = observed.cluster.as_ref().is_some_and(machine_names::can_have_nodes);
    FreeNames::read(context, naming, cluster, &parts, needs_nodes).await.map(Names::Free)
}

impl Names {
    /// Returns a name that no other Machine has, nor gets in this pass.
    ///
    /// # Errors
    /// There is none now. For people.
    pub(super) async fn take(
        &mut self,
        context: &ControllerContext,
        set: &MachineSet,
    ) -> Result<String, String> {
        match self {
            Self::Free(names) => names.take(context).await,
            Self::Random(taken) => {
                let name = desired::name(set, taken)?;
                taken.push(name.clone());
                Ok(name)
            }
        }
    }

    /// Returns the text that stands for a name in errors. Each attempt has another random name, and a text that changes
    /// would be written again and again.
    pub(super) fn title(&self, set: &MachineSet, name: &str) -> String {
        match self {
            Self::Free(_) => name.to_owned(),
            Self::Random(_) => format!("{}-*", set.name_any()),
        }
    }
}

#[cfg(test)]
#[path = "names_tests.rs"]
mod tests;
