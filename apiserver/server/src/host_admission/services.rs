//! Services that the webhooks of the host cluster name, watched one by one.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_admission::HostService;
use apiserver_host::Contact;
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::watch;

use super::endpoints::{Backend, Way};
use crate::host_watch::{self, Changes, OnEnd, Progress, Watched};

/// Longest age of endpoints that are dialled. Older ones may be the addresses of other servers.
const BOUND: Duration = Duration::from_mins(10);

/// Longest wait of a call for endpoints that have not been read yet.
const PATIENCE: Duration = Duration::from_secs(2);

/// Label with the name of the Service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

const SERVICES: Watched = Watched { what: "Services of webhooks", may_be_unknown: false, flag: "--mirror" };

/// Namespace and name of a Service.
pub(super) type Name = (String, String);

type Backends = HashMap<Name, Backend>;

/// Services with their endpoints.
#[derive(Debug)]
pub(super) struct Services {
    wanted: watch::Sender<BTreeSet<Name>>,
    backends: watch::Sender<Arc<Backends>>,
    /// True while all watches go on.
    is_current: AtomicBool,
    /// Last time at which all endpoints were as the host has them.
    contact: Mutex<Contact>,
}

impl Default for Services {
    fn default() -> Self {
        Self {
            wanted: watch::Sender::default(),
            backends: watch::Sender::default(),
            is_current: AtomicBool::default(),
            contact: Mutex::new(Contact::never()),
        }
    }
}

/// Watches of one Service.
struct OfService {
    name: Name,
    service: Store<Service>,
    slices: Store<EndpointSlice>,
    progress: [Arc<Progress>; 2],
}

impl Services {
    /// Sets the Services that are watched.
    pub(super) fn want(&self, names: BTreeSet<Name>) {
        self.wanted.send_if_modified(|wanted| {
            let is_new = *wanted != names;
            *wanted = names;
            is_new
        });
    }

    /// Notes that the host answers now, so that endpoints whose watches go on are those of this moment.
    pub(super) fn synchronized(&self) {
        if self.is_current.load(Ordering::Acquire) {
            *self.contact.lock().unwrap_or_else(PoisonError::into_inner) = Contact::now();
        }
    }

    /// Returns the addresses behind a port of a Service. If the host answers, waits a moment for the first ones.
    pub(super) async fn addresses(
        &self,
        service: &HostService,
        has_answers: bool,
    ) -> Result<Vec<SocketAddr>, String> {
        let name = (service.namespace.clone(), service.name.clone());
        let mut backends = self.backends.subscribe();
        let patience = if has_answers { PATIENCE } else { Duration::ZERO };
        let reading = async {
            let all = backends.wait_for(|all| all.contains_key(&name)).await.ok()?;
            all.get(&name).cloned()
        };
        let backend = tokio::time::timeout(patience, reading).await.ok().flatten();
        let unread = || format!("{service}: its endpoints have not been read from the host cluster");
        let backend = backend.ok_or_else(unread)?;
        let age = self.contact.lock().unwrap_or_else(PoisonError::into_inner).age();
        if age > BOUND {
            let age = age.as_secs();
            return Err(format!("{service}: its endpoints are as they were {age} s ago, which is too long"));
        }
        match backend.way(service)? {
            Way::Addresses(addresses) => Ok(addresses),
            Way::Name(name, port) => {
                let found = tokio::net::lookup_host((name.as_str(), port)).await;
                Ok(found.map_err(|error| format!("{service}: {name}: {error}"))?.collect())
            }
        }
    }

    /// Follows the Services of the host. Never returns.
    pub(super) async fn follow(&self, client: &Client) {
        let mut wanted = self.wanted.subscribe();
        loop {
            let names = wanted.borrow_and_update().clone();
            tokio::select! {
                // The sender lives as long as `self`.
                _ = wanted.changed() => {}
                () = self.watch(client, names) => {}
            }
        }
    }

    async fn watch(&self, client: &Client, names: BTreeSet<Name>) {
        let _stale = OnEnd(&self.is_current);
        let (mut all, mut changes) = (Vec::new(), Vec::new());
        for name in names {
            let (of_service, changed) = OfService::start(client, name);
            all.push(of_service);
            changes.extend(changed);
        }
        self.note(&all);
        let mut changes = stream::select_all(changes);
        while changes.next().await.is_some() {
            self.note(&all);
        }
        // Without a Service, there is nothing to watch.
        std::future::pending().await
    }

    fn note(&self, all: &[OfService]) {
        let is_current = all.iter().flat_map(|it| &it.progress).all(|progress| progress.is_current());
        self.is_current.store(is_current, Ordering::Release);
        self.synchronized();
        let known = self.backends.borrow().clone();
        let backends: Backends = all
            .iter()
            .filter_map(|it| {
                // While the watches begin anew, the last endpoints stay.
                let backend = it.backend().or_else(|| known.get(&it.name).cloned())?;
                Some((it.name.clone(), backend))
            })
            .collect();
        self.backends.send_replace(Arc::new(backends));
    }
}

impl OfService {
    fn start(client: &Client, name: Name) -> (Self, [Changes; 2]) {
        let progress: [Arc<Progress>; 2] = Default::default();
        let [first, second] = progress.each_ref().map(Arc::clone);
        let (namespace, of) = &name;
        let services = Api::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().fields(&format!("metadata.name={of}"));
        let (service, one) = host_watch::objects(services, config, Writer::default(), SERVICES, first);
        let slices = Api::namespaced(client.clone(), namespace);
        let config = watcher::Config::default().labels(&format!("{SERVICE_NAME}={of}"));
        let (slices, two) = host_watch::objects(slices, config, Writer::default(), SERVICES, second);
        (Self { name, service, slices, progress }, [one, two])
    }

    /// Returns the Service with its endpoints; `None` until both have been read.
    fn backend(&self) -> Option<Backend> {
        let is_read = self.progress.iter().all(|progress| progress.is_read());
        let service = self.service.state().into_iter().next();
        is_read.then(|| Backend { service, slices: self.slices.state() })
    }
}
