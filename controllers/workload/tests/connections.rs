//! Connections to workload clusters, against servers on this host.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod fake;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use controllers_workload::{
    ClusterKey, KubeconfigConnector, RequestRate, Timing, WorkloadChange, WorkloadClusters, WorkloadError,
};
use fake::{Fake, Mode};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Two hundred times as fast as usual.
fn timing() -> Timing {
    Timing {
        probe_interval: Duration::from_millis(50),
        probe_timeout: Duration::from_millis(500),
        first_retry: Duration::from_millis(20),
        retry: Duration::from_millis(200),
        ages: [Duration::from_millis(400), Duration::from_millis(600)],
        ..Timing::default()
    }
}

fn key(name: &str) -> ClusterKey {
    ClusterKey { namespace: "team".to_owned(), name: name.to_owned() }
}

struct Running {
    clusters: Arc<WorkloadClusters>,
    changes: Receiver<WorkloadChange>,
    _task: JoinSet<()>,
}

/// Follows a cluster before and after the start: both must work.
fn start(timing: Timing, follow: impl FnOnce(&WorkloadClusters)) -> Running {
    start_with(KubeconfigConnector::default(), timing, follow)
}

fn start_with(
    connector: KubeconfigConnector,
    timing: Timing,
    follow: impl FnOnce(&WorkloadClusters),
) -> Running {
    let clusters = Arc::new(WorkloadClusters::with_timing(Arc::new(connector), timing));
    let changes = clusters.changes();
    follow(&clusters);
    let mut task = JoinSet::new();
    let running = Arc::clone(&clusters);
    task.spawn(async move { running.run(CancellationToken::new()).await });
    Running { clusters, changes, _task: task }
}

impl Running {
    async fn until(&mut self, wanted: impl Fn(&WorkloadChange) -> bool) -> WorkloadChange {
        let next = async {
            loop {
                let change = self.changes.recv().await.expect("not lagged");
                if wanted(&change) {
                    return change;
                }
            }
        };
        timeout(Duration::from_secs(20), next).await.expect("the change is announced")
    }

    async fn connected(&mut self, name: &str) {
        self.until(|change| *change == WorkloadChange::Connected(key(name))).await;
    }

    async fn until_error(&self, name: &str, part: &str) {
        for _ in 0..500 {
            let error = self.clusters.client(&key(name)).err();
            let probe = self.clusters.probe(&key(name)).error;
            if error.is_some_and(|error| error.to_string().contains(part)) {
                assert!(probe.is_some_and(|text| text.contains(part)));
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
        panic!("not {part:?} but {:?}", self.clusters.client(&key(name)).err());
    }

    fn names(&self, name: &str, id: &str) -> Vec<String> {
        let nodes = self.clusters.nodes_by_provider_id(&key(name), id).expect("connected");
        nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
    }
}

#[tokio::test]
async fn nodes_are_known_from_the_connection_on_and_follow_the_watch() {
    let fake = Fake::start(Mode::Works).await;
    fake.add("a", "openstack:///1");
    let mut running = start(timing(), |clusters| clusters.follow(&key("blue"), &fake.kubeconfig("t")));
    running.connected("blue").await;
    assert_eq!(running.names("blue", "openstack:///1"), ["a"]);
    let node = running.clusters.nodes(&key("blue")).unwrap().remove(0);
    assert_eq!(node.metadata.managed_fields, None);
    assert_eq!(node.status.as_ref().unwrap().images, None);
    while running.names("blue", "openstack:///2").is_empty() {
        fake.send("ADDED", "b", "openstack:///2").await;
        sleep(Duration::from_millis(20)).await;
    }
    let added = running.until(|change| matches!(change, WorkloadChange::Node { .. })).await;
    let WorkloadChange::Node { name, provider_id, .. } = added else { panic!("{added:?}") };
    assert_eq!((name.as_str(), provider_id.as_deref()), ("b", Some("openstack:///2")));
    fake.send("DELETED", "a", "openstack:///1").await;
    running.until(|change| matches!(change, WorkloadChange::Node { name, .. } if name == "a")).await;
    assert!(running.names("blue", "openstack:///1").is_empty());
    assert!(running.clusters.probe(&key("blue")).last_success.is_some());
}

#[tokio::test]
async fn a_watch_without_events_ends_and_the_nodes_are_listed_anew_until_the_server_answers() {
    let fake = Fake::start(Mode::Works).await;
    fake.add("a", "openstack:///1");
    let quick = Timing { watch_silence: Duration::from_millis(50), ..timing() };
    let mut running = start(quick, |clusters| clusters.follow(&key("blue"), &fake.kubeconfig("t")));
    running.connected("blue").await;
    // The first watch stays open, and gets no event of this. Nor does a list that begins now.
    fake.set(Mode::NodesHang);
    fake.remove("a");
    fake.add("b", "openstack:///2");
    let unanswered = async {
        while fake.unanswered() < 2 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), unanswered).await.expect("two lists after the silence");
    assert_eq!(
        running.names("blue", "openstack:///1"),
        ["a"],
        "old Nodes are known until a list is complete"
    );
    fake.set(Mode::Works);
    let listed = async {
        while running.names("blue", "openstack:///2").is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(10), listed).await.expect("a list after the silence");
    assert_eq!(running.names("blue", "openstack:///1"), [""; 0]);
    let node = |change: &WorkloadChange| matches!(change, WorkloadChange::Node { .. });
    running.until(node).await;
    let disconnected = WorkloadChange::Disconnected(key("blue"));
    assert!(!std::iter::from_fn(|| running.changes.try_recv().ok()).any(|it| it == disconnected));
}

#[tokio::test]
async fn five_failed_probes_close_the_connection_and_a_later_attempt_opens_it_again() {
    let fake = Fake::start(Mode::Works).await;
    let mut running = start(timing(), |_| {});
    running.clusters.follow(&key("blue"), &fake.kubeconfig("t"));
    running.connected("blue").await;
    let success = running.clusters.probe(&key("blue")).last_success;
    fake.set(Mode::HtmlOf502);
    running.until(|change| *change == WorkloadChange::Disconnected(key("blue"))).await;
    let probe = running.clusters.probe(&key("blue"));
    assert_eq!(probe.failures, 5);
    assert!(probe.last_success >= success, "it survives the disconnection");
    let error = running.clusters.nodes(&key("blue")).unwrap_err().to_string();
    assert!(error.contains("5 probes failed") && error.contains("HTML instead of JSON"), "{error}");
    running.until(|change| *change == WorkloadChange::ProbeIsOld(key("blue"))).await;
    running.until(|change| *change == WorkloadChange::ProbeIsOld(key("blue"))).await;
    fake.set(Mode::Works);
    running.connected("blue").await;
    assert_eq!(running.clusters.probe(&key("blue")).failures, 0);
    running.clusters.forget(&key("blue"));
    running.until(|change| *change == WorkloadChange::Disconnected(key("blue"))).await;
    assert_eq!(running.clusters.probe(&key("blue")), controllers_workload::Probe::default());
}

#[tokio::test]
async fn refused_credentials_close_the_connection_with_the_first_probe() {
    let fake = Fake::start(Mode::Works).await;
    let mut running = start(timing(), |clusters| clusters.follow(&key("blue"), &fake.kubeconfig("t")));
    running.connected("blue").await;
    fake.set(Mode::Unauthorized);
    running.until(|change| *change == WorkloadChange::Disconnected(key("blue"))).await;
    running.until_error("blue", "Unauthorized (HTTP status 401)").await;
    fake.set(Mode::Works);
    running.connected("blue").await;
}

#[tokio::test]
async fn errors_say_what_the_other_side_did() {
    let html = Fake::start(Mode::Html).await;
    let closed: SocketAddr = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let running = start(timing(), |clusters| {
        clusters.follow(&key("html"), &html.kubeconfig("t"));
        clusters.follow(&key("closed"), &fake::kubeconfig(closed, "t"));
        clusters.follow(&key("broken"), b"no: [kubeconfig");
    });
    running.until_error("html", "answered GET / with HTML instead of JSON").await;
    running.until_error("closed", "Connection refused").await;
    running.until_error("broken", "the kubeconfig of the workload cluster cannot be used").await;
    let unknown = running.clusters.client(&key("unknown")).err();
    assert!(matches!(unknown, Some(WorkloadError::NotConnected(_))));
}

#[tokio::test]
async fn another_kubeconfig_replaces_the_connection_and_the_same_one_does_not() {
    let (old, new) = (Fake::start(Mode::Works).await, Fake::start(Mode::Works).await);
    new.add("a", "openstack:///1");
    let slow = Timing { first_retry: Duration::from_secs(3600), ..timing() };
    let mut running = start(slow, |clusters| clusters.follow(&key("blue"), &old.kubeconfig("t")));
    running.connected("blue").await;
    running.clusters.follow(&key("blue"), &old.kubeconfig("t"));
    let probes = old.probes();
    while old.probes() < probes + 2 {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(running.changes.is_empty(), "nothing was announced");
    running.clusters.follow(&key("blue"), &new.kubeconfig("t"));
    running.until(|change| *change == WorkloadChange::Disconnected(key("blue"))).await;
    running.connected("blue").await;
    assert_eq!(running.names("blue", "openstack:///1"), ["a"]);
}

#[tokio::test]
async fn clusters_that_do_not_answer_slow_no_other() {
    let (hanging, works) = (Fake::start(Mode::Hangs).await, Fake::start(Mode::Works).await);
    let slow = Timing { probe_timeout: Duration::from_secs(5), ..timing() };
    let mut running = start(slow, |clusters| {
        for number in 0..20 {
            clusters.follow(&key(&format!("hanging-{number}")), &hanging.kubeconfig("t"));
        }
        clusters.follow(&key("works"), &works.kubeconfig("t"));
    });
    timeout(Duration::from_secs(4), running.connected("works")).await.expect("before the others time out");
    let probes = works.probes();
    sleep(Duration::from_millis(500)).await;
    assert!(works.probes() > probes + 2, "it is probed in time");
}

#[tokio::test]
async fn more_clusters_that_do_not_answer_than_are_dialed_at_once_slow_no_other() {
    let (hanging, works) = (Fake::start(Mode::Hangs).await, Fake::start(Mode::Works).await);
    let patience = Duration::from_millis(100);
    let few = Timing { probe_timeout: Duration::from_secs(5), dials: 2, patience, ..timing() };
    let mut running = start(few, |clusters| {
        for number in 0..20 {
            clusters.follow(&key(&format!("hanging-{number}")), &hanging.kubeconfig("t"));
        }
    });
    sleep(Duration::from_millis(200)).await;
    running.clusters.follow(&key("works"), &works.kubeconfig("t"));
    timeout(Duration::from_secs(4), running.connected("works")).await.expect("before the others time out");
}

#[tokio::test]
async fn requests_keep_the_rate_and_probes_do_not_wait_behind_them() {
    let fake = Fake::start(Mode::Works).await;
    // The list and the watch on Nodes are the burst.
    let connector = KubeconfigConnector { rate: RequestRate { qps: 2.0, burst: 2 } };
    let follow = |clusters: &WorkloadClusters| clusters.follow(&key("blue"), &fake.kubeconfig("t"));
    let mut running = start_with(connector, timing(), follow);
    running.connected("blue").await;
    let mut requests = JoinSet::new();
    for _ in 0..20 {
        let nodes = Api::<Node>::all(running.clusters.client(&key("blue")).unwrap());
        requests.spawn(async move { nodes.list(&ListParams::default()).await.unwrap() });
    }
    let probes = fake.probes();
    sleep(Duration::from_millis(1800)).await;
    let mut answered = 0;
    while requests.try_join_next().is_some() {
        answered += 1;
    }
    assert!((1..=5).contains(&answered), "{answered} requests in two seconds, with two per second");
    assert!(fake.probes() > probes + 5, "the probes go on");
    assert!(running.changes.is_empty(), "the connection stays");
}
