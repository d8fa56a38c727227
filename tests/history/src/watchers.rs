//! Clients that watch: each one works like an informer, from stream to stream.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::client::Stream;
use crate::random::Random;
use crate::record::{Content, Delivery, Selection, Watcher};
use crate::writers::{GADGETS, RunContext, content};

/// Longest time of a watcher to reach the end when no more changes are made.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(20);

/// Reason for the end of a stream.
enum StreamEnd {
    /// Another stream continues at the last revision.
    Resume,
    /// The history is compacted: the next stream begins with the initial state.
    Restart,
}

struct WatcherTask {
    context: RunContext,
    random: Random,
    /// The watcher's server; `None` for a watcher that changes servers.
    server: Option<usize>,
    watcher: Watcher,
    received: Option<u64>,
}

/// Watches until it has received `last`, which is sent when no change follows it.
pub(crate) async fn run(
    context: RunContext,
    random: Random,
    me: usize,
    selection: Selection,
    last: tokio::sync::watch::Receiver<u64>,
) -> Watcher {
    let server = (me % 3 < 2).then_some(me % 3);
    let servers = server.map_or_else(|| "both servers".to_owned(), |server| format!("server {server}"));
    let name = format!("watcher {me} ({selection:?}) of {servers}");
    let watcher = Watcher { name, selection, deliveries: Vec::new() };
    let mut watching = WatcherTask { context, random, server, watcher, received: None };
    let mut end = last.clone();
    let done = async {
        // When `last` is known, the watcher has some time left to receive it.
        let _ = end.wait_for(|last| *last > 0).await;
        tokio::time::sleep(CATCH_UP_TIMEOUT).await;
    };
    tokio::select! {
        () = watching.watch(last) => {}
        () = done => {}
    }
    watching.watcher
}

impl WatcherTask {
    async fn watch(&mut self, last: tokio::sync::watch::Receiver<u64>) {
        loop {
            if let Ok(StreamEnd::Restart) = self.stream(&last).await {
                self.received = None;
            }
            let end = *last.borrow();
            if end > 0 && self.received.is_some_and(|received| received >= end) {
                return;
            }
            tokio::time::sleep(self.random.between(5, 100)).await;
        }
    }

    fn path(&mut self) -> String {
        let selector = match self.watcher.selection {
            Selection::All => "",
            Selection::Odd => "&labelSelector=odd",
        };
        let seconds = 3 + self.random.below(4);
        let begin = match self.received {
            Some(received) => format!("resourceVersion={received}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        format!("{GADGETS}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{selector}&{begin}")
    }

    /// Reads one stream, from the position at which the last one ended.
    async fn stream(&mut self, last: &tokio::sync::watch::Receiver<u64>) -> anyhow::Result<StreamEnd> {
        let port = match self.server.and_then(|server| self.context.ports.get(server)) {
            Some(port) => *port,
            None => self.context.port(&mut self.random),
        };
        let path = self.path();
        let mut stream = Stream::open(port, &path).await?;
        let mut initial = self.received.is_none().then(BTreeMap::new);
        let begun = Instant::now();
        while let Some(event) = stream.next().await {
            if event["type"] == "ERROR" {
                let gone = event["object"]["code"] == 410;
                return Ok(if gone { StreamEnd::Restart } else { StreamEnd::Resume });
            }
            self.record(&event, &mut initial);
            let end = *last.borrow();
            if end > 0 && self.received.is_some_and(|received| received >= end)
                || begun.elapsed() > CATCH_UP_TIMEOUT
            {
                break;
            }
        }
        Ok(StreamEnd::Resume)
    }

    fn record(&mut self, event: &Value, initial: &mut Option<BTreeMap<String, (u64, Content)>>) {
        let object = &event["object"];
        let name = || object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "BOOKMARK" {
            let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            let Some(revision) = revision else { return };
            self.received = Some(revision);
            let delivery =
                initial.take().map_or(Delivery::Bookmark(revision), |items| Delivery::State(revision, items));
            self.watcher.deliveries.push(delivery);
            return;
        }
        let Some((revision, content)) = content(object) else { return };
        match initial {
            Some(items) => {
                items.insert(name(), (revision, content));
            }
            None => {
                self.received = Some(revision);
                self.watcher.deliveries.push(if kind == "DELETED" {
                    Delivery::Gone(revision, name(), content)
                } else {
                    Delivery::Put(revision, name(), content)
                });
            }
        }
    }
}
