//! Control plane machines of a cluster, which are the members of the pools.

use apiserver_types::{Machine, OpenStackMachine};
use controllers_runtime::Journal;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::names;

/// Machine that serves the API, or will.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Backend {
    /// Name of the OpenStackMachine.
    pub machine: String,
    pub uid: String,
    /// Ids of its ports.
    pub ports: Vec<String>,
    /// Its address on the cluster's network and the subnet, as soon as they are known.
    pub address: Option<(String, Option<String>)>,
}

impl Backend {
    /// Returns the tag of the machine's members.
    pub(in super::super) fn tag(&self) -> String {
        names::member_tag(&self.uid)
    }
}

/// Lists the control plane machines of a cluster that are not being deleted.
pub(in super::super) async fn backends(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Result<Vec<Backend>, kube::Error> {
    let labels = format!("{}={cluster},{}", crate::CLUSTER_NAME_LABEL, names::CONTROL_PLANE_LABEL);
    let params = ListParams::default().labels(&labels);
    let machines = Api::<Machine>::namespaced(client.clone(), namespace).list(&params).await?;
    let api: Api<OpenStackMachine> = Api::namespaced(client.clone(), namespace);
    let mut backends = Vec::new();
    for machine in &machines {
        let reference = &machine.spec.infrastructure_ref;
        if reference.kind != "OpenStackMachine" {
            continue;
        }
        let Some(found) = api.get_opt(&reference.name).await? else { continue };
        if found.metadata.deletion_timestamp.is_none() {
            backends.push(backend(&found));
        }
    }
    backends.sort_by(|a, b| a.machine.cmp(&b.machine));
    Ok(backends)
}

fn backend(machine: &OpenStackMachine) -> Backend {
    let journal = Journal::of(machine);
    let ports = journal.of_kind(names::PORT).filter_map(|entry| entry.id.clone());
    Backend {
        machine: machine.name_any(),
        uid: machine.uid().unwrap_or_default(),
        ports: ports.collect(),
        address: None,
    }
}
