//! Resolution of the ports of a machine: networks, subnets and security groups.

use apiserver_types::{
    NetworkOrSGParam, OpenStackClusterSpec, PortOpts, ResolvedFixedIp, ResolvedPortSpec, SubnetParam,
};
use controllers_infrastructure::{CloudError, ErrorClass, SubnetQuery};
use controllers_runtime::ReconcileError;
use kube::ResourceExt;

use super::super::desired;
use super::{Resolver, only};
use crate::queries;

impl Resolver<'_> {
    pub(super) async fn port(
        &self,
        index: usize,
        opts: &PortOpts,
    ) -> Result<ResolvedPortSpec, ReconcileError> {
        let field = format!("spec.ports[{index}]");
        let network_id = self.network(&field, opts).await?;
        let fixed_ips = self.fixed_ips(&field, opts, &network_id).await?;
        let tags = desired::tags(self.object, self.cluster, Some(opts));
        // Neutron refuses groups and address pairs on ports without port security.
        let secured = self.is_secured(opts);
        Ok(ResolvedPortSpec {
            name: desired::port_name(self.object, index, opts),
            fixed_ips: (!fixed_ips.is_empty()).then_some(fixed_ips),
            security_groups: if secured {
                self.security_groups(&field, opts).await?
            } else {
                Some(Vec::new())
            },
            network_id,
            admin_state_up: opts.admin_state_up,
            allowed_address_pairs: opts.allowed_address_pairs.clone().filter(|_| secured),
            description: opts.description.clone(),
            enable_port_security: opts.enable_port_security,
            host_id: opts.host_id.clone(),
            mac_address: opts.mac_address.clone(),
            profile: opts.profile.clone(),
            propagate_uplink_status: opts.propagate_uplink_status,
            tags: (!tags.is_empty()).then_some(tags),
            trunk: desired::is_trunk(self.object, opts).then_some(true),
            value_specs: opts.value_specs.clone(),
            vnic_type: opts.vnic_type.clone(),
        })
    }

    /// Returns true unless port security is off: by the port's own setting, else by that of the cluster's network.
    fn is_secured(&self, opts: &PortOpts) -> bool {
        let network = self.cluster.spec.managed_network.as_ref().filter(|_| opts.network.is_none());
        opts.enable_port_security
            .or_else(|| network.and_then(|network| network.enable_port_security))
            .unwrap_or(true)
    }

    async fn network(&self, field: &str, opts: &PortOpts) -> Result<String, ReconcileError> {
        if let Some(param) = &opts.network {
            let query = queries::network(param);
            let found = self.cloud.networks(&query).await?.into_iter().map(|network| network.id).collect();
            return only(found, &format!("{field}.network"), &queries::describe(&query));
        }
        // A port that names only a subnet is on that subnet's network.
        let subnet = opts
            .fixed_ips
            .iter()
            .flatten()
            .enumerate()
            .find_map(|(index, ip)| Some((index, ip.subnet.as_ref()?)));
        if let Some((index, param)) = subnet {
            let query = queries::subnet(param);
            let found =
                self.cloud.subnets(&query).await?.into_iter().map(|subnet| subnet.network_id).collect();
            return only(found, &format!("{field}.fixedIPs[{index}].subnet"), &queries::describe(&query));
        }
        if self.cluster.name_any().is_empty() {
            let message =
                "an OpenStackServer has no network of a cluster. Name the network, or a subnet in fixedIPs";
            return Err(CloudError::new(
                ErrorClass::InvalidSpec,
                format!("resolve {field}.network"),
                message,
            )
            .into());
        }
        self.cluster_network().ok_or_else(|| {
            ReconcileError::waiting("WaitingForClusterInfrastructure", "the cluster has no network yet")
        })
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
                    Some(self.subnet(&format!("{field}.fixedIPs[{index}].subnet"), param, network).await?)
                }
            };
            resolved.push(ResolvedFixedIp { ip_address: ip.ip_address.clone(), subnet });
        }
        if resolved.is_empty() && opts.network.is_none() {
            for (field, param) in default_subnets(&self.cluster.spec) {
                let subnet = Some(self.subnet(&field, param, network).await?);
                resolved.push(ResolvedFixedIp { ip_address: None, subnet });
            }
        }
        Ok(resolved)
    }

    /// Returns the id of a subnet of a network.
    async fn subnet(
        &self,
        field: &str,
        param: &SubnetParam,
        network: &str,
    ) -> Result<String, ReconcileError> {
        let query = SubnetQuery { network_id: Some(network.to_owned()), ..queries::subnet(param) };
        let found = self.cloud.subnets(&query).await?.into_iter().map(|subnet| subnet.id).collect();
        only(found, field, &queries::describe(&query))
    }

    /// Returns the groups of a port: its own, else the managed one of the role; and in both cases those of the machine.
    async fn security_groups(
        &self,
        field: &str,
        opts: &PortOpts,
    ) -> Result<Option<Vec<String>>, ReconcileError> {
        let mut groups = match opts.security_groups.as_deref() {
            Some(params) => self.groups(&format!("{field}.securityGroups"), params).await?,
            None => self.default_group(field)?.into_iter().collect(),
        };
        let further = self.object.spec.security_groups.as_deref().unwrap_or_default();
        for group in self.groups("spec.securityGroups", further).await? {
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        // An empty list of the port means no group at all.
        Ok((!groups.is_empty() || opts.security_groups.is_some()).then_some(groups))
    }

    /// Returns the group of a port that names none. The groups of another project cannot be used.
    fn default_group(&self, field: &str) -> Result<Option<String>, ReconcileError> {
        let group = self.managed_group();
        if !self.is_elsewhere || group.is_none() {
            return Ok(group);
        }
        if self.object.spec.security_groups.as_ref().is_some_and(|groups| !groups.is_empty()) {
            return Ok(None);
        }
        let message = format!(
            "spec.identityRef leads to another project than that of the cluster, whose security groups cannot be used \
             there. Name groups of the project in {field}.securityGroups or spec.securityGroups"
        );
        Err(ReconcileError::waiting("IdentityMismatch", message))
    }

    /// Returns the managed group of the machine's role.
    fn managed_group(&self) -> Option<String> {
        let status = self.cluster.status.as_ref()?;
        let group = if desired::is_control_plane(self.machine) {
            status.control_plane_security_group.as_ref()
        } else {
            status.worker_security_group.as_ref()
        };
        group.map(|group| group.id.clone())
    }

    async fn groups(&self, field: &str, params: &[NetworkOrSGParam]) -> Result<Vec<String>, ReconcileError> {
        let mut ids = Vec::new();
        for (index, param) in params.iter().enumerate() {
            let query = queries::security_group(param);
            let found = self.cloud.security_groups(&query).await?;
            if found.is_empty() {
                only(Vec::new(), &format!("{field}[{index}]"), &queries::describe(&query))?;
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

/// Returns the subnets of a port on the cluster's network, as upstream does: the primary one, else each that the spec of
/// the cluster lists. With none, Neutron chooses.
fn default_subnets(spec: &OpenStackClusterSpec) -> Vec<(String, &SubnetParam)> {
    if let Some(primary) = &spec.primary_subnet {
        return vec![("spec.primarySubnet of the OpenStackCluster".to_owned(), primary)];
    }
    let listed = spec.subnets.iter().flatten().enumerate();
    listed.map(|(index, param)| (format!("spec.subnets[{index}] of the OpenStackCluster"), param)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A port got an address on every subnet of the network.
    #[test]
    fn r10_1_a_port_has_addresses_only_on_the_subnets_that_the_spec_names() {
        let subnet = |id: &str| SubnetParam { id: Some(id.to_owned()), ..SubnetParam::default() };
        let ids = |spec: &OpenStackClusterSpec| -> Vec<String> {
            default_subnets(spec).into_iter().filter_map(|(_, subnet)| subnet.id.clone()).collect()
        };
        let mut spec = OpenStackClusterSpec::default();
        assert_eq!(ids(&spec), Vec::<String>::new(), "Neutron chooses");
        spec.subnets = Some(vec![subnet("a"), subnet("b")]);
        assert_eq!(ids(&spec), ["a", "b"]);
        spec.primary_subnet = Some(subnet("b"));
        assert_eq!(ids(&spec), ["b"]);
    }
}
