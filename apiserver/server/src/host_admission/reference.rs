//! Watch of the ConfigMaps of one reference.

use std::sync::{Arc, Mutex, PoisonError};

use apiserver_admission::HostParameters;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde_json::Value;

use super::held_maps::HeldMaps;
use crate::host_watch::{self, Changes, Progress, Watched};

const PARAMETERS: Watched =
    Watched { what: "parameters of policies", may_be_unknown: false, flag: "--policy-parameters" };

/// ConfigMaps that a response of the host has at most. Each may have a MiB, and a response is in memory at once.
const PAGE: u32 = 32;

/// Reason why a reference has no ConfigMaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unread {
    pub(super) why: String,
    /// True if a write waits for them for a moment.
    pub(super) is_brief: bool,
}

impl Unread {
    pub(super) fn lasting(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_brief: false }
    }
}

/// Watch of one reference.
pub(super) struct OfReference {
    pub(super) reference: HostParameters,
    held: Arc<Mutex<HeldMaps>>,
    progress: Arc<Progress>,
}

impl OfReference {
    /// Starts the watch. The stream has an item after each change.
    pub(super) fn start(client: &Client, reference: HostParameters) -> (Self, Changes) {
        let api: Api<ConfigMap> = match reference.namespace.as_str() {
            "" => Api::all(client.clone()),
            namespace => Api::namespaced(client.clone(), namespace),
        };
        let config = watcher::Config::default().page_size(PAGE);
        let config = match reference.name.as_str() {
            "" => config.labels(&reference.labels),
            name => config.fields(&format!("metadata.name={}", escaped(name))),
        };
        let (held, progress) = (Arc::<Mutex<HeldMaps>>::default(), Arc::<Progress>::default());
        let of_watch = Arc::clone(&held);
        let changes = host_watch::events(api, config, PARAMETERS, Arc::clone(&progress), move |event| {
            of_watch.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
        });
        (Self { reference, held, progress }, changes)
    }

    /// Returns the ConfigMaps. While the watch begins anew, they are those `before`.
    pub(super) fn maps(&self, before: Option<&Vec<Arc<Value>>>) -> Result<Vec<Arc<Value>>, Unread> {
        let refused = || Unread::lasting("the host cluster refuses to show them");
        if self.progress.is_withdrawn() {
            return Err(refused());
        }
        if self.progress.is_read() {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            return held.all().map(|maps| maps.cloned().collect()).map_err(Unread::lasting);
        }
        match before {
            Some(maps) => Ok(maps.clone()),
            None if self.progress.is_refused() => Err(refused()),
            None => Err(Unread { why: "they have not been read yet".to_owned(), is_brief: true }),
        }
    }

    /// Returns true while the watch goes on.
    pub(super) fn is_current(&self) -> bool {
        self.progress.is_current()
    }
}

/// Returns a value of a field selector.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}
