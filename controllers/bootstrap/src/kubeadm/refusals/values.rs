//! Forms of single values. Each function returns the rule that a text breaks.

use std::net::IpAddr;

/// Longest DNS name. Unit: characters.
const LONGEST_NAME: usize = 253;

/// Returns true if cloud-init or a user's own program replaces a part of the text on the machine.
pub(super) fn is_template(text: &str) -> bool {
    ["{{", "{%", "$"].iter().any(|start| text.contains(start))
}

/// Returns the broken rule of a text, unless it is a template.
pub(super) fn broken(text: &str, rule: fn(&str) -> Option<&'static str>) -> Option<String> {
    let cause = if is_template(text) { None } else { rule(text) }?;
    Some(format!("{text:?} {cause}"))
}

/// Returns true for a DNS name in lower case.
pub(super) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_edge =
            |edge: Option<u8>| edge.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
        let fits = |it: u8| it == b'-' || is_edge(Some(it));
        label.bytes().all(fits) && is_edge(label.bytes().next()) && is_edge(label.bytes().last())
    };
    text.len() <= LONGEST_NAME && text.split('.').all(is_label)
}

/// Rule for a DNS name.
pub(super) fn name(text: &str) -> Option<&'static str> {
    (!is_name(text)).then_some("is no DNS name in lower case")
}

/// Rule for the name of a node. kubeadm writes it in lower case.
pub(super) fn node_name(text: &str) -> Option<&'static str> {
    (!is_name(&text.trim().to_lowercase())).then_some("is no DNS name")
}

/// Rule for the alternative names of a certificate.
pub(super) fn alternative_name(text: &str) -> Option<&'static str> {
    let is_wildcard = text.strip_prefix("*.").is_some_and(is_name);
    let fits = is_name(text) || is_wildcard || address(text).is_none();
    (!fits).then_some("is neither an IP address nor a DNS name in lower case")
}

/// Rule for an IP address.
pub(super) fn address(text: &str) -> Option<&'static str> {
    text.parse::<IpAddr>().is_err().then_some("is no IP address")
}

/// Rule for a path.
pub(super) fn absolute_path(text: &str) -> Option<&'static str> {
    (!text.starts_with('/')).then_some("is no absolute path")
}

/// Rule for the path of a CA certificate.
pub(super) fn certificate_path(text: &str) -> Option<&'static str> {
    let fits = text.starts_with('/') && text.ends_with(".crt");
    (!fits).then_some("is no absolute path that ends with .crt")
}

/// Rule for a host with or without a port.
pub(super) fn host_and_port(text: &str) -> Option<&'static str> {
    let (host, port) = split(text).unwrap_or((text, ""));
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if !port.is_empty() && !is_port(port) {
        return Some("has no port between 1 and 65535");
    }
    (!is_name(host) && address(host).is_some()).then_some("is no host or host:port")
}

/// Rule for a host with a port.
pub(super) fn host_with_port(text: &str) -> Option<&'static str> {
    split(text).is_none().then_some("is no host:port")
}

/// Splits host and port. An IPv6 address with a port is in brackets.
fn split(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    match host.strip_prefix('[') {
        Some(host) => Some((host.strip_suffix(']')?, port)),
        None => (!host.contains(':')).then_some((host, port)),
    }
}

/// Rule for the URL of a member of an external etcd.
pub(super) fn secure_url(text: &str) -> Option<&'static str> {
    (!text.starts_with("https://")).then_some("is no URL that begins with https://")
}

/// Rule for a registry with a path prefix.
pub(super) fn repository(text: &str) -> Option<&'static str> {
    if text.contains("://") {
        return Some("has a scheme: a repository begins with a host");
    }
    let mut parts = text.split('/');
    let fits = parts.next().is_some_and(|host| !host.is_empty() && host.chars().all(is_of_host))
        && parts.all(|part| !part.is_empty() && part.chars().all(is_of_path));
    (!fits).then_some("is no repository of images: a host with an optional port, and a path in lower case")
}

fn is_of_host(character: char) -> bool {
    character.is_ascii_alphanumeric() || ".-_:[]".contains(character)
}

fn is_of_path(character: char) -> bool {
    character.is_ascii_lowercase() || character.is_ascii_digit() || ".-_".contains(character)
}

/// Rule for the hash of a CA certificate.
pub(super) fn hash(text: &str) -> Option<&'static str> {
    let is_hex = |hash: &str| hash.len() == 64 && hash.chars().all(|it| it.is_ascii_hexdigit());
    let fits = text.split_once(':').is_some_and(|(kind, hash)| kind == "sha256" && is_hex(hash));
    (!fits).then_some("is no hash of the form sha256:<64 hexadecimal digits>")
}

/// Rule for the group of a bootstrap token.
pub(super) fn group(text: &str) -> Option<&'static str> {
    let rest = text.strip_prefix("system:bootstrappers:").unwrap_or_default();
    let is_of = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b':' || it == b'-';
    let ends = rest.bytes().last().is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    let fits = ends && rest.len() <= 256 && rest.bytes().all(is_of);
    (!fits)
        .then_some("does not begin with system:bootstrappers: or has other characters than a-z, 0-9, : and -")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_accepts_what_kubeadm_accepts() {
        type Rule = fn(&str) -> Option<&'static str>;
        let table: [(Rule, &[&str], &[&str]); 10] = [
            (name, &["node-1.lab", "a"], &["Node", "a_b", "-a", "a.", ""]),
            (alternative_name, &["*.lab", "192.0.2.1", "fd00::1", "a.b"], &["*", "a b", "https://a"]),
            (absolute_path, &["/a"], &["a", "./a"]),
            (certificate_path, &["/a.crt"], &["/a.pem", "a.crt"]),
            (node_name, &["Node-1"], &["Node_1", "a b"]),
            (
                host_and_port,
                &["a:6443", "a", "[fd00::1]:6443", "fd00::1", "192.0.2.1:1"],
                &["a:0", "a:70000", "A:1"],
            ),
            (host_with_port, &["a:1", "[fd00::1]:1"], &["a", "fd00::1"]),
            (secure_url, &["https://a:2379"], &["http://a", "a"]),
            (repository, &["registry.lab:5000/a/b_c", "Registry/a"], &["https://a", "a/B", "a//b", "a b"]),
            (
                group,
                &["system:bootstrappers:a:b-c"],
                &["system:masters", "system:bootstrappers:", "system:bootstrappers:A"],
            ),
        ];
        for (rule, good, bad) in table {
            for text in good {
                assert_eq!(rule(text), None, "{text}");
            }
            for text in bad {
                assert!(rule(text).is_some(), "{text}");
            }
        }
        let digits = "0123456789abcdef".repeat(4);
        assert_eq!(hash(&format!("sha256:{digits}")), None);
        assert!(hash("sha256:00").is_some() && hash(&digits).is_some());
    }

    #[test]
    fn a_template_breaks_no_rule() {
        assert_eq!(broken("{{ local_hostname }}", name), None);
        assert_eq!(broken("${COREOS_OPENSTACK_HOSTNAME}", name), None);
        assert_eq!(broken("A", name).as_deref(), Some("\"A\" is no DNS name in lower case"));
    }
}
