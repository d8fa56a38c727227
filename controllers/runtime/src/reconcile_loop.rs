//! Reconcile loop over the objects of one kind.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use apiserver_trace::{Kind, Parent, Span};
use controllers_infrastructure::CallScope;
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use kube::runtime::controller::{ReconcileRequest, trigger_with};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::StreamBackoff;
use kube::runtime::watcher::{self, DefaultBackoff};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::drain::until_drained;
use crate::long_wait::HeldSlot;
use crate::schedule::Schedule;
use crate::slots::Slots;
use crate::without_managed_fields::events;
use crate::{Backoff, NamespaceWeights, Passes, Queue, Queues, Requeue, api_text};

/// Shortest interval after a failure of the API itself.
const AGAIN: Duration = Duration::from_secs(2);

/// Longest interval after failures of the API itself in a row. An outage of the API ends without a change of the objects, so
/// that their work begins again only with the next attempt.
const LONGEST_AGAIN: Duration = Duration::from_secs(20);

/// Label with the name of an object's cluster.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Streams that trigger passes.
type Triggers<K> = SelectAll<BoxStream<'static, Result<ReconcileRequest<K>, watcher::Error>>>;

/// Loop that makes a pass over an object when it or a related one changes, and when it is due.
///
/// The same as kube's `Controller`, except that namespaces and their clusters take turns, and that it exposes its queue for
/// metrics.
pub struct ReconcileLoop<K: Resource<DynamicType = ()> + 'static> {
    triggers: Triggers<K>,
    store: Store<K>,
    slots: Slots,
    queue: Arc<Queue>,
    passes: Passes,
    weights: Arc<NamespaceWeights>,
}

impl<K: Resource<DynamicType = ()>> Debug for ReconcileLoop<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReconcileLoop").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl<K> ReconcileLoop<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    /// Creates a loop over `objects`, up to `concurrency` at the same time in turns. A quarter as many more are for
    /// clusters and namespaces with few passes. `name` is the controller's in metrics.
    ///
    /// The loop keeps all objects in memory, without their field managers. A pass begins with such an object, which may be
    /// old.
    pub fn new(objects: Api<K>, concurrency: u16, queues: &Queues, name: &'static str) -> Self {
        Self::reduced(objects, concurrency, queues, name, |_| {})
    }

    /// Creates a loop like [`new`](Self::new), which keeps less of each object: `reduce` removes fields that no watch reads.
    /// Passes read the removed fields from the API.
    pub fn reduced(
        objects: Api<K>,
        concurrency: u16,
        queues: &Queues,
        name: &'static str,
        reduce: impl FnMut(&mut K) + Send + 'static,
    ) -> Self {
        let writer = Writer::default();
        let store = writer.as_reader();
        let reported = kept(events(objects), writer, reduce);
        let mut triggers = SelectAll::new();
        triggers.push(trigger_with(reported, |object: K| Some(ObjectRef::from_obj(&object))).boxed());
        Self {
            triggers,
            store,
            slots: Slots::new(concurrency),
            queue: queues.queue(name),
            passes: queues.passes(name, concurrency),
            weights: queues.weights(),
        }
    }

    /// Returns the objects as the watch has reported them.
    pub fn store(&self) -> Store<K> {
        self.store.clone()
    }

    /// Triggers passes when `others` change, too: over the objects that `concerned` returns.
    #[must_use]
    pub fn watches<Other, I>(
        mut self,
        others: Api<Other>,
        concerned: impl Fn(Other) -> I + Send + Sync + 'static,
    ) -> Self
    where
        Other: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
        I: IntoIterator<Item = ObjectRef<K>> + 'static,
        I::IntoIter: Send,
    {
        let reported = events(others).touched_objects();
        self.triggers.push(trigger_with(reported, concerned).boxed());
        self
    }

    /// Triggers passes for each item of a stream, too: over the objects that `concerned` returns.
    #[must_use]
    pub fn triggered_by<T, I>(
        mut self,
        stream: impl Stream<Item = T> + Send + 'static,
        concerned: impl Fn(T) -> I + Send + Sync + 'static,
    ) -> Self
    where
        T: Send + 'static,
        I: IntoIterator<Item = ObjectRef<K>> + 'static,
        I::IntoIter: Send,
    {
        self.triggers.push(trigger_with(stream.map(Ok), concerned).boxed());
        self
    }

    /// Makes passes until `shutdown`. Then it begins no more passes, and returns when those with a call in flight that
    /// changes a cloud have ended, after 20 seconds at most. It drops the others at once.
    ///
    /// Cancel safety: may be dropped at any moment.
    pub async fn run<F, P>(self, pass: F, shutdown: CancellationToken)
    where
        F: Fn(Arc<K>) -> P + Send + 'static,
        P: Future<Output = Result<Requeue, kube::Error>> + Send + 'static,
    {
        let Self { triggers, store, slots, queue, passes, weights } = self;
        let schedule = Schedule::new(slots, weights);
        let failures = Arc::default();
        let running = Running { store, queue, passes, failures, pass, shutdown: shutdown.clone() };
        let mut tasks = JoinSet::new();
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = running.until_the_triggers_end(triggers, schedule, &mut tasks) => return,
        }
        while tasks.join_next().await.is_some() {}
    }
}

/// Keeps the reduced objects of a watch in a store, and returns those that were created or changed.
fn kept<K>(
    events: impl Stream<Item = Result<watcher::Event<K>, watcher::Error>> + Send,
    writer: Writer<K>,
    reduce: impl FnMut(&mut K) + Send,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
{
    reflector(writer, events.modify(reduce)).applied_objects()
}

/// Loop that makes passes.
struct Running<K: Resource<DynamicType = ()> + 'static, F> {
    store: Store<K>,
    queue: Arc<Queue>,
    passes: Passes,
    /// Failures of the API in a row, by key.
    failures: Arc<Backoff>,
    pass: F,
    shutdown: CancellationToken,
}

/// A loop that has ended keeps no objects.
impl<K: Resource<DynamicType = ()> + 'static, F> Drop for Running<K, F> {
    fn drop(&mut self) {
        self.passes.keeps(0);
    }
}

/// Object whose pass has ended, and the requeue. `None` if the shutdown has ended it.
type Ended<K> = Option<(ObjectRef<K>, Requeue)>;

impl<K, F, P> Running<K, F>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Fn(Arc<K>) -> P + Send + 'static,
    P: Future<Output = Result<Requeue, kube::Error>> + Send + 'static,
{
    /// Makes passes in `tasks`, as many at the same time as the schedule has slots.
    async fn until_the_triggers_end(
        self,
        triggers: Triggers<K>,
        mut schedule: Schedule<ObjectRef<K>>,
        tasks: &mut JoinSet<Ended<K>>,
    ) {
        let mut triggers = std::pin::pin!(StreamBackoff::new(triggers, DefaultBackoff::default()));
        // Objects whose passes give their slots back.
        let (slots, mut given_back) = mpsc::unbounded_channel();
        let mut readable = std::pin::pin!(self.store.wait_until_ready());
        let mut is_readable = false;
        loop {
            // Without all objects, the cluster of one is unknown, and an object that exists would count as deleted.
            if is_readable {
                while let Some(object) = schedule.begin(Instant::now()) {
                    self.begin(object, &mut schedule, tasks, &slots);
                }
            }
            self.passes.keeps(self.store.len());
            let next = schedule.next().filter(|_| is_readable && schedule.has_slot());
            tokio::select! {
                request = triggers.next() => match request {
                    Some(Ok(request)) => self.request(request.obj_ref, &mut schedule),
                    // The watch begins again by itself.
                    Some(Err(_)) => {}
                    None => return,
                },
                Some(ended) = tasks.join_next() => {
                    // Before the end of its pass: the next pass over the object holds another slot.
                    while let Ok(object) = given_back.try_recv() {
                        schedule.give_back(&object);
                    }
                    self.end(ended, &mut schedule);
                }
                Some(object) = given_back.recv() => schedule.give_back(&object),
                read = &mut readable, if !is_readable => {
                    if read.is_err() {
                        return;
                    }
                    is_readable = true;
                }
                () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Requests a pass because of a change.
    fn request(&self, object: ObjectRef<K>, schedule: &mut Schedule<ObjectRef<K>>) {
        self.queue.add(&key(object.namespace.as_deref(), &object.name));
        let cluster = self.cluster_of(&object);
        schedule.request(object, &cluster, Instant::now());
    }

    fn begin(
        &self,
        object: ObjectRef<K>,
        schedule: &mut Schedule<ObjectRef<K>>,
        tasks: &mut JoinSet<Ended<K>>,
        slots: &UnboundedSender<ObjectRef<K>>,
    ) {
        let Some(found) = self.store.get(&object) else {
            // An object that was deleted while in the queue needs no pass.
            let key = key(object.namespace.as_deref(), &object.name);
            self.failures.reset(&key);
            drop(self.queue.begin(&key));
            schedule.end(&object);
            return;
        };
        let pass = (self.pass)(Arc::clone(&found));
        let span = tracing::info_span!("reconciling object", object.ref = %object);
        let measured = measured(&self.queue, &self.passes, &self.failures, &found, pass);
        let (slots, held) = (slots.clone(), object.clone());
        // A loop that has ended needs no slots.
        let slot = HeldSlot::new(move || drop(slots.send(held.clone())));
        let traced = traced(pass_span(&*found), slot.around(measured));
        let scope = CallScope::new(&found.uid().unwrap_or_default());
        let drained = until_drained(scope, self.shutdown.clone(), traced);
        // The span of a pass names its object.
        tasks.spawn(async move { Some((object, drained.await?)) }.instrument(span));
    }

    fn end(&self, ended: Result<Ended<K>, JoinError>, schedule: &mut Schedule<ObjectRef<K>>) {
        let (object, requeue) = match ended {
            Ok(Some(ended)) => ended,
            Ok(None) => return,
            // The supervisor of the controller restarts it.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => return,
            },
        };
        schedule.end(&object);
        // An interval too long for the clock never ends.
        let due = requeue.interval().and_then(|interval| Instant::now().checked_add(interval));
        if let Some(due) = due {
            let cluster = self.cluster_of(&object);
            schedule.request(object, &cluster, due);
        }
    }

    /// Returns the cluster of an object, by its label: a Cluster is its own. Objects of a namespace without one share their
    /// turns.
    fn cluster_of(&self, object: &ObjectRef<K>) -> String {
        let found = self.store.get(object);
        let label = found.as_ref().and_then(|it| it.labels().get(CLUSTER_LABEL)).map(String::as_str);
        let cluster = if K::kind(&()) == "Cluster" { Some(object.name.as_str()) } else { label };
        key(object.namespace.as_deref(), cluster.unwrap_or_default())
    }
}

/// Returns the key of an object in a queue.
fn key(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

/// Begins the trace span of a pass. A pass over an object that names the trace of the request that created it continues
/// that trace.
fn pass_span<K: Resource<DynamicType = ()>>(object: &K) -> Span {
    if !apiserver_trace::is_on() {
        return Span::NONE;
    }
    let cause = object.annotations().get(Parent::ANNOTATION);
    let cause = Parent::read(cause.map(String::as_str), None);
    let span = Span::caused_by(format!("reconcile {}", K::kind(&())), Kind::Consumer, &cause);
    if span.is_recorded() {
        span.set("capstan.kind", K::kind(&()).into_owned());
        span.set("capstan.uid", object.uid().unwrap_or_default());
    }
    span
}

/// Runs a pass within its span.
async fn traced<T>(span: Span, pass: impl Future<Output = T>) -> T {
    span.around(pass).await
}

/// Measures a pass, and turns its failure into a requeue.
fn measured<K>(
    queue: &Arc<Queue>,
    passes: &Passes,
    failures: &Arc<Backoff>,
    object: &Arc<K>,
    pass: impl Future<Output = Result<Requeue, kube::Error>> + Send + 'static,
) -> impl Future<Output = Requeue> + Send + 'static
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let key = key(object.meta().namespace.as_deref(), &object.name_any());
    let (work, measure) = (queue.begin(&key), passes.begin());
    let (queue, failures, object) = (Arc::clone(queue), Arc::clone(failures), Arc::clone(object));
    async move {
        let requeue = match pass.await {
            Ok(requeue) => {
                failures.reset(&key);
                requeue
            }
            Err(error) => failed(&*object, &error, || failures.failed(&key, AGAIN).min(LONGEST_AGAIN)),
        };
        measure.end(requeue);
        if let Some(interval) = requeue.interval() {
            queue.add_after(&key, interval);
        }
        drop(work);
        requeue
    }
}

/// Logs a failure of the API once, and returns the requeue. A conflict is no failure: it says that the object has changed.
fn failed<K: Resource<DynamicType = ()>>(
    object: &K,
    error: &kube::Error,
    interval: impl FnOnce() -> Duration,
) -> Requeue {
    let conflict = matches!(error, kube::Error::Api(status) if status.code == 409);
    if conflict {
        return Requeue::Now;
    }
    let error = api_text(error);
    tracing::warn!(%error, kind = %K::kind(&()), namespace = object.namespace(), name = object.name_any(),
        "reconcile pass failed; retrying");
    Requeue::Retry(interval())
}

#[cfg(test)]
#[path = "reconcile_loop_tests.rs"]
mod tests;
