//! Connection to one workload cluster: attempts, probes, and the watch on Nodes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::Request;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use tokio::sync::{Semaphore, watch as values};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::clusters::WorkloadChange;
use crate::error::{NO_API_SERVER, is_unauthorized, looks_like_html, shortened};
use crate::followed::{Drive, Followed};
use crate::nodes::Nodes;
use crate::timing::jittered;
use crate::{Timing, WorkloadConnector, describe};

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) connector: Arc<dyn WorkloadConnector>,
    pub(crate) timing: Timing,
    /// One permit per attempt that runs.
    pub(crate) dials: Semaphore,
}

/// End of an attempt or a connection.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// There was no connection.
    NotConnected(String),
    /// Too many probes failed.
    Lost(String),
    /// The server refused the credentials of a connection that worked before.
    Unauthorized(String),
    /// No watch works, so the Nodes are old.
    Stale(String),
    /// The kubeconfig differs.
    Replaced,
}

/// Error of a request.
struct Failure {
    text: String,
    unauthorized: bool,
}

impl Failure {
    fn of(error: &kube::Error) -> Self {
        Self { text: describe(error), unauthorized: is_unauthorized(error) }
    }

    fn other(text: String) -> Self {
        Self { text, unauthorized: false }
    }
}

/// Nodes in one page of a list: with their images, a page is a few MiB.
const PAGE: u32 = 100;

/// Keeps the connection to a cluster until it is forgotten.
///
/// Cancel safety: may be dropped at any moment.
pub(crate) async fn drive(drive: Drive, dialer: Arc<Dialer>) {
    let followed = &drive.0;
    tokio::select! {
        () = followed.closed.cancelled() => {}
        () = keep_connected(followed, &dialer) => {}
        () = announce_ages(followed, &dialer.timing) => {}
    }
}

async fn keep_connected(followed: &Followed, dialer: &Dialer) {
    let timing = &dialer.timing;
    let mut kubeconfig = followed.kubeconfig.subscribe();
    let mut fast_until = Some(Instant::now() + timing.first_retries_for);
    loop {
        let current = Arc::clone(&kubeconfig.borrow_and_update());
        let end = tokio::select! {
            biased;
            () = changed(&mut kubeconfig) => End::Replaced,
            end = connect_once(followed, dialer, &current) => end,
        };
        let (pause, reason) = match end {
            End::Replaced => {
                fast_until = Some(Instant::now() + timing.first_retries_for);
                (Duration::ZERO, "the kubeconfig was replaced".to_owned())
            }
            // At once, but no faster than first attempts: a server may refuse again and again.
            End::Unauthorized(reason) | End::Stale(reason) => (jittered(timing.first_retry), reason),
            End::Lost(reason) => {
                fast_until = None;
                (jittered(timing.retry), reason)
            }
            End::NotConnected(reason) => {
                let fast = fast_until.is_some_and(|end| Instant::now() < end);
                (jittered(if fast { timing.first_retry } else { timing.retry }), reason)
            }
        };
        followed.disconnected(&reason);
        tokio::select! {
            () = changed(&mut kubeconfig) => {
                fast_until = Some(Instant::now() + timing.first_retries_for);
            }
            () = sleep(pause) => {}
        }
    }
}

/// Waits for another kubeconfig.
async fn changed(kubeconfig: &mut values::Receiver<Arc<[u8]>>) {
    if kubeconfig.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Connects, and keeps the connection until it ends.
async fn connect_once(followed: &Followed, dialer: &Dialer, kubeconfig: &[u8]) -> End {
    let client = match dial(dialer, kubeconfig).await {
        Ok(client) => client,
        Err(failure) => {
            followed.probed(Err(failure.text.clone()));
            return End::NotConnected(failure.text);
        }
    };
    let mut events = events_of_nodes(&client);
    let listed = timeout(dialer.timing.first_sync, first_list(&mut events)).await;
    let nodes = match listed {
        Ok(Ok(nodes)) => nodes,
        Ok(Err(failure)) => return not_listed(followed, &failure.text),
        Err(_) => return not_listed(followed, "the list did not end in time"),
    };
    // Not before: a server that answers and lists no Nodes is no workload cluster that can be used.
    followed.probed(Ok(()));
    followed.connected(client.clone(), nodes);
    tokio::select! {
        end = keep_probing(followed, &client, &dialer.timing) => end,
        end = keep_watching(followed, &dialer.timing, &client, events) => end,
    }
}

/// Lists the Nodes, and watches them.
fn events_of_nodes(client: &Client) -> BoxStream<'static, Events<Node>> {
    let config = watcher::Config::default().page_size(PAGE);
    watch(Api::<Node>::all(client.clone()), config).default_backoff().boxed()
}

fn not_listed(followed: &Followed, cause: &str) -> End {
    let text = format!("cannot list Nodes: {cause}");
    followed.probed(Err(text.clone()));
    End::NotConnected(text)
}

/// Creates a client, and asks the server for a first answer. Servers that do not answer hold no other cluster up.
async fn dial(dialer: &Dialer, kubeconfig: &[u8]) -> Result<Client, Failure> {
    // Without a permit the semaphore is closed, which never happens.
    let permit = dialer.dials.acquire().await.ok();
    let mut attempt = pin!(attempt(dialer, kubeconfig));
    if let Ok(done) = timeout(dialer.timing.patience, &mut attempt).await {
        return done;
    }
    drop(permit);
    attempt.await
}

async fn attempt(dialer: &Dialer, kubeconfig: &[u8]) -> Result<Client, Failure> {
    let client = timeout(dialer.timing.probe_timeout, dialer.connector.client(kubeconfig)).await;
    let client =
        client.map_err(|_| Failure::other("the creation of a client did not end in time".to_owned()))?;
    let client = client.map_err(|error| Failure::other(error.to_string()))?;
    probe(&client, dialer.timing.probe_timeout).await?;
    Ok(client)
}

/// Reads the root document of the API.
async fn probe(client: &Client, limit: Duration) -> Result<(), Failure> {
    let request = Request::get("/").body(Vec::new());
    let request = request.map_err(|error| Failure::other(error.to_string()))?;
    let answer = timeout(limit, client.request_text(request)).await;
    let answer = answer
        .map_err(|_| Failure::other(format!("no answer to GET / within {:.1} s", limit.as_secs_f64())))?;
    let text = answer.map_err(|error| Failure::of(&error))?;
    if text.trim_start().starts_with('{') {
        return Ok(());
    }
    Err(Failure::other(if looks_like_html(&text) {
        format!("the server answered GET / with HTML instead of JSON{NO_API_SERVER}")
    } else {
        format!("the server answered GET / with {:?} instead of JSON{NO_API_SERVER}", shortened(&text))
    }))
}

async fn keep_probing(followed: &Followed, client: &Client, timing: &Timing) -> End {
    loop {
        sleep(jittered(timing.probe_interval)).await;
        let Err(failure) = probe(client, timing.probe_timeout).await else {
            followed.probed(Ok(()));
            continue;
        };
        let failures = followed.probed(Err(failure.text.clone()));
        if failure.unauthorized {
            return End::Unauthorized(failure.text);
        }
        if failures >= timing.probe_failures {
            return End::Lost(format!("{failures} probes failed, the last one with: {}", failure.text));
        }
    }
}

/// Number of times of `watch_silence` without an event after which the Nodes are listed anew. A server that was replaced behind its
/// address ends no connection, so its watch is silent for ever. The Nodes of a small cluster may be silent for minutes.
const SILENT: u32 = 2;

/// Events of the watch on Nodes.
type Events<T> = Result<Event<T>, watcher::Error>;

/// Reads the first complete list.
async fn first_list(events: &mut (impl Stream<Item = Events<Node>> + Unpin)) -> Result<Nodes, Failure> {
    let mut nodes = Nodes::default();
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| watch_failure(&error))?;
        let complete = matches!(event, Event::InitDone);
        nodes.observe(event);
        if nodes.is_full() {
            return Err(Failure::other(format!("there are more than {} Nodes", Nodes::MOST)));
        }
        if complete {
            return Ok(nodes);
        }
    }
    Err(Failure::other("the watch ended".to_owned()))
}

/// Follows the Nodes. Kube's watcher ends each watch after five minutes and begins another one. Where no watch works, the
/// connection ends, and the next one lists the Nodes anew.
async fn keep_watching(
    followed: &Followed,
    timing: &Timing,
    client: &Client,
    mut events: BoxStream<'static, Events<Node>>,
) -> End {
    let (mut failures, mut quiet) = (0, 0);
    loop {
        let Ok(event) = timeout(timing.watch_silence, events.next()).await else {
            (failures, quiet) = (0, quiet + 1);
            followed.watched(None);
            if quiet == SILENT {
                (events, quiet) = (events_of_nodes(client), 0);
            }
            continue;
        };
        quiet = 0;
        match event.map(|event| event.map_err(|error| watch_failure(&error))) {
            Some(Ok(event)) => {
                failures = 0;
                followed.watched(None);
                followed.observe(event);
            }
            Some(Err(failure)) if failure.unauthorized => {
                followed.probed(Err(failure.text.clone()));
                return End::Unauthorized(failure.text);
            }
            Some(Err(failure)) => {
                tracing::debug!(cluster = %followed.key, error = failure.text, "watch on Nodes failed");
                failures += 1;
                // One failure is the usual end of a connection.
                if failures > 1 {
                    followed.watched(Some(&failure.text));
                }
                if failures >= timing.probe_failures {
                    let last = failure.text;
                    return End::Stale(format!(
                        "{failures} watches on Nodes failed, the last one with: {last}"
                    ));
                }
            }
            None => return End::Lost("the watch on Nodes ended".to_owned()),
        }
    }
}

fn watch_failure(error: &watcher::Error) -> Failure {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Failure::of(error),
        watcher::Error::WatchError(status) => Failure::of(&kube::Error::Api(status.clone())),
        watcher::Error::NoResourceVersion => Failure::other(error.to_string()),
    }
}

/// Announces that the last successful probe reaches an age, once per age.
async fn announce_ages(followed: &Followed, timing: &Timing) {
    let mut last_success = followed.last_success.subscribe();
    loop {
        let since = *last_success.borrow_and_update();
        let announced = async {
            for age in timing.ages {
                sleep_until(since + age).await;
                followed.announce(WorkloadChange::ProbeIsOld(followed.key.clone()));
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            changed = last_success.changed() => if changed.is_err() { return },
            () = announced => {}
        }
    }
}
