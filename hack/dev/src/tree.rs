//! Tree view of the cluster while it is created.

use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_cli::{ClusterObjects, ColorChoice, ConditionFilter, LiveTree, Node, Severity, Style, Tree};
use jiff::Timestamp;
use kube::Client;

use crate::server::CapstanProcess;

/// The namespace of the example.
pub(crate) const NAMESPACE: &str = "quickstart";

/// The Cluster of the example.
const CLUSTER: &str = "quickstart";

/// Interval between two reads: short enough to look live.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Longest time until the cluster is ready: a slow machine needs a tenth of it.
const READY_TIMEOUT: Duration = Duration::from_mins(3);

/// Shows the tree until the cluster is ready. With `live`, the tree is redrawn in place; otherwise each
/// change of an object is printed.
pub(crate) async fn follow(client: &Client, server: &mut CapstanProcess, live: bool) -> anyhow::Result<()> {
    let end = Instant::now() + READY_TIMEOUT;
    let out = std::io::stderr();
    let style = Style::detect(&out, ColorChoice::Auto, false);
    let mut display = LiveTree::new(style, ConditionFilter::default(), live);
    loop {
        server.check()?;
        let tree = Tree::of(&ClusterObjects::read(client, NAMESPACE, CLUSTER).await?);
        display.show(&mut out.lock(), &tree, Timestamp::now())?;
        let waiting = waiting(&tree);
        if waiting.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            bail!(
                "the cluster is not ready after {} s; not ready are:\n{}",
                READY_TIMEOUT.as_secs(),
                waiting.join("\n")
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the objects that are not created completely. Nodes are not among them: no simulated server boots.
fn waiting(tree: &Tree) -> Vec<String> {
    let nodes = objects(&tree.root).into_iter().filter(|node| !is_done(node));
    nodes.map(|node| format!("{} {}: {}", node.kind, node.name, node.state)).collect()
}

fn is_done(node: &Node) -> bool {
    match node.kind.as_str() {
        "Cluster" => node.state != "Pending" && node.state != "Provisioning",
        "Machine" => matches!(node.state.as_str(), "Provisioned" | "Running"),
        "OpenStackCluster" | "OpenStackMachine" => node.severity == Severity::Done,
        _ => true,
    }
}

fn objects(node: &Node) -> Vec<&Node> {
    let below = node.children.iter().flat_map(objects);
    std::iter::once(node).chain(below).collect()
}
