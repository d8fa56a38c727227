//! Desired bastion, from the spec alone.

use apiserver_types::{
    Bastion, FixedIp, NetworkOrSGParam, OpenStackClusterSpec, OpenStackIdentityReference,
    OpenStackMachineSpec, OpenStackServerSpec, PortOpts,
};
use aws_lc_rs::digest::{SHA256, digest};

/// Version of the hash. Another one would rebuild every bastion.
const VERSION: &str = "v1";

/// Number of bytes of the digest in the hash: enough for the few specs that one bastion has.
const BYTES: usize = 8;

/// Desired bastion.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct BastionWish {
    /// Name of the OpenStackServer.
    pub name: String,
    /// A floating IP is desired: this one, or any.
    pub floating: Option<Option<String>>,
    pub identity: OpenStackIdentityReference,
    /// Hash of all fields that require another server if they change.
    pub hash: String,
    /// The groups of the cluster are managed, so the bastion has one.
    pub grouped: bool,
    /// Addresses of ports on the cluster's network, if the spec names subnets.
    fixed_ips: Vec<FixedIp>,
    spec: OpenStackMachineSpec,
    zone: Option<String>,
    tags: Vec<String>,
}

/// Returns true if the spec requests a bastion.
pub(in super::super) fn is_wanted(spec: &OpenStackClusterSpec) -> bool {
    enabled(spec).is_some()
}

fn enabled(spec: &OpenStackClusterSpec) -> Option<(&Bastion, &OpenStackMachineSpec)> {
    let bastion = spec.bastion.as_ref().filter(|bastion| bastion.enabled != Some(false))?;
    Some((bastion, bastion.spec.as_ref()?))
}

impl BastionWish {
    /// Reads a spec; `None` if it requests no bastion.
    pub(in super::super) fn read(spec: &OpenStackClusterSpec, cluster: &str, external: bool) -> Option<Self> {
        let (bastion, server) = enabled(spec)?;
        let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let zone = text(&bastion.availability_zone);
        let mut tags = server.tags.clone().unwrap_or_default();
        for tag in spec.tags.iter().flatten() {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        Some(Self {
            name: format!("{cluster}-bastion"),
            floating: external.then(|| text(&bastion.floating_ip)),
            identity: server.identity_ref.clone().unwrap_or_else(|| spec.identity_ref.clone()),
            hash: hash(server, zone.as_deref()),
            grouped: spec.managed_security_groups.is_some(),
            fixed_ips: fixed_ips(spec),
            spec: server.clone(),
            zone,
            tags,
        })
    }

    /// Returns the tags of the server.
    pub(super) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns the spec of the OpenStackServer on this network, in this group.
    pub(super) fn server(&self, network: &str, group: Option<&str>) -> OpenStackServerSpec {
        let spec = &self.spec;
        let ports = spec.ports.clone().filter(|ports| !ports.is_empty());
        let ports = ports.unwrap_or_else(|| vec![PortOpts::default()]);
        let filter = spec.flavor.filter.as_ref();
        OpenStackServerSpec {
            identity_ref: self.identity.clone(),
            image: spec.image.clone(),
            ports: ports.into_iter().map(|port| self.port(port, network, group)).collect(),
            ssh_key_name: spec.ssh_key_name.clone().unwrap_or_default(),
            additional_block_devices: spec.additional_block_devices.clone(),
            availability_zone: self.zone.clone(),
            config_drive: spec.config_drive,
            flavor: filter.and_then(|filter| filter.name.clone()),
            flavor_id: spec.flavor.id.clone(),
            floating_ip_pool_ref: spec.floating_ip_pool_ref.clone(),
            root_volume: spec.root_volume.clone(),
            scheduler_hint_additional_properties: spec.scheduler_hint_additional_properties.clone(),
            // They are on the ports already.
            security_groups: None,
            server_group: spec.server_group.clone(),
            server_metadata: spec.server_metadata.clone(),
            tags: (!self.tags.is_empty()).then(|| self.tags.clone()),
            trunk: spec.trunk,
            user_data_ref: None,
        }
    }

    /// Completes a port: with the cluster's network, and with the bastion's group if it names no groups.
    fn port(&self, port: PortOpts, network: &str, group: Option<&str>) -> PortOpts {
        let mut port = port;
        if port.network.is_none() {
            port.network = Some(NetworkOrSGParam { id: Some(network.to_owned()), filter: None });
            if port.fixed_ips.as_ref().is_none_or(Vec::is_empty) && !self.fixed_ips.is_empty() {
                port.fixed_ips = Some(self.fixed_ips.clone());
            }
        }
        if port.enable_port_security == Some(false) {
            return port;
        }
        let managed = || group.map(|id| NetworkOrSGParam { id: Some(id.to_owned()), filter: None });
        let own = port.security_groups.take().filter(|groups| !groups.is_empty());
        let own = own.unwrap_or_else(|| managed().into_iter().collect());
        let groups: Vec<NetworkOrSGParam> =
            own.into_iter().chain(self.spec.security_groups.iter().flatten().cloned()).collect();
        port.security_groups = (!groups.is_empty()).then_some(groups);
        port
    }
}

/// Returns the addresses of a port on the cluster's network: on the primary subnet, else on each that the spec names.
fn fixed_ips(spec: &OpenStackClusterSpec) -> Vec<FixedIp> {
    let on = |subnet: &apiserver_types::SubnetParam| FixedIp {
        subnet: Some(subnet.clone()),
        ..FixedIp::default()
    };
    match &spec.primary_subnet {
        Some(primary) => vec![on(primary)],
        None => spec.subnets.iter().flatten().map(on).collect(),
    }
}

/// Returns the hash of what requires another server. Identity and tags do not.
fn hash(spec: &OpenStackMachineSpec, zone: Option<&str>) -> String {
    let spec = OpenStackMachineSpec { identity_ref: None, tags: None, provider_id: None, ..spec.clone() };
    // Values sort their keys, and unset fields are absent.
    let value = serde_json::json!({"spec": spec, "availabilityZone": zone});
    let digest = digest(&SHA256, value.to_string().as_bytes());
    let hex: String = digest.as_ref().iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{VERSION}:{hex}")
}
