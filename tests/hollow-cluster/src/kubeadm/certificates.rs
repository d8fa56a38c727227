//! Certificates that a control plane node finds among its files.

use rcgen::PublicKeyData;
use serde_json::Value;
use x509_parser::pem::Pem;

use crate::boot::{BootPlan, text_file};
use crate::cluster::ClusterPki;
use crate::json::text;
use crate::pki::{Authority, private_key};

/// Directory of the certificates, unless the configuration names another.
const DIRECTORY: &str = "/etc/kubernetes/pki";

/// Returns the directory that the configuration names.
fn directory(cluster: &Value) -> &str {
    let configured = text(cluster, "/certificatesDir");
    if configured.is_empty() { DIRECTORY } else { configured.trim_end_matches('/') }
}

/// Returns the private key of service accounts in PEM format.
pub(crate) fn service_account_key<'a>(plan: &'a BootPlan, cluster: &Value) -> Result<&'a str, String> {
    text_file(plan, &format!("{}/sa.key", directory(cluster)))
}

/// Reads and checks all certificates and keys of a control plane. The error is that of kubeadm.
pub(crate) fn read(plan: &BootPlan, cluster: &Value, phase: &str) -> Result<ClusterPki, String> {
    let directory = directory(cluster);
    let authority = |name: &str| {
        let (certificate, key) = (format!("{directory}/{name}.crt"), format!("{directory}/{name}.key"));
        let read = text_file(plan, &certificate)
            .and_then(|certificate| Authority::read(certificate, text_file(plan, &key)?));
        read.map_err(|error| format!("{phase}: failure loading certificate authority {name}: {error}"))
    };
    let external = cluster.pointer("/etcd/external");
    let etcd = match external {
        None => Some(authority("etcd/ca")?),
        Some(external) => {
            for file in ["caFile", "certFile", "keyFile"] {
                text_file(plan, text(external, &format!("/{file}")))
                    .map_err(|error| format!("{phase}: external etcd: {file}: {error}"))?;
            }
            None
        }
    };
    Ok(ClusterPki {
        ca: authority("ca")?,
        etcd,
        front_proxy: authority("front-proxy-ca")?,
        service_accounts: service_accounts(plan, directory)
            .map_err(|error| format!("{phase}: failure loading key for service account: {error}"))?,
    })
}

/// Checks the pair of service account keys, and returns the public one.
fn service_accounts(plan: &BootPlan, directory: &str) -> Result<Vec<u8>, String> {
    let key = private_key(text_file(plan, &format!("{directory}/sa.key"))?)?;
    let path = format!("{directory}/sa.pub");
    let public = text_file(plan, &path)?;
    let pem = Pem::iter_from_buffer(public.as_bytes()).next();
    let pem = pem.and_then(Result::ok).ok_or_else(|| format!("{path}: no PEM block"))?;
    if pem.label != "PUBLIC KEY" {
        return Err(format!("{path}: the PEM block has type {:?}, not \"PUBLIC KEY\"", pem.label));
    }
    if pem.contents != key.subject_public_key_info() {
        return Err(format!("{path}: the public key is not that of sa.key"));
    }
    Ok(pem.contents)
}

/// Returns an error unless a joining control plane node has the same certificates as the cluster.
pub(crate) fn check_same(cluster: &ClusterPki, own: &ClusterPki) -> Result<(), String> {
    let etcd = |pki: &ClusterPki| pki.etcd.as_ref().map(|etcd| etcd.public_key.clone());
    let pairs = [
        ("ca", cluster.ca.public_key == own.ca.public_key),
        ("etcd/ca", etcd(cluster) == etcd(own)),
        ("front-proxy-ca", cluster.front_proxy.public_key == own.front_proxy.public_key),
        ("sa", cluster.service_accounts == own.service_accounts),
    ];
    match pairs.iter().find(|(_, same)| !same) {
        Some((name, _)) => Err(format!(
            "error execution phase control-plane-prepare/certs: the certificate or key {name} of this node is \
             not that of the cluster"
        )),
        None => Ok(()),
    }
}
