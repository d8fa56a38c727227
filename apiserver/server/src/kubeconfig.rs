//! Command `capstan kubeconfig`: a client certificate and a kubeconfig that contains it, or the kubeconfig of a
//! workload cluster.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::cli::{KubeconfigArguments, OwnKubeconfigArguments};
use crate::config::{self, ServerConfiguration};
use crate::pki::{Authority, Pair, write_private};
use crate::{output, serve};

/// Prints the kubeconfig of Capstan or of a workload cluster, or writes it to a file.
pub(crate) fn run(arguments: &KubeconfigArguments) -> anyhow::Result<()> {
    let file = arguments.output.as_deref();
    match &arguments.workload.cluster {
        Some(cluster) => {
            Ok(apiserver_cli::workload_kubeconfig(cluster, &arguments.workload.connection, file)?)
        }
        None => own(&arguments.own, file),
    }
}

/// Creates a client certificate and a kubeconfig with it.
fn own(arguments: &OwnKubeconfigArguments, file: Option<&Path>) -> anyhow::Result<()> {
    let configuration = match &arguments.config {
        Some(path) => ServerConfiguration::read(path)?,
        None => ServerConfiguration::default(),
    };
    let data = arguments.data_dir.as_ref().or(configuration.data_directory.as_ref());
    let data = config::data_directory(data.map(std::path::PathBuf::as_path))?;
    let authority = Authority::read(&data).with_context(|| {
        format!(
            "{} holds no CA: start `capstan serve` once, or give the server's directory with --data-dir",
            data.display()
        )
    })?;
    let server = match &arguments.server {
        Some(server) => server.clone(),
        None => url(configuration.listen.as_deref().unwrap_or(serve::LISTEN))?,
    };
    let pair = authority.client(&arguments.user, &arguments.group, arguments.expires)?;
    let text = document(&server, authority.certificate(), &arguments.user, &pair)?;
    match file {
        Some(path) => write_private(path, &text),
        None => Ok(output::print(&text)?),
    }
}

/// Returns a kubeconfig with a client certificate.
pub(crate) fn document(server: &str, ca: &str, user: &str, pair: &Pair) -> anyhow::Result<String> {
    let encode = |text: &str| STANDARD.encode(text);
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "capstan",
        "clusters": [{"name": "capstan", "cluster": {
            "server": server, "certificate-authority-data": encode(ca)}}],
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(&pair.certificate), "client-key-data": encode(&pair.key)}}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": user}}]});
    Ok(serde_saphyr::to_string(&document)?)
}

/// Returns the URL at which a client on the same machine reaches a server with this listen address.
fn url(listen: &str) -> anyhow::Result<String> {
    let mut address: SocketAddr =
        listen.parse().with_context(|| format!("listen: {listen:?} is not an address with a port"))?;
    // A client cannot connect to the unspecified address.
    if address.ip().is_unspecified() {
        match address {
            SocketAddr::V4(_) => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            SocketAddr::V6(_) => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        }
    }
    Ok(format!("https://{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_url_is_the_listen_address_or_loopback() {
        for (listen, expected) in [
            ("192.0.2.10:7443", "https://192.0.2.10:7443"),
            ("0.0.0.0:7443", "https://127.0.0.1:7443"),
            ("[::]:7443", "https://[::1]:7443"),
        ] {
            assert_eq!(url(listen).unwrap(), expected);
        }
        assert!(url("here").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_the_file_and_the_url_is_the_configured_one() {
        use std::os::unix::fs::PermissionsExt;

        use clap::Parser;

        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        Authority::open(&directory.path().join("data")).unwrap();
        let text = format!(
            "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {}\nlisten: 192.0.2.10:7443\n",
            path("data")
        );
        std::fs::write(path("config.yaml"), text).unwrap();
        let given =
            ["capstan", "kubeconfig", "--config", &path("config.yaml"), "--output", &path("a.kubeconfig")];
        let crate::cli::Command::Kubeconfig(arguments) = Cli::parse_from(given).command else {
            panic!("another command")
        };
        run(&arguments).unwrap();
        let mode = std::fs::metadata(path("a.kubeconfig")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let written = std::fs::read_to_string(path("a.kubeconfig")).unwrap();
        assert!(written.contains("https://192.0.2.10:7443"), "{written}");
    }
}
