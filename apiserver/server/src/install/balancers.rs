//! Configurations of programs that give several nodes one address: keepalived and HAProxy.

use std::fmt::Write as _;
use std::net::IpAddr;

use anyhow::bail;
use clap::ValueEnum;

use super::Layout;
use super::installation::bracketed;

/// Path by which balancers and kubelets check the readiness of a server. A KMS plug-in that is down concerns writes of
/// encrypted kinds alone, and all servers at once: without the exclusion, none of them would get requests.
pub(super) const READY: &str = "/readyz?exclude=kms-providers";

/// Program whose configuration is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Balancer {
    /// A virtual address that moves to a node that is ready
    Keepalived,
    /// A TCP load balancer that uses the nodes that are ready
    Haproxy,
}

/// Settings of a configuration.
#[derive(Debug)]
pub(super) struct Nodes {
    /// Names and addresses of all nodes.
    pub(super) nodes: Vec<(String, IpAddr)>,
    pub(super) endpoint: Option<String>,
    pub(super) port: u16,
    pub(super) interface: String,
}

/// Returns the configuration.
///
/// # Errors
/// A setting that the program needs is missing. The error names the flag.
pub(super) fn configuration(balancer: Balancer, nodes: &Nodes, layout: &Layout) -> anyhow::Result<String> {
    if nodes.nodes.is_empty() {
        bail!("--node: give each node as NAME=ADDRESS");
    }
    match balancer {
        Balancer::Keepalived => keepalived(nodes, layout),
        Balancer::Haproxy => Ok(haproxy(nodes)),
    }
}

/// The same file serves on all nodes: with equal priorities and `nopreempt`, the address stays where it is. The check has
/// no weight, so a node that is not ready gives the address up at once.
fn keepalived(nodes: &Nodes, layout: &Layout) -> anyhow::Result<String> {
    let Some(Ok(address)) = nodes.endpoint.as_deref().map(str::parse::<IpAddr>) else {
        bail!("--endpoint: keepalived needs the virtual address, not a name");
    };
    let ca = layout.data().join("pki/ca.crt");
    let length = if address.is_ipv4() { 32 } else { 128 };
    Ok(format!(
        "# /etc/keepalived/keepalived.conf, the same on all nodes\n\
         global_defs {{\n    enable_script_security\n    script_user root\n}}\n\
         vrrp_script capstan {{\n    \
         script \"/usr/bin/curl --silent --fail --max-time 2 --output /dev/null --cacert {} https://localhost:{}{READY}\"\n    \
         interval 2\n    timeout 3\n    fall 2\n    rise 2\n}}\n\
         vrrp_instance capstan {{\n    state BACKUP\n    nopreempt\n    interface {}\n    virtual_router_id 74\n    \
         priority 100\n    advert_int 1\n    virtual_ipaddress {{\n        {address}/{length}\n    }}\n    \
         track_script {{\n        capstan\n    }}\n}}\n",
        ca.display(),
        nodes.port,
        nodes.interface,
    ))
}

/// TLS goes through: the server of Capstan must see the client certificates.
fn haproxy(nodes: &Nodes) -> String {
    let port = nodes.port;
    let mut text = format!(
        "# /etc/haproxy/haproxy.cfg. Copy the CA of Capstan to /etc/haproxy/capstan-ca.crt\n\
         defaults\n    mode tcp\n    timeout connect 2s\n    timeout client 1h\n    timeout server 1h\n    \
         timeout check 3s\n    retries 3\n    option redispatch 1\n\
         frontend capstan\n    bind :{port} v4v6\n    default_backend capstan\n\
         backend capstan\n    balance leastconn\n    option httpchk\n    \
         http-check send meth GET uri {READY} hdr Host localhost\n    http-check expect status 200\n    \
         default-server check check-ssl check-sni localhost verify required ca-file /etc/haproxy/capstan-ca.crt inter 2s fall 2 rise 2 \
         on-marked-down shutdown-sessions\n"
    );
    for (name, address) in &nodes.nodes {
        let _ = writeln!(text, "    server {name} {}:{port}", bracketed(&address.to_string()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(endpoint: &str) -> Nodes {
        let node = |name: &str, address: &str| (name.to_owned(), address.parse().unwrap());
        Nodes {
            nodes: vec![node("a", "192.0.2.1"), node("b", "2001:db8::2")],
            endpoint: Some(endpoint.to_owned()),
            port: 7443,
            interface: "eth0".to_owned(),
        }
    }

    #[test]
    fn both_programs_check_the_readiness_with_the_ca() {
        let layout = Layout::new(std::path::Path::new("/")).unwrap();
        let text = configuration(Balancer::Keepalived, &nodes("192.0.2.9"), &layout).unwrap();
        for expected in [
            "--cacert /var/lib/capstan/pki/ca.crt https://localhost:7443/readyz?exclude=kms-providers",
            "interface eth0",
            "192.0.2.9/32",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let text = configuration(Balancer::Haproxy, &nodes("capstan.example"), &layout).unwrap();
        for expected in [
            "uri /readyz?exclude=kms-providers ",
            "verify required",
            "server a 192.0.2.1:7443",
            "server b [2001:db8::2]:7443",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let error = configuration(Balancer::Keepalived, &nodes("capstan.example"), &layout).unwrap_err();
        assert!(error.to_string().starts_with("--endpoint: "), "{error}");
    }
}
