//! Watches of the host's admission configurations.

use std::collections::HashMap;
use std::sync::Arc;

use apiserver_admission::{GROUP, KINDS};
use futures::StreamExt;
use futures::stream;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::host_watch::{self, Changes, Progress, Watched};

/// A host that is older than a kind has none of its objects.
const CONFIGURATIONS: Watched =
    Watched { what: "admission configurations", may_be_unknown: true, flag: "--mirror" };

/// Versions, the preferred one first. Before Kubernetes 1.36, policies that change objects have only the others, with the
/// same fields. The other kinds have `v1` since Kubernetes 1.30.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// Watches of all kinds.
pub(super) struct Watches(Vec<OfKind>);

/// Watches of the same objects in all versions.
struct OfKind {
    kind: &'static str,
    versions: Vec<OfVersion>,
}

struct OfVersion {
    store: Store<DynamicObject>,
    progress: Arc<Progress>,
}

impl Watches {
    /// Starts the watches. The stream has an item after each change.
    pub(super) fn start(client: &Client) -> (Self, Changes) {
        let (mut all, mut changes) = (Vec::new(), Vec::new());
        for (kind, plural) in KINDS {
            let number = if kind.starts_with("MutatingAdmissionPolicy") { VERSIONS.len() } else { 1 };
            let started =
                VERSIONS.into_iter().take(number).map(|it| OfVersion::start(client, kind, plural, it));
            let (versions, changed): (Vec<_>, Vec<_>) = started.unzip();
            all.push(OfKind { kind, versions });
            changes.extend(changed);
        }
        (Self(all), stream::select_all(changes).boxed())
    }

    /// Returns true once the objects of all kinds have been read.
    pub(super) fn are_read(&self) -> bool {
        self.versions().all(|version| version.progress.is_read())
    }

    /// Returns true while all watches go on.
    pub(super) fn are_current(&self) -> bool {
        self.0.iter().all(OfKind::is_current)
    }

    fn versions(&self) -> impl Iterator<Item = &OfVersion> {
        self.0.iter().flat_map(|of_kind| &of_kind.versions)
    }

    /// Returns all objects, as `Kind/name`.
    pub(super) fn copies(&self) -> HashMap<String, Value> {
        let all = self.0.iter().filter_map(|of_kind| Some((of_kind.kind, of_kind.served()?)));
        let all = all.flat_map(|(kind, version)| {
            let objects = version.store.state().into_iter();
            objects.filter_map(move |object| {
                let mut copy = serde_json::to_value(&*object).ok()?;
                // The items of a list do not have to name it, and all versions have the same fields.
                copy["apiVersion"] = json!(format!("{GROUP}/v1"));
                copy["kind"] = json!(kind);
                Some((format!("{kind}/{}", object.name_any()), copy))
            })
        });
        all.collect()
    }
}

impl OfKind {
    /// Returns the version that the host serves. While its servers differ, such as during an upgrade, each version may be
    /// unknown for a moment. Then it is one that was served before: a policy must not be missed.
    fn served(&self) -> Option<&OfVersion> {
        let mut listed = self.versions.iter().filter(|version| version.progress.is_listed());
        listed.clone().find(|version| !version.progress.is_unknown()).or_else(|| listed.next())
    }

    fn is_current(&self) -> bool {
        match self.served() {
            Some(version) => version.progress.is_current() && !version.progress.is_unknown(),
            None => self.versions.iter().all(|version| version.progress.is_current()),
        }
    }
}

impl OfVersion {
    fn start(
        client: &Client,
        kind: &'static str,
        plural: &'static str,
        version: &'static str,
    ) -> (Self, Changes) {
        let kind = GroupVersionKind::gvk(GROUP, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let (writer, progress) = (Writer::new(resource), Arc::<Progress>::default());
        let config = watcher::Config::default();
        let (store, changes) =
            host_watch::objects(api, config, writer, CONFIGURATIONS, Arc::clone(&progress));
        (Self { store, progress }, changes)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// Returns a client of a host that serves policies that change objects in these versions.
    fn client(served: &Arc<Mutex<Vec<&'static str>>>) -> Client {
        let served = Arc::clone(served);
        let service = tower::service_fn(move |request: Request<Body>| {
            let (path, query) =
                (request.uri().path().to_owned(), request.uri().query().unwrap_or("").to_owned());
            let served = served.lock().unwrap().clone();
            async move {
                if query.contains("watch=") {
                    std::future::pending::<()>().await;
                }
                let is_mutating = path.contains("/mutatingadmissionpolic");
                let version = served.iter().find(|version| path.contains(&format!("/{version}/")));
                let items = match version {
                    Some(version) if path.ends_with("/mutatingadmissionpolicies") => {
                        json!([{"metadata": {"name": version}, "spec": {"a": "b"}}])
                    }
                    _ => json!([]),
                };
                let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items});
                let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404});
                let (code, body) =
                    if is_mutating && version.is_none() { (404, missing) } else { (200, list) };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        Client::new(service, "default")
    }

    /// Reads changes until a condition is met.
    async fn until(changes: &mut Changes, is_met: impl Fn() -> bool) {
        let reading = async {
            while !is_met() {
                changes.next().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), reading).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_newest_version_that_the_host_serves_is_read() {
        let served = Arc::new(Mutex::new(vec!["v1alpha1", "v1beta1"]));
        let (watches, mut changes) = Watches::start(&client(&served));
        until(&mut changes, || watches.are_read()).await;
        assert!(watches.are_current());
        let copies = watches.copies();
        assert_eq!(copies.keys().collect::<Vec<_>>(), ["MutatingAdmissionPolicy/v1beta1"]);
        let copy = &copies["MutatingAdmissionPolicy/v1beta1"];
        assert_eq!((&copy["apiVersion"], &copy["spec"]["a"]), (&json!(format!("{GROUP}/v1")), &json!("b")));
        served.lock().unwrap().push("v1");
        until(&mut changes, || watches.copies().contains_key("MutatingAdmissionPolicy/v1")).await;
        assert_eq!(watches.copies().len(), 1, "after an upgrade of the host");
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_without_the_kind_has_none_of_its_objects() {
        let served = Arc::new(Mutex::new(Vec::new()));
        let (watches, mut changes) = Watches::start(&client(&served));
        until(&mut changes, || watches.are_read()).await;
        assert!(watches.are_current() && watches.copies().is_empty());
    }
}
