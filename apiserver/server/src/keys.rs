//! Command `capstan keys create`: the keys that all replicas share, as files for Secrets.

use std::fmt::Write as _;
use std::path::Path;

use crate::cli::KeysCreateArguments;
use crate::pki::{self, Authority, Pair};
use crate::{encryption, output};

/// Service of the etcd in `manifests/overlays/ha-etcd`. Each member has a name below it.
const ETCD: &str = "capstan-etcd";

/// CN of the members' certificate. etcd admits only peers with this name.
pub(crate) const MEMBER: &str = "capstan-etcd";

/// CN of Capstan's client certificate.
pub(crate) const CLIENT: &str = "capstan";

/// Creates the keys in a directory, and keeps those that exist.
///
/// # Errors
/// A directory that cannot be written, or that holds half a CA.
pub(crate) fn create(arguments: &KeysCreateArguments) -> anyhow::Result<()> {
    let directory = &arguments.output;
    let mut text = String::new();
    pki::private_directory(directory)?;
    let is_new = Authority::is_missing(directory);
    Authority::open(directory).map_err(|error| {
        pki::if_missing(error, || {
            "pki/ has only a part of a CA: restore the other file, or remove both for a new CA".to_owned()
        })
    })?;
    report(&mut text, is_new, &format!("{}/pki/ca.crt and ca.key", directory.display()));
    let mut file = encryption::load(None, directory)?;
    let is_new = file.is_new();
    if is_new {
        file.save()?;
    }
    report(&mut text, is_new, &file.path.display().to_string());
    if arguments.etcd {
        create_etcd(&directory.join("etcd"), &arguments.namespace, &mut text)?;
    }
    text.push_str("Back up these files, apart from the store: without them its Secrets cannot be read.\n");
    Ok(output::print(&text)?)
}

/// Creates a CA for etcd, a certificate for its members and one for Capstan.
fn create_etcd(directory: &Path, namespace: &str, text: &mut String) -> anyhow::Result<()> {
    let authority = etcd_authority(directory)?;
    let members = format!("{ETCD}.{namespace}.svc");
    let names = [
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        members.clone(),
        format!("*.{members}"),
        format!("*.{members}.cluster.local"),
    ];
    let server = directory.join("server");
    let is_new = !server.join("tls.crt").exists();
    if is_new {
        save(&server, &authority, &authority.member(MEMBER, &names)?)?;
    }
    report(text, is_new, &format!("{}/tls.crt and tls.key", server.display()));
    let client = directory.join("client");
    let is_new = !client.join("tls.crt").exists();
    if is_new {
        save(&client, &authority, &authority.member(CLIENT, &[])?)?;
    }
    report(text, is_new, &format!("{}/tls.crt and tls.key", client.display()));
    Ok(())
}

/// Opens the CA of etcd, and creates it if there is none.
pub(crate) fn etcd_authority(directory: &Path) -> anyhow::Result<Authority> {
    Authority::open_named(directory, "capstan-etcd-ca")
}

/// Writes a certificate, its key and its CA. The names of the files are those of cert-manager's Secrets.
pub(crate) fn save(directory: &Path, authority: &Authority, pair: &Pair) -> anyhow::Result<()> {
    pki::private_directory(directory)?;
    pki::write_private(&directory.join("ca.crt"), authority.certificate())?;
    pki::write_private(&directory.join("tls.key"), &pair.key)?;
    pki::write_private(&directory.join("tls.crt"), &pair.certificate)
}

fn report(text: &mut String, is_new: bool, files: &str) {
    let _ = writeln!(text, "{} {files}", if is_new { "created" } else { "kept" });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_keeps_all_keys() {
        let data = tempfile::tempdir().unwrap();
        let arguments = KeysCreateArguments {
            output: data.path().to_owned(),
            etcd: true,
            namespace: "capstan-system".to_owned(),
        };
        let files = [
            "pki/ca.crt",
            "pki/ca.key",
            "encryption.yaml",
            "etcd/pki/ca.crt",
            "etcd/server/ca.crt",
            "etcd/server/tls.crt",
            "etcd/server/tls.key",
            "etcd/client/ca.crt",
            "etcd/client/tls.crt",
            "etcd/client/tls.key",
        ];
        let read = || files.map(|name| std::fs::read_to_string(data.path().join(name)).unwrap());
        create(&arguments).unwrap();
        let first = read();
        create(&arguments).unwrap();
        assert_eq!(first, read());
        assert_eq!(first[3], first[4], "members trust their CA");
        assert_ne!(first[0], first[3], "etcd has a CA of its own, so that no user's certificate opens it");
        let names = pki::names(&pki::certificates(&first[5], "server").unwrap()).unwrap();
        assert!(names.contains(&"*.capstan-etcd.capstan-system.svc".to_owned()), "{names:?}");
    }
}
