//! Neutron ports, trunks and floating IPs.

use std::collections::BTreeMap;

use super::plain;

plain! {
    /// Address of a port.
    FixedIp {
        /// Subnet id, else Neutron picks.
        subnet_id: Option<String>,
        /// Address, else Neutron picks.
        ip_address: Option<String>,
    }

    /// Pair of addresses that a port may use beside its own.
    AddressPair {
        /// Address or CIDR.
        ip_address: String,
        /// MAC, else the port's.
        mac_address: Option<String>,
    }

    /// Query of ports.
    PortQuery {
        /// Exactly this one.
        id: Option<String>,
        /// With this name.
        name: Option<String>,
        /// Of this network.
        network_id: Option<String>,
        /// Attached to this server or router.
        device_id: Option<String>,
        /// With one of these device owners, e.g. `network:router_interface`.
        device_owners: Vec<String>,
        /// Of this project.
        project_id: Option<String>,
        /// With all of these tags.
        tags: Vec<String>,
    }

    /// Neutron port.
    Port {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Its network.
        network_id: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// Addresses.
        fixed_ips: Vec<FixedIp>,
        /// Security group ids.
        security_groups: Vec<String>,
        /// Allowed address pairs.
        allowed_address_pairs: Vec<AddressPair>,
        /// Server or router it is attached to; empty if none.
        device_id: String,
        /// Use by a service, e.g. `compute:nova` or `trunk:subport`; empty if none.
        device_owner: String,
        /// `ACTIVE`, `DOWN`, ...
        status: String,
        /// Time of creation.
        created_at: String,
    }

    /// Port to create.
    NewPort {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Its network.
        network_id: String,
        /// Addresses.
        fixed_ips: Vec<FixedIp>,
        /// Security group ids; `None` is the project's default group.
        security_groups: Option<Vec<String>>,
        /// Allowed address pairs.
        allowed_address_pairs: Vec<AddressPair>,
        /// Admin state.
        admin_state_up: Option<bool>,
        /// MAC address.
        mac_address: Option<String>,
        /// Binding host.
        host_id: Option<String>,
        /// vNIC type.
        vnic_type: Option<String>,
        /// Binding profile.
        profile: BTreeMap<String, String>,
        /// Trust in the virtual function. The provider sends it in the form that the cloud has.
        trusted_vf: bool,
        /// Port security.
        port_security: Option<bool>,
        /// Uplink status propagation.
        propagate_uplink_status: Option<bool>,
        /// Further Neutron parameters, key and value.
        value_specs: BTreeMap<String, String>,
    }

    /// Change of a port; `None` keeps the value.
    PortUpdate {
        /// Security group ids.
        security_groups: Option<Vec<String>>,
        /// Allowed address pairs.
        allowed_address_pairs: Option<Vec<AddressPair>>,
    }

    /// Query of floating IPs.
    FloatingIpQuery {
        /// With this address.
        address: Option<String>,
        /// With this description.
        description: Option<String>,
        /// With all of these tags.
        tags: Vec<String>,
        /// On this port.
        port_id: Option<String>,
        /// Through this router.
        router_id: Option<String>,
        /// Of this project.
        project_id: Option<String>,
    }

    /// Neutron floating IP.
    FloatingIp {
        /// Id.
        id: String,
        /// The address.
        address: String,
        /// Its external network.
        network_id: String,
        /// Port that it is associated with, if any.
        port_id: Option<String>,
        /// Number of the last change, if the cloud counts changes.
        revision: Option<u64>,
        /// Time of creation.
        created_at: String,
        /// Time of the last change.
        updated_at: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// `ACTIVE`, `DOWN`.
        status: String,
    }

    /// Floating IP to allocate.
    NewFloatingIp {
        /// External network.
        network_id: String,
        /// This very address, else Neutron picks (naming one may need more rights).
        address: Option<String>,
        /// Description.
        description: String,
        /// Port to associate it with.
        port_id: Option<String>,
    }

    /// Query of trunks.
    TrunkQuery {
        /// With this name.
        name: Option<String>,
        /// With this parent port.
        port_id: Option<String>,
    }

    /// Neutron trunk: a port that carries the traffic of other ports.
    Trunk {
        /// Id.
        id: String,
        /// Name.
        name: String,
        /// Parent port.
        port_id: String,
        /// Description.
        description: String,
        /// Tags.
        tags: Vec<String>,
        /// Ids of the ports that it carries.
        subports: Vec<String>,
    }

    /// Trunk to create.
    NewTrunk {
        /// Name.
        name: String,
        /// Description.
        description: String,
        /// Parent port.
        port_id: String,
    }
}
