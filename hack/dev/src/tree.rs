//! Tree of the cluster, shown until the cluster is in a state.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use anyhow::bail;
use apiserver_cli::{ClusterObjects, ColorChoice, ConditionFilter, LiveTree, Node, Severity, Style, Tree};
use jiff::Timestamp;
use kube::Client;

use crate::cloud::Cloud;
use crate::server::CapstanProcess;
use crate::workload::Workload;

/// Interval between two reads: short enough to look live, at a small share of the load.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// Longest time until a state: a slow machine needs a tenth of it.
const TIMEOUT: Duration = Duration::from_mins(6);

/// Cluster with everything that it needs.
pub(crate) struct Scene<'a> {
    pub(crate) client: Client,
    pub(crate) server: &'a mut CapstanProcess,
    pub(crate) cloud: &'a Cloud,
    pub(crate) namespace: String,
    pub(crate) cluster: String,
    /// True if the tree is redrawn in place. Otherwise each change of an object is printed.
    pub(crate) in_place: bool,
}

/// Desired state of a whole cluster.
#[derive(Debug, Clone, Default)]
pub(crate) struct Goal {
    /// Number of Machines, if it is known.
    pub(crate) machines: Option<usize>,
    /// Name of a Machine that must be gone.
    pub(crate) gone: Option<String>,
    /// Kubernetes version of all Machines, if it is known.
    pub(crate) version: Option<String>,
}

impl Scene<'_> {
    /// Returns true if the output may be redrawn.
    pub(crate) fn is_terminal() -> bool {
        std::io::stdout().is_terminal()
    }

    /// Shows the tree until `missing` returns an empty list.
    pub(crate) async fn until(
        &mut self,
        mut missing: impl AsyncFnMut(&Tree) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + TIMEOUT;
        let out = std::io::stdout();
        let style = Style::detect(&out, ColorChoice::Auto, false);
        let mut display = LiveTree::new(style, ConditionFilter::default(), self.in_place);
        loop {
            self.server.check()?;
            let objects = ClusterObjects::read(&self.client, &self.namespace, &self.cluster).await?;
            let tree = Tree::of(&objects);
            display.show(&mut out.lock(), &tree.condensed(), Timestamp::now())?;
            let mut waiting = missing(&tree).await?;
            if waiting.is_empty() {
                return Ok(());
            }
            if Instant::now() > end {
                waiting.extend(self.cloud.boot_errors());
                bail!("not done after {} s:\n{}", TIMEOUT.as_secs(), waiting.join("\n"));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Shows the tree until the cluster is Available and the workload cluster has one Ready Node for each Machine.
    pub(crate) async fn until_ready(&mut self, goal: &Goal) -> anyhow::Result<Workload> {
        let (client, namespace, cluster) =
            (self.client.clone(), self.namespace.clone(), self.cluster.clone());
        let mut workload = None;
        let ready = self.until(async |tree| {
            let open = open(tree, goal);
            if !open.is_empty() {
                return Ok(open);
            }
            if workload.is_none() {
                workload = Workload::connect(&client, &namespace, &cluster).await?;
            }
            match &workload {
                Some(workload) => Ok(unready_nodes(workload, machines(tree)).await),
                None => Ok(vec!["the cluster has no kubeconfig".to_owned()]),
            }
        });
        // Boxed: the future of a wait is large.
        Box::pin(ready).await?;
        workload.ok_or_else(|| anyhow::anyhow!("the cluster has no kubeconfig"))
    }
}

fn walk(node: &Node) -> Vec<&Node> {
    let below = node.children.iter().flat_map(walk);
    std::iter::once(node).chain(below).collect()
}

fn machines(tree: &Tree) -> usize {
    walk(&tree.root).iter().filter(|node| node.kind == "Machine").count()
}

/// Returns the objects that are not in the desired state.
fn open(tree: &Tree, goal: &Goal) -> Vec<String> {
    let nodes = walk(&tree.root);
    let unfinished =
        nodes.iter().filter(|node| node.kind != "MachineOperation" && node.severity != Severity::Done);
    let mut open: Vec<String> = unfinished
        .map(|node| {
            let cause = node.cause.as_ref().map(|it| format!(" ({}: {})", it.reason, it.message));
            format!("{} {}: {}{}", node.kind, node.name, node.state, cause.unwrap_or_default())
        })
        .collect();
    if open.is_empty() && !tree.is_available() {
        open.push("the Cluster is not Available".to_owned());
    }
    let count = machines(tree);
    if let Some(wanted) = goal.machines.filter(|wanted| *wanted != count) {
        open.push(format!("{count} Machines instead of {wanted}"));
    }
    if let Some(wanted) = &goal.version {
        let others = nodes.iter().filter(|node| node.kind == "Machine" && node.version != *wanted);
        open.extend(others.map(|node| format!("Machine {} has version {}", node.name, node.version)));
    }
    let is_gone = |name: &String| !nodes.iter().any(|node| node.kind == "Machine" && node.name == *name);
    if let Some(name) = goal.gone.as_ref().filter(|name| !is_gone(name)) {
        open.push(format!("Machine {name} still exists"));
    }
    open
}

/// Describes what the workload cluster lacks.
async fn unready_nodes(workload: &Workload, machines: usize) -> Vec<String> {
    let nodes = match workload.nodes().await {
        Ok(nodes) => nodes,
        Err(error) => return vec![format!("the workload cluster does not answer: {error:#}")],
    };
    let unready = nodes.values().filter(|node| !node.is_ready);
    let mut missing: Vec<String> = unready.map(|node| format!("Node {} is not Ready", node.name)).collect();
    if nodes.len() != machines {
        missing.push(format!("{} Nodes for {machines} Machines", nodes.len()));
    }
    missing
}
