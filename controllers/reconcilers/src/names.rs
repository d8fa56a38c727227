//! Names of the kinds of cloud resources in the journal, and names of cloud resources.

use apiserver_types::{OpenStackCluster, OpenStackMachine};
use aws_lc_rs::digest::{SHA256, digest};
use controllers_infrastructure::Member;
use controllers_runtime::OwnershipTag;
use kube::ResourceExt;

/// Neutron network.
pub(crate) const NETWORK: &str = "network";
/// Neutron subnet.
pub(crate) const SUBNET: &str = "subnet";
/// Neutron router, with its interface on the subnet that Capstan created.
pub(crate) const ROUTER: &str = "router";
/// Interface on another owner's router; its id is `<router id>/<subnet id>`.
pub(crate) const ROUTER_INTERFACE: &str = "router-interface";
/// Neutron security group.
pub(crate) const SECURITY_GROUP: &str = "security-group";
/// Neutron floating IP.
pub(crate) const FLOATING_IP: &str = "floating-ip";
/// Neutron port.
pub(crate) const PORT: &str = "port";
/// Neutron trunk, with the name of its parent port.
pub(crate) const TRUNK: &str = "trunk";
/// Neutron port that a trunk carried; its name is its id.
pub(crate) const SUBPORT: &str = "subport";
/// Nova server.
pub(crate) const SERVER: &str = "server";
/// Cinder volume.
pub(crate) const VOLUME: &str = "volume";
/// Nova server group. Its name says whose it is, so it is not in the journal.
pub(crate) const SERVER_GROUP: &str = "server-group";
/// Octavia load balancer, with its parts.
pub(crate) const LOAD_BALANCER: &str = "load-balancer";
/// Neutron port of a load balancer's address.
pub(crate) const VIP_PORT: &str = "vip-port";

/// Longest name that OpenStack's services accept. Unit: characters.
const LONGEST_NAME: usize = 255;

/// Number of bytes of the digest at the end of a shortened name.
const DIGEST: usize = 4;

/// Returns a name or value that OpenStack accepts: a longer one ends with a digest of the whole, so that it stays one of
/// its own.
pub(crate) fn shortened(text: String) -> String {
    if text.chars().count() <= LONGEST_NAME {
        return text;
    }
    let whole = digest(&SHA256, text.as_bytes());
    let hex: String = whole.as_ref().iter().take(DIGEST).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = text.chars().take(LONGEST_NAME.saturating_sub(2 * DIGEST + 1)).collect();
    format!("{kept}-{hex}")
}

/// Label of control plane Machines.
pub(crate) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Annotation of an OpenStackMachineTemplate and its machines: `hard` or `soft` keeps them on different hosts.
pub(crate) const ANTI_AFFINITY: &str = "capstan.dev/anti-affinity";

/// Annotation of an OpenStackServer with the tags that replace those of its spec, separated by commas. Its spec cannot
/// change.
pub(crate) const TAGS: &str = "capstan.dev/tags";

/// Returns the name of the server group for the machines of an owner.
pub(crate) fn server_group(cluster: &OpenStackCluster, name: &str, owner: &str) -> String {
    let namespace = cluster.namespace().unwrap_or_default();
    format!("{namespace}-{name}-{owner}-{}", short_mark(cluster))
}

/// Returns true if a server group was created for machines of the cluster.
pub(crate) fn is_server_group_of(cluster: &OpenStackCluster, name: &str, group: &str) -> bool {
    let namespace = cluster.namespace().unwrap_or_default();
    group.starts_with(&format!("{namespace}-{name}-"))
        && group.ends_with(&format!("-{}", short_mark(cluster)))
}

/// Returns the first digits of the cluster's ownership tag.
fn short_mark(cluster: &OpenStackCluster) -> String {
    OwnershipTag::id(cluster).chars().take(2 * DIGEST).collect()
}

/// Annotation of an OpenStackServer with the id in the ownership tag of its cluster.
pub(crate) const CLUSTER_ID: &str = "capstan.dev/cluster-mark";

/// Key of the cluster's tag in the metadata of resources that have no tags.
pub(crate) const CLUSTER_METADATA: &str = OwnershipTag::CLUSTER_KEY;

/// Key of the tags of a machine in the metadata of its volumes.
pub(crate) const VOLUME_TAGS: &str = "tags";

/// Returns the tag of everything that the machines of a cluster have in the cloud, beside the ownership tags of the
/// machines; `None` for a server without a cluster.
pub(crate) fn cluster_tag(cluster: &OpenStackCluster) -> Option<String> {
    let id = OwnershipTag::id(cluster);
    (!id.is_empty()).then(|| format!("{CLUSTER_METADATA}-{id}"))
}

/// Returns the tags by which the load balancer members of an OpenStackMachine are known. New members get the first one. It has
/// the id of the ownership tag, which a moved or restored object keeps. The other one has the present uid, because earlier
/// releases wrote that.
pub(crate) fn member_tags(machine: &OpenStackMachine) -> [String; 2] {
    [OwnershipTag::id(machine), machine.uid().unwrap_or_default()].map(|id| format!("machine-{id}"))
}

/// Returns true if a load balancer member is that of an OpenStackMachine: by its tag, and in an Octavia without tags by its
/// name.
pub(crate) fn is_member_of(member: &Member, machine: &OpenStackMachine) -> bool {
    let is_named = || member.name.ends_with(&format!("-{}-{}", member.protocol_port, machine.name_any()));
    let is_tagged = member_tags(machine).iter().any(|tag| member.tags.contains(tag));
    is_tagged || (member.tags.is_empty() && is_named())
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachineSpec;

    use super::*;

    #[test]
    fn a_member_without_tags_is_known_by_port_and_machine() {
        let member = |tags: &[String], name: &str| Member {
            name: name.to_owned(),
            tags: tags.to_vec(),
            protocol_port: 6443,
            ..Member::default()
        };
        let tag = |id: &str| [format!("machine-{id}")];
        let name = "k8s-clusterapi-cluster-n-c-kubeapi-6443-m";
        let mut machine = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        assert!(is_member_of(&member(&tag("u"), ""), &machine));
        assert!(is_member_of(&member(&[], name), &machine));
        assert!(!is_member_of(&member(&tag("v"), name), &machine), "of an earlier machine of that name");
        let other = OpenStackMachine::new("other", OpenStackMachineSpec::default());
        assert!(!is_member_of(&member(&[], name), &other));

        let mark = (OwnershipTag::ANNOTATION.to_owned(), "first".to_owned());
        machine.metadata.annotations = Some([mark].into());
        assert_eq!(member_tags(&machine)[0], "machine-first", "a moved machine keeps its members");
        assert!(is_member_of(&member(&tag("first"), ""), &machine));
        assert!(
            is_member_of(&member(&tag("u"), ""), &machine),
            "as an earlier release tagged it after a move"
        );
    }

    #[test]
    fn r2_8_a_long_name_is_shortened_and_stays_one_of_its_own() {
        let fits = "n".repeat(255);
        assert_eq!(shortened(fits.clone()), fits);
        let (one, other) = (shortened(format!("{fits}-0")), shortened(format!("{fits}-1")));
        assert_eq!((one.len(), other.len()), (255, 255));
        assert_ne!(one, other);
        assert_eq!(one.rfind('-'), Some(246), "eight digits of the digest");
    }
}
