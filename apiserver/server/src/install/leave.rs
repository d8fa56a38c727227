//! Commands `capstan leave` and `capstan reset`.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use storage_contract::StoreError;
use storage_etcd::{EtcdConfiguration, Member, Members, member_status};

use super::ask::Ask;
use super::installation::{Installation, StoreKind, client_url, peer_url};
use super::join::of_peers;
use super::steps::{Steps, line};
use super::{Layout, run_async, services};
use crate::cli::{LeaveArguments, ResetArguments};

/// Longest wait until etcd removes a member.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);

/// Longest wait for the answer of a member that may be lost.
const LIFE: Duration = Duration::from_secs(5);

/// Removes this node from its installation.
///
/// # Errors
/// The last member of etcd; an etcd that does not answer or refuses the removal.
pub(crate) fn leave(arguments: &LeaveArguments) -> anyhow::Result<()> {
    let (lost, arguments) = (arguments.lost.as_deref(), &arguments.reset);
    let layout = Layout::new(&arguments.root)?;
    let installation = Installation::read_file(&layout.record()).map_err(|error| {
        crate::pki::if_missing(error, || "this node has no installation to leave".to_owned())
    })?;
    if let Some(lost) = lost {
        let question = format!("Remove node {lost} from the etcd of {}?", installation.name);
        Ask::new(arguments.yes).confirm(arguments.yes, &question)?;
        return run_async(remove_lost(&layout, &installation, lost))?;
    }
    let question =
        format!("Remove node {} from {}, with all its files?", installation.node, installation.name);
    Ask::new(arguments.yes).confirm(arguments.yes, &question)?;
    let mut steps = Steps::default();
    if installation.store == StoreKind::Etcd {
        run_async(remove_member(&mut steps, &layout, &installation))??;
    }
    remove_files(&mut steps, &layout)
}

/// Removes all files of an installation from this node.
///
/// # Errors
/// A file that cannot be removed.
pub(crate) fn reset(arguments: &ResetArguments) -> anyhow::Result<()> {
    let layout = Layout::new(&arguments.root)?;
    let question = format!("Remove all files of Capstan, {} included?", layout.data().display());
    Ask::new(arguments.yes).confirm(arguments.yes, &question)?;
    remove_files(&mut Steps::default(), &layout)
}

/// Removes the member of this node from etcd, by a request to another member: this one ends as soon as it is removed.
async fn remove_member(
    steps: &mut Steps,
    layout: &Layout,
    installation: &Installation,
) -> anyhow::Result<()> {
    let (any, list) = find(layout, installation).await?;
    let peer = peer_url(installation.address);
    let (own, others): (Vec<_>, Vec<_>) = list.into_iter().partition(|it| it.peer_urls.contains(&peer));
    let Some(own) = own.into_iter().next() else {
        return Steps::kept(&format!("etcd has no member at {peer}"));
    };
    let heir = others.iter().find(|it| !it.is_learner && !it.client_urls.is_empty()).map(|it| it.id);
    let endpoints: Vec<String> =
        others.iter().filter(|it| !it.is_learner).flat_map(|it| it.client_urls.clone()).collect();
    if endpoints.is_empty() {
        bail!(
            "{} is the last member of etcd, and has the only copy of the objects. `capstan reset` removes them",
            installation.node
        );
    }
    let others = Members::connect(EtcdConfiguration { endpoints, ..any }).await?;
    hand_over(steps, &others, &own, heir).await?;
    remove(&others, own.id).await.context("etcd does not remove this node")?;
    steps.changed("removed", &format!("{}  from etcd", installation.node))
}

/// Makes another member the leader, if this one is. The removal does not need that, so a failure does not stop it.
async fn hand_over(
    steps: &mut Steps,
    others: &Members,
    own: &Member,
    heir: Option<u64>,
) -> anyhow::Result<()> {
    let Some(heir) = heir else { return Ok(()) };
    match others.hand_over_leadership(own, heir).await {
        Ok(false) => Ok(()),
        Ok(true) => steps.changed("moved", "leadership of etcd  to another node"),
        Err(error) => line("warning", &format!("the leadership of etcd was not moved: {error}")),
    }
}

/// Returns the connection to a member that answers, and the list of all members. This node is tried first, then the
/// members that were there before it.
async fn find(
    layout: &Layout,
    installation: &Installation,
) -> anyhow::Result<(EtcdConfiguration, Vec<Member>)> {
    let peers = of_peers(layout, installation)?;
    let own = client_url(installation.address);
    let mut last = None;
    for endpoint in [vec![own], peers.endpoints.clone()].concat() {
        let one = EtcdConfiguration { endpoints: vec![endpoint], ..peers.clone() };
        let listed = match Members::connect(one.clone()).await {
            Ok(members) => members.list().await,
            Err(error) => Err(error),
        };
        match listed {
            Ok(list) => return Ok((one, list)),
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) => {
            Err(error).context("no member of etcd answers; does it run? `capstan reset` needs none")
        }
        None => bail!("storage.etcd: the configuration names no etcd"),
    }
}

/// Removes a member. etcd refuses that until the others are connected for five seconds.
async fn remove(members: &Members, id: u64) -> Result<(), StoreError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match members.remove(id).await {
            Err(StoreError::Unavailable { .. }) if Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}

/// Removes the member of a lost machine from etcd.
async fn remove_lost(layout: &Layout, installation: &Installation, lost: &str) -> anyhow::Result<()> {
    let (any, list) = find(layout, installation).await?;
    let members = Members::connect(any.clone()).await?;
    let peer = lost.parse().map(peer_url).unwrap_or_default();
    let is_meant = |it: &&Member| it.name == lost || it.peer_urls.contains(&peer);
    let Some(found) = list.iter().find(is_meant) else {
        let names: Vec<&str> = list.iter().map(|it| it.name.as_str()).collect();
        bail!("--lost: etcd has no member {lost:?}, but {}", names.join(", "));
    };
    if found.peer_urls.contains(&peer_url(installation.address)) {
        bail!("--lost: {lost:?} is this node; run `capstan leave` without --lost");
    }
    if let Some(endpoint) = living(&any, found).await {
        bail!(
            "--lost: the etcd of {lost:?} answers at {endpoint}, so this node is not lost. Is the name right? To remove the \
             node, run `capstan leave` on it, or stop its etcd first"
        );
    }
    remove(&members, found.id).await.context("etcd does not remove the lost node")?;
    line("removed", &format!("{lost}  from etcd"))
}

/// Returns the endpoint at which a member answers and knows a leader. A mistyped name would end such a node.
async fn living<'m>(any: &EtcdConfiguration, member: &'m Member) -> Option<&'m str> {
    let configuration = EtcdConfiguration { deadline: LIFE, ..any.clone() };
    for endpoint in &member.client_urls {
        if member_status(&configuration, endpoint).await.is_ok_and(|status| status.has_leader) {
            return Some(endpoint);
        }
    }
    None
}

fn remove_files(steps: &mut Steps, layout: &Layout) -> anyhow::Result<()> {
    services::stop(steps, layout)?;
    for path in services::files(layout) {
        steps.remove(&path)?;
    }
    for path in [layout.config(), layout.etcd_config(), layout.admin(), layout.etcd_data()] {
        steps.remove(&path)?;
    }
    // The record goes with the data directory, at last: until then the command can be repeated.
    steps.remove(&layout.data())?;
    if steps.changes == 0 {
        return line("done", "there was nothing to remove");
    }
    line("done", "this node has no installation any more")
}
