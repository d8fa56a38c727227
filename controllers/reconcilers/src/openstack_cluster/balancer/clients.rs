//! Clients that may connect to a load balancer.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::observe::Observed;
use super::{BalancerWish, OVN};
use crate::cidrs;

/// Field with the clients that may connect.
const FIELD: &str = "spec.apiServer.managedLoadBalancer.allowedCIDRs";

/// Returns true if the load balancer cannot check clients: it passes connections on as they are, or Octavia is old. Pure.
pub(in super::super) fn passes_clients(wish: &BalancerWish, observed: &Observed) -> bool {
    observed.balancing.limits.lacks_allowed_cidrs || passes_connections(wish, observed)
}

/// Returns true if the load balancer passes connections on as they are. Pure.
pub(super) fn passes_connections(wish: &BalancerWish, observed: &Observed) -> bool {
    match &observed.balancing.balancer {
        Some(balancer) if !balancer.provider.is_empty() => balancer.provider == OVN,
        _ => wish.provider.as_deref() == Some(OVN),
    }
}

/// Returns the clients that may connect: the user's list with the cluster's own addresses; empty for all.
pub(in super::super) fn allowed_cidrs(wish: &BalancerWish, observed: &Observed) -> Vec<String> {
    if wish.allowed_cidrs.is_empty() {
        return Vec::new();
    }
    let router = observed.router.iter().flat_map(|router| &router.external_ips);
    let own = observed.subnets.iter().map(|subnet| &subnet.cidr).chain(router);
    let own = own.chain(observed.bastion.addresses());
    let all = wish.allowed_cidrs.iter().chain(own).filter_map(|cidr| canonical(cidr));
    all.filter(|cidr| fits(cidr, wish, observed)).collect::<BTreeSet<String>>().into_iter().collect()
}

/// Returns true if a load balancer can check this CIDR: Octavia refuses those of another family than that of the address.
/// Security groups, which check the clients of a load balancer that cannot, take both.
fn fits(cidr: &str, wish: &BalancerWish, observed: &Observed) -> bool {
    let balancer = observed.balancing.balancer.as_ref().filter(|_| !passes_clients(wish, observed));
    balancer.is_none_or(|it| it.vip_address.contains(':') == cidr.contains(':'))
}

/// Returns the error of a spec that names clients of which none can be admitted. Only the cluster's own addresses would
/// be, and without those the load balancer would be open to all. Pure.
pub(super) fn none_fits(wish: &BalancerWish, observed: &Observed) -> Option<String> {
    let balancer = observed.balancing.balancer.as_ref()?;
    let is_admitted = |cidr: &String| canonical(cidr).is_some_and(|cidr| fits(&cidr, wish, observed));
    if wish.allowed_cidrs.is_empty() || wish.allowed_cidrs.iter().any(is_admitted) {
        return None;
    }
    let version = if balancer.vip_address.contains(':') { "IPv6" } else { "IPv4" };
    Some(format!(
        "{FIELD}: none of the entries is a CIDR of {version}, the IP version of the load balancer, so no client outside the \
         cluster could connect. Correct the list, or remove it to admit all"
    ))
}

/// Returns a CIDR in the form of Octavia, with the prefix length of a plain address.
fn canonical(cidr: &str) -> Option<String> {
    let (address, length) = cidr.split_once('/').unwrap_or((cidr, ""));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = if length.is_empty() { most } else { length.parse::<u8>().ok().filter(|it| *it <= most)? };
    Some(format!("{address}/{length}"))
}

/// Returns the warnings about the clients that the spec names: those that cannot be admitted, and a load balancer that
/// does not check them.
pub(super) fn warnings(wish: &BalancerWish, observed: &Observed) -> Vec<(&'static str, String)> {
    let field = FIELD;
    if wish.allowed_cidrs.is_empty() {
        return Vec::new();
    }
    if passes_clients(wish, observed) {
        let message = if passes_connections(wish, observed) {
            format!(
                "{field}: load balancers of provider {OVN:?} do not check clients. Managed security groups of control \
                 planes do; without them, any client can connect"
            )
        } else {
            format!(
                "{field}: an Octavia before version 2.12 does not check clients, and nodes see the address of the load \
                 balancer instead. Any client can connect. Upgrade Octavia"
            )
        };
        return vec![("AllowedCIDRsUnsupported", message)];
    }
    let admitted = allowed_cidrs(wish, observed);
    let refused = wish
        .allowed_cidrs
        .iter()
        .filter(|cidr| canonical(cidr).is_none_or(|canonical| !admitted.contains(&canonical)));
    let message = |cidr: &String| {
        format!("{field}: {cidr:?} is not a CIDR of the IP version of the load balancer. Correct it")
    };
    let refused = refused.map(|cidr| ("FailedIPAddressValidation", message(cidr)));
    refused.chain(own_warning(field, &admitted, observed.balancing.egress)).collect()
}

/// Returns a warning if this process itself cannot connect, because then the nodes cannot be observed.
fn own_warning(field: &str, admitted: &[String], egress: Option<IpAddr>) -> Option<(&'static str, String)> {
    let address = egress?;
    if admitted.is_empty() || admitted.iter().any(|cidr| cidrs::contains(cidr, address)) {
        return None;
    }
    let message = format!(
        "{field}: Capstan connects from {address}, which is not in the list. Add it, or the address by which a router \
         replaces it"
    );
    Some(("ControllerNotAllowed", message))
}
