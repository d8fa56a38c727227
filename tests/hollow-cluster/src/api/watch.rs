//! Watches.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::request::{Request, Target};
use super::selector::Selector;
use super::serve::{ApiServer, Body};
use super::store::Event;
use crate::cluster::Cluster;

/// Longest watch, like the default of kube-apiserver.
const LIFETIME: Duration = Duration::from_secs(30 * 60);

/// Interval of bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// State of one watch.
struct Watcher {
    cluster: Arc<Cluster>,
    target: Target,
    selector: Selector,
    revision: u64,
    changes: Receiver<u64>,
    ready: VecDeque<Bytes>,
    end: Instant,
    bookmarks: bool,
    stop: CancellationToken,
    finished: bool,
}

/// Starts a watch.
pub(crate) fn handle(
    server: &ApiServer,
    request: &Request,
    target: &Target,
    selector: Selector,
) -> Result<Response<Body>, Failure> {
    let store = &server.cluster.store;
    let changes = store.subscribe();
    let wanted = request.parameter("resourceVersion");
    let bookmarks = ["true", "1"].contains(&request.parameter("allowWatchBookmarks"));
    let seconds: u64 = request.parameter("timeoutSeconds").parse().unwrap_or_default();
    let lifetime = if seconds == 0 { LIFETIME } else { Duration::from_secs(seconds) };
    let mut watcher = Watcher {
        cluster: Arc::clone(&server.cluster),
        target: target.clone(),
        selector,
        revision: 0,
        changes,
        ready: VecDeque::new(),
        end: Instant::now() + lifetime,
        bookmarks,
        stop: server.stop.clone(),
        finished: false,
    };
    let initial = ["true", "1"].contains(&request.parameter("sendInitialEvents"));
    if initial || wanted.is_empty() || wanted == "0" {
        watcher.begin_with_present_state(initial);
    } else {
        let invalid = || Failure::bad_request(format!("invalid resource version {wanted:?}"));
        watcher.revision = wanted.parse().map_err(|_| invalid())?;
        watcher.collect()?;
    }
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(bytes)), watcher))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn line(kind: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{}\n", json!({"type": kind, "object": object})))
}

impl Watcher {
    fn begin_with_present_state(&mut self, streaming_list: bool) {
        let (objects, revision) =
            self.cluster.store.list(self.target.kind.plural, self.target.namespace.as_deref());
        let accepted = objects.iter().filter(|object| self.selector.accepts(object));
        self.ready.extend(accepted.map(|object| line("ADDED", object)));
        self.revision = revision;
        if streaming_list {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            self.bookmark(&annotations);
        }
    }

    fn bookmark(&mut self, annotations: &Value) {
        let object = json!({
            "apiVersion": self.target.kind.api_version(), "kind": self.target.kind.kind,
            "metadata": {"resourceVersion": self.revision.to_string(), "annotations": annotations},
        });
        self.ready.push_back(line("BOOKMARK", &object));
    }

    /// Moves the changes since the last revision into the queue.
    fn collect(&mut self) -> Result<(), Failure> {
        for event in self.cluster.store.since(self.revision)? {
            self.revision = event.revision;
            if let Some(bytes) = self.translate(&event) {
                self.ready.push_back(bytes);
            }
        }
        Ok(())
    }

    /// Returns the change as this watch sees it: an object that leaves the selection is deleted.
    fn translate(&self, event: &Event) -> Option<Bytes> {
        let namespace = crate::json::text(&event.object, "/metadata/namespace");
        let elsewhere = self.target.namespace.as_ref().is_some_and(|wanted| wanted != namespace);
        if event.plural != self.target.kind.plural || elsewhere {
            return None;
        }
        let accepted = |object: &Arc<Value>| self.selector.accepts(object);
        let before = event.before.as_ref().is_some_and(accepted);
        let after = !event.deleted && accepted(&event.object);
        let kind = match (before, after) {
            (false, true) => "ADDED",
            (true, true) => "MODIFIED",
            (true, false) => "DELETED",
            (false, false) => return None,
        };
        Some(line(kind, &event.object))
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            if self.finished {
                return None;
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = tokio::time::sleep(BOOKMARKS), if self.bookmarks => self.bookmark(&json!({})),
                () = tokio::time::sleep_until(self.end) => return None,
                () = self.stop.cancelled() => return None,
            }
            if let Err(failure) = self.collect() {
                self.ready.push_back(line("ERROR", &failure.status()));
                self.finished = true;
            }
        }
    }
}
