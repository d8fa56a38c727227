//! Command `capstan join`: another node of an installation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use storage_contract::StoreError;
use storage_etcd::{EtcdConfiguration, Member, Members};

use super::init::host_name;
use super::installation::{Installation, StoreKind, peer_url};
use super::services::Services;
use super::static_pods::StaticPods;
use super::steps::{Steps, line};
use super::{Layout, keys, rendered, run_async};
use crate::cli::JoinArguments;
use crate::config::ServerConfiguration;
use crate::etcd_files::EtcdFiles;
use crate::join::{self, Bundle, MemberOfEtcd, NodeKey, Token};
use crate::pki;

/// Longest wait until a learner has received all data.
const PATIENCE: Duration = Duration::from_secs(300);

/// Pause between two attempts to promote a learner.
const PAUSE: Duration = Duration::from_millis(500);

/// State of this node's member of etcd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    /// It has a vote.
    Voter,
    /// Its etcd has not been started.
    NotStarted,
}

/// Joins an installation. Each step is skipped if its result is there, so an interrupted join is continued by the same
/// command.
///
/// # Errors
/// A server of another CA; a token that is not accepted; the error of a step.
pub(crate) fn join(arguments: &JoinArguments) -> anyhow::Result<()> {
    let layout = Layout::new(&arguments.root)?;
    let mut steps = Steps::default();
    let installation = match joined(arguments, &layout)? {
        Some(found) => {
            Steps::kept(&format!("{}  record of the installation", layout.record().display()))?;
            found
        }
        None => request(&mut steps, arguments, &layout)?,
    };
    let services = Services::new(&layout, arguments.etcd.as_deref(), &installation, arguments.no_start)?;
    services.write(&mut steps, &layout, &installation)?;
    if installation.store == StoreKind::Etcd {
        if services.are_started {
            services.start_etcd(&mut steps, &layout)?;
        }
        let membership = run_async(vote(&mut steps, &layout, &installation, !services.are_started))??;
        if membership == Membership::NotStarted {
            services.start_etcd(&mut steps, &layout)?;
            return line("then", "run this command again, when etcd runs");
        }
    }
    if !services.start_capstan(&mut steps, &layout, &installation)? {
        return Ok(());
    }
    services.await_ready(&installation, &pki::read(&layout.data().join("pki/ca.crt"))?)?;
    line("done", &format!("node {} has joined {}", installation.node, installation.name))
}

/// Returns the record of a node that has received the keys.
fn joined(arguments: &JoinArguments, layout: &Layout) -> anyhow::Result<Option<Installation>> {
    let record = layout.record();
    if !record.exists() {
        return Ok(None);
    }
    let found = Installation::read_file(&record)?;
    let is_first = found.store == StoreKind::Etcd && found.peers.is_empty();
    let is_other = arguments.node_name.as_ref().is_some_and(|name| *name != found.node)
        || arguments.address.is_some_and(|address| address != found.address);
    if is_first || is_other {
        bail!(
            "this node is {:?} of installation {:?} already; `capstan reset` removes that",
            found.node,
            found.name
        );
    }
    Ok(Some(found))
}

/// Sends the request, and writes the files of the response.
fn request(steps: &mut Steps, arguments: &JoinArguments, layout: &Layout) -> anyhow::Result<Installation> {
    let token: Token = arguments
        .token
        .as_deref()
        .context("--token: must be given; create one by `capstan join-token create` on another node")?
        .parse()
        .map_err(|error| anyhow::anyhow!("--token: {error}"))?;
    let address = arguments.address.map_or_else(|| own_address(&arguments.server), Ok)?;
    let node = arguments.node_name.clone().unwrap_or_else(host_name);
    let data = layout.data();
    steps.create(&data, "data directory", || pki::private_directory(&data))?;
    let mut key = None;
    steps.create(&layout.node_key(), "key of this node", || {
        key = Some(NodeKey::open(&layout.node_key())?);
        Ok(())
    })?;
    let key = key.map_or_else(|| NodeKey::open(&layout.node_key()), Ok)?;
    let bundle = run_async(join::join(&arguments.server, &token, &node, address, &key))??;
    steps.changed("received", &format!("keys of installation {:?}", bundle.installation.name))?;
    let own = Installation {
        node,
        address,
        peers: bundle.members.iter().map(|it| it.client_url.clone()).filter(|it| !it.is_empty()).collect(),
        static_pods: StaticPods::of_flags(arguments.static_pod.as_ref(), arguments.etcd_image.as_ref()),
        ..bundle.installation.clone()
    };
    own.check()?;
    write(steps, layout, &own, &bundle)?;
    Ok(own)
}

/// Returns the address from which this machine reaches a server. Nothing is sent for it.
pub(super) fn own_address(server: &str) -> anyhow::Result<IpAddr> {
    let unknown = || format!("--address: must be given, because no route to {server} tells it");
    let url: http::Uri = server.parse().with_context(unknown)?;
    let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = url.port_u16().unwrap_or(443);
    let to = (host, port).to_socket_addrs().with_context(unknown)?.next().with_context(unknown)?;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).with_context(unknown)?;
    socket.connect(to).with_context(unknown)?;
    Ok(socket.local_addr().with_context(unknown)?.ip())
}

/// Writes the shared files, those of this node, and at last the record: with it the join continues without a request.
fn write(steps: &mut Steps, layout: &Layout, own: &Installation, bundle: &Bundle) -> anyhow::Result<()> {
    let data = layout.data();
    for name in own.shared_files() {
        let text = bundle.files.get(name).with_context(|| format!("the response has no file {name}"))?;
        let path = data.join(name);
        if path.exists() && pki::read(&path)? != text.0 {
            bail!("{}: exists, and is of another installation; `capstan reset` removes it", path.display());
        }
        steps.create(&path, "of the installation", || {
            pki::private_directory(path.parent().unwrap_or(&data))?;
            pki::write_private(&path, &text.0)
        })?;
    }
    keys::of_etcd(steps, &data, own)?;
    if own.store == StoreKind::Etcd {
        check(&bundle.members, own)?;
        let text = rendered::etcd(own, layout, &bundle.members)?;
        steps.file(&layout.etcd_config(), "configuration of etcd", &text)?;
    }
    let text = rendered::configuration(own, layout)?;
    steps.configuration(&layout.config(), "configuration of Capstan", &text)?;
    steps.file(&layout.record(), "record of the installation", &own.text()?)?;
    Ok(())
}

/// Refuses to begin while another member has not started: its name is unknown, and etcd needs it.
fn check(members: &[MemberOfEtcd], own: &Installation) -> anyhow::Result<()> {
    let peer = peer_url(own.address);
    match members.iter().find(|it| it.name.is_empty() && it.peer_url != peer) {
        None => Ok(()),
        Some(other) => bail!(
            "the member of etcd at {} has not started; run this command again when it has",
            other.peer_url
        ),
    }
}

/// Gives the member of this node a vote, when it has received all data. If etcd is started by hand, the function does not
/// wait for its first start.
async fn vote(
    steps: &mut Steps,
    layout: &Layout,
    installation: &Installation,
    by_hand: bool,
) -> anyhow::Result<Membership> {
    let members = Members::connect(of_peers(layout, installation)?).await;
    let members = members.context("no etcd of another node answers; can this one reach its port 2379?")?;
    let peer = peer_url(installation.address);
    let end = Instant::now() + PATIENCE;
    loop {
        let list = members.list().await?;
        let own = list.iter().find(|it| it.peer_urls.contains(&peer)).with_context(|| {
            format!("etcd has no member at {peer} any more; run `capstan reset`, and join again")
        })?;
        match promote(&members, own).await? {
            Some(true) => {
                steps.changed("promoted", &format!("{}  from learner to voter", installation.node))?;
                return Ok(Membership::Voter);
            }
            Some(false) => {
                Steps::kept(&format!("{}  has a vote in etcd", installation.node))?;
                return Ok(Membership::Voter);
            }
            None if own.name.is_empty() && by_hand => return Ok(Membership::NotStarted),
            None if Instant::now() > end => {
                bail!("the etcd of this node does not catch up; see `journalctl -u capstan-etcd`")
            }
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Promotes a member. Returns `Some(false)` if it has a vote already, and `None` if it cannot be promoted yet.
async fn promote(members: &Members, own: &Member) -> anyhow::Result<Option<bool>> {
    if !own.is_learner {
        return Ok(Some(false));
    }
    if own.name.is_empty() {
        return Ok(None);
    }
    match members.promote(own.id).await {
        Ok(()) => Ok(Some(true)),
        Err(StoreError::Refused { reason, .. }) if reason.contains("in sync") => Ok(None),
        Err(StoreError::Unavailable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the connection to the members that were there before this one.
pub(super) fn of_peers(layout: &Layout, installation: &Installation) -> anyhow::Result<EtcdConfiguration> {
    let etcd = ServerConfiguration::read(&layout.config())?.storage.etcd;
    let etcd = etcd.context("storage.etcd: the configuration names no etcd")?;
    let configuration = EtcdFiles::new(etcd, false).read()?;
    if installation.peers.is_empty() {
        return Ok(configuration);
    }
    Ok(EtcdConfiguration { endpoints: installation.peers.clone(), ..configuration })
}
