//! Address of a load balancer that another port took while the load balancer was replaced.
//!
//! That happens only if the cloud insists on a port of Octavia, which goes with its load balancer.

use std::net::IpAddr;

use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::ReconcileError;

use super::LOST;

/// Consequence of an address that cannot be had.
#[derive(Debug)]
pub(super) enum Consequence {
    /// The endpoint does not depend on the address, so any address will do.
    AnyAddress,
    /// The error that is reported.
    Stop(ReconcileError),
}

/// Decides what an error of the creation of a port means. `is_floating`: a floating IP leads to the load balancer. Pure.
pub(super) fn consequence(
    error: CloudError,
    last: Option<&String>,
    endpoint: Option<&(String, i32)>,
    is_floating: bool,
) -> Consequence {
    let Some(last) = last.filter(|last| is_taken(&error, last)) else {
        return Consequence::Stop(error.into());
    };
    let host = endpoint.map(|(host, _)| host);
    // A host name may stand for the lost address. Another address cannot.
    let is_other = host.is_some_and(|host| host != last && host.parse::<IpAddr>().is_ok());
    if is_other || is_floating && host.is_some() {
        return Consequence::AnyAddress;
    }
    let message = format!(
        "another port has the address {last} of the API, which certificates and kubeconfigs name: {}. Delete that port, \
         so that the load balancer gets its address again",
        error.message
    );
    Consequence::Stop(ReconcileError::waiting(LOST, message))
}

/// Returns true if Neutron says that another port has the address.
fn is_taken(error: &CloudError, address: &str) -> bool {
    error.class == ErrorClass::Conflict && error.message.contains(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_7_an_address_that_was_lost_stops_the_replacement_unless_a_floating_ip_leads_to_it() {
        let of = |class, last: Option<&str>, host: Option<&str>| {
            let words = "IP address 10.6.0.9 already allocated in subnet s";
            let error = CloudError::new(class, "create port", words);
            let (last, host) = (last.map(str::to_owned), host.map(|host| (host.to_owned(), 6443)));
            match consequence(error, last.as_ref(), host.as_ref(), false) {
                Consequence::AnyAddress => "any".to_owned(),
                Consequence::Stop(error) => format!("{}: {error}", error.reason()),
            }
        };
        let lost = of(ErrorClass::Conflict, Some("10.6.0.9"), Some("10.6.0.9"));
        assert!(lost.starts_with("VIPLost: another port has the address 10.6.0.9 of the API"), "{lost}");
        assert!(lost.contains("already allocated in subnet s. Delete that port"), "{lost}");
        assert!(of(ErrorClass::Conflict, Some("10.6.0.9"), None).starts_with("VIPLost"));
        assert_eq!(of(ErrorClass::Conflict, Some("10.6.0.9"), Some("203.0.113.5")), "any");
        assert!(
            of(ErrorClass::Conflict, Some("10.6.0.9"), Some("api.example.org")).starts_with("VIPLost"),
            "a host name"
        );
        let error = CloudError::new(ErrorClass::Conflict, "create port", "10.6.0.9 already allocated");
        let (last, host) = ("10.6.0.9".to_owned(), ("api.example.org".to_owned(), 6443));
        let floating = consequence(error, Some(&last), Some(&host), true);
        assert!(matches!(floating, Consequence::AnyAddress), "the name stands for the floating IP");
        assert!(of(ErrorClass::Conflict, None, None).starts_with("OpenStackError"), "an address of the spec");
        assert!(of(ErrorClass::Quota, Some("10.6.0.9"), Some("203.0.113.5")).starts_with("QuotaExceeded"));
    }
}
