//! Certificates and keys of a node.

use std::path::Path;

use super::installation::{Installation, StoreKind};
use super::rendered;
use super::steps::Steps;
use crate::keys;
use crate::pki::{self, Authority};

/// Creates the CA of Capstan.
pub(super) fn authority(steps: &mut Steps, data: &Path) -> anyhow::Result<Authority> {
    let path = data.join("pki/ca.crt");
    steps.create(&path, "CA of Capstan", || Authority::open(data).map(drop))?;
    Authority::read(data)
}

/// Creates the CA of etcd, and the certificates of this node. A node that joined has the same CA.
pub(super) fn of_etcd(steps: &mut Steps, data: &Path, installation: &Installation) -> anyhow::Result<()> {
    if installation.store != StoreKind::Etcd {
        return Ok(());
    }
    let directory = data.join("etcd");
    steps.create(&directory.join("pki/ca.crt"), "CA of etcd", || {
        pki::private_directory(&directory)?;
        keys::etcd_authority(&directory).map(drop)
    })?;
    let authority = keys::etcd_authority(&directory)?;
    let server = directory.join("server");
    steps.create(&server.join("tls.crt"), "certificate of this node's etcd", || {
        let pair = authority.member(keys::MEMBER, &rendered::etcd_names(installation))?;
        keys::save(&server, &authority, &pair)
    })?;
    let client = directory.join("client");
    steps.create(&client.join("tls.crt"), "certificate of Capstan for etcd", || {
        keys::save(&client, &authority, &authority.member(keys::CLIENT, &[])?)
    })?;
    Ok(())
}
