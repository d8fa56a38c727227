//! Names of new Machines with an index: the lowest number, from 0, whose name is free.
//!
//! A name is taken while an object of the namespace has it that a Machine is, or is made of: a Machine, a server or
//! bootstrap data, also of another owner, and also while it is being deleted. It is taken as well while the workload
//! cluster has a Node of that name: the kubelet of a new server would take over the Node of the earlier one, with its
//! provider ID, which cannot be changed. Nothing is recorded, so an interrupted creation takes no index for good.

use std::collections::BTreeSet;

use apiserver_types::{Cluster, Machine};
use controllers_runtime::{ControllerContext, ReconcileError};
use controllers_workload::ClusterKey;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use crate::{generated_names, templates};

/// Naming template of an owner of Machines, with the values of its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Naming {
    template: String,
    /// Paths and values, for example of `.cluster.name`.
    variables: Vec<(&'static str, String)>,
}

impl Naming {
    pub(crate) fn new(template: &str, variables: &[(&'static str, &str)]) -> Self {
        let variables = variables.iter().map(|(path, value)| (*path, (*value).to_owned())).collect();
        Self { template: template.to_owned(), variables }
    }

    /// Reports whether names differ by the index of their Machine.
    pub(crate) fn has_index(&self) -> bool {
        matches!((self.rendered("", 0), self.rendered("", 1)), (Ok(first), Ok(second)) if first != second)
    }

    /// Returns a name with another random part at each call.
    ///
    /// # Errors
    /// The template cannot be used. For people.
    pub(crate) fn random(&self) -> Result<String, String> {
        let random = generated_names::random();
        self.rendered(&random, 0).map(|name| generated_names::cut_before_random(name, &random))
    }

    fn indexed(&self, index: usize) -> Result<String, String> {
        let name = self.rendered(&generated_names::random(), index)?;
        Ok(generated_names::cut_before_index(name, index))
    }

    fn rendered(&self, random: &str, index: usize) -> Result<String, String> {
        let variables: Vec<(&str, &str)> =
            self.variables.iter().map(|(path, value)| (*path, value.as_str())).collect();
        generated_names::rendered(&self.template, &variables, random, Some(index))
    }
}

/// Names of one pass that are free, in the order of their index.
#[derive(Debug)]
pub(crate) struct FreeNames {
    naming: Naming,
    cluster: ClusterKey,
    /// Waits for a connection to the workload cluster, because it can have Nodes.
    needs_nodes: bool,
    taken: BTreeSet<String>,
    /// Index to try next.
    index: usize,
}

impl FreeNames {
    /// Reads which names are taken. `parts` are group and kind of the objects that are made for a Machine.
    ///
    /// # Errors
    /// The API's own failure.
    pub(crate) async fn read(
        context: &ControllerContext,
        naming: Naming,
        cluster: ClusterKey,
        parts: &[(&str, &str)],
        needs_nodes: bool,
    ) -> Result<Self, ReconcileError> {
        let (machines, all) =
            (Api::<Machine>::namespaced(context.client.clone(), &cluster.namespace), ListParams::default());
        let listed = machines.list_metadata(&all).await?;
        let mut taken: BTreeSet<String> = listed.items.iter().map(ResourceExt::name_any).collect();
        for (group, kind) in parts {
            // Of a kind that is not served there are no objects.
            let Ok((api, _)) = templates::api(context, &cluster.namespace, group, kind) else { continue };
            let listed = api.list_metadata(&all).await?;
            taken.extend(listed.items.iter().map(ResourceExt::name_any));
        }
        Ok(Self { naming, cluster, needs_nodes, taken, index: 0 })
    }

    /// Returns the next free name, which is taken then.
    ///
    /// # Errors
    /// The template gives none, or the Nodes are not known. For people.
    pub(crate) async fn take(&mut self, context: &ControllerContext) -> Result<String, String> {
        loop {
            let name = self.lowest()?;
            match node_named(context, &self.cluster, &name).await {
                Presence::Present => {}
                Presence::Unknown if self.needs_nodes => {
                    return Err(format!(
                        "the workload cluster does not say whether Node {name} exists. A Machine with an index in its name \
                         is made only once that Node is gone"
                    ));
                }
                Presence::Absent | Presence::Unknown => return Ok(name),
            }
        }
    }

    /// Returns the name of the lowest index that no object has. Pure, apart from the memory of this pass.
    fn lowest(&mut self) -> Result<String, String> {
        // If each index has a name of its own, there are at most as many indexes before the free one as names are taken.
        while self.index <= self.taken.len() {
            let name = self.naming.indexed(self.index)?;
            self.index = self.index.saturating_add(1);
            if self.taken.insert(name.clone()) {
                return Ok(name);
            }
        }
        let template = &self.naming.template;
        Err(format!(
            "the name template {template:?} gives no free name: each index must give a name of its own"
        ))
    }
}

/// Reports whether a workload cluster has had Nodes.
pub(crate) fn can_have_nodes(cluster: &Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    initialization.and_then(|it| it.control_plane_initialized) == Some(true)
}

/// Existence of a Node.
enum Presence {
    Present,
    Absent,
    /// There is no connection.
    Unknown,
}

/// Looks for a Node. The watch may be behind its deletion, so one that it shows is read.
async fn node_named(context: &ControllerContext, cluster: &ClusterKey, name: &str) -> Presence {
    match context.workloads.node(cluster, name) {
        Ok(None) => return Presence::Absent,
        Ok(Some(_)) => {}
        Err(_) => return Presence::Unknown,
    }
    let Ok(client) = context.workloads.client(cluster) else { return Presence::Unknown };
    match Api::<Node>::all(client).get_opt(name).await {
        Ok(None) => Presence::Absent,
        Ok(Some(_)) => Presence::Present,
        Err(_) => Presence::Unknown,
    }
}

#[cfg(test)]
#[path = "machine_names_tests.rs"]
mod tests;
