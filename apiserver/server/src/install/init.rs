//! Command `capstan init`: the first node of an installation.

use std::path::Path;

use anyhow::Context;

use super::balancers::{self, Nodes};
use super::installation::{Installation, StoreKind};
use super::services::Services;
use super::settings::{PORT, Settings};
use super::steps::{Steps, line};
use super::{Layout, keys, recovery, rendered, tokens};
use crate::cli::InitArguments;
use crate::kubeconfig::{self, ADMINS};
use crate::{output, pki};

/// User of the first kubeconfig.
const ADMIN: &str = "capstan-admin";

/// Lifetime of the first kubeconfig. `capstan kubeconfig` makes another one.
const ADMIN_LIFETIME: std::time::Duration = std::time::Duration::from_secs(365 * 86_400);

/// Makes the first node of an installation. Each step is skipped if its result is there.
///
/// # Errors
/// Settings that do not fit together, or that differ from those of an earlier run; the error of a step.
pub(crate) fn init(arguments: &InitArguments) -> anyhow::Result<()> {
    let layout = Layout::new(&arguments.root)?;
    let record = layout.record();
    let found = record.exists().then(|| Installation::read_file(&record)).transpose()?;
    if let Some(balancer) = arguments.print {
        let nodes = nodes(arguments, found.as_ref())?;
        return Ok(output::print(&balancers::configuration(balancer, &nodes, &layout)?)?);
    }
    let is_new = found.is_none();
    let settings = match found {
        Some(found) => Settings::unchanged(arguments, found)?,
        None => Settings::new(arguments)?,
    };
    let installation = &settings.installation;
    let services = Services::new(&layout, arguments.etcd.as_deref(), installation, arguments.no_start)?;
    if is_new {
        services.check_address(installation)?;
    }
    let mut steps = Steps::default();
    files(&mut steps, arguments, &layout, &settings)?;
    services.write(&mut steps, &layout, installation)?;
    let text = installation.text()?;
    steps.file(&record, "record of the installation", &text)?;
    let is_started = start(&mut steps, &services, &layout, installation)?;
    if steps.changes == 0 {
        return line("done", "nothing had to be changed");
    }
    if installation.store == StoreKind::Embedded {
        return line("done", &format!("export KUBECONFIG={}", layout.admin().display()));
    }
    match (is_started, is_new) {
        (false, _) => line("then", &format!("{} join-token create{}", program(), root(arguments))),
        (true, true) => print_tokens(&settings, &layout),
        (true, false) => Ok(()),
    }
}

/// Creates the keys and the configurations. Prints the recovery key at once if it is new: a later step may fail, and the
/// next run finds the file.
fn files(
    steps: &mut Steps,
    arguments: &InitArguments,
    layout: &Layout,
    settings: &Settings,
) -> anyhow::Result<()> {
    let (data, installation) = (layout.data(), &settings.installation);
    steps.create(&data, "data directory", || pki::private_directory(&data))?;
    let authority = keys::authority(steps, &data)?;
    let mut recovery = None;
    steps.create(&data.join("encryption.yaml"), "key that encrypts Secrets", || {
        recovery = Some(recovery::create(&data, arguments.recovery_key_file.as_deref())?);
        Ok(())
    })?;
    match (recovery, &arguments.recovery_key_file) {
        (Some(key), _) => {
            line("recovery", &format!("{key}   # keep it apart from the nodes: it is not printed again"))?;
        }
        (None, Some(given)) => recovery::check(&data, given)?,
        (None, None) => {}
    }
    keys::of_etcd(steps, &data, installation)?;
    copy(steps, &data, arguments, settings)?;
    if installation.store == StoreKind::Etcd {
        let text = rendered::etcd(installation, layout, &[])?;
        steps.file(&layout.etcd_config(), "configuration of etcd", &text)?;
    }
    let text = rendered::configuration(installation, layout)?;
    steps.configuration(&layout.config(), "configuration of Capstan", &text)?;
    steps.create(&layout.admin(), "kubeconfig of the first administrator", || {
        let pair = authority.client(ADMIN, &[ADMINS.to_owned()], None, ADMIN_LIFETIME)?;
        let text = kubeconfig::document(&installation.server(), Some(authority.certificate()), ADMIN, &pair)?;
        pki::write_private(&layout.admin(), &text)
    })?;
    Ok(())
}

/// Copies the files that the flags name: the kubeconfig of the host, the CA of Keystone, and the certificates of an etcd.
fn copy(
    steps: &mut Steps,
    data: &Path,
    arguments: &InitArguments,
    settings: &Settings,
) -> anyhow::Result<()> {
    let client = data.join("etcd/client");
    let files = [
        (&settings.host_kubeconfig, data.join("host.kubeconfig"), "kubeconfig of the host"),
        (&settings.keystone_ca, data.join(Installation::KEYSTONE_CA), "CA of Keystone"),
        (&arguments.etcd_ca, client.join("ca.crt"), "CA of etcd"),
        (&arguments.etcd_cert, client.join("tls.crt"), "certificate of Capstan for etcd"),
        (&arguments.etcd_key, client.join("tls.key"), "key of that certificate"),
    ];
    for (from, to, purpose) in files {
        let Some(from) = from else { continue };
        let text = pki::read(from)?;
        steps.file(&to, purpose, &text)?;
    }
    Ok(())
}

/// Starts the services, or prints how. Returns true if they run.
fn start(
    steps: &mut Steps,
    services: &Services,
    layout: &Layout,
    installation: &Installation,
) -> anyhow::Result<bool> {
    if installation.store == StoreKind::Etcd {
        services.start_etcd(steps, layout)?;
    }
    if !services.start_capstan(steps, layout, installation)? {
        return Ok(false);
    }
    services.await_ready(installation, &pki::read(&layout.data().join("pki/ca.crt"))?)?;
    Ok(true)
}

/// Prints the command with which each of the other nodes joins.
fn print_tokens(settings: &Settings, layout: &Layout) -> anyhow::Result<()> {
    let installation = &settings.installation;
    let others: Vec<Option<&str>> = match settings.others.as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for node in others.into_iter().filter(|node| *node != Some(&installation.node)) {
        let token = tokens::create(layout, installation, node)?;
        let of = node.map_or_else(|| "another node".to_owned(), |name| format!("node {name}"));
        line("join", &format!("on {of}: {}", tokens::command(installation, &token)))?;
    }
    Ok(())
}

/// Returns the nodes for the configuration of a load balancer.
fn nodes(arguments: &InitArguments, found: Option<&Installation>) -> anyhow::Result<Nodes> {
    let mut nodes = Vec::new();
    if let Some(found) = found {
        nodes.push((found.node.clone(), found.address));
    }
    for (name, address) in &arguments.nodes {
        let address =
            address.with_context(|| format!("--node: give the address of {name}: {name}=ADDRESS"))?;
        if nodes.iter().all(|(known, _)| known != name) {
            nodes.push((name.clone(), address));
        }
    }
    let endpoint = arguments.endpoint.clone().or_else(|| found.and_then(|it| it.endpoint.clone()));
    let port = found.map_or_else(|| arguments.port.unwrap_or(PORT), |it| it.port);
    Ok(Nodes { nodes, endpoint, port, interface: arguments.interface.clone() })
}

/// Returns the name with which this program was started.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "capstan".to_owned())
}

/// Returns the flag for another root folder.
fn root(arguments: &InitArguments) -> String {
    if arguments.root == Path::new("/") {
        String::new()
    } else {
        format!(" --root {}", arguments.root.display())
    }
}

/// Returns the first label of the machine's name.
pub(super) fn host_name() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().to_lowercase();
    host.split('.').next().unwrap_or_default().to_owned()
}
