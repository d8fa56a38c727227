//! Wait until the volumes of a drained Node are detached.

use std::collections::BTreeSet;

use apiserver_types::MachineDrainRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::ListParams;
use kube::{Api, Client};

use super::node::{self, all, is_unreachable};
use super::progress::{names, seconds};
use super::verdict::{Verdict, is_finished, namespace};
use crate::{WorkloadError, found};

/// Names in one line: as many as upstream shows.
const NAMES: usize = 5;

/// Result of one look at the volumes of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeProgress {
    /// No volume is left to wait for, or none will be detached: the Node is gone or unreachable.
    Done,
    /// Volumes are still attached.
    Waiting(VolumesWaiting),
}

/// Volumes that are still attached to a Node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumesWaiting {
    /// PersistentVolumeClaims, as namespace and name.
    pub claims: Vec<String>,
    /// PersistentVolumes without a claim.
    pub unclaimed: Vec<String>,
    /// Entries of the Node's `status.volumesAttached` for which there is no PersistentVolume.
    pub unknown_on_node: Vec<String>,
    /// PersistentVolumes of VolumeAttachments that do not exist.
    pub unknown_attached: Vec<String>,
}

impl VolumesWaiting {
    /// Says whether no volume is left.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the text for the condition of a Machine.
    pub fn message(&self, started: Timestamp) -> String {
        let lists = [
            ("PersistentVolumeClaims", &self.claims),
            ("PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim", &self.unclaimed),
            (
                "Node with .status.volumesAttached entries not matching a PersistentVolume",
                &self.unknown_on_node,
            ),
            (
                "VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume",
                &self.unknown_attached,
            ),
        ];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        let lines = lists.map(|(text, list)| format!("* {text}: {}", names(list, NAMES)));
        let first = format!("Waiting for Node volumes to be detached (started at {})", seconds(started));
        [first].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}

/// Looks once whether volumes are attached to a Node. Volumes of Pods that the drain leaves alone do not count: they
/// stay attached.
///
/// # Errors
/// An object cannot be read, or a rule cannot be evaluated.
pub async fn wait_for_volumes(
    client: &Client,
    node: &str,
    rules: &[MachineDrainRule],
) -> Result<VolumeProgress, WorkloadError> {
    let object = found(Api::<Node>::all(client.clone()).get(node).await)?;
    let Some(object) = object.filter(|node| !is_unreachable(node)) else {
        return Ok(VolumeProgress::Done);
    };
    let attachments: Vec<VolumeAttachment> = all(&Api::all(client.clone()), ListParams::default()).await?;
    let attached = Attached::new(&object, node, &attachments)?;
    if attached.is_empty() {
        return Ok(VolumeProgress::Done);
    }
    let volumes: Vec<PersistentVolume> = all(&Api::all(client.clone()), ListParams::default()).await?;
    let pods = node::pods(client, node).await?;
    let verdicts = node::verdicts(client, &pods, rules, false).await?;
    // The volumes of a Pod that has ended are detached, whatever the drain does with it.
    let stays = |(pod, verdict): &&(&Pod, Verdict)| *verdict == Verdict::Skip && !is_finished(pod);
    let skipped = verdicts.iter().filter(stays).map(|(pod, _)| *pod);
    let waiting = attached.waiting(&volumes, &skipped.flat_map(claims).collect());
    Ok(if waiting.is_empty() { VolumeProgress::Done } else { VolumeProgress::Waiting(waiting) })
}

/// Volumes that are attached to a Node, according to two sources.
#[derive(Debug, Default)]
struct Attached {
    /// Entries of the Node's status.
    on_node: BTreeSet<String>,
    /// Names of PersistentVolumes.
    by_attachment: BTreeSet<String>,
}

impl Attached {
    fn new(node: &Node, name: &str, attachments: &[VolumeAttachment]) -> Result<Self, WorkloadError> {
        let status = node.status.as_ref().and_then(|status| status.volumes_attached.as_ref());
        let on_node = status.into_iter().flatten().map(|volume| volume.name.clone()).collect();
        let mut by_attachment = BTreeSet::new();
        for attachment in attachments {
            let attached = attachment.status.as_ref().is_some_and(|status| status.attached);
            if attachment.spec.node_name != name || !attached {
                continue;
            }
            let Some(volume) = &attachment.spec.source.persistent_volume_name else {
                let name = attachment.metadata.name.as_deref().unwrap_or_default();
                let text = format!("VolumeAttachment {name} names no PersistentVolume");
                return Err(WorkloadError::Request(text));
            };
            by_attachment.insert(volume.clone());
        }
        Ok(Self { on_node, by_attachment })
    }

    fn is_empty(&self) -> bool {
        self.on_node.is_empty() && self.by_attachment.is_empty()
    }

    /// Returns the volumes that are still attached, without those of the claims in `ignored`.
    fn waiting(mut self, volumes: &[PersistentVolume], ignored: &BTreeSet<String>) -> VolumesWaiting {
        let mut waiting = VolumesWaiting::default();
        for volume in volumes {
            let name = volume.metadata.name.clone().unwrap_or_default();
            let by_node = csi_name(volume).is_some_and(|name| self.on_node.remove(&name));
            if !self.by_attachment.remove(&name) && !by_node {
                continue;
            }
            match claim(volume) {
                Some(claim) if ignored.contains(&claim) => {}
                Some(claim) => waiting.claims.push(claim),
                None => waiting.unclaimed.push(name),
            }
        }
        waiting.unknown_on_node = self.on_node.into_iter().collect();
        waiting.unknown_attached = self.by_attachment.into_iter().collect();
        waiting
    }
}

/// Name of a volume in the status of a Node.
fn csi_name(volume: &PersistentVolume) -> Option<String> {
    let csi = volume.spec.as_ref()?.csi.as_ref()?;
    Some(format!("kubernetes.io/csi/{}^{}", csi.driver, csi.volume_handle))
}

/// Namespace and name of the claim that a volume is bound to.
fn claim(volume: &PersistentVolume) -> Option<String> {
    let claim = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let kind = claim.kind.as_deref().unwrap_or("PersistentVolumeClaim");
    let name = claim.name.as_ref().filter(|_| kind == "PersistentVolumeClaim")?;
    Some(format!("{}/{name}", claim.namespace.as_deref().unwrap_or_default()))
}

/// Claims of a Pod, also those that are created for it.
fn claims(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let names =
        volumes.iter().filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => {
                Some(format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name))
            }
            (None, None) => None,
        });
    names.map(|name| format!("{}/{name}", namespace(pod))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(attached: &[&str]) -> Node {
        let attached: Vec<Value> =
            attached.iter().map(|name| json!({ "name": name, "devicePath": "" })).collect();
        serde_json::from_value(json!({ "status": { "volumesAttached": attached } })).unwrap()
    }

    fn attachment(node: &str, source: &Value, attached: bool) -> VolumeAttachment {
        serde_json::from_value(json!({
            "metadata": { "name": "va" },
            "spec": { "attacher": "csi", "nodeName": node, "source": source },
            "status": { "attached": attached },
        }))
        .unwrap()
    }

    fn volume(name: &str, claim: Option<&str>) -> PersistentVolume {
        let claim =
            claim.map(|name| json!({ "kind": "PersistentVolumeClaim", "namespace": "ns", "name": name }));
        serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "claimRef": claim, "csi": { "driver": "cinder", "volumeHandle": format!("handle-{name}") } },
        }))
        .unwrap()
    }

    #[test]
    fn every_attached_volume_is_waited_for_once_under_its_best_name() {
        let node = node(&["kubernetes.io/csi/cinder^handle-a", "kubernetes.io/rbd/x"]);
        let named = |name: &str| json!({ "persistentVolumeName": name });
        let attachments = [
            attachment("n", &named("a"), true),
            attachment("n", &named("b"), true),
            attachment("n", &named("c"), true),
            attachment("n", &named("skipped"), true),
            attachment("n", &named("detached"), false),
            attachment("other", &named("elsewhere"), true),
        ];
        let volumes = [
            volume("a", Some("data")),
            volume("b", None),
            volume("skipped", Some("log")),
            volume("detached", Some("x")),
            volume("elsewhere", Some("y")),
        ];
        let ignored = BTreeSet::from(["ns/log".to_owned()]);
        let waiting = Attached::new(&node, "n", &attachments).unwrap().waiting(&volumes, &ignored);
        let expected = "\
Waiting for Node volumes to be detached (started at 1970-01-01T00:00:00Z)
* PersistentVolumeClaims: ns/data
* PersistentVolumes without a .spec.claimRef to a PersistentVolumeClaim: b
* Node with .status.volumesAttached entries not matching a PersistentVolume: kubernetes.io/rbd/x
* VolumeAttachment with .spec.source.persistentVolumeName not matching a PersistentVolume: c";
        assert_eq!(waiting.message(Timestamp::UNIX_EPOCH), expected);
    }

    #[test]
    fn an_attachment_without_a_volume_is_an_error() {
        let attachments = [attachment("n", &json!({}), true)];
        let error = Attached::new(&node(&[]), "n", &attachments).unwrap_err().to_string();
        assert!(error.contains("VolumeAttachment va"), "{error}");
        assert!(Attached::new(&node(&[]), "other", &attachments).unwrap().is_empty());
    }

    #[test]
    fn the_claims_of_a_pod_include_those_made_for_it() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "db-0", "namespace": "ns" },
            "spec": { "containers": [], "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-db-0" } },
                { "name": "scratch", "ephemeral": {} },
                { "name": "config", "configMap": {} },
            ] },
        }))
        .unwrap();
        assert_eq!(claims(&pod), ["ns/data-db-0", "ns/db-0-scratch"]);
    }
}
