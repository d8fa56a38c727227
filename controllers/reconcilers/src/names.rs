//! Names of the kinds of cloud resources in the journal.

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
/// Octavia load balancer, with its parts.
pub(crate) const LOAD_BALANCER: &str = "load-balancer";
/// Neutron port of a load balancer's address.
pub(crate) const VIP_PORT: &str = "vip-port";

/// Label of control plane Machines.
pub(crate) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Returns the tag of the load balancer members of an OpenStackMachine.
pub(crate) fn member_tag(uid: &str) -> String {
    format!("machine-{uid}")
}
