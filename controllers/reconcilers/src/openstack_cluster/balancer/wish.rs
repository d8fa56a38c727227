//! Desired load balancer, from the spec alone.

use std::net::IpAddr;

use apiserver_types::{ManagedLoadBalancer, OpenStackCluster, OpenStackClusterSpec};
use controllers_infrastructure::{MonitorCheck, MonitorTimes, NetworkQuery, SubnetQuery};
use kube::ResourceExt;

use crate::queries;

/// Numbers of a health monitor that the spec does not name; upstream's. Unit of the times: seconds.
const MONITOR: MonitorTimes = MonitorTimes { delay: 10, timeout: 5, max_retries: 5, max_retries_down: 3 };

/// Annotation with the way in which members are checked: `https-readyz`, else by a connection. Anonymous requests to
/// `/readyz` may be forbidden, so it is not the default.
const MONITOR_ANNOTATION: &str = "capstan.dev/monitor";

/// Returns the way in which members are checked.
pub(in super::super) fn check(object: &OpenStackCluster) -> MonitorCheck {
    match object.annotations().get(MONITOR_ANNOTATION).map(String::as_str) {
        Some("https-readyz") => MonitorCheck::HttpsReadyz,
        _ => MonitorCheck::Tcp,
    }
}

/// Desired load balancer.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in super::super) struct BalancerWish {
    /// Name, and prefix of the names of its parts.
    pub name: String,
    /// The port of the API, then the additional ones.
    pub ports: Vec<i32>,
    /// Clients that may connect; empty for all.
    pub allowed_cidrs: Vec<String>,
    pub provider: Option<String>,
    pub flavor: Option<String>,
    pub zone: Option<String>,
    /// Network of the address, else the cluster's.
    pub network: Option<NetworkQuery>,
    /// Subnets of the address, else the cluster's.
    pub subnets: Vec<SubnetQuery>,
    /// Address on that network, else Neutron picks.
    pub address: Option<String>,
    /// A floating IP is desired.
    pub floating: bool,
    /// This floating IP, else any.
    pub floating_ip: Option<String>,
    pub times: MonitorTimes,
    /// Way in which members are checked.
    pub check: MonitorCheck,
    /// Host name of the endpoint in the spec. It is resolved, since it may lead to an address of the load balancer.
    pub host_name: Option<String>,
}

impl BalancerWish {
    /// Reads a spec; `None` if it requests no load balancer. `base` begins all names.
    pub(in super::super) fn read(
        spec: &OpenStackClusterSpec,
        base: &str,
        port: i32,
        floating: bool,
    ) -> Option<Self> {
        let server = spec.api_server.as_ref()?;
        let managed = server.managed_load_balancer.as_ref().filter(|it| it.enabled != Some(false))?;
        let text = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let host = spec.control_plane_endpoint.as_ref().and_then(|endpoint| endpoint.host.clone());
        // A host name is not an address.
        let (host, host_name) = match host {
            Some(name) if name.parse::<IpAddr>().is_err() => (None, Some(name)),
            host => (host, None),
        };
        let mut ports = vec![port];
        for more in managed.additional_ports.iter().flatten() {
            if !ports.contains(more) {
                ports.push(*more);
            }
        }
        let fixed = text(&server.fixed_ip);
        Some(Self {
            name: format!("{base}-kubeapi"),
            ports,
            allowed_cidrs: managed.allowed_cidrs.clone().unwrap_or_default(),
            provider: text(&managed.provider),
            flavor: text(&managed.flavor),
            zone: text(&managed.availability_zone),
            network: managed.network.as_ref().map(queries::network),
            subnets: managed.subnets.iter().flatten().map(queries::subnet).collect(),
            address: if floating { fixed } else { fixed.or_else(|| host.clone()) },
            floating,
            floating_ip: text(&server.floating_ip).or(host).filter(|_| floating),
            times: times(managed),
            check: MonitorCheck::default(),
            host_name: host_name.filter(|name| !name.is_empty()),
        })
    }

    /// Returns true if the spec names the network of the address.
    pub(in super::super) fn has_place(&self) -> bool {
        self.network.is_some() || !self.subnets.is_empty()
    }

    /// Returns the name of the port of the address.
    pub(in super::super) fn vip_name(&self) -> String {
        format!("{}-vip", self.name)
    }

    /// Returns the name of a listener, and of its pool and monitor.
    pub(in super::super) fn part_name(&self, port: i32) -> String {
        format!("{}-{port}", self.name)
    }
}

fn times(managed: &ManagedLoadBalancer) -> MonitorTimes {
    let monitor = managed.monitor.clone().unwrap_or_default();
    let number = |value: Option<i32>, default: i32| value.filter(|number| *number > 0).unwrap_or(default);
    MonitorTimes {
        delay: number(monitor.delay, MONITOR.delay),
        timeout: number(monitor.timeout, MONITOR.timeout),
        max_retries: number(monitor.max_retries, MONITOR.max_retries),
        max_retries_down: number(monitor.max_retries_down, MONITOR.max_retries_down),
    }
}
