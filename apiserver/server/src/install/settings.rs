//! Settings of `capstan init`: those of the flags, of questions on a terminal, or of an earlier run.

use std::path::PathBuf;

use anyhow::{Context, bail};

use super::ask::Ask;
use super::init::host_name;
use super::installation::{Installation, KeystoneLogin, StoreKind, is_node_name};
use super::static_pods::StaticPods;
use crate::cli::InitArguments;

/// Port of the API, unless another one is given.
pub(super) const PORT: u16 = 7443;

/// Name of the installation, unless another one is given.
const NAME: &str = "capstan";

/// Settings of a run.
#[derive(Debug)]
pub(super) struct Settings {
    /// Those that the record keeps.
    pub(super) installation: Installation,
    /// Names of the other nodes, each of which gets a join token.
    pub(super) others: Vec<String>,
    /// Kubeconfig of Capstan's user in a host cluster, to be copied.
    pub(super) host_kubeconfig: Option<PathBuf>,
    /// CA of Keystone, to be copied.
    pub(super) keystone_ca: Option<PathBuf>,
}

impl Settings {
    /// Returns the settings of a new installation.
    ///
    /// # Errors
    /// A setting that is missing, or that does not fit to the others. The error names the flag.
    pub(super) fn new(arguments: &InitArguments) -> anyhow::Result<Self> {
        let ask = Ask::new(arguments.yes);
        let given = arguments.name.clone();
        let name = ask.setting("--name", "Name of the installation", given, Some(NAME.to_owned()))?;
        let given = arguments.node_name.clone();
        let node = ask.setting("--node-name", "Name of this node", given, Some(host_name()))?;
        let given = arguments.address.map(|address| address.to_string());
        let question = "IP address at which the other nodes and the clients reach this node";
        let address = ask.setting("--address", question, given, None)?;
        let address = address.parse().with_context(|| format!("--address: {address:?} is no IP address"))?;
        let endpoint = ask
            .optional("Virtual address or DNS name of all nodes (empty: none)", arguments.endpoint.clone())?;
        let store = store(ask, arguments)?;
        let others = others(ask, arguments, store)?;
        let (keystone, keystone_ca) = keystone(ask, arguments)?;
        let question = "File with the kubeconfig of Capstan's user in a host cluster (empty: no host)";
        let host_kubeconfig = path(ask, question, arguments.host_kubeconfig.as_ref())?;
        let mut installation = Installation {
            name,
            node,
            address,
            port: arguments.port.unwrap_or(PORT),
            endpoint,
            store,
            etcd_endpoints: arguments.etcd_endpoints.clone(),
            has_host: host_kubeconfig.is_some(),
            issuer: String::new(),
            peers: Vec::new(),
            keystone,
            static_pods: StaticPods::of_flags(arguments.static_pod.as_ref(), arguments.etcd_image.as_ref()),
        };
        installation.issuer = installation.server();
        installation.check()?;
        check_certificates(arguments, &installation, true)?;
        Ok(Self { installation, others, host_kubeconfig, keystone_ca })
    }

    /// Returns the settings of an earlier run. Refuses flags that differ from them: no step would apply them.
    ///
    /// # Errors
    /// A flag that differs.
    pub(super) fn unchanged(arguments: &InitArguments, found: Installation) -> anyhow::Result<Self> {
        if let Some(flag) = different_flag(arguments, &found) {
            bail!(
                "{flag}: differs from the installation {:?} that this node has. `capstan reset` removes it",
                found.name
            );
        }
        check_others(arguments, found.store)?;
        check_certificates(arguments, &found, false)?;
        Ok(Self {
            installation: found,
            others: arguments.nodes.iter().map(|(name, _)| name.clone()).collect(),
            host_kubeconfig: arguments.host_kubeconfig.clone(),
            keystone_ca: arguments.keystone_ca.clone(),
        })
    }
}

/// Returns the first flag that differs from the settings of an earlier run.
fn different_flag(arguments: &InitArguments, found: &Installation) -> Option<&'static str> {
    let same = |given: &Option<String>, found: &str| given.as_deref().is_none_or(|given| given == found);
    let endpoint = found.endpoint.clone().unwrap_or_default();
    let (url, has_ca) = match &found.keystone {
        Some(keystone) => (keystone.url.as_str(), keystone.has_ca),
        None => ("", false),
    };
    let (image, etcd_image) = match &found.static_pods {
        Some(pods) => (pods.image.as_str(), pods.etcd_image.as_str()),
        None => ("", ""),
    };
    let flags = [
        ("--name", same(&arguments.name, &found.name)),
        ("--node-name", same(&arguments.node_name, &found.node)),
        ("--address", arguments.address.is_none_or(|given| given == found.address)),
        ("--endpoint", same(&arguments.endpoint, &endpoint)),
        ("--store", arguments.store.is_none_or(|given| given == found.store)),
        (
            "--etcd-endpoints",
            arguments.etcd_endpoints.is_empty() || arguments.etcd_endpoints == found.etcd_endpoints,
        ),
        ("--port", arguments.port.is_none_or(|given| given == found.port)),
        ("--host-kubeconfig", arguments.host_kubeconfig.is_none() || found.has_host),
        ("--keystone-url", same(&arguments.keystone_url, url)),
        ("--keystone-ca", arguments.keystone_ca.is_none() || has_ca),
        ("--static-pod", same(&arguments.static_pod, image)),
        ("--etcd-image", same(&arguments.etcd_image, etcd_image)),
    ];
    flags.into_iter().find(|(_, is_same)| !is_same).map(|(flag, _)| flag)
}

/// Returns the place of the objects. An etcd that runs elsewhere has more settings, and is not asked about.
fn store(ask: Ask, arguments: &InitArguments) -> anyhow::Result<StoreKind> {
    if let Some(store) = arguments.store {
        return Ok(store);
    }
    let question = "Place of the objects: etcd on all nodes, or embedded in this node alone";
    match ask.setting("--store", question, None, Some("etcd".to_owned()))?.as_str() {
        "etcd" => Ok(StoreKind::Etcd),
        "embedded" => Ok(StoreKind::Embedded),
        other => bail!("--store: {other:?} is neither etcd nor embedded"),
    }
}

/// Refuses other nodes with a store that no other node can use.
fn check_others(arguments: &InitArguments, store: StoreKind) -> anyhow::Result<()> {
    if store == StoreKind::Embedded && !arguments.nodes.is_empty() {
        bail!("--node: with --store embedded no other node can join. Leave out --node, or use --store etcd");
    }
    Ok(())
}

/// Refuses certificates for an etcd without TLS, and a part of those for one with it. A further run has their copies.
fn check_certificates(
    arguments: &InitArguments,
    installation: &Installation,
    is_new: bool,
) -> anyhow::Result<()> {
    let InitArguments { etcd_ca, etcd_cert, etcd_key, .. } = arguments;
    let given = [etcd_ca, etcd_cert, etcd_key].into_iter().flatten().count();
    let flags = "--etcd-ca, --etcd-cert and --etcd-key";
    match (installation.uses_tls_for_etcd(), given) {
        (false, 0) | (true, 3) => Ok(()),
        (true, 0) if !is_new => Ok(()),
        (false, _) => bail!("{flags}: give them with --store external-etcd and URLs with https only"),
        (true, _) => bail!("{flags}: give all three for an etcd with https"),
    }
}

/// Returns the names of the other nodes.
fn others(ask: Ask, arguments: &InitArguments, store: StoreKind) -> anyhow::Result<Vec<String>> {
    check_others(arguments, store)?;
    if !arguments.nodes.is_empty() || store == StoreKind::Embedded {
        return Ok(arguments.nodes.iter().map(|(name, _)| name.clone()).collect());
    }
    let answer = ask.optional("Names of the other nodes, separated by commas (empty: none yet)", None)?;
    let names = answer.unwrap_or_default();
    let names: Vec<String> =
        names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    match names.iter().find(|name| !is_node_name(name)) {
        None => Ok(names),
        Some(name) => {
            bail!("--node: {name:?} is no name of a node: use lower-case letters, digits and dashes")
        }
    }
}

/// Returns the Keystone whose users may log in, and the file with its CA.
fn keystone(ask: Ask, arguments: &InitArguments) -> anyhow::Result<(Option<KeystoneLogin>, Option<PathBuf>)> {
    let question = "URL of Keystone, whose users may log in (empty: none)";
    let Some(url) = ask.optional(question, arguments.keystone_url.clone())? else {
        if arguments.keystone_ca.is_some() {
            bail!("--keystone-ca: give it with --keystone-url only");
        }
        return Ok((None, None));
    };
    let question = "File with the CA of Keystone (empty: the CAs of the system)";
    let ca = path(ask, question, arguments.keystone_ca.as_ref())?;
    Ok((Some(KeystoneLogin { url, has_ca: ca.is_some() }), ca))
}

/// Returns the path of an optional file.
fn path(ask: Ask, question: &str, given: Option<&PathBuf>) -> anyhow::Result<Option<PathBuf>> {
    match given {
        Some(given) => Ok(Some(given.clone())),
        None => Ok(ask.optional(question, None)?.map(PathBuf::from)),
    }
}
