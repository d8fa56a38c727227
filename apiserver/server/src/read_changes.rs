//! Changes of watched objects, for parts that compute a new state from all of them.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, Event, watcher};
use serde::de::DeserializeOwned;

/// Watches objects into the store of a writer. The stream has an item when the state of the store has changed. `is_read`
/// becomes true with the first whole list; `what` names the objects in the log.
pub(crate) fn read_changes<K>(
    api: Api<K>,
    writer: Writer<K>,
    is_read: Arc<AtomicBool>,
    what: &'static str,
) -> BoxStream<'static, ()>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    let changes = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    let changes = changes.filter_map(move |change| {
        let counts = match change {
            Ok(Event::InitDone) => {
                is_read.store(true, Ordering::Release);
                true
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => true,
            Ok(Event::Init | Event::InitApply(_)) => false,
            Err(error) => {
                tracing::debug!(%error, "{what} cannot be read; retrying");
                false
            }
        };
        futures::future::ready(counts.then_some(()))
    });
    changes.boxed()
}
