//! Requests of kubelets for certificates. A client's makes a kubelet a node of a certain name, and with a server's it
//! serves logs and metrics.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Name};

/// Organization of every kubelet's certificate.
const ORGANIZATION: &str = "system:nodes";

/// Prefix of the common name of a kubelet's certificate, before the name of its Node.
const NODE: &str = "system:node:";

/// Request of a kubelet for a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletRequest {
    /// Name of the Node.
    pub node: String,
    /// Public key, as its DER in the request. The requester has the private one: the signature proves it.
    pub key: Vec<u8>,
    /// Host names that the certificate is for. A client's has none.
    pub names: Vec<String>,
    /// Addresses that the certificate is for.
    pub addresses: Vec<IpAddr>,
}

/// Reads the request of a kubelet for a client certificate.
///
/// # Errors
/// The request cannot be read, its signature is wrong, or it is for something else than one Node. For people.
pub fn client_request(request: &[u8]) -> Result<KubeletRequest, String> {
    let request = kubelet_request(request)?;
    if request.names.is_empty() && request.addresses.is_empty() {
        return Ok(request);
    }
    Err("it is for a server, because it has alternative names".to_owned())
}

/// Reads the request of a kubelet, for a client or a server.
///
/// # Errors
/// The request cannot be read, its signature is wrong, or it is for something else than one Node. For people.
pub fn kubelet_request(request: &[u8]) -> Result<KubeletRequest, String> {
    let block = Pem::iter_from_buffer(request).next();
    let block = block.and_then(Result::ok).ok_or("it is not in PEM")?;
    let (_, parsed) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    parsed.verify_signature().map_err(|_| "its signature is wrong")?;
    let info = &parsed.certification_request_info;
    let (node, key) = (node_in(&info.subject)?, info.subject_pki.raw.to_vec());
    let mut found = KubeletRequest { node, key, names: Vec::new(), addresses: Vec::new() };
    for extension in parsed.requested_extensions().into_iter().flatten() {
        let ParsedExtension::SubjectAlternativeName(alternatives) = extension else { continue };
        if alternatives.general_names.is_empty() {
            return Err("its list of alternative names is empty".to_owned());
        }
        for name in &alternatives.general_names {
            match name {
                GeneralName::DNSName(name) => found.names.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => found.addresses.push(address(bytes)?),
                other => return Err(format!("its alternative name {other} is no host name and no address")),
            }
        }
    }
    Ok(found)
}

/// Returns the name of the Node in the subject of a request.
fn node_in(subject: &X509Name<'_>) -> Result<String, String> {
    let (organizations, names) = (organizations(subject), common_names(subject));
    match (organizations.as_slice(), names.as_slice()) {
        ([organization], [name]) if organization == ORGANIZATION => {
            let node = name.strip_prefix(NODE).filter(|node| !node.is_empty());
            node.map(str::to_owned).ok_or_else(|| format!("its common name {name:?} is that of no Node"))
        }
        _ => Err(format!("its subject {subject} is not that of one kubelet")),
    }
}

fn address(bytes: &[u8]) -> Result<IpAddr, String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let v6 = || <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| v6()).map_err(|_| "one of its addresses is neither IPv4 nor IPv6".to_owned())
}

/// Checks that a kubelet requests a serving certificate for its own Node, and for names and addresses of its server only.
/// `known` are both, as the cloud has them.
///
/// # Errors
/// The certificate must not be issued. For people.
pub fn check_serving(request: &KubeletRequest, node: &str, known: &[&str]) -> Result<(), String> {
    if request.node != node {
        return Err(format!("it is for Node {}", request.node));
    }
    if request.names.is_empty() && request.addresses.is_empty() {
        return Err("it has no host name and no address".to_owned());
    }
    let is_name = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
    let is_address = |address: IpAddr| known.iter().any(|known| known.parse::<IpAddr>() == Ok(address));
    let names = request.names.iter().filter(|name| !is_name(name)).cloned();
    let addresses = request.addresses.iter().filter(|it| !is_address(**it)).map(ToString::to_string);
    let foreign: Vec<String> = names.chain(addresses).collect();
    if foreign.is_empty() { Ok(()) } else { Err(format!("it is for {}", foreign.join(" and "))) }
}

fn organizations(name: &X509Name<'_>) -> Vec<String> {
    name.iter_organization().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
}

fn common_names(name: &X509Name<'_>) -> Vec<String> {
    name.iter_common_name().map(|it| it.as_str().unwrap_or_default().to_owned()).collect()
}

/// Reports whether a Node has the name of a machine, alone or with a domain.
pub fn is_name_of(node: &str, machine: &str) -> bool {
    !machine.is_empty()
        && node.strip_prefix(machine).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    fn request(organization: &[&str], name: &str, alternatives: &[&str]) -> Vec<u8> {
        let alternatives: Vec<String> = alternatives.iter().map(|it| (*it).to_owned()).collect();
        let mut params = CertificateParams::new(alternatives).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for organization in organization {
            params.distinguished_name.push(DnType::OrganizationName, *organization);
        }
        let key = KeyPair::generate().unwrap();
        params.serialize_request(&key).unwrap().pem().unwrap().into_bytes()
    }

    #[test]
    fn only_the_request_of_one_kubelet_for_a_client_certificate_names_a_node() {
        let nodes = [ORGANIZATION];
        let of_m = || client_request(&request(&nodes, "system:node:m", &[])).unwrap();
        let (one, other) = (of_m(), of_m());
        assert_eq!((one.node.as_str(), other.node.as_str()), ("m", "m"));
        assert_ne!(one.key, other.key, "each of them has a key of its own");
        for (case, request) in [
            ("an administrator", request(&["system:masters"], "system:node:m", &[])),
            ("no organization", request(&[], "system:node:m", &[])),
            ("another user", request(&nodes, "admin", &[])),
            ("no name", request(&nodes, "system:node:", &[])),
            ("a server", request(&nodes, "system:node:m", &["m"])),
            ("no request", b"text".to_vec()),
        ] {
            assert!(client_request(&request).is_err(), "{case}");
        }
    }

    #[test]
    fn a_serving_certificate_is_for_names_and_addresses_of_the_server_only() {
        let known = ["m", "m.lab", "10.6.0.7", "fd00:0::7"];
        let checked = |names: &[&str]| {
            check_serving(&kubelet_request(&request(&[ORGANIZATION], "system:node:m", names))?, "m", &known)
        };
        for own in [&["m", "10.6.0.7"][..], &["M.lab"], &["fd00::7"]] {
            assert_eq!(checked(own), Ok(()), "{own:?}");
        }
        for (names, expected) in [
            (&[][..], "it has no host name and no address"),
            (&["m", "kubernetes.default"][..], "it is for kubernetes.default"),
            (&["10.6.0.7", "10.6.0.8", "x"][..], "it is for x and 10.6.0.8"),
        ] {
            assert_eq!(checked(names), Err(expected.to_owned()));
        }
        let own = kubelet_request(&request(&[ORGANIZATION], "system:node:m", &["m"])).unwrap();
        assert_eq!(check_serving(&own, "n", &["m", "n"]), Err("it is for Node m".to_owned()));
    }

    #[test]
    fn a_node_has_the_name_of_its_machine_or_that_and_a_domain() {
        for (node, machine, expected) in
            [("m", "m", true), ("m.lab", "m", true), ("m-2", "m", false), ("n", "m", false), ("m", "", false)]
        {
            assert_eq!(is_name_of(node, machine), expected, "{node} {machine}");
        }
    }
}
