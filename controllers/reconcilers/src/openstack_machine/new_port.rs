//! Port of a machine, as it is created.

use std::collections::BTreeMap;

use apiserver_types::ResolvedPortSpec;
use controllers_infrastructure::{FixedIp, NewPort};
use controllers_runtime::OwnershipTag;

use super::decide::address_pairs;

/// Returns the port to create.
pub(super) fn new_port(spec: &ResolvedPortSpec, tag: &OwnershipTag) -> NewPort {
    let fixed_ip = |ip: &apiserver_types::ResolvedFixedIp| FixedIp {
        subnet_id: ip.subnet.clone(),
        ip_address: ip.ip_address.clone(),
    };
    let mut profile = BTreeMap::new();
    if let Some(requested) = &spec.profile
        && requested.ovs_hw_offload == Some(true)
    {
        profile.insert("capabilities".to_owned(), r#"["switchdev"]"#.to_owned());
    }
    let value_specs = spec.value_specs.iter().flatten();
    NewPort {
        name: spec.name.clone(),
        description: spec.description.clone().unwrap_or_else(|| tag.description()),
        network_id: spec.network_id.clone(),
        fixed_ips: spec.fixed_ips.iter().flatten().map(fixed_ip).collect(),
        security_groups: spec.security_groups.clone(),
        allowed_address_pairs: address_pairs::wanted(spec),
        admin_state_up: spec.admin_state_up,
        mac_address: spec.mac_address.clone(),
        host_id: spec.host_id.clone(),
        vnic_type: spec.vnic_type.clone(),
        profile,
        trusted_vf: spec.profile.as_ref().and_then(|profile| profile.trusted_vf) == Some(true),
        port_security: spec.enable_port_security,
        propagate_uplink_status: spec.propagate_uplink_status,
        value_specs: value_specs.map(|pair| (pair.key.clone(), pair.value.clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        AddressPair, BindingProfile, OpenStackMachine, OpenStackMachineSpec, ResolvedFixedIp, ValueSpec,
    };

    use super::*;

    fn tag() -> OwnershipTag {
        OwnershipTag::of(&OpenStackMachine::new("m", OpenStackMachineSpec::default()))
    }

    #[test]
    fn every_field_of_a_port_reaches_neutron() {
        let text = |text: &str| Some(text.to_owned());
        let spec = ResolvedPortSpec {
            name: "m-data".to_owned(),
            network_id: "n".to_owned(),
            admin_state_up: Some(false),
            allowed_address_pairs: Some(vec![AddressPair {
                ip_address: "10.0.0.9".to_owned(),
                mac_address: text("fa:16"),
            }]),
            description: text("of the user"),
            enable_port_security: Some(true),
            fixed_ips: Some(vec![ResolvedFixedIp { ip_address: text("10.0.0.5"), subnet: text("s") }]),
            host_id: text("host"),
            mac_address: text("fa:17"),
            profile: Some(BindingProfile { ovs_hw_offload: Some(true), trusted_vf: Some(true) }),
            propagate_uplink_status: Some(true),
            security_groups: Some(vec!["g".to_owned()]),
            tags: Some(vec!["t".to_owned()]),
            trunk: Some(true),
            value_specs: Some(vec![ValueSpec {
                name: "x".to_owned(),
                key: "dns_name".to_owned(),
                value: "m".to_owned(),
            }]),
            vnic_type: text("direct"),
        };
        let expected = NewPort {
            name: "m-data".to_owned(),
            description: "of the user".to_owned(),
            network_id: "n".to_owned(),
            fixed_ips: vec![FixedIp { subnet_id: text("s"), ip_address: text("10.0.0.5") }],
            security_groups: Some(vec!["g".to_owned()]),
            allowed_address_pairs: vec![controllers_infrastructure::AddressPair {
                ip_address: "10.0.0.9".to_owned(),
                mac_address: text("fa:16"),
            }],
            admin_state_up: Some(false),
            mac_address: text("fa:17"),
            host_id: text("host"),
            vnic_type: text("direct"),
            profile: [("capabilities".to_owned(), r#"["switchdev"]"#.to_owned())].into(),
            trusted_vf: true,
            port_security: Some(true),
            propagate_uplink_status: Some(true),
            value_specs: [("dns_name".to_owned(), "m".to_owned())].into(),
        };
        assert_eq!(new_port(&spec, &tag()), expected);
        let plain = ResolvedPortSpec { name: "m-0".to_owned(), ..ResolvedPortSpec::default() };
        assert_eq!(new_port(&plain, &tag()).description, tag().description());
    }

    #[test]
    fn a_port_without_port_security_has_no_address_pairs() {
        let pair = AddressPair { ip_address: "10.0.0.9".to_owned(), mac_address: None };
        let spec = ResolvedPortSpec {
            enable_port_security: Some(false),
            allowed_address_pairs: Some(vec![pair]),
            ..ResolvedPortSpec::default()
        };
        assert_eq!(new_port(&spec, &tag()).allowed_address_pairs, []);
    }
}
