//! Commands `capstan leave` and `capstan reset`.

use anyhow::{Context, bail};
use storage_etcd::{EtcdConfiguration, Members};

use super::ask::Ask;
use super::installation::{Installation, StoreKind, peer_url};
use super::join::of_peers;
use super::steps::{Steps, line};
use super::{Layout, run_async, services};
use crate::cli::LeaveArguments;

/// Removes this node from its installation.
///
/// # Errors
/// The last member of etcd; an etcd that does not answer or refuses the removal.
pub(crate) fn leave(arguments: &LeaveArguments) -> anyhow::Result<()> {
    let layout = Layout::new(&arguments.root)?;
    let installation =
        Installation::read_file(&layout.record()).context("this node has no installation to leave")?;
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
pub(crate) fn reset(arguments: &LeaveArguments) -> anyhow::Result<()> {
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
    let any = of_peers(layout, installation)?;
    let list = Members::connect(any.clone()).await?.list().await?;
    let peer = peer_url(installation.address);
    let (own, others): (Vec<_>, Vec<_>) = list.into_iter().partition(|it| it.peer_urls.contains(&peer));
    let Some(own) = own.into_iter().next() else {
        return Steps::kept(&format!("etcd has no member at {peer}"));
    };
    let endpoints: Vec<String> =
        others.iter().filter(|it| !it.is_learner).flat_map(|it| it.client_urls.clone()).collect();
    if endpoints.is_empty() {
        bail!(
            "{} is the last member of etcd, and has the only copy of the objects. `capstan reset` removes them",
            installation.node
        );
    }
    let others = Members::connect(EtcdConfiguration { endpoints, ..any }).await?;
    others.remove(own.id).await.context("etcd does not remove this node")?;
    steps.changed("removed", &format!("{}  from etcd", installation.node))
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
