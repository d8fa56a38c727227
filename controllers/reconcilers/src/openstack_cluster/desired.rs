//! Desired cloud resources of an OpenStackCluster, from its spec alone.

use apiserver_types::{OpenStackCluster, OpenStackClusterSpec};
use controllers_infrastructure::{NetworkQuery, SubnetQuery};

use super::balancer::BalancerWish;
use super::rules::{Role, RuleSpec, managed_rules};
use crate::queries;

/// Default port of a Kubernetes API server.
const API_PORT: i32 = 6443;

/// Desired cloud resources.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Desired {
    /// Base of all names: `k8s-clusterapi-cluster-<namespace>-<cluster>`.
    pub name: String,
    pub network: NetworkWish,
    pub subnets: SubnetWish,
    /// External network; `None` if none is desired.
    pub external: Option<NetworkQuery>,
    /// If the spec names no external network, the only one of the cloud is used.
    pub router: RouterWish,
    /// Groups with their rules; empty if they are not managed.
    pub groups: Vec<GroupWish>,
    pub endpoint: EndpointWish,
    pub port: i32,
    /// Tags of every created resource, beside the ownership tag.
    pub tags: Vec<String>,
}

/// Desired network.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NetworkWish {
    /// Create one.
    Managed { mtu: Option<i32>, port_security: Option<bool> },
    /// Use an existing one.
    Existing(NetworkQuery),
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
        let given = spec.control_plane_endpoint.as_ref().and_then(|endpoint| endpoint.port);
        let port = given.or_else(|| server.and_then(|server| server.port)).filter(|port| *port > 0);
        let port = port.unwrap_or(API_PORT);
        let external_wanted = spec.enable_external_network != Some(false);
        Self {
            network: network(spec),
            subnets: subnets(spec),
            external: external_wanted.then(|| external(spec)),
            router: router(spec, external_wanted),
            groups: groups(
                spec,
                &format!("k8s-cluster-{namespace}-{cluster}-secgroup"),
                &api_ports(spec, port),
            ),
            endpoint: endpoint(spec, &name, port, external_wanted),
            port,
            tags: spec.tags.clone().unwrap_or_default(),
            name,
        }
    }
}

fn network(spec: &OpenStackClusterSpec) -> NetworkWish {
    if let Some(param) = &spec.network {
        return NetworkWish::Existing(queries::network(param));
    }
    if spec.managed_subnets.as_ref().is_none_or(Vec::is_empty) {
        // If nothing is created, an existing network is found by its subnets.
        return NetworkWish::Existing(NetworkQuery { external: Some(false), ..NetworkQuery::default() });
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
    NetworkQuery { external: Some(true), ..query }
}

fn router(spec: &OpenStackClusterSpec, external_wanted: bool) -> RouterWish {
    let managed_subnet = spec.managed_subnets.as_ref().is_some_and(|subnets| !subnets.is_empty());
    if !managed_subnet {
        return RouterWish::None;
    }
    if let Some(param) = &spec.router {
        return RouterWish::Existing(queries::network(param));
    }
    if !external_wanted {
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

fn groups(spec: &OpenStackClusterSpec, prefix: &str, ports: &[i32]) -> Vec<GroupWish> {
    let Some(managed) = &spec.managed_security_groups else { return Vec::new() };
    let wish = |role: Role| GroupWish {
        role,
        name: format!("{prefix}-{}", role.word()),
        rules: managed_rules(role, managed, ports),
    };
    vec![wish(Role::ControlPlane), wish(Role::Worker)]
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
