//! Requests of joining machines for a client certificate, which make a kubelet a node of a certain name.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Name};

/// Organization of every kubelet's certificate.
const ORGANIZATION: &str = "system:nodes";

/// Prefix of the common name of a kubelet's certificate, before the name of its Node.
const NODE: &str = "system:node:";

/// Returns the name of the Node that a request is for.
///
/// # Errors
/// The request cannot be read, its signature is wrong, or it is for something else than one Node. For people.
pub fn node_of(request: &[u8]) -> Result<String, String> {
    let block = Pem::iter_from_buffer(request).next();
    let block = block.and_then(Result::ok).ok_or("it is not in PEM")?;
    let (_, parsed) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    parsed.verify_signature().map_err(|_| "its signature is wrong")?;
    let names = parsed.requested_extensions().into_iter().flatten();
    if names
        .into_iter()
        .any(|it| matches!(it, x509_parser::extensions::ParsedExtension::SubjectAlternativeName(_)))
    {
        return Err("it is for a server, because it has alternative names".to_owned());
    }
    let subject = &parsed.certification_request_info.subject;
    let (organizations, names) = (organizations(subject), common_names(subject));
    match (organizations.as_slice(), names.as_slice()) {
        ([organization], [name]) if organization == ORGANIZATION => {
            let node = name.strip_prefix(NODE).filter(|node| !node.is_empty());
            node.map(str::to_owned).ok_or_else(|| format!("its common name {name:?} is that of no Node"))
        }
        _ => Err(format!("its subject {subject} is not that of one kubelet")),
    }
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
        assert_eq!(node_of(&request(&nodes, "system:node:m", &[])).as_deref(), Ok("m"));
        for (case, request) in [
            ("an administrator", request(&["system:masters"], "system:node:m", &[])),
            ("no organization", request(&[], "system:node:m", &[])),
            ("another user", request(&nodes, "admin", &[])),
            ("no name", request(&nodes, "system:node:", &[])),
            ("a server", request(&nodes, "system:node:m", &["m"])),
            ("no request", b"text".to_vec()),
        ] {
            assert!(node_of(&request).is_err(), "{case}");
        }
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
