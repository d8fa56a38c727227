//! Source of the object HostStatus: observes the host cluster for this replica.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_host::{
    FrontProxy, HostConnection, HostFacts, HostNamespaces, HostPin, MirrorFacts, Transitions, host_status,
};
use apiserver_registry::HostStatusSource;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

use crate::host_admission::HostAdmission;
use crate::host_mirror::Mirroring;
use crate::host_objects::GoneNamespaces;

/// Interval at which changes of the conditions are noticed: they have times of whole seconds.
const INTERVAL: Duration = Duration::from_secs(1);

/// Observer of the host. Clones share its memory.
#[derive(Clone)]
pub(crate) struct HostObserver {
    connection: HostConnection,
    pin: HostPin,
    namespaces: HostNamespaces,
    proxy: watch::Receiver<FrontProxy>,
    mirror: Option<Mirroring>,
    admission: Option<HostAdmission>,
    gone: GoneNamespaces,
    /// Name of this replica.
    replica: String,
    begun: Timestamp,
    transitions: Arc<Mutex<Transitions>>,
}

impl std::fmt::Debug for HostObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostObserver").finish_non_exhaustive()
    }
}

impl HostObserver {
    pub(crate) fn new(
        connection: HostConnection,
        pin: HostPin,
        namespaces: HostNamespaces,
        proxy: watch::Receiver<FrontProxy>,
        (mirror, admission): (Option<Mirroring>, Option<HostAdmission>),
    ) -> Self {
        let (replica, begun) = (crate::election::host_name(), Timestamp::now());
        let (gone, transitions) = (GoneNamespaces::default(), Arc::default());
        Self { connection, pin, namespaces, proxy, mirror, admission, gone, replica, begun, transitions }
    }

    /// Returns the namespaces with objects that the host does not have.
    pub(crate) fn gone(&self) -> &GoneNamespaces {
        &self.gone
    }

    /// Notices changes of the conditions. Never returns.
    pub(crate) async fn follow(&self) {
        loop {
            self.object();
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns the facts about each copy of the host's data. A new kind of copies is one more line.
    fn mirrors(&self) -> Vec<MirrorFacts> {
        let is_known = !self.proxy.borrow().ca.is_empty();
        let namespaces = self.namespaces.copies();
        // The copy of the front proxy is followed as the namespaces are, and its CA has an end of its own.
        let age = if is_known { namespaces.age } else { Duration::MAX };
        let mut all = vec![MirrorFacts::new("front-proxy", usize::from(is_known), age, None), namespaces];
        if let Some(mirroring) = &self.mirror {
            let mirror = mirroring.mirror();
            all.push(mirror.copies("permissions", mirroring.permissions().len()));
            all.push(mirror.copies("service-accounts", mirroring.accounts().len()));
            all.push(mirroring.keys().copies());
        }
        all.extend(self.admission.iter().flat_map(HostAdmission::facts));
        all
    }
}

impl HostStatusSource for HostObserver {
    fn object(&self) -> Value {
        let pinned = self.pin.uid();
        let replica = self.replica.clone();
        let (mirrors, gone) = (self.mirrors(), self.gone.names(&self.namespaces));
        let facts = HostFacts::observe(&self.connection, pinned, mirrors, gone, replica, self.begun);
        // An entry is replaced as a whole, so a panic leaves no half state.
        let mut transitions = self.transitions.lock().unwrap_or_else(PoisonError::into_inner);
        host_status(&facts, &mut transitions)
    }
}
