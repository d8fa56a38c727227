//! Tests of the watches of the host cluster.

use std::convert::Infallible;
use std::sync::atomic::AtomicU32;

use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;

const MAPS: Watched = Watched { what: "maps", may_be_unknown: false, flag: "--mirror" };

/// Starts a watch of a host whose answer to each request has the code that `code` returns for its number. Watches that
/// begin have no events.
fn watch(code: impl Fn(u32) -> u16 + Send + Sync + 'static) -> (Arc<Progress>, Changes) {
    let number = AtomicU32::new(0);
    let service = tower::service_fn(move |request: Request<Body>| {
        let code = code(number.fetch_add(1, Ordering::SeqCst));
        let is_watch = request.uri().query().unwrap_or_default().contains("watch=");
        async move {
            if is_watch && code == 200 {
                std::future::pending::<()>().await;
            }
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []});
            let failure = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
            let body = if code == 200 { list } else { failure };
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let api: Api<ConfigMap> = Api::all(Client::new(service, "default"));
    let progress = Arc::<Progress>::default();
    let changes = events(api, watcher::Config::default(), MAPS, Arc::clone(&progress), |_| {});
    (progress, changes)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_once_is_current_again_without_a_change() {
    // The first list succeeds, and the watch after it fails.
    let (progress, mut changes) = watch(|number| if number == 1 { 500 } else { 200 });
    for is_current in [true, false, true] {
        changes.next().await;
        assert_eq!(progress.is_current(), is_current);
    }
    assert!(progress.is_read() && !progress.is_refused());
}

#[tokio::test(start_paused = true)]
async fn a_permission_is_withdrawn_after_refusals_of_half_a_minute() {
    let (progress, mut changes) = watch(|number| if number == 0 { 200 } else { 403 });
    changes.next().await;
    let begun = Instant::now();
    while !progress.is_withdrawn() {
        changes.next().await;
        assert!(!progress.is_current() || !progress.is_refused());
    }
    assert!(begun.elapsed() >= WITHDRAWN && progress.is_refused());
}
