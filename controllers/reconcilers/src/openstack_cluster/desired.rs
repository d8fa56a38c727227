//! Desired cloud resources of an OpenStackCluster, from its spec alone.

use apiserver_types::{OpenStackCluster, OpenStackClusterSpec};
use controllers_infrastructure::{FloatingIp, NetworkQuery, SubnetQuery};

use super::adoption::Adopted;
use super::applied_rules;
use super::balancer::{self, BalancerWish};
use super::bastion::{self, BastionWish};
use super::rules::{Role, RuleSource, RuleSpec, invalid_rules, managed_rules};
use crate::{cidrs, queries};

/// Default port of a Kubernetes API server.
const API_PORT: i32 = 6443;

/// Desired cloud resources.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Desired {
    /// Base of all names: `k8s-clusterapi-cluster-<namespace>-<cluster>`.
    pub name: String,
    pub network: NetworkWish,
    pub subnets: SubnetWish,
    /// Subnet of the cluster's own addresses, if the spec names one.
    pub primary: Option<SubnetQuery>,
    /// External network; `None` if none is desired. If the spec names none, the only one of the cloud is used.
    pub external: Option<NetworkQuery>,
    pub router: RouterWish,
    /// Groups with their rules; empty if they are not managed.
    pub groups: Vec<GroupWish>,
    /// Name of the bastion's group, which is deleted if no bastion is desired.
    pub bastion_group: String,
    /// Messages of rules of the spec that cannot be made.
    pub invalid_rules: Vec<String>,
    /// Bastion, if one is desired.
    pub bastion: Option<BastionWish>,
    pub endpoint: EndpointWish,
    /// Address of `spec.apiServer.floatingIP`, which stays in the cloud.
    pub given_floating_ip: Option<String>,
    /// Address of the API that is kept from all other ports, if nodes answer at it by themselves.
    pub reserved: Option<ReservedAddress>,
    pub port: i32,
    /// Rules that other tools have added to the groups stay.
    pub keeps_foreign_rules: bool,
    /// Resources of other tools that the cluster takes over.
    pub adopted: Adopted,
    /// Tags of every created resource, beside the ownership tag.
    pub tags: Vec<String>,
}

/// Address on a managed subnet, and the name of the port that keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReservedAddress {
    pub port: String,
    pub address: String,
}

/// Desired network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NetworkWish {
    /// Create one.
    Managed { mtu: Option<i32>, port_security: Option<bool> },
    /// Use an existing one.
    Existing(NetworkQuery),
    /// Use the network of the first subnet.
    OfSubnets,
    /// The spec names neither a network nor subnets.
    Unnamed,
}

/// Desired subnets.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SubnetWish {
    /// Create one.
    Managed { cidr: String, dns_nameservers: Vec<String>, allocation_pools: Vec<(String, String)> },
    /// Use these.
    Existing(Vec<SubnetQuery>),
    /// Use all subnets of the network.
    All,
}

/// Desired router.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RouterWish {
    /// No router: the subnets belong to another owner, or there is no external network.
    None,
    /// Create one.
    Managed { external_ips: Vec<(SubnetQuery, Option<String>)> },
    /// Use an existing one.
    Existing(NetworkQuery),
    /// Use an existing one that another owner has connected to the network.
    Connected(NetworkQuery),
}

/// Desired security group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GroupWish {
    pub role: Role,
    pub name: String,
    pub rules: Vec<RuleSpec>,
}

/// Desired endpoint of the API.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum EndpointWish {
    /// As the spec says.
    Given { host: String, floating: bool },
    /// At this address of a control plane port.
    Fixed(String),
    /// At a floating IP, this one or any.
    Floating(Option<String>),
    /// Not specified, and there is no floating IP.
    Nowhere,
    /// At a load balancer.
    LoadBalancer(Box<BalancerWish>),
}

impl Desired {
    /// Reads a spec. `cluster` is the name of the Cluster that owns it.
    pub(super) fn read(object: &OpenStackCluster, cluster: &str) -> Self {
        let spec = &object.spec;
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        let name = format!("k8s-clusterapi-cluster-{namespace}-{cluster}");
        let server = spec.api_server.as_ref();
        // A client may send 0 for a port that is not set.
        let set = |port: Option<i32>| port.filter(|port| *port > 0);
        let given = set(spec.control_plane_endpoint.as_ref().and_then(|endpoint| endpoint.port));
        let port = given.or_else(|| set(server.and_then(|server| server.port))).unwrap_or(API_PORT);
        let external_wanted = spec.enable_external_network != Some(false);
        let bastion = bastion::is_wanted(spec);
        let ports = api_ports(spec, port);
        let prefix = format!("k8s-cluster-{namespace}-{cluster}-secgroup");
        let source = spec.managed_security_groups.as_ref();
        let source = source.map(|groups| RuleSource { groups, api_ports: &ports, bastion });
        Self {
            network: network(spec),
            subnets: subnets(spec),
            primary: spec.primary_subnet.as_ref().map(queries::subnet),
            external: external_wanted.then(|| external(spec)),
            router: router(spec, external_wanted),
            groups: source.as_ref().map(|source| groups(source, &prefix)).unwrap_or_default(),
            bastion_group: group_name(&prefix, Role::Bastion),
            invalid_rules: source.as_ref().map(invalid_rules).unwrap_or_default(),
            bastion: BastionWish::read(spec, cluster, external_wanted),
            given_floating_ip: server.and_then(|it| it.floating_ip.clone()).filter(|it| !it.is_empty()),
            endpoint: with_check(endpoint(spec, &name, port, external_wanted), object),
            reserved: reserved(spec, &format!("{namespace}-{cluster}-api-fixed"), external_wanted),
            port,
            keeps_foreign_rules: applied_rules::keeps_foreign(object),
            adopted: Adopted::read(object.metadata.annotations.as_ref()),
            tags: spec.tags.clone().unwrap_or_default(),
            name,
        }
    }

    /// Returns true if the spec gives a floating IP. The one that Capstan allocated is given once the spec names it.
    pub(super) fn gives(&self, floating_ip: &FloatingIp) -> bool {
        self.given_floating_ip.as_ref() == Some(&floating_ip.address)
    }
}

fn network(spec: &OpenStackClusterSpec) -> NetworkWish {
    if let Some(param) = &spec.network {
        return NetworkWish::Existing(queries::network(param));
    }
    if spec.managed_subnets.as_ref().is_none_or(Vec::is_empty) {
        let named = spec.subnets.as_ref().is_some_and(|subnets| !subnets.is_empty());
        return if named { NetworkWish::OfSubnets } else { NetworkWish::Unnamed };
    }
    let managed = spec.managed_network.clone().unwrap_or_default();
    NetworkWish::Managed { mtu: managed.mtu, port_security: managed.enable_port_security }
}

fn subnets(spec: &OpenStackClusterSpec) -> SubnetWish {
    if let Some(managed) = spec.managed_subnets.as_ref().and_then(|subnets| subnets.first()) {
        let pools = managed.allocation_pools.iter().flatten();
        return SubnetWish::Managed {
            cidr: managed.cidr.clone(),
            dns_nameservers: managed.dns_nameservers.clone().unwrap_or_default(),
            allocation_pools: pools.map(|pool| (pool.start.clone(), pool.end.clone())).collect(),
        };
    }
    match spec.subnets.as_deref() {
        Some(params) if !params.is_empty() => {
            SubnetWish::Existing(params.iter().map(queries::subnet).collect())
        }
        _ => SubnetWish::All,
    }
}

fn external(spec: &OpenStackClusterSpec) -> NetworkQuery {
    let query = spec.external_network.as_ref().map(queries::network).unwrap_or_default();
    // One that is named by its id is read whatever it is, so that the error says what is wrong with it.
    let external = query.id.is_none().then_some(true);
    NetworkQuery { external, ..query }
}

fn router(spec: &OpenStackClusterSpec, external_wanted: bool) -> RouterWish {
    let managed_subnet = spec.managed_subnets.as_ref().is_some_and(|subnets| !subnets.is_empty());
    if let Some(param) = &spec.router {
        let query = queries::network(param);
        return if managed_subnet { RouterWish::Existing(query) } else { RouterWish::Connected(query) };
    }
    if !managed_subnet || !external_wanted {
        return RouterWish::None;
    }
    let ips = spec.managed_router.as_ref().and_then(|router| router.external_ips.as_deref());
    let ips = ips.unwrap_or_default().iter().map(|ip| (queries::subnet(&ip.subnet), ip.fixed_ip.clone()));
    RouterWish::Managed { external_ips: ips.collect() }
}

/// Returns the ports of control plane nodes that clients reach: the API's and the load balancer's others.
fn api_ports(spec: &OpenStackClusterSpec, port: i32) -> Vec<i32> {
    let balancer = spec.api_server.as_ref().and_then(|server| server.managed_load_balancer.as_ref());
    let balancer = balancer.filter(|balancer| balancer.enabled != Some(false));
    let more = balancer.and_then(|balancer| balancer.additional_ports.as_deref()).unwrap_or_default();
    [port].into_iter().chain(more.iter().copied().filter(|more| *more != port)).collect()
}

fn groups(source: &RuleSource<'_>, prefix: &str) -> Vec<GroupWish> {
    let roles = [Role::ControlPlane, Role::Worker, Role::Bastion].into_iter();
    let wanted = roles.filter(|role| *role != Role::Bastion || source.bastion);
    let wish = |role| GroupWish { role, name: group_name(prefix, role), rules: managed_rules(role, source) };
    wanted.map(wish).collect()
}

fn group_name(prefix: &str, role: Role) -> String {
    format!("{prefix}-{}", role.word())
}

fn endpoint(spec: &OpenStackClusterSpec, name: &str, port: i32, external_wanted: bool) -> EndpointWish {
    let server = spec.api_server.clone().unwrap_or_default();
    let floating_wanted = external_wanted && server.enable_floating_ip != Some(false);
    // Also if the endpoint is known already: the load balancer serves it.
    if let Some(wish) = BalancerWish::read(spec, name, port, floating_wanted) {
        return EndpointWish::LoadBalancer(Box::new(wish));
    }
    if let Some(host) = spec.control_plane_endpoint.as_ref().and_then(|endpoint| endpoint.host.clone()) {
        return EndpointWish::Given { host, floating: floating_wanted };
    }
    match (server.fixed_ip, floating_wanted) {
        (_, true) => EndpointWish::Floating(server.floating_ip),
        (Some(address), false) => EndpointWish::Fixed(address),
        (None, false) => EndpointWish::Nowhere,
    }
}

/// Completes a load balancer with the way in which the annotation has members checked.
fn with_check(endpoint: EndpointWish, object: &OpenStackCluster) -> EndpointWish {
    match endpoint {
        EndpointWish::LoadBalancer(wish) => {
            let check = balancer::wish::check(object);
            EndpointWish::LoadBalancer(Box::new(BalancerWish { check, ..*wish }))
        }
        other => other,
    }
}

/// Returns the fixed address of the API, if it is on the managed subnet. Neutron would lease it to a node otherwise.
fn reserved(spec: &OpenStackClusterSpec, port: &str, external_wanted: bool) -> Option<ReservedAddress> {
    let server = spec.api_server.as_ref()?;
    let address = server.fixed_ip.clone().filter(|address| !address.is_empty())?;
    let floats = external_wanted && server.enable_floating_ip != Some(false);
    let balanced = server.managed_load_balancer.as_ref().is_some_and(|it| it.enabled != Some(false));
    let cidr = &spec.managed_subnets.as_ref()?.first()?.cidr;
    let inside = address.parse().is_ok_and(|parsed| cidrs::contains(cidr, parsed));
    (!floats && !balanced && inside).then(|| ReservedAddress { port: port.to_owned(), address })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn desired(spec: &Value) -> Desired {
        let mut spec = spec.clone();
        spec["identityRef"] = json!({"name": "s", "cloudName": "c"});
        Desired::read(&OpenStackCluster::new("c", serde_json::from_value(spec).unwrap()), "c")
    }

    #[test]
    fn r5_2_a_network_is_created_or_named_and_never_guessed() {
        let managed = json!({"managedSubnets": [{"cidr": "10.6.0.0/24"}]});
        let table = [
            (managed, "Managed"),
            (json!({"network": {"id": "n"}}), "Existing"),
            (json!({"subnets": [{"id": "s"}]}), "OfSubnets"),
            (json!({}), "Unnamed"),
        ];
        for (spec, expected) in table {
            let network = format!("{:?}", desired(&spec).network);
            assert!(network.starts_with(expected), "{spec}: {network}");
        }
    }

    #[test]
    fn r7_7_the_spec_gives_the_floating_ip_that_it_names() {
        let ip = |address: &str| FloatingIp { address: address.to_owned(), ..FloatingIp::default() };
        let endpoint = json!({"host": "203.0.113.9", "port": 6443});
        let table = [
            (json!({"floatingIP": "203.0.113.9"}), true),
            (json!({"floatingIP": "203.0.113.9", "managedLoadBalancer": {}}), true),
            (json!({"floatingIP": "203.0.113.8"}), false),
            (json!({"floatingIP": ""}), false),
            (json!({"managedLoadBalancer": {}}), false),
        ];
        for (server, expected) in table {
            let found = desired(&json!({"apiServer": server, "controlPlaneEndpoint": endpoint}));
            assert_eq!(found.gives(&ip("203.0.113.9")), expected, "{server}");
            assert!(!found.gives(&ip("")), "{server}");
        }
    }

    #[test]
    fn r7_4_a_fixed_address_on_the_managed_subnet_is_reserved() {
        let spec = |server: Value| json!({"managedSubnets": [{"cidr": "10.6.0.0/24"}], "apiServer": server});
        let table = [
            (json!({"enableFloatingIP": false, "fixedIP": "10.6.0.9"}), true),
            (json!({"enableFloatingIP": false, "fixedIP": "10.7.0.9"}), false),
            (json!({"enableFloatingIP": false}), false),
            (json!({"fixedIP": "10.6.0.9"}), false),
            (json!({"enableFloatingIP": false, "fixedIP": "10.6.0.9", "managedLoadBalancer": {}}), false),
        ];
        for (server, expected) in table {
            let found = desired(&spec(server.clone())).reserved;
            assert_eq!(found.is_some(), expected, "{server}");
        }
        // Also after the address was written into the endpoint.
        let mut known = spec(json!({"enableFloatingIP": false, "fixedIP": "10.6.0.9"}));
        known["controlPlaneEndpoint"] = json!({"host": "10.6.0.9", "port": 6443});
        let known = desired(&known);
        assert_eq!(known.reserved.as_ref().unwrap().port, "-c-api-fixed");
        let entries = super::super::observe::intended(&known);
        assert!(entries.contains(&(crate::names::VIP_PORT, "-c-api-fixed".to_owned())), "{entries:?}");
    }

    #[test]
    fn r5_7_a_router_is_created_connected_or_only_reported() {
        let subnets = json!([{"cidr": "10.6.0.0/24"}]);
        let table = [
            (json!({"managedSubnets": subnets}), "Managed"),
            (json!({"managedSubnets": subnets, "router": {"id": "r"}}), "Existing"),
            (json!({"network": {"id": "n"}, "router": {"id": "r"}}), "Connected"),
            (json!({"managedSubnets": subnets, "enableExternalNetwork": false}), "None"),
            (json!({"network": {"id": "n"}}), "None"),
        ];
        for (spec, expected) in table {
            let router = format!("{:?}", desired(&spec).router);
            assert!(router.starts_with(expected), "{spec}: {router}");
        }
    }

    #[test]
    fn r5_1_an_external_network_with_an_id_is_read_whatever_it_is() {
        let by_id = desired(&json!({"externalNetwork": {"id": "e"}})).external.unwrap();
        assert_eq!((by_id.id.as_deref(), by_id.external), (Some("e"), None));
        let by_name = desired(&json!({"externalNetwork": {"filter": {"name": "public"}}})).external.unwrap();
        assert_eq!(by_name.external, Some(true));
        assert_eq!(desired(&json!({"enableExternalNetwork": false})).external, None);
    }
}
