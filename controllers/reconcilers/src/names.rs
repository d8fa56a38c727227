//! The words by which the journal calls what is made.

/// A Neutron network.
pub(crate) const NETWORK: &str = "network";
/// A Neutron subnet.
pub(crate) const SUBNET: &str = "subnet";
/// A Neutron router, with its interface on the subnet made here.
pub(crate) const ROUTER: &str = "router";
/// An interface on a router that is somebody else's; its id is `<router id>/<subnet id>`.
pub(crate) const ROUTER_INTERFACE: &str = "router-interface";
/// A Neutron security group.
pub(crate) const SECURITY_GROUP: &str = "security-group";
/// A Neutron floating IP.
pub(crate) const FLOATING_IP: &str = "floating-ip";
/// A Neutron port.
pub(crate) const PORT: &str = "port";
/// A Nova server.
pub(crate) const SERVER: &str = "server";
/// A Cinder volume.
pub(crate) const VOLUME: &str = "volume";
