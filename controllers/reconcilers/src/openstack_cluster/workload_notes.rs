//! Notes about the workload cluster, in an annotation of its OpenStackCluster.
//!
//! Only while the workload cluster lives, the cloud and the workload API show what belongs to it. The deletion of the
//! cluster needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, LoadBalancerQuery, PortQuery};
use controllers_runtime::{ControllerContext, Journal, OwnershipTag, ReconcileError};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::balancer_members::member_addresses;
use super::desired::{Desired, NetworkWish};
use super::observe::Observed;
use super::service_balancers::{Members, is_of_kubernetes, service, whose};
use super::workload_names;
use crate::names;

/// Annotation with the notes: a JSON object.
const ANNOTATION: &str = "capstan.dev/workload";

/// Most things of one kind that are noted, so that the annotation stays small.
const NOTED: usize = 200;

/// Contents of the annotation. Fields of other versions stay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct WorkloadNotes {
    /// Name that OpenStack's cloud provider has for the workload cluster.
    #[serde(default, rename = "ccm", skip_serializing_if = "Option::is_none")]
    pub cloud_provider_name: Option<String>,
    /// Name that the Cinder CSI driver has for it.
    #[serde(default, rename = "csi", skip_serializing_if = "Option::is_none")]
    pub csi_name: Option<String>,
    /// Id that the Manila CSI driver has for it; never empty.
    #[serde(default, rename = "manila", skip_serializing_if = "Option::is_none")]
    pub manila_name: Option<String>,
    /// Ids of the volumes that were seen on its servers.
    #[serde(default)]
    pub volumes: Vec<String>,
    /// Ids of load balancers whose members were all its machines.
    #[serde(default, rename = "loadBalancers", skip_serializing_if = "Vec::is_empty")]
    pub load_balancers: Vec<String>,
    /// Addresses of its machines on a network of another owner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Fields of other versions.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl WorkloadNotes {
    /// Reads the annotation. A text that cannot be parsed counts as none.
    pub(super) fn read(object: &OpenStackCluster) -> Self {
        let text = object.annotations().get(ANNOTATION).map(String::as_str).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }

    /// Returns true if a name of the workload cluster is needed and not known. The cloud does not show whether that of the
    /// Manila CSI driver is needed.
    pub(super) fn lacks_name(&self) -> bool {
        (self.cloud_provider_name.is_none() && !self.load_balancers.is_empty())
            || (self.csi_name.is_none() && !self.volumes.is_empty())
    }
}

/// Adds new entries to a list. If it is full, the oldest that are not seen give way. Entries that are seen stay, so the list
/// of a large cluster does not change with each pass.
fn add<'a>(noted: &mut Vec<String>, seen: impl Iterator<Item = &'a str>) {
    let seen: BTreeSet<&str> = seen.collect();
    let known: BTreeSet<&str> = noted.iter().map(String::as_str).collect();
    let new: Vec<String> = seen.difference(&known).map(|id| (*id).to_owned()).collect();
    let mut surplus = (noted.len() + new.len()).saturating_sub(NOTED);
    noted.retain(|id| {
        let gives_way = surplus > 0 && !seen.contains(id.as_str());
        surplus -= usize::from(gives_way);
        !gives_way
    });
    noted.extend(new);
    noted.truncate(NOTED);
}

/// Notes what belongs to the workload cluster of a cluster that is settled. `looks` is the cloud as the pass reads it.
pub(super) async fn note(
    context: &ControllerContext,
    object: &mut OpenStackCluster,
    cluster: &str,
    (desired, observed): (&Desired, &Observed),
    (cloud, looks): (&Arc<dyn Cloud>, &Arc<dyn Cloud>),
) -> Result<(), ReconcileError> {
    let namespace = object.namespace().unwrap_or_default();
    let machines: Api<OpenStackMachine> = Api::namespaced(context.client.clone(), &namespace);
    let params = ListParams::default().labels(&format!("{}={cluster}", crate::CLUSTER_NAME_LABEL));
    let machines = machines.list(&params).await?.items;
    if !machines.iter().any(|it| server_id(it).is_some()) {
        return Ok(());
    }
    let before = WorkloadNotes::read(object);
    let mut notes = before.clone();
    volumes(context, cloud, &machines, &mut notes).await?;
    let is_existing = !matches!(desired.network, NetworkWish::Managed { .. });
    if let Some(network) = observed.network.as_ref().filter(|_| is_existing) {
        let tag = OwnershipTag::of(object);
        // The next pass looks again.
        if let Err(error) = load_balancers(looks, &tag, &machines, &network.id, &mut notes).await {
            tracing::debug!(cluster, error = %error, "load balancers of Services not noted");
        }
    }
    workload_names::learn(context, &namespace, cluster, &mut notes).await;
    if notes == before {
        return Ok(());
    }
    let api: Api<OpenStackCluster> = Api::namespaced(context.client.clone(), &namespace);
    let text = serde_json::to_string(&notes).unwrap_or_default();
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "annotations": {ANNOTATION: text},
    }});
    *object = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

fn server_id(machine: &OpenStackMachine) -> Option<&str> {
    machine.status.as_ref()?.instance_id.as_deref()
}

/// Returns the ids of a kind in the journals of machines.
fn journaled(machines: &[OpenStackMachine], kind: &str) -> BTreeSet<String> {
    let journals: Vec<Journal> = machines.iter().map(Journal::of).collect();
    let entries = journals.iter().flat_map(|journal| journal.of_kind(kind));
    entries.filter_map(|entry| entry.id.clone()).collect()
}

/// Notes the volumes that are attached to the servers and that no machine made.
async fn volumes(
    context: &ControllerContext,
    cloud: &Arc<dyn Cloud>,
    machines: &[OpenStackMachine],
    notes: &mut WorkloadNotes,
) -> Result<(), ReconcileError> {
    let listed = context.servers.list_at_rest(cloud).await?;
    let own = journaled(machines, names::VOLUME);
    let ids: BTreeSet<&str> = machines.iter().filter_map(server_id).collect();
    let attached = ids.into_iter().filter_map(|id| listed.get(id)).flat_map(|server| &server.volumes);
    add(&mut notes.volumes, attached.map(String::as_str).filter(|id| !own.contains(*id)));
    Ok(())
}

/// Notes the load balancers whose members are all machines of the cluster, on a network that others use, too. One that was
/// noted stays until another owner's machine is behind it: machines that leave have no ports any more.
async fn load_balancers(
    cloud: &Arc<dyn Cloud>,
    tag: &OwnershipTag,
    machines: &[OpenStackMachine],
    network: &str,
    notes: &mut WorkloadNotes,
) -> Result<(), ReconcileError> {
    let query = PortQuery { network_id: Some(network.to_owned()), ..PortQuery::default() };
    let own = journaled(machines, names::PORT);
    let (mut ours, mut others) = (BTreeSet::new(), BTreeSet::new());
    for port in cloud.ports(&query).await? {
        let addresses = port.fixed_ips.into_iter().filter_map(|ip| ip.ip_address);
        if own.contains(&port.id) { ours.extend(addresses) } else { others.extend(addresses) }
    }
    add(&mut notes.addresses, ours.iter().map(String::as_str));
    let found = cloud.load_balancers(&LoadBalancerQuery::default()).await?;
    let exists = |id: &String| found.iter().any(|it| it.id == *id && it.provisioning_status != "DELETED");
    notes.load_balancers.retain(exists);
    // Once the name of this workload cluster is known, those of other ones cost no calls.
    let name = notes.cloud_provider_name.clone();
    let is_of_other = |it: &controllers_infrastructure::LoadBalancer| {
        service(it).zip(name.as_ref()).is_some_and(|(of, name)| of.cluster != *name)
    };
    let is_candidate = |it: &&controllers_infrastructure::LoadBalancer| {
        exists(&it.id) && is_of_kubernetes(it) && !tag.is_on(&it.tags, &it.description) && !is_of_other(it)
    };
    let mut seen = BTreeSet::new();
    for balancer in found.iter().filter(is_candidate) {
        match whose(&member_addresses(cloud, &balancer.id).await?, &ours, &others) {
            Members::Ours => drop(seen.insert(balancer.id.as_str())),
            Members::Foreign => notes.load_balancers.retain(|id| *id != balancer.id),
            Members::Unclear => {}
        }
    }
    add(&mut notes.load_balancers, seen.into_iter());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_2_what_is_seen_is_noted_and_the_oldest_give_way() {
        let noted: Vec<String> = (0..NOTED).map(|index| format!("v{index}")).collect();
        let with = |seen: &[&str]| {
            let mut all = noted.clone();
            add(&mut all, seen.iter().copied());
            all
        };
        assert_eq!(with(&["v0", "v199"]), noted);
        let found = with(&["new", "v5"]);
        assert_eq!((found.len(), found[0].as_str(), found[NOTED - 1].as_str()), (NOTED, "v1", "new"));
        // More are seen than are noted: two passes write the same.
        let many: Vec<String> = (0..NOTED + 50).map(|index| format!("w{index:03}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let first = with(&many);
        let mut second = first.clone();
        add(&mut second, many.iter().copied());
        assert_eq!((first.len(), &second), (NOTED, &first));
    }

    #[test]
    fn r17_2_what_another_version_noted_stays_in_the_annotation() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        assert_eq!(WorkloadNotes::read(&object), WorkloadNotes::default());
        let text = r#"{"ccm":"prod","manila":"p","shares":["s"],"volumes":["v"]}"#;
        object.annotations_mut().insert(ANNOTATION.to_owned(), text.to_owned());
        let notes = WorkloadNotes::read(&object);
        assert_eq!(notes.cloud_provider_name.as_deref(), Some("prod"));
        assert_eq!(notes.manila_name.as_deref(), Some("p"));
        let text = serde_json::to_value(notes).unwrap();
        assert_eq!(text, json!({"ccm": "prod", "manila": "p", "shares": ["s"], "volumes": ["v"]}));
    }

    #[test]
    fn a_name_of_the_workload_cluster_is_read_only_if_something_depends_on_it() {
        let mut notes = WorkloadNotes::default();
        assert!(!notes.lacks_name());
        notes.load_balancers.push("lb".to_owned());
        assert!(notes.lacks_name());
        notes.cloud_provider_name = Some("prod".to_owned());
        assert!(!notes.lacks_name());
        notes.volumes.push("v".to_owned());
        assert!(notes.lacks_name());
    }
}
