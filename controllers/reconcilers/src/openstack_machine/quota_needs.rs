//! Quota and addresses that the creation of a machine takes.

use std::time::Instant;

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine, OpenStackMachineTemplate};
use controllers_infrastructure::{Flavor, QuotaService};

use super::decide::{Desired, Observed};
use super::desired::{self, VolumeWish};
use crate::preflight::{Holder, Needs, Source};

/// Field that has the servers of an owner in one group.
pub(super) const ANTI_AFFINITY: &str = "the annotation capstan.dev/anti-affinity";

/// Sizes of a new server, which its quota needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sizes {
    pub flavor: Flavor,
    pub group: Option<GroupUse>,
    /// A server group has to be created.
    pub new_group: bool,
    /// The pool that the spec names has to allocate a floating IP.
    pub floating_ip: bool,
}

/// Use of the server group that a new server enters.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupUse {
    pub name: String,
    /// Number of servers that it has already.
    pub members: usize,
    /// Time at which they were listed.
    pub read: Instant,
    /// Field that names the group.
    pub field: &'static str,
}

/// Returns what a server of a flavor needs in Nova. Pure.
pub(crate) fn of_server(flavor: &Flavor) -> Needs {
    let (mut needs, nova) = (Needs::default(), QuotaService::Compute);
    needs.add(nova, "instances", 1, "the server");
    needs.add(nova, "cores", i64::from(flavor.vcpus), "spec.flavor");
    needs.add(nova, "ram", i64::try_from(flavor.ram_mib).unwrap_or(i64::MAX), "spec.flavor");
    needs
}

/// Returns what each new machine of a template needs: its server, ports, trunks and volumes. Server groups, addresses and
/// floating IPs depend on what exists, and are not among it. Pure.
pub(crate) fn of_template(template: &OpenStackMachineTemplate, flavor: &Flavor) -> Needs {
    let object = OpenStackMachine::new("", template.spec.template.spec.clone());
    let mut needs = of_server(flavor);
    let ports = desired::ports(&object);
    let trunks = ports.iter().filter(|port| desired::is_trunk(&object, port)).count();
    needs.add(QuotaService::Network, "port", number(ports.len()), "spec.ports");
    needs.add(QuotaService::Network, "trunk", number(trunks), "spec.trunk");
    // The zone of a volume has no quota.
    let volumes = desired::volumes(&object, &Machine::default(), &OpenStackCluster::default());
    add_volumes(&mut needs, volumes.iter());
    needs
}

/// Returns what a machine needs beside what exists already. Pure.
pub(super) fn needs(desired: &Desired, observed: &Observed, sizes: &Sizes) -> Needs {
    let mut needs = of_server(&sizes.flavor);
    let (nova, neutron) = (QuotaService::Compute, QuotaService::Network);
    if let Some(group) = &sizes.group {
        let holder = Holder { name: group.name.clone(), used: number(group.members), read: group.read };
        needs.add_of(holder, nova, "server_group_members", 1, group.field);
    }
    if sizes.new_group {
        needs.add(nova, "server_groups", 1, ANTI_AFFINITY);
    }
    needs.add(neutron, "floatingip", i64::from(sizes.floating_ip), "spec.floatingIPPoolRef");
    for port in desired.ports.iter().filter(|port| !observed.ports.contains_key(&port.name)) {
        needs.add(neutron, "port", 1, "spec.ports");
        // A given address is not one of those that Neutron chooses.
        let chosen = port.fixed_ips.iter().flatten().filter(|ip| ip.ip_address.is_none());
        for subnet in chosen.filter_map(|ip| ip.subnet.as_ref()) {
            needs.add(Source::Addresses(port.network_id.clone()), subnet, 1, "spec.ports");
        }
    }
    let trunks = desired.ports.iter().filter(|port| port.trunk == Some(true));
    let trunks = trunks.filter(|port| !observed.trunks.contains_key(&port.name)).count();
    needs.add(neutron, "trunk", number(trunks), "spec.trunk");
    let missing = desired.volumes.iter().filter(|volume| !observed.volumes.contains_key(&volume.name));
    add_volumes(&mut needs, missing);
    needs
}

/// Adds what volumes need in Cinder.
fn add_volumes<'a>(needs: &mut Needs, volumes: impl Iterator<Item = &'a VolumeWish>) {
    let cinder = QuotaService::Volume;
    for volume in volumes {
        let field = if volume.root { "spec.rootVolume" } else { "spec.additionalBlockDevices" };
        let size = i64::from(volume.size_gib);
        needs.add(cinder, "volumes", 1, field);
        needs.add(cinder, "gigabytes", size, field);
        needs.add(cinder, "per_volume_gigabytes", size, field);
        if let Some(kind) = &volume.kind {
            needs.add(cinder, &format!("volumes_{kind}"), 1, field);
            needs.add(cinder, &format!("gigabytes_{kind}"), size, field);
        }
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ResolvedFixedIp, ResolvedPortSpec};
    use controllers_infrastructure::Port;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_machine_of_a_template_needs_its_ports_trunks_and_volumes() {
        let template: OpenStackMachineTemplate = serde_json::from_value(json!({
            "metadata": {"name": "t"}, "spec": {"template": {"spec": {
                "flavor": {"id": "f"}, "image": {"id": "i"}, "trunk": true,
                "ports": [{}, {"trunk": false}],
                "rootVolume": {"sizeGiB": 20, "type": "ssd"},
                "additionalBlockDevices": [
                    {"name": "etcd", "sizeGiB": 5, "storage": {"type": "Volume"}},
                    {"name": "scratch", "sizeGiB": 50, "storage": {"type": "Local"}},
                ],
            }}},
        }))
        .unwrap();
        let flavor = Flavor { vcpus: 2, ..Flavor::default() };
        let found = of_template(&template, &flavor);
        for (service, resource, amount) in [
            (QuotaService::Compute, "instances", 1),
            (QuotaService::Compute, "cores", 2),
            (QuotaService::Network, "port", 2),
            (QuotaService::Network, "trunk", 1),
            (QuotaService::Volume, "volumes", 2),
            (QuotaService::Volume, "gigabytes", 25),
            (QuotaService::Volume, "per_volume_gigabytes", 20),
            (QuotaService::Volume, "volumes_ssd", 1),
        ] {
            assert_eq!(found.of(service, resource), amount, "{resource}");
        }
        let bare = of_template(&OpenStackMachineTemplate::default(), &flavor);
        assert_eq!(bare.of(QuotaService::Network, "port"), 1, "a machine without ports gets one");
        assert_eq!(bare.services(), [QuotaService::Compute, QuotaService::Network]);
    }

    #[test]
    fn parts_that_exist_need_no_quota() {
        let port = |name: &str, trunk| ResolvedPortSpec {
            name: name.to_owned(),
            trunk,
            ..ResolvedPortSpec::default()
        };
        let address = |subnet: &str, ip_address: Option<&str>| ResolvedFixedIp {
            subnet: Some(subnet.to_owned()),
            ip_address: ip_address.map(str::to_owned),
        };
        let addressed = ResolvedPortSpec {
            network_id: "n".to_owned(),
            fixed_ips: Some(vec![address("s", None), address("t", Some("10.7.0.9"))]),
            ..port("m-1", Some(true))
        };
        let volume = VolumeWish {
            name: "m-root".to_owned(),
            size_gib: 20,
            kind: Some("ssd".to_owned()),
            zone: None,
            root: true,
            tag: "root".to_owned(),
        };
        let desired = Desired {
            ports: vec![port("m-0", None), addressed],
            volumes: vec![volume],
            ..Desired::default()
        };
        let mut observed = Observed::default();
        observed.ports.insert("m-0".to_owned(), Port::default());
        let flavor = Flavor { vcpus: 2, ram_mib: 4096, ..Flavor::default() };
        let (name, read) = ("g".to_owned(), Instant::now());
        let group = Some(GroupUse { name: name.clone(), members: 9, read, field: "spec.serverGroup" });
        let sizes = Sizes { flavor, group, new_group: false, floating_ip: true };
        let found = needs(&desired, &observed, &sizes);
        let mut expected = Needs::default();
        for (service, resource, amount, field) in [
            (QuotaService::Compute, "instances", 1, "the server"),
            (QuotaService::Compute, "cores", 2, "spec.flavor"),
            (QuotaService::Compute, "ram", 4096, "spec.flavor"),
            (QuotaService::Compute, "server_group_members", 1, "spec.serverGroup"),
            (QuotaService::Network, "floatingip", 1, "spec.floatingIPPoolRef"),
            (QuotaService::Network, "port", 1, "spec.ports"),
            (QuotaService::Network, "trunk", 1, "spec.trunk"),
            (QuotaService::Volume, "volumes", 1, "spec.rootVolume"),
            (QuotaService::Volume, "gigabytes", 20, "spec.rootVolume"),
            (QuotaService::Volume, "per_volume_gigabytes", 20, "spec.rootVolume"),
            (QuotaService::Volume, "volumes_ssd", 1, "spec.rootVolume"),
            (QuotaService::Volume, "gigabytes_ssd", 20, "spec.rootVolume"),
        ] {
            if resource == "server_group_members" {
                let holder = Holder { name: name.clone(), used: 9, read };
                expected.add_of(holder, service, resource, amount, field);
                continue;
            }
            expected.add(service, resource, amount, field);
            if resource == "port" {
                expected.add(Source::Addresses("n".to_owned()), "s", 1, "spec.ports");
            }
        }
        assert_eq!(found, expected);
    }
}
