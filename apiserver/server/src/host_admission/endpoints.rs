//! Endpoints behind the Services of the host cluster at which its webhooks run.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use apiserver_admission::HostService;
use k8s_openapi::api::core::v1::{Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};

/// Service with its endpoints, as the host has them. Without a Service, it does not exist.
#[derive(Debug, Clone, Default)]
pub(super) struct Backend {
    pub(super) service: Option<Arc<Service>>,
    pub(super) slices: Vec<Arc<EndpointSlice>>,
}

/// Way to a webhook.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Addresses of servers, with their ports.
    Addresses(Vec<SocketAddr>),
    /// Name in the DNS, and port.
    Name(String, u16),
}

impl Backend {
    /// Returns the way to a port of the Service.
    pub(super) fn way(&self, wanted: &HostService) -> Result<Way, String> {
        let spec = self.service.as_ref().and_then(|service| service.spec.as_ref());
        let spec = spec.ok_or_else(|| format!("{wanted}: the host cluster has no such Service"))?;
        if spec.type_.as_deref() == Some("ExternalName") {
            let name = spec.external_name.clone().filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!("{wanted}: spec.externalName is empty"))?;
            return Ok(Way::Name(name, wanted.port));
        }
        let ports = spec.ports.as_deref().unwrap_or_default();
        let port = ports.iter().find(|port| port.port == i32::from(wanted.port));
        let port = port.ok_or_else(|| format!("{wanted}: the Service has no such port"))?;
        let addresses: Vec<SocketAddr> =
            self.slices.iter().flat_map(|slice| addresses(slice, port)).collect();
        if addresses.is_empty() {
            return Err(format!("{wanted}: no endpoint of the Service is ready"));
        }
        Ok(Way::Addresses(addresses))
    }
}

/// Returns the addresses of the ready endpoints of a slice. Ports of a Service and of its slices have the same names.
fn addresses(slice: &EndpointSlice, port: &ServicePort) -> Vec<SocketAddr> {
    let name = |name: &Option<String>| name.clone().unwrap_or_default();
    let ports = slice.ports.iter().flatten().filter(|found| name(&found.name) == name(&port.name));
    let numbers: Vec<u16> = ports.filter_map(|found| u16::try_from(found.port?).ok()).collect();
    let ready = slice.endpoints.iter().filter(|endpoint| is_ready(endpoint));
    let all = ready.flat_map(|endpoint| endpoint.addresses.first());
    let all = all.filter_map(|address| address.parse::<IpAddr>().ok());
    all.flat_map(|address| numbers.iter().map(move |number| SocketAddr::new(address, *number))).collect()
}

/// An endpoint without a condition is ready.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn backend(spec: &Value, endpoints: &Value) -> Backend {
        let service = json!({"metadata": {"name": "gate", "namespace": "tools"}, "spec": spec});
        let slice = json!({"addressType": "IPv4", "metadata": {}, "endpoints": endpoints,
            "ports": [{"name": "https", "port": 9443}, {"name": "metrics", "port": 8080}]});
        Backend {
            service: Some(Arc::new(serde_json::from_value(service).unwrap())),
            slices: vec![Arc::new(serde_json::from_value(slice).unwrap())],
        }
    }

    fn wanted(port: u16) -> HostService {
        HostService { namespace: "tools".to_owned(), name: "gate".to_owned(), port }
    }

    #[test]
    fn the_ready_endpoints_are_dialled_at_their_own_ports() {
        let spec = json!({"ports": [{"name": "https", "port": 443, "targetPort": "webhook"}]});
        let endpoints = json!([
            {"addresses": ["192.0.2.1"], "conditions": {"ready": true}},
            {"addresses": ["192.0.2.2"], "conditions": {"ready": false}},
            {"addresses": ["192.0.2.3"]},
        ]);
        let expected = ["192.0.2.1:9443", "192.0.2.3:9443"].map(|text| text.parse().unwrap());
        let way = backend(&spec, &endpoints).way(&wanted(443));
        assert_eq!(way, Ok(Way::Addresses(expected.to_vec())));
        for (backend, port, why) in [
            (Backend::default(), 443, "the host cluster has no such Service"),
            (backend(&spec, &endpoints), 444, "the Service has no such port"),
            (backend(&spec, &json!([])), 443, "no endpoint of the Service is ready"),
        ] {
            let found = backend.way(&wanted(port)).unwrap_err();
            assert_eq!(found, format!("Service tools/gate, port {port}: {why}"));
        }
    }

    #[test]
    fn an_external_name_is_dialled_at_the_port_of_the_webhook() {
        let spec = json!({"type": "ExternalName", "externalName": "gate.example.org"});
        let way = backend(&spec, &json!([])).way(&wanted(8443));
        assert_eq!(way, Ok(Way::Name("gate.example.org".to_owned(), 8443)));
    }
}
