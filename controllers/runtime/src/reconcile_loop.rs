//! Reconcile loop over the objects of one kind.

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use apiserver_trace::{Kind, Parent, Span};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt};
use kube::runtime::controller::{Action, Config, Error, ReconcileRequest, applier, trigger_with};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::utils::{CancelableJoinHandle, StreamBackoff};
use kube::runtime::watcher::{self, DefaultBackoff, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{Passes, Queue, Queues, Requeue};

/// Interval after a failure of the API itself.
const AGAIN: Duration = Duration::from_secs(2);

/// Streams that trigger passes.
type Triggers<K> = SelectAll<BoxStream<'static, Result<ReconcileRequest<K>, watcher::Error>>>;

/// Loop that makes a pass over an object when it or a related one changes, and when it is due.
///
/// The same as kube's `Controller`, except that it exposes its queue for metrics.
pub struct ReconcileLoop<K: Resource<DynamicType = ()> + 'static> {
    triggers: Triggers<K>,
    store: Store<K>,
    concurrency: u16,
    queue: Arc<Queue>,
    passes: Passes,
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
    /// Creates a loop over `objects`, up to `concurrency` at the same time. `name` is the controller's
    /// in metrics.
    pub fn new(objects: Api<K>, concurrency: u16, queues: &Queues, name: &'static str) -> Self {
        let writer = Writer::default();
        let store = writer.as_reader();
        let reported = reflector(writer, watcher(objects, watcher::Config::default())).applied_objects();
        let mut triggers = SelectAll::new();
        triggers.push(trigger_with(reported, |object: K| Some(ObjectRef::from_obj(&object))).boxed());
        Self {
            triggers,
            store,
            concurrency,
            queue: queues.queue(name),
            passes: queues.passes(name, concurrency),
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
        let reported = watcher(others, watcher::Config::default()).touched_objects();
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

    /// Makes passes until `shutdown`.
    ///
    /// Cancel safety: may be dropped at any moment.
    pub async fn run<F, P>(self, pass: F, shutdown: CancellationToken)
    where
        F: Fn(Arc<K>) -> P + Send + 'static,
        P: Future<Output = Result<Requeue, kube::Error>> + Send + 'static,
    {
        let Self { triggers, store, concurrency, queue, passes } = self;
        let waiting = Arc::clone(&queue);
        let triggers = StreamBackoff::new(triggers, DefaultBackoff::default()).inspect(move |request| {
            if let Ok(request) = request {
                waiting.add(&key(request.obj_ref.namespace.as_deref(), &request.obj_ref.name));
            }
        });
        let begun = Arc::clone(&queue);
        let reconcile = move |object: Arc<K>, _: Arc<()>| {
            let measured = measured(&begun, &passes, &object, pass(Arc::clone(&object)));
            let traced = traced(pass_span(&*object), measured);
            // The span of a pass names its object.
            CancelableJoinHandle::spawn(traced.in_current_span(), &Handle::current())
        };
        let never = |_: Arc<K>, error: &Infallible, _: Arc<()>| match *error {};
        let config = Config::default().concurrency(concurrency);
        let done = applier(reconcile, never, Arc::new(()), store, triggers, config);
        let gone = done.for_each(|result| {
            // An object that was deleted while in the queue needs no pass.
            if let Err(Error::ObjectNotFound(gone)) = result {
                drop(queue.begin(&key(gone.namespace.as_deref(), &gone.name)));
            }
            std::future::ready(())
        });
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = gone => {}
        }
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
    object: &Arc<K>,
    pass: impl Future<Output = Result<Requeue, kube::Error>> + Send + 'static,
) -> impl Future<Output = Result<Action, Infallible>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let key = key(object.meta().namespace.as_deref(), &object.name_any());
    let (work, measure) = (queue.begin(&key), passes.begin());
    let (queue, object) = (Arc::clone(queue), Arc::clone(object));
    async move {
        let requeue = pass.await.unwrap_or_else(|error| failed(&*object, &error));
        measure.end(requeue);
        if let Some(interval) = requeue.interval() {
            queue.add_after(&key, interval);
        }
        drop(work);
        Ok(requeue.interval().map_or_else(Action::await_change, Action::requeue))
    }
}

/// Logs a failure of the API once, and returns the requeue.
fn failed<K: Resource<DynamicType = ()>>(object: &K, error: &kube::Error) -> Requeue {
    let conflict = matches!(error, kube::Error::Api(status) if status.code == 409);
    if conflict {
        return Requeue::Now;
    }
    tracing::warn!(%error, kind = %K::kind(&()), namespace = object.namespace(), name = object.name_any(),
        "reconcile pass failed; retrying");
    Requeue::Retry(AGAIN)
}
