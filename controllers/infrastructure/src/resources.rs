//! Cloud objects, with the fields the reconcilers use and no others.
//!
//! Ids are the cloud's own (UUIDs, mostly). Times are RFC 3339 as the cloud printed them,
//! normalised to end in `Z`. An empty query matches everything the project sees.

use std::collections::BTreeMap;

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}

plain! {
    /// Which images.
    ImageQuery { /// Exactly this one.
        id: Option<String>, /// With this name.
        name: Option<String>, /// With all of these tags.
        tags: Vec<String>, }
    /// A Glance image.
    Image { /// Id.
        id: String, /// Name.
        name: String, /// Glance's word; `active` is usable.
        status: String, /// Tags.
        tags: Vec<String>, /// When it was made.
        created_at: String, }
    /// A Nova flavor.
    Flavor { /// Id.
        id: String, /// Name.
        name: String, /// Cores.
        vcpus: u32, /// Memory, MiB.
        ram_mib: u64, /// Root disk, GiB; 0 is "as large as the image".
        disk_gib: u64, }
    /// A Nova server group.
    ServerGroup { /// Id.
        id: String, /// Name.
        name: String, /// Policy, e.g. `anti-affinity`.
        policy: String, }
    /// Which tags an object must, or must not, have: Neutron's four tag filters.
    TagQuery { /// All of these.
        tags: Vec<String>, /// Any of these.
        tags_any: Vec<String>, /// Not all of these.
        not_tags: Vec<String>, /// None of these.
        not_tags_any: Vec<String>, }
    /// Which networks or routers.
    NetworkQuery { /// Exactly this one.
        id: Option<String>, /// With this name.
        name: Option<String>, /// With this description.
        description: Option<String>, /// Of this project.
        project_id: Option<String>, /// Only external (`true`) or only internal (`false`) networks.
        external: Option<bool>, /// By tags.
        tagged: TagQuery, }
    /// A Neutron network.
    Network { /// Id.
        id: String, /// Name.
        name: String, /// Tags.
        tags: Vec<String>, /// Ids of its subnets.
        subnets: Vec<String>, /// Whether it is external.
        external: bool, /// Description.
        description: String, }
    /// A network to create. `description` carries the owner's mark from the first moment, since
    /// tags can only be set afterwards.
    NewNetwork { /// Name.
        name: String, /// Description.
        description: String, /// MTU, else the cloud's default.
        mtu: Option<i32>, /// Port security, else the cloud's default.
        port_security: Option<bool>, }
    /// Which subnets.
    SubnetQuery { /// Exactly this one.
        id: Option<String>, /// Of this network.
        network_id: Option<String>, /// With this name.
        name: Option<String>, /// With this description.
        description: Option<String>, /// With this CIDR.
        cidr: Option<String>, /// With this gateway.
        gateway_ip: Option<String>, /// 4 or 6.
        ip_version: Option<i32>, /// Of this project.
        project_id: Option<String>, /// With this IPv6 address mode.
        ipv6_address_mode: Option<String>, /// With this IPv6 router advertisement mode.
        ipv6_ra_mode: Option<String>, /// By tags.
        tagged: TagQuery, }
    /// A Neutron subnet.
    Subnet { /// Id.
        id: String, /// Name.
        name: String, /// Its network.
        network_id: String, /// CIDR.
        cidr: String, /// Gateway, if any.
        gateway_ip: Option<String>, /// Tags.
        tags: Vec<String>, /// DNS servers.
        dns_nameservers: Vec<String>, /// Description.
        description: String, }
    /// A subnet to create.
    NewSubnet { /// Name.
        name: String, /// Description.
        description: String, /// Its network.
        network_id: String, /// CIDR; its family decides the IP version.
        cidr: String, /// DNS servers.
        dns_nameservers: Vec<String>, /// Address ranges, first and last.
        allocation_pools: Vec<(String, String)>, }
    /// A Neutron router.
    Router { /// Id.
        id: String, /// Name.
        name: String, /// Tags.
        tags: Vec<String>, /// External network of its gateway, if it has one.
        external_network_id: Option<String>, /// Addresses of its gateway.
        external_ips: Vec<String>, /// Description.
        description: String, }
    /// A router to create.
    NewRouter { /// Name.
        name: String, /// Description.
        description: String, /// External network of the gateway.
        external_network_id: Option<String>, /// Fixed gateway addresses: subnet id and address.
        external_ips: Vec<(String, Option<String>)>, }
    /// Which security groups.
    SecurityGroupQuery { /// Exactly this one.
        id: Option<String>, /// With this name.
        name: Option<String>, /// With this description.
        description: Option<String>, /// Of this project.
        project_id: Option<String>, /// By tags.
        tagged: TagQuery, }
    /// A Neutron security group.
    SecurityGroup { /// Id.
        id: String, /// Name.
        name: String, /// Description.
        description: String, /// Tags.
        tags: Vec<String>, /// Its rules.
        rules: Vec<SecurityGroupRule>, }
    /// A rule as Neutron has it.
    SecurityGroupRule { /// Id.
        id: String, /// What it says.
        rule: NewSecurityGroupRule, }
    /// A rule to add, or to compare with.
    NewSecurityGroupRule { /// The group it belongs to.
        group_id: String, /// `ingress` or `egress`.
        direction: String, /// `IPv4` or `IPv6`.
        ether_type: String, /// `tcp`, `udp`, a number, ...; `None` is any.
        protocol: Option<String>, /// First port.
        port_min: Option<i32>, /// Last port.
        port_max: Option<i32>, /// Peers in this group.
        remote_group_id: Option<String>, /// Peers in this CIDR.
        remote_ip_prefix: Option<String>, /// Free text.
        description: String, }
    /// An address of a port.
    FixedIp { /// Subnet id, else Neutron picks.
        subnet_id: Option<String>, /// Address, else Neutron picks.
        ip_address: Option<String>, }
    /// A pair of addresses a port may use beside its own.
    AddressPair { /// Address or CIDR.
        ip_address: String, /// MAC, else the port's.
        mac_address: Option<String>, }
    /// Which ports.
    PortQuery { /// Exactly this one.
        id: Option<String>, /// With this name.
        name: Option<String>, /// Of this network.
        network_id: Option<String>, /// Attached to this server or router.
        device_id: Option<String>, /// With all of these tags.
        tags: Vec<String>, }
    /// A Neutron port.
    Port { /// Id.
        id: String, /// Name.
        name: String, /// Its network.
        network_id: String, /// Description.
        description: String, /// Tags.
        tags: Vec<String>, /// Addresses.
        fixed_ips: Vec<FixedIp>, /// Security group ids.
        security_groups: Vec<String>, /// Allowed address pairs.
        allowed_address_pairs: Vec<AddressPair>, /// Server or router it is attached to; empty if none.
        device_id: String, /// `ACTIVE`, `DOWN`, ...
        status: String, }
    /// A port to create.
    NewPort { /// Name.
        name: String, /// Description.
        description: String, /// Its network.
        network_id: String, /// Addresses.
        fixed_ips: Vec<FixedIp>, /// Security group ids; `None` is the project's default group.
        security_groups: Option<Vec<String>>, /// Allowed address pairs.
        allowed_address_pairs: Vec<AddressPair>, /// Admin state.
        admin_state_up: Option<bool>, /// MAC address.
        mac_address: Option<String>, /// Binding host.
        host_id: Option<String>, /// vNIC type.
        vnic_type: Option<String>, /// Binding profile.
        profile: BTreeMap<String, String>, /// Port security.
        port_security: Option<bool>, /// Uplink status propagation.
        propagate_uplink_status: Option<bool>, /// Further Neutron parameters, key and value.
        value_specs: BTreeMap<String, String>, }
    /// A change of a port; `None` leaves as is.
    PortUpdate { /// Security group ids.
        security_groups: Option<Vec<String>>, /// Allowed address pairs.
        allowed_address_pairs: Option<Vec<AddressPair>>, }
    /// Which floating IPs.
    FloatingIpQuery { /// With this address.
        address: Option<String>, /// With this description.
        description: Option<String>, /// With all of these tags.
        tags: Vec<String>, /// On this port.
        port_id: Option<String>, }
    /// A Neutron floating IP.
    FloatingIp { /// Id.
        id: String, /// The address.
        address: String, /// Its external network.
        network_id: String, /// The port it leads to, if any.
        port_id: Option<String>, /// Description.
        description: String, /// Tags.
        tags: Vec<String>, /// `ACTIVE`, `DOWN`.
        status: String, }
    /// A floating IP to allocate.
    NewFloatingIp { /// External network.
        network_id: String, /// This very address, else Neutron picks (naming one may need more rights).
        address: Option<String>, /// Description.
        description: String, /// Port to lead to.
        port_id: Option<String>, }
    /// A Nova server.
    Server { /// Id.
        id: String, /// Name.
        name: String, /// `ACTIVE`, `BUILD`, `REBOOT`, `REBUILD`, `ERROR`, `SHUTOFF`, `DELETED`, ...
        status: String, /// Task under way, e.g. `rebooting`.
        task_state: Option<String>, /// Image id; `None` when booted from a volume.
        image_id: Option<String>, /// Metadata.
        metadata: BTreeMap<String, String>, /// Tags.
        tags: Vec<String>, /// Addresses.
        addresses: Vec<ServerAddress>, /// Zone it landed in.
        availability_zone: Option<String>, /// Nova's words when it is in `ERROR`.
        fault: Option<String>, /// When it was made.
        created_at: String, /// Ids of attached volumes.
        volumes: Vec<String>, }
    /// An address of a server.
    ServerAddress { /// Network name.
        network: String, /// The address.
        address: String, /// Whether it is a floating one.
        floating: bool, }
    /// A server to create.
    NewServer { /// Name.
        name: String, /// Image id; `None` with a root volume.
        image_id: Option<String>, /// Flavor id.
        flavor_id: String, /// Port ids, in order.
        ports: Vec<String>, /// Key pair name.
        key_name: Option<String>, /// Metadata.
        metadata: BTreeMap<String, String>, /// Tags (part of the create call).
        tags: Vec<String>, /// Config drive.
        config_drive: Option<bool>, /// User data, plain (the provider encodes it).
        user_data: Option<Vec<u8>>, /// Zone.
        availability_zone: Option<String>, /// Server group id.
        server_group_id: Option<String>, /// More scheduler hints; values are JSON.
        scheduler_hints: BTreeMap<String, String>, /// Volumes and local disks, in boot order.
        block_devices: Vec<BlockDevice>, }
    /// A volume or local disk of a new server.
    BlockDevice { /// Existing volume id; `None` is a local (ephemeral) disk.
        volume_id: Option<String>, /// 0 boots, -1 does not.
        boot_index: i32, /// Size of a local disk, GiB.
        size_gib: Option<i32>, /// Device tag shown in the guest's metadata.
        tag: Option<String>, /// Whether it goes with the server.
        delete_on_termination: bool, }
    /// What a rebuild changes.
    Rebuild { /// New image id.
        image_id: String, /// New user data, plain; `None` keeps the old.
        user_data: Option<Vec<u8>>, /// New metadata; `None` keeps the old.
        metadata: Option<BTreeMap<String, String>>, }
    /// One line of Nova's instance-action log.
    ActionRecord { /// `create`, `reboot`, `rebuild`, `stop`, ...
        action: String, /// Request id of the call that caused it.
        request_id: String, /// When it began.
        started_at: String, /// `Success`, `Error`, or `None` while it runs.
        result: Option<String>, /// When its last event ended.
        finished_at: Option<String>, /// Nova's message, if any.
        message: Option<String>, }
    /// A Cinder volume.
    Volume { /// Id.
        id: String, /// Name.
        name: String, /// `creating`, `available`, `in-use`, `error`, `deleting`, ...
        status: String, /// Metadata; carries the owner's mark.
        metadata: BTreeMap<String, String>, /// Size, GiB.
        size_gib: i32, }
    /// A volume to create.
    NewVolume { /// Name.
        name: String, /// Description.
        description: String, /// Size, GiB.
        size_gib: i32, /// Volume type.
        volume_type: Option<String>, /// Zone.
        availability_zone: Option<String>, /// Image to fill it with.
        image_id: Option<String>, /// Metadata.
        metadata: BTreeMap<String, String>, }
}

/// How to reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RebootKind {
    /// Asks the guest.
    Soft,
    /// Cuts the power.
    Hard,
}

/// Power state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerState {
    /// Stopped: Nova asks the guest, and cuts the power if the guest does not react.
    Off,
    /// Running.
    On,
}

/// Neutron objects that carry tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaggedKind {
    /// `/v2.0/networks`
    Network,
    /// `/v2.0/subnets`
    Subnet,
    /// `/v2.0/routers`
    Router,
    /// `/v2.0/security-groups`
    SecurityGroup,
    /// `/v2.0/ports`
    Port,
    /// `/v2.0/floatingips`
    FloatingIp,
}
