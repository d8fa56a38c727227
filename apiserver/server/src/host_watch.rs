//! Watches of objects of the host cluster, each with its progress: copies are as young as the watches behind them.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// Pause after a change, which collects those that follow: a new snapshot costs milliseconds.
const PAUSE: Duration = Duration::from_millis(500);

/// Stream with an item after each change, and after each error.
pub(crate) type Changes = BoxStream<'static, ()>;

/// Progress of a watch.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// True once all objects have been read.
    is_read: AtomicBool,
    /// True while the watch goes on.
    is_current: AtomicBool,
}

impl Progress {
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    pub(crate) fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    fn goes_on(&self) {
        self.is_current.store(true, Ordering::Release);
    }

    fn has_all(&self) {
        self.is_read.store(true, Ordering::Release);
        self.goes_on();
    }

    fn fails(&self) {
        self.is_current.store(false, Ordering::Release);
    }
}

/// Objects that are watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    /// Name of the objects in the log, with "the host cluster" after it.
    pub(crate) what: &'static str,
    /// True if a host that does not know the kind is a host without such objects.
    pub(crate) may_be_unknown: bool,
}

/// Watches objects into the store of a writer.
pub(crate) fn objects<K>(
    api: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    watched: Watched,
    progress: Arc<Progress>,
) -> (Store<K>, Changes)
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    stripped(api, config, writer, watched, progress, strip)
}

/// Watches objects into the store of a writer, without the parts that `strip` removes.
pub(crate) fn stripped<K>(
    api: Api<K>,
    config: watcher::Config,
    writer: Writer<K>,
    watched: Watched,
    progress: Arc<Progress>,
    strip: impl FnMut(&mut K) + Send + 'static,
) -> (Store<K>, Changes)
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    let store = writer.as_reader();
    let events = watcher(api, config).default_backoff().modify(strip).reflect(writer);
    (store, progressing(events, watched, progress))
}

/// Removes what decides nothing: a copy is written to the store when it changes.
pub(crate) fn strip(object: &mut impl ResourceExt) {
    object.meta_mut().managed_fields = None;
    object.meta_mut().resource_version = None;
    object.meta_mut().annotations = None;
}

/// Notes the progress of a watch.
fn progressing<K: Send + 'static>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    watched: Watched,
    progress: Arc<Progress>,
) -> Changes {
    let changes = events.filter_map(move |event| {
        let is_change = !matches!(event, Ok(Event::Init | Event::InitApply(_)));
        match event {
            Ok(Event::InitDone) => progress.has_all(),
            Ok(Event::Apply(_) | Event::Delete(_)) => progress.goes_on(),
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) if watched.may_be_unknown && is_unknown(&error) => progress.has_all(),
            Err(error) => {
                progress.fails();
                tracing::warn!(
                    %error,
                    "the {} of the host cluster cannot be watched, and their copy gets older; apply the output of \
                     `capstan host manifests --mirror`",
                    watched.what
                );
            }
        }
        futures::future::ready(is_change.then_some(()))
    });
    changes.boxed()
}

/// Returns true for the error of a host that does not know the kind.
fn is_unknown(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return false;
    };
    matches!(cause, kube::Error::Api(status) if status.code == 404)
}

/// Calls after each change, and once for those of a moment. Never returns.
pub(crate) async fn collect(mut changes: impl Stream<Item = ()> + Unpin, apply: impl Fn()) {
    while changes.next().await.is_some() {
        tokio::time::sleep(PAUSE).await;
        while let Some(Some(())) = futures::FutureExt::now_or_never(changes.next()) {}
        apply();
    }
}

/// Waits for a change of what is copied from the host. If nothing is, never returns.
pub(crate) async fn changed(changes: Option<&mut watch::Receiver<u64>>) {
    match changes.map(watch::Receiver::changed) {
        Some(changed) => drop(changed.await),
        None => std::future::pending().await,
    }
}

/// Clears the flag when the watches end.
pub(crate) struct OnEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
