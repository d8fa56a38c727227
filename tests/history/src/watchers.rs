//! Those who watch: each as an informer does, from stream to stream.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::client::Stream;
use crate::random::Random;
use crate::record::{Content, Selection, Told, Watcher};
use crate::writers::{GADGETS, Scene, content};

/// How long a watcher may take to come to the end when all is quiet.
const PATIENCE: Duration = Duration::from_secs(20);

/// What comes of one stream.
enum End {
    /// Another from the last revision goes on.
    Resume,
    /// History is gone: everything has to be told anew.
    Anew,
}

struct Watching {
    scene: Scene,
    random: Random,
    /// Its server; other ones go from server to server.
    server: Option<usize>,
    watcher: Watcher,
    seen: Option<u64>,
}

/// Watches until it has been told of `last`, which is sent when nothing comes after it.
pub(crate) async fn run(
    scene: Scene,
    random: Random,
    me: usize,
    selection: Selection,
    last: tokio::sync::watch::Receiver<u64>,
) -> Watcher {
    let server = (me % 3 < 2).then_some(me % 3);
    let place = server.map_or_else(|| "both servers".to_owned(), |server| format!("server {server}"));
    let name = format!("watcher {me} ({selection:?}) of {place}");
    let watcher = Watcher { name, selection, told: Vec::new() };
    let mut watching = Watching { scene, random, server, watcher, seen: None };
    let mut end = last.clone();
    let done = async {
        // Who is told what `last` is has time left to see it.
        let _ = end.wait_for(|last| *last > 0).await;
        tokio::time::sleep(PATIENCE).await;
    };
    tokio::select! {
        () = watching.watch(last) => {}
        () = done => {}
    }
    watching.watcher
}

impl Watching {
    async fn watch(&mut self, last: tokio::sync::watch::Receiver<u64>) {
        loop {
            if let Ok(End::Anew) = self.stream(&last).await {
                self.seen = None;
            }
            let end = *last.borrow();
            if end > 0 && self.seen.is_some_and(|seen| seen >= end) {
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
        let begin = match self.seen {
            Some(seen) => format!("resourceVersion={seen}"),
            None => "sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        format!("{GADGETS}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}{selector}&{begin}")
    }

    /// One stream, from where the last one ended.
    async fn stream(&mut self, last: &tokio::sync::watch::Receiver<u64>) -> anyhow::Result<End> {
        let port = match self.server.and_then(|server| self.scene.ports.get(server)) {
            Some(port) => *port,
            None => self.scene.port(&mut self.random),
        };
        let path = self.path();
        let mut stream = Stream::open(port, &path).await?;
        let mut initial = self.seen.is_none().then(BTreeMap::new);
        let begun = Instant::now();
        while let Some(event) = stream.next().await {
            if event["type"] == "ERROR" {
                let gone = event["object"]["code"] == 410;
                return Ok(if gone { End::Anew } else { End::Resume });
            }
            self.take(&event, &mut initial);
            let end = *last.borrow();
            if end > 0 && self.seen.is_some_and(|seen| seen >= end) || begun.elapsed() > PATIENCE {
                break;
            }
        }
        Ok(End::Resume)
    }

    fn take(&mut self, event: &Value, initial: &mut Option<BTreeMap<String, (u64, Content)>>) {
        let object = &event["object"];
        let name = || object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "BOOKMARK" {
            let revision = object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
            let Some(revision) = revision else { return };
            self.seen = Some(revision);
            let told = initial.take().map_or(Told::Bookmark(revision), |items| Told::State(revision, items));
            self.watcher.told.push(told);
            return;
        }
        let Some((revision, content)) = content(object) else { return };
        match initial {
            Some(items) => {
                items.insert(name(), (revision, content));
            }
            None => {
                self.seen = Some(revision);
                self.watcher.told.push(if kind == "DELETED" {
                    Told::Gone(revision, name(), content)
                } else {
                    Told::Put(revision, name(), content)
                });
            }
        }
    }
}
