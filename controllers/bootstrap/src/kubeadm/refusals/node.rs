//! Refused values of an InitConfiguration and of a JoinConfiguration.

use std::collections::BTreeSet;

use apiserver_types::{
    BootstrapToken, Discovery, InitConfiguration, JoinConfiguration, LocalApiEndpoint,
    NodeRegistrationOptions,
};

use super::Refusal;
use super::values::{address, broken, certificate_path, group, hash, host_with_port, is_template, node_name};
use crate::token::Token;

/// Largest port.
const LAST_PORT: i32 = 65535;

/// Uses of a bootstrap token.
const USAGES: [&str; 2] = ["signing", "authentication"];

/// Returns the refused values of the first node.
pub(super) fn of_init(init: &InitConfiguration) -> Vec<Refusal> {
    let mut found = Found { path: "spec.initConfiguration", refusals: Vec::new() };
    found.registration(init.node_registration.as_ref());
    found.endpoint("localAPIEndpoint", init.local_api_endpoint.as_ref());
    for (index, token) in init.bootstrap_tokens.iter().flatten().enumerate() {
        found.token(&format!("bootstrapTokens[{index}]"), token);
    }
    found.refusals
}

/// Returns the refused values of a node that joins.
pub(super) fn of_join(join: &JoinConfiguration) -> Vec<Refusal> {
    let mut found = Found { path: "spec.joinConfiguration", refusals: Vec::new() };
    found.check("caCertPath", join.ca_cert_path.as_deref(), certificate_path);
    found.registration(join.node_registration.as_ref());
    let control_plane = join.control_plane.as_ref().and_then(|it| it.local_api_endpoint.as_ref());
    found.endpoint("controlPlane.localAPIEndpoint", control_plane);
    join.discovery.iter().for_each(|it| found.discovery(it));
    found.refusals
}

/// Refused values so far.
struct Found {
    path: &'static str,
    refusals: Vec<Refusal>,
}

impl Found {
    fn add(&mut self, field: &str, cause: impl Into<String>) {
        self.refusals.push(Refusal::new(format!("{}.{field}", self.path), cause));
    }

    fn check(&mut self, field: &str, value: Option<&str>, rule: fn(&str) -> Option<&'static str>) {
        let cause = value.filter(|value| !value.is_empty()).and_then(|value| broken(value, rule));
        cause.into_iter().for_each(|cause| self.add(field, cause));
    }

    fn registration(&mut self, registration: Option<&NodeRegistrationOptions>) {
        let Some(registration) = registration else { return };
        self.check("nodeRegistration.name", registration.name.as_deref(), node_name);
        let ignored = registration.ignore_preflight_errors.iter().flatten();
        let ignored: BTreeSet<String> = ignored.map(|check| check.to_lowercase()).collect();
        if ignored.contains("all") && ignored.len() > 1 {
            self.add("nodeRegistration.ignorePreflightErrors", "\"all\" excludes names of single checks");
        }
    }

    fn endpoint(&mut self, field: &str, endpoint: Option<&LocalApiEndpoint>) {
        let Some(endpoint) = endpoint else { return };
        self.check(&format!("{field}.advertiseAddress"), endpoint.advertise_address.as_deref(), address);
        if let Some(port) = endpoint.bind_port.filter(|port| *port > LAST_PORT) {
            self.add(&format!("{field}.bindPort"), format!("{port} is no port between 1 and {LAST_PORT}"));
        }
    }

    /// Checks a token. No cause contains it.
    fn token(&mut self, field: &str, token: &BootstrapToken) {
        self.token_text(&format!("{field}.token"), &token.token);
        let usages = token.usages.as_deref().unwrap_or_default();
        let unknown = usages.iter().find(|usage| !USAGES.contains(&usage.as_str()) && !is_template(usage));
        if let Some(unknown) = unknown {
            self.add(
                &format!("{field}.usages"),
                format!("{unknown:?} is neither signing nor authentication"),
            );
        }
        let groups = token.groups.as_deref().unwrap_or_default();
        for (index, text) in groups.iter().enumerate() {
            self.check(&format!("{field}.groups[{index}]"), Some(text.as_str()), group);
        }
        let authenticates = usages.is_empty() || usages.iter().any(|usage| usage == "authentication");
        if !groups.is_empty() && !authenticates {
            self.add(&format!("{field}.groups"), "a token has groups only with the usage authentication");
        }
        if token.expires.is_some() && token.ttl_seconds.is_some() {
            self.add(&format!("{field}.expires"), "expires and ttlSeconds exclude each other");
        }
    }

    fn token_text(&mut self, field: &str, text: &str) {
        if let Some(error) = Token::parse(text).err().filter(|_| !is_template(text)) {
            self.add(field, error.to_string());
        }
    }

    fn discovery(&mut self, discovery: &Discovery) {
        if discovery.bootstrap_token.is_some() && discovery.file.is_some() {
            self.add("discovery", "bootstrapToken and file exclude each other");
        }
        if let Some(token) = discovery.tls_bootstrap_token.as_deref().filter(|token| !token.is_empty()) {
            self.token_text("discovery.tlsBootstrapToken", token);
        }
        let Some(token) = &discovery.bootstrap_token else { return };
        let field = "discovery.bootstrapToken";
        self.check(
            &format!("{field}.apiServerEndpoint"),
            token.api_server_endpoint.as_deref(),
            host_with_port,
        );
        for (index, text) in token.ca_cert_hashes.iter().flatten().enumerate() {
            self.check(&format!("{field}.caCertHashes[{index}]"), Some(text.as_str()), hash);
        }
        if let Some(token) = token.token.as_deref().filter(|token| !token.is_empty()) {
            self.token_text(&format!("{field}.token"), token);
        }
    }
}
