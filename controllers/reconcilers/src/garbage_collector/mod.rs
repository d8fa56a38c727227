//! Garbage collector: deletes objects whose owners are absent, and orders deletions that request it.
//!
//! - *Background*: an object whose owners are all absent is deleted.
//! - *Foreground*: an owner with the finalizer `foregroundDeletion` is deleted after the dependents
//!   that block it. A dependent with another owner that stays loses the reference instead.
//! - *Orphan*: an owner with the finalizer `orphan` is deleted after its dependents have lost the
//!   reference.
//!
//! Level-triggered: the graph contains what the watches report, and `decide` compares. No object is
//! deleted because of a watch alone: an owner counts as absent only if the API confirms it, and every
//! deletion names the uid of its object. So several collectors do not disturb each other.

mod act;
mod decide;
mod graph;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, Queue, Recorder, ServedKind, WithoutManagedFields,
};
use futures::StreamExt;
use futures::stream::select_all;
use kube::api::{Api, DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Error, ResourceExt};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use graph::{Graph, Node, Uid};

/// Interval before a failed step is retried: longer than a brief failure.
const AGAIN: Duration = Duration::from_secs(1);

/// Least interval before a step that the server refused is retried. Other steps do not wait for it, because an object may
/// be protected for long.
const REFUSED: Duration = Duration::from_secs(30);

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "garbage-collector",
    rules: &[PolicyRule {
        groups: &["*"],
        resources: &["*"],
        verbs: &["get", "list", "watch", "patch", "delete"],
    }],
    run: |context, shutdown| Box::pin(GarbageCollector::new(&context).run(shutdown)),
};

/// Garbage collector over a list of kinds.
struct GarbageCollector {
    client: Client,
    kinds: Arc<[ServedKind]>,
    events: Recorder,
    queue: Arc<Queue>,
}

/// Component of the collector's Events: upstream's name, which users search for.
const COMPONENT: &str = "garbage-collector-controller";

impl std::fmt::Debug for GarbageCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GarbageCollector").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// Name of the queue in metrics: that of upstream's most important queue. Ours does the work of all
/// three of upstream's.
const QUEUE: &str = "garbage_collector_attempt_to_delete";

/// Watch event of one kind.
type KindEvent = (usize, Event<PartialObjectMeta<DynamicObject>>);

impl GarbageCollector {
    fn new(context: &ControllerContext) -> Self {
        Self {
            events: Recorder::new(context.client.clone(), COMPONENT),
            client: context.client.clone(),
            kinds: Arc::clone(&context.kinds),
            queue: context.queues.queue(QUEUE),
        }
    }

    /// Collects until `shutdown`.
    async fn run(self, shutdown: CancellationToken) {
        let streams = self.kinds.iter().enumerate().map(|(index, kind)| {
            let api: Api<WithoutManagedFields<PartialObjectMeta<DynamicObject>>> =
                Api::all_with(self.client.clone(), &kind.resource);
            let stream = watcher(api, watcher::Config::default());
            // Each watch restarts by itself; here only its rate is bounded.
            Box::pin(stream.filter_map(move |item| async move {
                match item {
                    Ok(event) => Some((index, WithoutManagedFields::event(event))),
                    Err(error) => {
                        tracing::debug!(%error, "watch of the garbage collector failed; restarting it");
                        tokio::time::sleep(AGAIN).await;
                        None
                    }
                }
            }))
        });
        let mut events = select_all(streams);
        let mut state = State::new(&self.kinds, Arc::clone(&self.queue));
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                event = events.next() => match event {
                    Some(event) => state.take(event),
                    None => return,
                },
                () = state.work_is_due(), if state.is_complete() && !state.queue.is_empty() => {
                    self.work(&mut state).await;
                }
            }
        }
    }

    /// Makes one step for one object.
    async fn work(&self, state: &mut State) {
        let Some(uid) = state.queue.pop_first() else { return };
        let _work = self.queue.begin(&uid);
        let Some(step) = decide::next_step(&state.graph, &uid) else { return };
        match self.act(&state.graph, &step).await {
            Ok(()) => {}
            Err(Error::Api(status)) if status.code == 403 => {
                self.report_refusal(&state.graph, &uid, &status.message).await;
                state.refused.insert(uid, Instant::now() + REFUSED);
            }
            Err(error) => {
                tracing::warn!(%error, ?step, "step of the garbage collector failed; retrying");
                state.not_before = Some(Instant::now() + AGAIN);
                self.queue.add_after(&uid, AGAIN);
                state.queue.insert(uid);
            }
        }
    }
}

/// Graph, and the objects that need a step.
struct State {
    graph: Graph,
    queue: BTreeSet<Uid>,
    measured: Arc<Queue>,
    listed: Vec<bool>,
    listed_uids: Vec<BTreeSet<Uid>>,
    not_before: Option<Instant>,
    /// Objects whose step the server refused, and the time from which it is retried.
    refused: BTreeMap<Uid, Instant>,
}

impl State {
    fn new(kinds: &Arc<[ServedKind]>, measured: Arc<Queue>) -> Self {
        Self {
            graph: Graph::of(Arc::clone(kinds)),
            queue: BTreeSet::new(),
            measured,
            listed: vec![false; kinds.len()],
            listed_uids: vec![BTreeSet::new(); kinds.len()],
            not_before: None,
            refused: BTreeMap::new(),
        }
    }

    /// Returns true if every kind has been listed. Before that, an owner may only seem to be absent.
    fn is_complete(&self) -> bool {
        self.listed.iter().all(|listed| *listed)
    }

    async fn work_is_due(&self) {
        if let Some(at) = self.not_before {
            tokio::time::sleep_until(at).await;
        }
    }

    fn take(&mut self, (kind, event): KindEvent) {
        self.retry_refused(Instant::now());
        match event {
            Event::Apply(object) => {
                if let Some(node) = Node::read(kind, &object) {
                    self.put(node);
                }
            }
            Event::Delete(object) => self.remove(&object.uid().unwrap_or_default()),
            Event::Init => {
                if let Some(listed) = self.listed_uids.get_mut(kind) {
                    listed.clear();
                }
            }
            Event::InitApply(object) => {
                let Some(node) = Node::read(kind, &object) else { return };
                if let Some(listed) = self.listed_uids.get_mut(kind) {
                    listed.insert(node.uid.clone());
                }
                self.put(node);
            }
            Event::InitDone => self.finish_list(kind),
        }
    }

    /// Removes the objects that a complete list no longer contains.
    fn finish_list(&mut self, kind: usize) {
        let listed = self.listed_uids.get_mut(kind).map(std::mem::take).unwrap_or_default();
        for uid in self.graph.of_kind(kind) {
            if !listed.contains(&uid) {
                self.remove(&uid);
            }
        }
        if let Some(listed) = self.listed.get_mut(kind) {
            *listed = true;
        }
    }

    fn put(&mut self, node: Node) {
        self.not_before = None;
        let mut concerned = vec![node.uid.clone()];
        concerned.extend(node.owners.iter().map(|owner| owner.uid.clone()));
        concerned.extend(self.graph.dependents(&node.uid));
        // An owner that lost a dependent may have waited for that.
        let before = self.graph.get(&node.uid).into_iter().flat_map(|before| &before.owners);
        concerned.extend(before.map(|owner| owner.uid.clone()));
        self.graph.put(node);
        self.enqueue(concerned);
    }

    fn remove(&mut self, uid: &str) {
        self.not_before = None;
        let mut concerned = self.graph.dependents(uid);
        if let Some(node) = self.graph.remove(uid) {
            concerned.extend(node.owners.into_iter().map(|owner| owner.uid));
        }
        self.enqueue(concerned);
    }

    /// Adds the refused objects whose interval has passed to the queue. Events of any object are frequent enough.
    fn retry_refused(&mut self, now: Instant) {
        let due: Vec<Uid> =
            self.refused.iter().filter(|(_, at)| **at <= now).map(|(uid, _)| uid.clone()).collect();
        self.refused.retain(|_, at| *at > now);
        self.enqueue(due);
    }

    fn enqueue(&mut self, concerned: Vec<Uid>) {
        for uid in &concerned {
            self.measured.add(uid);
        }
        self.queue.extend(concerned);
    }
}

#[cfg(test)]
mod tests;
