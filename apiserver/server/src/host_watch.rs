//! Watches of objects of the host cluster, each with its progress: copies are as young as the watches behind them.

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use serde::de::DeserializeOwned;
use storage_contract::Outage;
use tokio::sync::watch;
use tokio::time::Instant;

/// Pause after a change, which collects those that follow: a new snapshot costs milliseconds.
const PAUSE: Duration = Duration::from_millis(500);

/// Time between two refusals after which the host has withdrawn a permission. A host that starts may refuse for seconds.
const WITHDRAWN: Duration = Duration::from_secs(30);

/// Stream with an item after each change, and after each error.
pub(crate) type Changes = BoxStream<'static, ()>;

/// Progress of a watch.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// True once all objects have been read.
    is_read: AtomicBool,
    /// True while the watch goes on.
    is_current: AtomicBool,
    /// True once the host has listed objects.
    is_listed: AtomicBool,
    /// True if the host does not know the kind in its last answer.
    is_unknown: AtomicBool,
    /// First and last refusal since the watch went on.
    refusals: Mutex<Option<(Instant, Instant)>>,
}

impl Progress {
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    pub(crate) fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    /// Returns true once the host has listed objects. Before that, it may be too old for the kind.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed.load(Ordering::Acquire)
    }

    /// Returns true if the host does not know the kind in its last answer.
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown.load(Ordering::Acquire)
    }

    /// Returns true if the host refuses to show the objects.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusals().is_some()
    }

    /// Returns true if the host has refused them for a while, so that a copy of them must not be used any more.
    pub(crate) fn is_withdrawn(&self) -> bool {
        self.refusals().is_some_and(|(first, last)| last.duration_since(first) >= WITHDRAWN)
    }

    fn goes_on(&self) {
        *self.refusals() = None;
        self.is_current.store(true, Ordering::Release);
    }

    fn has_all(&self) {
        self.is_unknown.store(false, Ordering::Release);
        self.is_listed.store(true, Ordering::Release);
        self.is_read.store(true, Ordering::Release);
        self.goes_on();
    }

    fn has_no_such_kind(&self) {
        self.is_unknown.store(true, Ordering::Release);
        self.is_read.store(true, Ordering::Release);
        self.goes_on();
    }

    fn fails(&self, error: &watcher::Error) {
        self.is_current.store(false, Ordering::Release);
        if code(error) == Some(403) {
            let now = Instant::now();
            let mut refusals = self.refusals();
            *refusals = Some((refusals.map_or(now, |(first, _)| first), now));
        }
    }

    fn refusals(&self) -> MutexGuard<'_, Option<(Instant, Instant)>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Objects that are watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched {
    /// Name of the objects in the log, with "the host cluster" after it.
    pub(crate) what: &'static str,
    /// True if a host that does not know the kind is a host without such objects.
    pub(crate) may_be_unknown: bool,
    /// Flag of `capstan host manifests` that permits them.
    pub(crate) flag: &'static str,
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
    let events = listing_anew(api, config).default_backoff().modify(strip).reflect(writer);
    (store, progressing(events, watched, progress))
}

/// Watches objects, and passes each event on.
pub(crate) fn events<K>(
    api: Api<K>,
    config: watcher::Config,
    watched: Watched,
    progress: Arc<Progress>,
    mut apply: impl FnMut(&Event<K>) + Send + 'static,
) -> Changes
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let events = listing_anew(api, config).default_backoff();
    let events = events.inspect(move |event| event.iter().for_each(&mut apply));
    progressing(events, watched, progress)
}

/// Watches objects, and lists them anew after each error. A watch that merely goes on after an error has no event that says
/// so until the next change, and a copy would get older although it has all changes.
fn listing_anew<K>(
    api: Api<K>,
    config: watcher::Config,
) -> impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let begin = move || watcher(api.clone(), config.clone()).boxed();
    stream::unfold((begin(), begin), |(mut events, begin)| async move {
        let event = events.next().await?;
        let events = if event.is_err() { begin() } else { events };
        Some((event, (events, begin)))
    })
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
    // A watch tries again each second, and several are for one purpose.
    let mut outage = Outage::default();
    let changes = events.filter_map(move |event| {
        let is_change = !matches!(event, Ok(Event::Init | Event::InitApply(_)));
        match event {
            Ok(Event::InitDone) => {
                outage = Outage::default();
                progress.has_all();
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => progress.goes_on(),
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) if watched.may_be_unknown && code(&error) == Some(404) => {
                progress.has_no_such_kind();
            }
            Err(error) => {
                progress.fails(&error);
                if outage.should_log() {
                    tracing::warn!(
                        %error,
                        "the {} of the host cluster cannot be watched, and their copy gets older; apply the output of \
                         `capstan host manifests {}`",
                        watched.what, watched.flag
                    );
                }
            }
        }
        futures::future::ready(is_change.then_some(()))
    });
    changes.boxed()
}

/// Returns the code with which the host has refused a list or a watch.
fn code(error: &watcher::Error) -> Option<u16> {
    let (watcher::Error::InitialListFailed(cause) | watcher::Error::WatchStartFailed(cause)) = error else {
        return None;
    };
    match cause {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
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
