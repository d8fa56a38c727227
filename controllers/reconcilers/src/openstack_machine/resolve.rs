//! Resolution of names of cloud resources to ids.

use std::sync::Arc;

use apiserver_types::{
    Machine, NetworkOrSGParam, OpenStackCluster, OpenStackMachine, PortOpts, ResolvedFixedIp,
    ResolvedMachineSpec, ResolvedPortSpec,
};
use controllers_infrastructure::{Cloud, SubnetQuery};
use controllers_runtime::ReconcileError;
use kube::ResourceExt;

use super::desired;
use crate::queries;

/// Annotation with the image id of the last upgrade.
const IMAGE: &str = "capstan.dev/image";

/// Resolver of all names of a machine.
pub(super) struct Resolver<'a> {
    pub cloud: &'a Arc<dyn Cloud>,
    pub object: &'a OpenStackMachine,
    pub machine: &'a Machine,
    pub cluster: &'a OpenStackCluster,
}

impl Resolver<'_> {
    /// Resolves all names, or returns an error for the field that matches nothing or too much.
    pub(super) async fn resolve(&self) -> Result<ResolvedMachineSpec, ReconcileError> {
        let mut ports = Vec::new();
        for (index, opts) in desired::ports(self.object).iter().enumerate() {
            ports.push(self.port(index, opts).await?);
        }
        Ok(ResolvedMachineSpec {
            image_id: Some(self.image().await?),
            flavor_id: Some(self.flavor().await?),
            server_group_id: self.server_group().await?,
            ports: Some(ports),
        })
    }

    async fn image(&self) -> Result<String, ReconcileError> {
        // An upgrade has replaced the spec's image, which is immutable.
        if let Some(id) = self.object.annotations().get(IMAGE).filter(|id| !id.is_empty()) {
            return Ok(id.clone());
        }
        let query = queries::image(&self.object.spec.image);
        let found = self.cloud.images(&query).await?;
        match found.as_slice() {
            [image] => Ok(image.id.clone()),
            images => Err(ReconcileError::unresolved(images.len(), "spec.image", &queries::describe(&query))),
        }
    }

    async fn flavor(&self) -> Result<String, ReconcileError> {
        let param = &self.object.spec.flavor;
        let name = param.filter.as_ref().and_then(|filter| filter.name.as_deref());
        let flavors = self.cloud.flavors().await?;
        let matching = |flavor: &&controllers_infrastructure::Flavor| match (&param.id, name) {
            (Some(id), _) => flavor.id == *id,
            (None, Some(name)) => flavor.name == name,
            (None, None) => false,
        };
        let found: Vec<_> = flavors.iter().filter(matching).collect();
        match found.as_slice() {
            [flavor] => Ok(flavor.id.clone()),
            several => {
                let words = format!("flavor {:?}", param.id.as_deref().or(name).unwrap_or_default());
                Err(ReconcileError::unresolved(several.len(), "spec.flavor", &words))
            }
        }
    }

    async fn server_group(&self) -> Result<Option<String>, ReconcileError> {
        let Some(param) = &self.object.spec.server_group else { return Ok(None) };
        let name = param.filter.as_ref().and_then(|filter| filter.name.as_deref());
        let groups = self.cloud.server_groups().await?;
        let matching = |group: &&controllers_infrastructure::ServerGroup| match (&param.id, name) {
            (Some(id), _) => group.id == *id,
            (None, Some(name)) => group.name == name,
            (None, None) => false,
        };
        let found: Vec<_> = groups.iter().filter(matching).collect();
        match found.as_slice() {
            [group] => Ok(Some(group.id.clone())),
            several => {
                let words = format!("server group {:?}", param.id.as_deref().or(name).unwrap_or_default());
                Err(ReconcileError::unresolved(several.len(), "spec.serverGroup", &words))
            }
        }
    }

    async fn port(&self, index: usize, opts: &PortOpts) -> Result<ResolvedPortSpec, ReconcileError> {
        let field = format!("spec.ports[{index}]");
        let network_id = self.network(&field, opts).await?;
        let fixed_ips = self.fixed_ips(&field, opts, &network_id).await?;
        let tags = desired::tags(self.object, self.cluster, Some(opts));
        Ok(ResolvedPortSpec {
            name: desired::port_name(self.object, index, opts),
            fixed_ips: (!fixed_ips.is_empty()).then_some(fixed_ips),
            security_groups: self.security_groups(&field, opts).await?,
            network_id,
            admin_state_up: opts.admin_state_up,
            allowed_address_pairs: opts.allowed_address_pairs.clone(),
            description: opts.description.clone(),
            enable_port_security: opts.enable_port_security,
            host_id: opts.host_id.clone(),
            mac_address: opts.mac_address.clone(),
            profile: opts.profile.clone(),
            propagate_uplink_status: opts.propagate_uplink_status,
            tags: (!tags.is_empty()).then_some(tags),
            trunk: None,
            value_specs: opts.value_specs.clone(),
            vnic_type: opts.vnic_type.clone(),
        })
    }

    async fn network(&self, field: &str, opts: &PortOpts) -> Result<String, ReconcileError> {
        let Some(param) = &opts.network else {
            // A port that names only a subnet is on that subnet's network.
            let subnet = opts.fixed_ips.iter().flatten().find_map(|ip| ip.subnet.as_ref());
            if let Some(param) = subnet.filter(|_| opts.fixed_ips.is_some()) {
                let query = queries::subnet(param);
                let found = self.cloud.subnets(&query).await?;
                return match found.as_slice() {
                    [subnet] => Ok(subnet.network_id.clone()),
                    several => Err(ReconcileError::unresolved(
                        several.len(),
                        &format!("{field}.fixedIPs[].subnet"),
                        &queries::describe(&query),
                    )),
                };
            }
            return self.cluster_network().ok_or_else(|| {
                ReconcileError::waiting("WaitingForClusterInfrastructure", "the cluster has no network yet")
            });
        };
        let query = queries::network(param);
        let found = self.cloud.networks(&query).await?;
        match found.as_slice() {
            [network] => Ok(network.id.clone()),
            several => Err(ReconcileError::unresolved(
                several.len(),
                &format!("{field}.network"),
                &queries::describe(&query),
            )),
        }
    }

    fn cluster_network(&self) -> Option<String> {
        let status = self.cluster.status.as_ref()?;
        status.network.as_ref().map(|network| network.id.clone())
    }

    async fn fixed_ips(
        &self,
        field: &str,
        opts: &PortOpts,
        network: &str,
    ) -> Result<Vec<ResolvedFixedIp>, ReconcileError> {
        let mut resolved = Vec::new();
        for (index, ip) in opts.fixed_ips.iter().flatten().enumerate() {
            let subnet = match &ip.subnet {
                None => None,
                Some(param) => {
                    let query =
                        SubnetQuery { network_id: Some(network.to_owned()), ..queries::subnet(param) };
                    let found = self.cloud.subnets(&query).await?;
                    let [subnet] = found.as_slice() else {
                        let field = format!("{field}.fixedIPs[{index}].subnet");
                        return Err(ReconcileError::unresolved(
                            found.len(),
                            &field,
                            &queries::describe(&query),
                        ));
                    };
                    Some(subnet.id.clone())
                }
            };
            resolved.push(ResolvedFixedIp { ip_address: ip.ip_address.clone(), subnet });
        }
        if resolved.is_empty() && opts.network.is_none() {
            // The cluster's own subnets, so that a network with others beside them gives the right address.
            let network = self.cluster.status.as_ref().and_then(|status| status.network.as_ref());
            let subnets = network.and_then(|network| network.subnets.as_deref()).unwrap_or_default();
            resolved.extend(
                subnets
                    .iter()
                    .map(|subnet| ResolvedFixedIp { ip_address: None, subnet: Some(subnet.id.clone()) }),
            );
        }
        Ok(resolved)
    }

    /// Returns a port's own groups, or the machine's and the one of its role.
    async fn security_groups(
        &self,
        field: &str,
        opts: &PortOpts,
    ) -> Result<Option<Vec<String>>, ReconcileError> {
        let network = self.cluster.spec.managed_network.as_ref().filter(|_| opts.network.is_none());
        let unsecured = network.and_then(|network| network.enable_port_security) == Some(false);
        // Neutron refuses groups on ports without port security.
        if opts.enable_port_security.map_or(unsecured, |secured| !secured) {
            return Ok(Some(Vec::new()));
        }
        if let Some(params) = &opts.security_groups {
            return Ok(Some(self.groups(&format!("{field}.securityGroups"), params).await?));
        }
        let mut groups = self
            .groups("spec.securityGroups", self.object.spec.security_groups.as_deref().unwrap_or_default())
            .await?;
        let status = self.cluster.status.as_ref();
        let managed = if desired::is_control_plane(self.machine) {
            status.and_then(|status| status.control_plane_security_group.as_ref())
        } else {
            status.and_then(|status| status.worker_security_group.as_ref())
        };
        groups.extend(managed.map(|group| group.id.clone()));
        Ok((!groups.is_empty()).then_some(groups))
    }

    async fn groups(&self, field: &str, params: &[NetworkOrSGParam]) -> Result<Vec<String>, ReconcileError> {
        let mut ids = Vec::new();
        for (index, param) in params.iter().enumerate() {
            let query = queries::security_group(param);
            let found = self.cloud.security_groups(&query).await?;
            if found.is_empty() {
                return Err(ReconcileError::unresolved(
                    0,
                    &format!("{field}[{index}]"),
                    &queries::describe(&query),
                ));
            }
            // A filter may match several groups, as in upstream.
            for group in found {
                if !ids.contains(&group.id) {
                    ids.push(group.id);
                }
            }
        }
        Ok(ids)
    }
}
