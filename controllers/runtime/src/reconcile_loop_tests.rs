//! Tests of a reconcile loop: its end, its retries, and the objects that it keeps.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::drain::LONGEST_CALL;

/// Loop over one ConfigMap.
fn reconcile_loop() -> ReconcileLoop<ConfigMap> {
    loop_over(&["a"])
}

/// Loop with one slot over ConfigMaps with these names. It needs no server.
fn loop_over(names: &[&str]) -> ReconcileLoop<ConfigMap> {
    let (mut writer, mut requests) = (Writer::default(), Vec::new());
    writer.apply_watcher_event(&watcher::Event::Init);
    for name in names {
        let mut object = ConfigMap::default();
        object.metadata.name = Some((*name).to_owned());
        object.metadata.namespace = Some("n".to_owned());
        object.metadata.uid = Some(format!("u-{name}"));
        requests.push(Ok(ReconcileRequest::from(ObjectRef::from_obj(&object))));
        writer.apply_watcher_event(&watcher::Event::InitApply(object));
    }
    writer.apply_watcher_event(&watcher::Event::InitDone);
    let queues = Queues::default();
    let mut triggers = SelectAll::new();
    triggers.push(futures::stream::iter(requests).chain(futures::stream::pending()).boxed());
    ReconcileLoop {
        triggers,
        store: writer.as_reader(),
        slots: Slots::new(1),
        queue: queues.queue("test"),
        passes: queues.passes("test", 1),
        weights: queues.weights(),
    }
}

/// Passes of a test.
#[derive(Default)]
struct Seen {
    begun: AtomicUsize,
    has_recorded: AtomicBool,
}

/// Ends a loop in its first pass, whose call lasts for this time. Returns the time until the loop returned.
async fn ended(call: Option<Duration>, seen: &Arc<Seen>) -> Duration {
    let shutdown = CancellationToken::new();
    let (passes, end) = (Arc::clone(seen), shutdown.clone());
    let pass = move |_: Arc<ConfigMap>| {
        let (seen, end) = (Arc::clone(&passes), end.clone());
        async move {
            seen.begun.fetch_add(1, Ordering::SeqCst);
            let scope = CallScope::current().unwrap();
            assert_eq!(scope.object(), "u-a");
            let open = call.and_then(|_| scope.begin());
            end.cancel();
            tokio::time::sleep(call.unwrap_or(LONGEST_CALL * 3)).await;
            drop(open);
            // The result of the call is written to the API.
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(scope.begin().is_none(), "a further call");
            seen.has_recorded.store(true, Ordering::SeqCst);
            Ok(Requeue::Now)
        }
    };
    let begun = Instant::now();
    reconcile_loop().run(pass, shutdown).await;
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn hv_05_a_pass_in_a_call_ends_before_the_loop_returns() {
    let seen = Arc::new(Seen::default());
    let took = ended(Some(Duration::from_secs(5)), &seen).await;
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    assert!(seen.has_recorded.load(Ordering::SeqCst));
    assert_eq!(seen.begun.load(Ordering::SeqCst), 1, "no new pass");
}

#[tokio::test(start_paused = true)]
async fn hv_05_a_pass_whose_call_does_not_end_is_aborted_after_the_limit() {
    let seen = Arc::new(Seen::default());
    let took = ended(Some(LONGEST_CALL * 3), &seen).await;
    assert!(took >= LONGEST_CALL && took < LONGEST_CALL + Duration::from_secs(1), "{took:?}");
    assert!(!seen.has_recorded.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn hv_05_a_pass_that_only_waits_does_not_delay_the_end() {
    let seen = Arc::new(Seen::default());
    let took = ended(None, &seen).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!(!seen.has_recorded.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn failures_of_the_api_are_retried_at_growing_intervals_until_a_pass_succeeds() {
    let (begun, shutdown) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
    let (times, end) = (Arc::clone(&begun), shutdown.clone());
    let pass = move |_: Arc<ConfigMap>| {
        let (times, end) = (Arc::clone(&times), end.clone());
        async move {
            let mut times = times.lock().unwrap();
            times.push(Instant::now());
            match times.len() {
                4 => return Ok(Requeue::After(Duration::from_secs(1))),
                11 => end.cancel(),
                _ => {}
            }
            Err(kube::Error::LinesCodecMaxLineLengthExceeded)
        }
    };
    reconcile_loop().run(pass, shutdown).await;
    let times = begun.lock().unwrap();
    let seconds: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(seconds, [2, 2, 4, 1, 2, 2, 4, 8, 16, 20]);
}

/// Makes a pass over each of two objects in one slot. Both wait for a server for this time. Returns the seconds at which they
/// began.
async fn begins(wait: Duration) -> Vec<u64> {
    let (start, seconds) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let (ended, shutdown) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let (begun, end) = (Arc::clone(&seconds), shutdown.clone());
    let pass = move |_: Arc<ConfigMap>| {
        let (begun, ended, end) = (Arc::clone(&begun), Arc::clone(&ended), end.clone());
        async move {
            begun.lock().unwrap().push(start.elapsed().as_secs());
            crate::without_slot(tokio::time::sleep(wait)).await;
            if ended.fetch_add(1, Ordering::SeqCst) == 1 {
                end.cancel();
            }
            Ok(Requeue::OnChange)
        }
    };
    loop_over(&["a", "b"]).run(pass, shutdown).await;
    seconds.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_waits_long_for_a_server_gives_its_slot_back() {
    assert_eq!(begins(Duration::from_millis(600)).await, [0, 0], "a short wait keeps the slot");
    assert_eq!(begins(Duration::from_secs(30)).await, [0, 1], "not only after 30 seconds");
}

#[tokio::test]
async fn a_loop_keeps_objects_without_the_fields_that_it_does_not_read() {
    let mut object = ConfigMap::default();
    object.metadata.name = Some("a".to_owned());
    object.data = Some([("a".to_owned(), "b".to_owned())].into());
    let (init, done) = (watcher::Event::Init, watcher::Event::InitDone);
    let changed = ConfigMap { immutable: Some(true), ..object.clone() };
    let events = [init, watcher::Event::InitApply(object), done, watcher::Event::Apply(changed)];
    let writer = Writer::default();
    let store = writer.as_reader();
    let reported = kept(futures::stream::iter(events.map(Ok)), writer, |it: &mut ConfigMap| it.data = None);
    let reported: Vec<_> = reported.collect().await;
    assert!(reported.len() == 2 && reported.iter().all(Result::is_ok), "both are reported");
    let found = store.state();
    assert_eq!((found.len(), found[0].immutable, &found[0].data), (1, Some(true), &None));
}
