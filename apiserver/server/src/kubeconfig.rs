//! Command `capstan kubeconfig`: a client certificate and a kubeconfig that contains it, or the kubeconfig of a
//! workload cluster.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_access::SystemMasters;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::authorities::{self, AuthorityStore};
use crate::backup::Setup;
use crate::certificate_uses::Use;
use crate::cli::{KubeconfigArguments, OwnKubeconfigArguments, StoreArguments};
use crate::config::{self, ServerConfiguration};
use crate::pki::{self, Authority, Pair, write_private};
use crate::{output, serve};

/// Group of administrators, by a default binding.
pub(crate) const ADMINS: &str = "capstan:admins";

/// Group that may do everything whatever the roles say. Certificates with it are for emergencies.
const MASTERS: &str = "system:masters";

/// Longest lifetime of a client certificate.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// Longest lifetime of a client certificate for emergencies.
const LONGEST_BREAK_GLASS: Duration = Duration::from_hours(24);

/// Longest reason. Unit: characters.
const LONGEST_REASON: usize = 256;

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

/// Groups of a client certificate, and its reason if it is for emergencies.
#[derive(Debug, PartialEq, Eq)]
struct Rights<'a> {
    groups: Vec<String>,
    reason: Option<&'a str>,
}

/// Returns the groups and the reason of a certificate.
///
/// # Errors
/// A lifetime that is too long, the group of emergencies without its flag, or a reason that says nothing.
fn rights(arguments: &OwnKubeconfigArguments) -> anyhow::Result<Rights<'_>> {
    let (expires, groups) = (arguments.expires, &arguments.group);
    if let Some(reason) = arguments.reason.as_deref().filter(|_| arguments.break_glass) {
        if expires > LONGEST_BREAK_GLASS {
            bail!("--expires: a certificate of --break-glass is valid for 24h at most");
        }
        let reason = reason.trim();
        if reason.is_empty()
            || reason.chars().count() > LONGEST_REASON
            || reason.chars().any(char::is_control)
        {
            bail!("--reason: must have from 1 to {LONGEST_REASON} characters, and no control characters");
        }
        return Ok(Rights { groups: vec![MASTERS.to_owned()], reason: Some(reason) });
    }
    if expires > LONGEST {
        bail!("--expires: a client certificate is valid for 365d at most");
    }
    if groups.iter().any(|group| group == MASTERS) {
        bail!(
            "--group: {MASTERS} is for emergencies. Use --break-glass with --reason, or the group {ADMINS}, whose \
             permissions a binding gives"
        );
    }
    let groups = if groups.is_empty() { vec![ADMINS.to_owned()] } else { groups.clone() };
    Ok(Rights { groups, reason: None })
}

/// Creates a client certificate and a kubeconfig with it.
fn own(arguments: &OwnKubeconfigArguments, file: Option<&Path>) -> anyhow::Result<()> {
    let Rights { groups, reason } = rights(arguments)?;
    let configuration = match &arguments.config {
        Some(path) => ServerConfiguration::read(path)?,
        None => ServerConfiguration::default(),
    };
    if reason.is_some() && configuration.system_masters == SystemMasters::Off {
        bail!(
            "--break-glass: systemMasters is false, so the group {MASTERS} gives nothing. Use the group {ADMINS}, or \
             change the setting and restart all servers"
        );
    }
    let data = arguments.data_dir.as_ref().or(configuration.data_directory.as_ref());
    let data = config::data_directory(data.map(std::path::PathBuf::as_path))?;
    let signer = Signer::open(arguments, &configuration, &data)?;
    let server = match &arguments.server {
        Some(server) => server.clone(),
        None => {
            let listen = configuration.listen.as_deref().unwrap_or(serve::LISTEN);
            config::local_url(config::listen_address(listen)?)
        }
    };
    check_client_ca(&configuration, &signer.authority)?;
    let ca = serving_ca(arguments, &configuration, &signer)?;
    let pair = signer.authority.client(&arguments.user, &groups, reason, arguments.expires)?;
    signer.record(&pair.certificate)?;
    let text = document(&server, ca.as_deref(), &arguments.user, &pair)?;
    match file {
        Some(path) => write_private(path, &text),
        None => Ok(output::print(&text)?),
    }
}

/// Refuses to make a certificate that the server of the configuration does not accept.
fn check_client_ca(configuration: &ServerConfiguration, authority: &Authority) -> anyhow::Result<()> {
    let Some(path) = &configuration.client_ca_file else { return Ok(()) };
    let trusted = pki::certificates(&pki::read(path).context("clientCaFile")?, "clientCaFile")?;
    let own = pki::certificates(authority.certificate(), "the server's own CA")?;
    if own.iter().any(|ca| trusted.contains(ca)) {
        return Ok(());
    }
    bail!(
        "clientCaFile: the server accepts client certificates of the CAs in {} only, and its own CA is not one of them. Let \
         one of these CAs sign the certificate of the user, or add the server's own CA to the file",
        path.display()
    )
}

/// Returns the CA that verifies the server; `None` for the CAs of the client's system.
fn serving_ca(
    arguments: &OwnKubeconfigArguments,
    configuration: &ServerConfiguration,
    signer: &Signer,
) -> anyhow::Result<Option<String>> {
    if let Some(path) = &arguments.certificate_authority {
        let text = pki::read(path).context("--certificate-authority")?;
        pki::certificates(&text, &format!("--certificate-authority: {}", path.display()))?;
        return Ok(Some(text));
    }
    let Some(tls) = &configuration.tls else { return Ok(Some(signer.serving_cas.clone())) };
    writeln!(
        std::io::stderr().lock(),
        "The server has the certificate in {}, so the kubeconfig names no CA: kubectl uses those of its system. Give another \
         one with --certificate-authority, and a URL with a name in the certificate with --server.",
        tls.cert_file.display()
    )?;
    Ok(None)
}

/// Returns a kubeconfig with a client certificate. Without a CA, kubectl uses those of its system.
pub(crate) fn document(server: &str, ca: Option<&str>, user: &str, pair: &Pair) -> anyhow::Result<String> {
    let encode = |text: &str| STANDARD.encode(text);
    let cluster = match ca {
        Some(ca) => json!({"server": server, "certificate-authority-data": encode(ca)}),
        None => json!({"server": server}),
    };
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "capstan",
        "clusters": [{"name": "capstan", "cluster": cluster}],
        "users": [{"name": user, "user": {
            "client-certificate-data": encode(&pair.certificate), "client-key-data": encode(&pair.key)}}],
        "contexts": [{"name": "capstan", "context": {"cluster": "capstan", "user": user}}]});
    Ok(serde_saphyr::to_string(&document)?)
}

/// CA of clients, and the certificates of the CAs of servers.
struct Signer {
    authority: Authority,
    serving_cas: String,
    /// Store that records the certificate; `None` without an etcd.
    store: Option<(AuthorityStore, tokio::runtime::Runtime)>,
}

impl Signer {
    /// Opens the CA in the etcd of the configuration, or in the data directory: the server can have its embedded store
    /// open.
    fn open(
        arguments: &OwnKubeconfigArguments,
        configuration: &ServerConfiguration,
        data: &Path,
    ) -> anyhow::Result<Self> {
        if configuration.storage.etcd.is_some() {
            let store = StoreArguments {
                config: arguments.config.clone(),
                data_dir: arguments.data_dir.clone(),
                etcd_endpoints: Vec::new(),
            };
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            let setup = Setup::load(&store)?;
            match runtime.block_on(authorities::signing_clients(&setup, data)) {
                Ok((authority, serving_cas, store)) => {
                    return Ok(Self { authority, serving_cas, store: Some((store, runtime)) });
                }
                Err(error) if Authority::is_missing(data) => return Err(error),
                // An etcd that does not answer is no reason to have no kubeconfig.
                Err(_) => {}
            }
        }
        let authority = Authority::of_clients(data).map_err(|error| {
            pki::if_missing(error, || {
                format!(
                    "{} holds no CA with its key: start `capstan serve` once, give the server's directory with \
                     --data-dir, or with an etcd its configuration with --config",
                    data.display()
                )
            })
        })?;
        Ok(Self { authority, serving_cas: pki::read(&data.join("pki/ca.crt"))?, store: None })
    }

    /// Records the certificate in the store. Without the store, the server records its first use.
    fn record(&self, certificate: &str) -> anyhow::Result<()> {
        let Some((store, runtime)) = &self.store else { return Ok(()) };
        let issued = Use::issued(certificate, "capstan kubeconfig")?;
        runtime.block_on(store.record(&issued))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    fn parsed(flags: &[&str]) -> OwnKubeconfigArguments {
        use clap::Parser;

        let given = [&["capstan", "kubeconfig"], flags].concat();
        let crate::cli::Command::Kubeconfig(arguments) = Cli::parse_from(given).command else {
            panic!("another command")
        };
        arguments.own
    }

    #[test]
    fn a_kubeconfig_is_an_administrators_by_role_and_masters_need_a_reason() {
        let of = |flags: &[&str]| {
            let arguments = parsed(flags);
            let found = rights(&arguments).map_err(|error| error.to_string())?;
            Ok::<_, String>((
                found.groups.join(","),
                found.reason.map(str::to_owned),
                arguments.expires.as_secs(),
            ))
        };
        let hours = |hours: u64| hours * 3600;
        let good = |groups: &str, reason: Option<&str>, expires| {
            Ok((groups.to_owned(), reason.map(str::to_owned), expires))
        };
        let broken = ["--break-glass", "--reason"];
        for (flags, expected) in [
            (vec![], good("capstan:admins", None, hours(12))),
            (vec!["--group", ""], good("", None, hours(12))),
            (vec!["--group", "a", "--group", "b", "--expires", "365d"], good("a,b", None, hours(365 * 24))),
            (
                [&broken[..], &[" INC-7 ", "--expires", "24h"]].concat(),
                good(MASTERS, Some("INC-7"), hours(24)),
            ),
        ] {
            assert_eq!(of(&flags), expected, "{flags:?}");
        }
        let long = "x".repeat(257);
        for (flags, expected) in [
            (vec!["--expires", "366d"], "365d at most"),
            (vec!["--group", "a", "--group", MASTERS], "--break-glass"),
            ([&broken[..], &["r", "--expires", "25h"]].concat(), "24h at most"),
            ([&broken[..], &[" "]].concat(), "--reason"),
            ([&broken[..], &["a\nb"]].concat(), "--reason"),
            ([&broken[..], &[long.as_str()]].concat(), "--reason"),
        ] {
            let error = of(&flags).unwrap_err();
            assert!(error.contains(expected), "{flags:?}: {error}");
        }
    }

    #[test]
    fn tm_23_no_kubeconfig_for_emergencies_is_made_where_it_gives_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (data, config) = (directory.path().join("data"), directory.path().join("config.yaml"));
        Authority::open(&data).unwrap();
        let path = config.display().to_string();
        let broken = ["--config", path.as_str(), "--break-glass", "--reason", "INC-7", "--expires", "1h"];
        for (masters, is_made) in [("true", true), ("ownOnly", true), ("false", false)] {
            let text = format!(
                "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\ndataDirectory: {}\nsystemMasters: {masters}\n",
                data.display()
            );
            std::fs::write(&config, text).unwrap();
            let made = own(&parsed(&broken), Some(&directory.path().join(masters)));
            match made {
                Ok(()) => assert!(is_made, "{masters}"),
                Err(error) => {
                    assert!(!is_made && error.to_string().contains("systemMasters is false"), "{error:#}");
                }
            }
            let of_administrator = directory.path().join(format!("{masters}-administrator"));
            own(&parsed(&broken[..2]), Some(&of_administrator)).unwrap();
        }
    }

    #[test]
    fn a_kubeconfig_fits_the_cas_of_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let [data, other] = ["data", "other"].map(|name| directory.path().join(name));
        let own_ca = Authority::open(&data).unwrap().certificate().to_owned();
        let other_ca = Authority::open(&other).unwrap().certificate().to_owned();
        let [config, made, cas] = ["config.yaml", "made", "ca.crt"].map(|name| directory.path().join(name));
        let make = |fields: &str, flags: &[&str]| {
            let head = "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n";
            std::fs::write(&config, format!("{head}dataDirectory: {}\n{fields}", data.display())).unwrap();
            let path = config.display().to_string();
            own(&parsed(&[&["--config", path.as_str()][..], flags].concat()), Some(&made))?;
            pki::read(&made)
        };
        std::fs::write(&cas, &other_ca).unwrap();
        let field = format!("clientCaFile: {}\n", cas.display());
        let error = make(&field, &[]).unwrap_err().to_string();
        assert!(error.starts_with("clientCaFile: the server accepts"), "{error}");
        std::fs::write(&cas, [other_ca.as_str(), own_ca.as_str()].concat()).unwrap();
        make(&field, &[]).unwrap();
        let (tls, path) = ("tls: {certFile: a, keyFile: b}\n", cas.display().to_string());
        for (fields, flags, expected) in [
            ("", &[][..], Some(own_ca)),
            (tls, &[][..], None),
            (tls, &["--certificate-authority", path.as_str()][..], Some(pki::read(&cas).unwrap())),
        ] {
            let written: serde_json::Value = serde_saphyr::from_str(&make(fields, flags).unwrap()).unwrap();
            let ca = written.pointer("/clusters/0/cluster/certificate-authority-data");
            assert_eq!(ca, expected.map(|ca| json!(STANDARD.encode(ca))).as_ref(), "{fields}");
        }
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
