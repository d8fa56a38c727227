//! Drains that a plan leads to: the disruption budgets of the workload clusters that refuse their evictions now.
//!
//! A plan is quick, and it is complete without a workload cluster. So all reads end after a time, and a cluster that cannot
//! be read has one sentence.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use apiserver_types::{Cluster, Machine, MachineDrainRule};
use controllers_runtime::{ControllerContext, ReconcileError};
use controllers_workload::ClusterKey;
use controllers_workload::drain::{self, Labels, RefusingBudgets};
use futures::future::join_all;
use futures::{StreamExt, stream};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, timeout_at};

use crate::aggregate::{list_names, one_line, plural};
use crate::cluster_certificates::kubeconfig_secret_name;
use crate::machine::NO_DRAIN;
use crate::quota_forecast;

/// Nodes of a cluster that are checked at once. Requests have a rate, so that more would all be unfinished at the end.
const AT_ONCE: usize = 8;

/// Machines that a sentence names.
const NAMES: usize = 10;

/// Error of a workload cluster without an answer within the time.
const SILENT: &str =
    "the workload cluster did not answer in time; look whether this server can reach its API server";

/// Begin of a sentence about a Cluster, or a namespace, that was not read.
const UNCHECKED: &str = "The drains are not checked, because";

/// Predicate on Machines.
pub(super) type Selects<'a> = &'a (dyn Fn(&Machine) -> bool + Send + Sync);

/// Machine, and the reasons for which its Node cannot be drained now, or why they are not known. For people.
type Checked = (String, Result<BTreeSet<String>, String>);

/// Returns sentences about the budgets that refuse the drains of Machines of a namespace now: one for each budget, with the
/// Machines. All reads end after a time; without any, there are none. It never fails: a sentence has the error.
pub(super) async fn blocked(
    context: &ControllerContext,
    longest: Duration,
    namespace: &str,
    selects: Selects<'_>,
) -> Vec<String> {
    if longest.is_zero() {
        return Vec::new();
    }
    let end = Instant::now() + longest;
    let api: Api<Machine> = Api::namespaced(context.client.clone(), namespace);
    let machines = match api.list(&ListParams::default()).await {
        Ok(listed) => listed.items,
        Err(error) => return vec![format!("{UNCHECKED} the Machines were not read: {}", text(error))],
    };
    let mut clusters: BTreeMap<ClusterKey, Vec<Machine>> = BTreeMap::new();
    for machine in machines.into_iter().filter(|it| is_drained(it) && selects(it)) {
        let key = ClusterKey { namespace: namespace.to_owned(), name: machine.spec.cluster_name.clone() };
        clusters.entry(key).or_default().push(machine);
    }
    let looks = clusters.iter().map(|(key, machines)| Box::pin(of_cluster(context, key, machines, end)));
    let looks: Vec<_> = looks.collect();
    join_all(looks).await.concat()
}

/// Reports whether the deletion of a Machine would begin a drain.
fn is_drained(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none()
        && !machine.annotations().contains_key(NO_DRAIN)
        && node_name(machine).is_some()
}

fn node_name(machine: &Machine) -> Option<&str> {
    machine.status.as_ref()?.node_ref.as_ref().map(|node| node.name.as_str())
}

/// Returns the sentences about the Machines of one Cluster.
async fn of_cluster(
    context: &ControllerContext,
    key: &ClusterKey,
    machines: &[Machine],
    end: Instant,
) -> Vec<String> {
    let begun = timeout_at(end, Box::pin(begin(context, key))).await;
    let look = match begun.unwrap_or_else(|_| Err(SILENT.to_owned())) {
        Ok(Some(look)) => look,
        Ok(None) => return Vec::new(),
        Err(why) => {
            let why = one_line(&why);
            return vec![format!("{UNCHECKED} the budgets of Cluster {key} were not read: {why}")];
        }
    };
    let checks: Vec<_> = machines.iter().map(|machine| Box::pin(check(&look, machine, end))).collect();
    let checked: Vec<Checked> = stream::iter(checks).buffer_unordered(AT_ONCE).collect().await;
    sentences(key, &checked)
}

/// Connection to a workload cluster in which budgets refuse evictions.
struct Look {
    client: Client,
    budgets: RefusingBudgets,
    rules: Vec<MachineDrainRule>,
    /// Labels of the Cluster.
    labels: Labels,
}

/// Connects to the workload cluster. Returns `None` if no budget refuses a drain.
async fn begin(context: &ControllerContext, key: &ClusterKey) -> Result<Option<Look>, String> {
    let clusters: Api<Cluster> = Api::namespaced(context.client.clone(), &key.namespace);
    let cluster = clusters.get_opt(&key.name).await.map_err(text)?;
    // The Nodes of a Cluster that is being deleted are not drained.
    let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Ok(None);
    };
    let client = connect(context, key).await?;
    let budgets = RefusingBudgets::read(&client).await.map_err(|error| error.to_string())?;
    if budgets.is_empty() {
        return Ok(None);
    }
    let rules: Api<MachineDrainRule> = Api::namespaced(context.client.clone(), &key.namespace);
    let rules = rules.list(&ListParams::default()).await.map_err(text)?.items;
    Ok(Some(Look { client, budgets, rules, labels: cluster.labels().clone() }))
}

/// Returns a client by the kubeconfig that the controllers use. It ends with the plan.
async fn connect(context: &ControllerContext, key: &ClusterKey) -> Result<Client, String> {
    let (namespace, name) = (&key.namespace, kubeconfig_secret_name(&key.name));
    let secret = context.secrets.secret(namespace, &name).await.map_err(text)?;
    let Some(secret) = secret else {
        return Err(format!("Secret {namespace}/{name} with the kubeconfig does not exist"));
    };
    let Some(kubeconfig) = secret.data.as_ref().and_then(|data| data.get("value")) else {
        return Err(format!("Secret {namespace}/{name} has no key value with a kubeconfig"));
    };
    context.workloads.client_of(&kubeconfig.0).await.map_err(|error| error.to_string())
}

/// Checks the evictions on the Node of a Machine.
async fn check(look: &Look, machine: &Machine, end: Instant) -> Checked {
    let rules = drain::matching_rules(&look.rules, Some(machine.labels()), Some(&look.labels));
    let found = match rules {
        Ok(rules) => {
            let node = node_name(machine).unwrap_or_default();
            let found = drain::refusals(&look.client, &look.budgets, node, &rules);
            match timeout_at(end, found).await {
                Ok(found) => found.map_err(|error| error.to_string()),
                Err(_) => Err(SILENT.to_owned()),
            }
        }
        Err(error) => Err(error.to_string()),
    };
    (machine.name_any(), found)
}

/// Returns a sentence for each reason, with the Machines that have it. Pure.
fn sentences(key: &ClusterKey, checked: &[Checked]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut unknown: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (machine, found) in checked {
        match found {
            Ok(found) => found.iter().for_each(|it| reasons.entry(it).or_default().push(machine)),
            Err(why) => unknown.entry(why).or_default().push(machine),
        }
    }
    let named = |machines: &[&str]| {
        let names = list_names(machines.iter().copied(), NAMES);
        format!("{} {names}", plural("Machine", machines.len()))
    };
    let of = |(reason, machines): (&str, Vec<&str>)| {
        format!("{} cannot be drained now: {reason}", named(&machines))
    };
    let mut lines: Vec<String> = reasons.into_iter().map(of).collect();
    lines.extend(unknown.into_iter().map(|(why, machines)| {
        format!("The drains of {} of Cluster {key} are not checked: {why}", named(&machines))
    }));
    // Some reasons are in the words of the API server.
    lines.iter().map(|line| one_line(line)).collect()
}

/// Returns an error of our own API, or of the source of Secrets, for people.
fn text(error: kube::Error) -> String {
    quota_forecast::text(&ReconcileError::Api(error))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apiserver_types::MachineSpec;
    use async_trait::async_trait;
    use controllers_workload::{WorkloadClusters, WorkloadConnector, WorkloadError};
    use serde_json::{Value, json};

    use super::*;
    use crate::api_in_memory::FakeApi;
    use crate::planner;

    /// Path of the objects of the API.
    const OBJECTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns";

    /// Time of the reads.
    const LONGEST: Duration = Duration::from_millis(300);

    /// Connector to a workload cluster that never answers.
    #[derive(Debug)]
    struct Silent;

    #[async_trait]
    impl WorkloadConnector for Silent {
        async fn client(&self, _: &[u8]) -> Result<Client, WorkloadError> {
            std::future::pending().await
        }
    }

    /// Returns an API with the Cluster `blue` and a Machine with a Node.
    fn api(metadata: &Value) -> FakeApi {
        let api = FakeApi::default();
        api.put(&format!("{OBJECTS}/clusters/blue"), json!({"spec": {}}));
        let spec = MachineSpec { cluster_name: "blue".to_owned(), ..MachineSpec::default() };
        let status = json!({"nodeRef": {"name": "n"}});
        let machine = json!({"metadata": metadata, "spec": spec, "status": status});
        api.put(&format!("{OBJECTS}/machines"), json!({"items": [machine]}));
        api
    }

    fn with_kubeconfig(api: &FakeApi) -> ControllerContext {
        api.put("/api/v1/namespaces/ns/secrets/blue-kubeconfig", json!({"data": {"value": "YQ=="}}));
        let workloads = Arc::new(WorkloadClusters::new(Arc::new(Silent)));
        ControllerContext { workloads, ..api.context(planner::IDENTITY) }
    }

    #[test]
    fn a_budget_has_one_sentence_with_the_machines_whose_drains_it_refuses() {
        let key = ClusterKey { namespace: "ns".to_owned(), name: "blue".to_owned() };
        let found = |name: &str, causes: &[&str]| -> Checked {
            (name.to_owned(), Ok(causes.iter().map(|it| (*it).to_owned()).collect()))
        };
        let lost = |name: &str| -> Checked { (name.to_owned(), Err("it is away".to_owned())) };
        let checked = [found("b", &["x", "y"]), found("a", &["x"]), found("c", &[]), lost("e"), lost("d")];
        let expected = [
            "Machines a, b cannot be drained now: x",
            "Machine b cannot be drained now: y",
            "The drains of Machines d, e of Cluster ns/blue are not checked: it is away",
        ];
        assert_eq!(sentences(&key, &checked), expected);
        let many: Vec<Checked> = (10..22).map(|number| found(&format!("m{number}"), &["x"])).collect();
        let line = sentences(&key, &many).concat();
        assert!(line.contains("m19, ... (2 more) cannot be drained now"), "{line}");
    }

    #[tokio::test]
    async fn a_workload_cluster_that_does_not_answer_is_one_sentence_in_time() {
        let context = with_kubeconfig(&api(&json!({"name": "m"})));
        let begun = Instant::now();
        let found = blocked(&context, LONGEST, "ns", &|_| true).await;
        assert!(begun.elapsed() < LONGEST * 10, "{:?}", begun.elapsed());
        let begin = "The drains are not checked, because the budgets of Cluster ns/blue were not read: ";
        assert_eq!(found, [format!("{begin}{SILENT}")]);
        assert_eq!(blocked(&context, Duration::ZERO, "ns", &|_| true).await, [""; 0], "without time");
        assert_eq!(blocked(&context, LONGEST, "ns", &|_| false).await, [""; 0], "no Machine goes");
    }

    #[tokio::test]
    async fn a_cluster_without_a_kubeconfig_and_a_process_without_connections_are_named() {
        let api = api(&json!({"name": "m"}));
        let found = blocked(&api.context(planner::IDENTITY), LONGEST, "ns", &|_| true).await.concat();
        assert!(found.ends_with("Secret ns/blue-kubeconfig with the kubeconfig does not exist"), "{found}");
        let context = planner::context(api.client(), Arc::default());
        let found = blocked(&context, LONGEST, "ns", &|_| true).await.concat();
        assert!(found.ends_with("this process makes no such connection for a plan"), "{found}");
    }

    #[tokio::test]
    async fn a_machine_that_is_not_drained_needs_no_workload_cluster() {
        let excluded = json!({"name": "m", "annotations": {NO_DRAIN: ""}});
        let going = json!({"name": "m", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        for metadata in [excluded, going] {
            let context = with_kubeconfig(&api(&metadata));
            assert_eq!(blocked(&context, LONGEST, "ns", &|_| true).await, [""; 0], "{metadata}");
        }
        let deleted = api(&json!({"name": "m"}));
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        deleted.put(&format!("{OBJECTS}/clusters/blue"), json!({"metadata": metadata, "spec": {}}));
        assert_eq!(blocked(&with_kubeconfig(&deleted), LONGEST, "ns", &|_| true).await, [""; 0]);
    }
}
