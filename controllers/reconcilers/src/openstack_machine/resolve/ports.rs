//! Resolution of the ports of a machine: networks, subnets and security groups.

use apiserver_types::{
    NetworkOrSGParam, OpenStackCluster, OpenStackClusterSpec, PortOpts, ResolvedFixedIp, ResolvedPortSpec,
    SubnetParam,
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
        let secured = is_secured(self.cluster, opts);
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
        let further = self.object.spec.security_groups.as_deref().unwrap_or_default();
        let own = match opts.security_groups.as_deref() {
            Some(params) => Some(self.groups(&format!("{field}.securityGroups"), params).await?),
            None => None,
        };
        let default = match own {
            Some(_) => None,
            None => default_group(self.managed_group(), self.is_elsewhere, !further.is_empty(), field)?,
        };
        let further = self.groups("spec.securityGroups", further).await?;
        Ok(joined(own, default, further))
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

/// Returns true unless port security is off: by the port's own setting, else by that of the cluster's network.
fn is_secured(cluster: &OpenStackCluster, opts: &PortOpts) -> bool {
    let network = cluster.spec.managed_network.as_ref().filter(|_| opts.network.is_none());
    let of_network = network.and_then(|network| network.enable_port_security);
    opts.enable_port_security.or(of_network).unwrap_or(true)
}

/// Returns the group of a port that names none: the managed one, which cannot be used from another project. Pure.
fn default_group(
    managed: Option<String>,
    is_elsewhere: bool,
    has_further: bool,
    field: &str,
) -> Result<Option<String>, ReconcileError> {
    if !is_elsewhere || managed.is_none() {
        return Ok(managed);
    }
    if has_further {
        return Ok(None);
    }
    let message = format!(
        "spec.identityRef leads to another project than that of the cluster, whose security groups cannot be used \
         there. Name groups of the project in {field}.securityGroups or spec.securityGroups"
    );
    Err(ReconcileError::waiting("IdentityMismatch", message))
}

/// Joins the groups of a port, which replace the managed one, and those of the machine. Pure.
fn joined(own: Option<Vec<String>>, default: Option<String>, further: Vec<String>) -> Option<Vec<String>> {
    // An empty list of the port means no group at all.
    let is_named = own.is_some();
    let mut groups = own.unwrap_or_else(|| default.into_iter().collect());
    for group in further {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    (is_named || !groups.is_empty()).then_some(groups)
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
    use serde_json::json;

    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn r6_9_groups_of_a_port_replace_the_managed_one_and_those_of_the_machine_are_added() {
        let managed = || Some("managed".to_owned());
        let table = [
            (None, managed(), &[][..], Some(list(&["managed"]))),
            (None, managed(), &["own"][..], Some(list(&["managed", "own"]))),
            (Some(list(&["port"])), None, &["own"][..], Some(list(&["port", "own"]))),
            (Some(list(&["port"])), None, &["port"][..], Some(list(&["port"]))),
            (Some(Vec::new()), None, &[][..], Some(Vec::new())),
            (None, None, &["own"][..], Some(list(&["own"]))),
            (None, None, &[][..], None),
        ];
        for (own, default, further, expected) in table {
            assert_eq!(joined(own.clone(), default, list(further)), expected, "{own:?} {further:?}");
        }
    }

    #[test]
    fn r6_9_a_port_without_port_security_has_no_groups() {
        let cluster = |network: serde_json::Value| {
            let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "managedNetwork": network});
            OpenStackCluster::new("c", serde_json::from_value(spec).unwrap())
        };
        let port = |port: serde_json::Value| -> PortOpts { serde_json::from_value(port).unwrap() };
        let (open, plain) = (cluster(json!({"enablePortSecurity": false})), cluster(json!({})));
        assert!(is_secured(&plain, &port(json!({}))));
        assert!(!is_secured(&plain, &port(json!({"enablePortSecurity": false}))));
        assert!(!is_secured(&open, &port(json!({}))));
        assert!(is_secured(&open, &port(json!({"enablePortSecurity": true}))));
        assert!(is_secured(&open, &port(json!({"network": {"id": "other"}}))), "not the cluster's network");
    }

    #[test]
    fn r3_3_the_managed_group_of_another_project_is_never_used() {
        let managed = || Some("managed".to_owned());
        let group = |managed, is_elsewhere, has_further| {
            default_group(managed, is_elsewhere, has_further, "spec.ports[0]")
        };
        assert_eq!(group(managed(), false, false).unwrap(), managed());
        assert_eq!(group(managed(), true, true).unwrap(), None, "the machine has groups of its own");
        assert_eq!(group(None, true, false).unwrap(), None, "no group is managed");
        let error = group(managed(), true, false).unwrap_err();
        assert_eq!(error.reason(), "IdentityMismatch");
        assert!(error.to_string().contains("spec.ports[0].securityGroups"), "{error}");
    }

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
