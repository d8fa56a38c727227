//! Contents of the files of a node.

use std::path::Path;

use serde_json::{Value, json};

use super::Layout;
use super::installation::{Installation, StoreKind, bracketed, client_url, peer_url};
use crate::join::MemberOfEtcd;

/// Unit of Capstan, as the package has it.
const UNIT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/systemd/capstan.service"));

/// Unit of etcd.
const ETCD_UNIT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/systemd/capstan-etcd.service"));

/// Configuration of the package.
pub(super) const DEFAULT: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/systemd/config.yaml"));

/// Definition of the user of both services.
pub(super) const SYSUSERS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../manifests/systemd/capstan.sysusers"));

/// Size of etcd's database at which it refuses writes: etcd advises no more. Unit: bytes.
const QUOTA: u64 = 8 << 30;

/// Fraction of the requests after which a connection is closed, so that clients spread over the nodes again after a
/// restart of one.
const GOAWAY_CHANCE: f64 = 0.001;

/// Returns Capstan's configuration.
pub(super) fn configuration(installation: &Installation, layout: &Layout) -> anyhow::Result<String> {
    let any = if installation.address.is_ipv6() { "[::]" } else { "0.0.0.0" };
    let mut document = json!({
        "apiVersion": "capstan.dev/v1alpha1",
        "kind": "ServerConfiguration",
        "dataDirectory": layout.data(),
        "listen": format!("{any}:{}", installation.port),
        "serverNames": installation.server_names(),
        "serviceAccounts": {"issuer": installation.issuer},
    });
    let mut set = |field: &str, value: Value| {
        if let Some(fields) = document.as_object_mut() {
            fields.insert(field.to_owned(), value);
        }
    };
    let client = layout.data().join("etcd/client");
    let etcd = |endpoints: &[String]| {
        let has_tls = endpoints.iter().any(|url| url.starts_with("https://"));
        let mut etcd = json!({"endpoints": endpoints});
        if let Some(fields) = etcd.as_object_mut().filter(|_| has_tls) {
            for (field, file) in [("caFile", "ca.crt"), ("certFile", "tls.crt"), ("keyFile", "tls.key")] {
                fields.insert(field.to_owned(), json!(client.join(file)));
            }
        }
        json!({"etcd": etcd})
    };
    match installation.store {
        StoreKind::Embedded => {}
        // Each Capstan uses the member of its own node: if one of them fails, clients use another node.
        StoreKind::Etcd => set("storage", etcd(&[local_etcd()])),
        StoreKind::ExternalEtcd => set("storage", etcd(&installation.etcd_endpoints)),
    }
    if installation.store != StoreKind::Embedded {
        set("limits", json!({"goawayChance": GOAWAY_CHANCE}));
    }
    if installation.has_host {
        set("host", json!({"kubeconfig": layout.data().join("host.kubeconfig")}));
    }
    if let Some(keystone) = &installation.keystone {
        let ca = layout.data().join(Installation::KEYSTONE_CA);
        let login = match keystone.has_ca {
            true => json!({"authURL": keystone.url, "caFile": ca}),
            false => json!({"authURL": keystone.url}),
        };
        set("keystone", login);
    }
    let text = serde_saphyr::to_string(&document)?;
    Ok(format!("# Of `capstan init` or `capstan join`. All fields: docs/configuration.md\n{text}"))
}

/// Returns the URL of the etcd of the same node.
fn local_etcd() -> String {
    format!("https://127.0.0.1:{}", super::installation::ETCD_CLIENT)
}

/// Returns the configuration of etcd. `others` are the members that are there already: without them, the node begins a
/// cluster.
pub(super) fn etcd(
    installation: &Installation,
    layout: &Layout,
    others: &[MemberOfEtcd],
) -> anyhow::Result<String> {
    let server = layout.data().join("etcd/server");
    let (client, peer) = (client_url(installation.address), peer_url(installation.address));
    let mut cluster = vec![format!("{}={peer}", installation.node)];
    let others = others.iter().filter(|it| it.peer_url != peer);
    cluster.extend(others.map(|it| format!("{}={}", it.name, it.peer_url)));
    let state = if cluster.len() > 1 { "existing" } else { "new" };
    let tls = json!({
        "cert-file": server.join("tls.crt"),
        "key-file": server.join("tls.key"),
        "trusted-ca-file": server.join("ca.crt"),
        "client-cert-auth": true,
    });
    let text = serde_saphyr::to_string(&json!({
        "name": installation.node,
        "data-dir": layout.etcd_data(),
        "listen-client-urls": format!("{},{client}", local_etcd()),
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": cluster.join(","),
        "initial-cluster-state": state,
        "initial-cluster-token": installation.name,
        "client-transport-security": tls,
        "peer-transport-security": tls,
        "quota-backend-bytes": QUOTA,
        "log-level": "warn",
    }))?;
    Ok(format!("# Of `capstan init` or `capstan join`: the etcd of this node\n{text}"))
}

/// Returns the names and addresses for the certificate of the etcd of a node.
pub(super) fn etcd_names(installation: &Installation) -> Vec<String> {
    let own = [installation.node.clone(), installation.address.to_string()];
    ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into_iter().chain(own).collect()
}

/// Returns the unit of Capstan, with the program and the configuration of this node.
pub(super) fn unit(program: &Path, layout: &Layout) -> String {
    UNIT.replace("/usr/bin/capstan ", &format!("{} ", program.display()))
        .replace("/etc/capstan/config.yaml", &layout.config().display().to_string())
        .replace(
            "After=network-online.target etcd.service",
            "After=network-online.target capstan-etcd.service",
        )
}

/// Returns the unit of etcd, with the program and the configuration of this node.
pub(super) fn etcd_unit(program: &Path, layout: &Layout) -> String {
    ETCD_UNIT
        .replace("/usr/bin/etcd ", &format!("{} ", program.display()))
        .replace("/etc/capstan/etcd.yaml", &layout.etcd_config().display().to_string())
}

/// Returns the URL that a check of readiness of this node uses.
pub(super) fn readiness(installation: &Installation) -> String {
    format!("https://{}:{}/readyz", bracketed(&installation.address.to_string()), installation.port)
}
