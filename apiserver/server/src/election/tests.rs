//! Tests of the election: candidates against one server, all in this process.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use apiserver_access::{Authenticator, Chain, User};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{ObjectStore, OwnNamespaces};
use storage_embedded::EmbeddedStore;
use tower::{Service, ServiceExt};

use super::*;

/// Short durations. The Lease lasts one second, because Leases have whole seconds. The others are in proportion.
const QUICK: Timing = Timing {
    lease: Duration::from_millis(1000),
    renew: Duration::from_millis(150),
    deadline: Duration::from_millis(500),
    grace: Duration::from_millis(400),
    drain: Duration::from_millis(3000),
    retry: Duration::from_millis(50),
};

struct World {
    server: Arc<ApiServer>,
    /// Number of candidates whose controllers run now: never more than one.
    running: Arc<AtomicUsize>,
    _data: tempfile::TempDir,
}

fn world() -> World {
    let data = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(&data.path().join("store.redb")).unwrap());
    let registry = Arc::new(apiserver_registry::registry());
    let shutdown = CancellationToken::new();
    let objects = ObjectStore::open(
        registry,
        store,
        Arc::new(Encryption::default()),
        Arc::new(OwnNamespaces),
        &Supervisor::default(),
        shutdown.clone(),
    );
    let local: Arc<dyn apiserver_access::Authorizer> =
        Arc::new(Chain(vec![Arc::new(crate::controllers::local_policy())]));
    let server = ApiServer::new(Parts {
        objects: Arc::new(objects),
        authenticator: Arc::new(Authenticator::default()),
        authorizer: Arc::clone(&local),
        hosted_authorizer: local,
        identity: Identity { git_version: "v0".to_owned(), address: String::new() },
        checks: Vec::new(),
        supervisor: Supervisor::new(shutdown),
    });
    World { server: Arc::new(server), running: Arc::default(), _data: data }
}

struct Candidate {
    task: tokio::task::JoinHandle<()>,
    shutdown: CancellationToken,
    is_cut_off: Arc<AtomicBool>,
    elected: Arc<AtomicUsize>,
}

impl World {
    /// Creates a client whose requests fail while `is_cut_off` is set.
    fn client(&self, is_cut_off: Arc<AtomicBool>) -> Client {
        let user = User::controller(IDENTITY);
        let in_process = InProcess::new(Arc::clone(&self.server), user);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (mut in_process, is_cut_off) = (in_process.clone(), Arc::clone(&is_cut_off));
            async move {
                if is_cut_off.load(Ordering::SeqCst) {
                    return Err(std::io::Error::other("cut off"));
                }
                let Ok(ready) = ServiceExt::<http::Request<kube::client::Body>>::ready(&mut in_process).await;
                let Ok(response) = ready.call(request).await;
                Ok(response)
            }
        });
        Client::new(service, "default")
    }

    fn candidate(&self, name: &str) -> Candidate {
        let (is_cut_off, elected, shutdown) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default(), CancellationToken::new());
        let election = Election::new(self.client(Arc::clone(&is_cut_off)), name.to_owned(), QUICK);
        let (running, count) = (Arc::clone(&self.running), Arc::clone(&elected));
        let start = move |term: Term| {
            assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "two run at once");
            count.fetch_add(1, Ordering::SeqCst);
            let running = RunningGuard(Arc::clone(&running));
            let mut controllers = JoinSet::new();
            controllers.spawn(async move {
                let _running = running;
                term.end.cancelled().await;
            });
            controllers
        };
        let task = tokio::spawn(election.run(shutdown.clone(), start));
        Candidate { task, shutdown, is_cut_off, elected }
    }

    async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client(Arc::default()), NAMESPACE);
        leases.get_opt(NAME).await.unwrap()?.spec?.holder_identity
    }
}

/// Guard that decrements the number of running candidates when the controllers stop, also on an abort.
struct RunningGuard(Arc<AtomicUsize>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Candidate {
    async fn is_elected(&self, times: usize) {
        let elected = async {
            while self.elected.load(Ordering::SeqCst) < times {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), elected).await.unwrap();
    }

    /// Simulates a killed process: the Lease is not released.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

#[tokio::test]
async fn the_holder_keeps_the_lease_until_it_releases_it() {
    let world = world();
    let first = world.candidate("first");
    first.is_elected(1).await;
    let second = world.candidate("second");
    tokio::time::sleep(QUICK.lease * 2).await;
    assert_eq!(second.elected.load(Ordering::SeqCst), 0);
    second.stop().await;
    assert_eq!(
        world.holder().await.as_deref(),
        Some("first"),
        "the second released a Lease that it did not hold"
    );
    first.stop().await;
    assert_eq!(world.holder().await, None);
    let third = world.candidate("third");
    third.is_elected(1).await;
    third.stop().await;
}

/// A renewal that is in flight at shutdown may still be applied.
#[tokio::test]
async fn the_lease_is_released_whenever_shutdown_begins() {
    let world = world();
    for step in 0..24 {
        let holder = world.candidate("first");
        holder.is_elected(1).await;
        // Before, during and after the first renewal.
        let early = QUICK.renew.saturating_sub(Duration::from_millis(2));
        tokio::time::sleep(early + Duration::from_micros(400) * step).await;
        holder.stop().await;
        assert_eq!(world.holder().await, None, "step {step}");
    }
}

#[tokio::test]
async fn another_candidate_is_elected_when_the_lease_of_a_killed_holder_expires() {
    let world = world();
    let first = world.candidate("first");
    first.is_elected(1).await;
    let second = world.candidate("second");
    tokio::time::sleep(QUICK.renew * 2).await;
    let killed = Instant::now();
    first.kill().await;
    second.is_elected(1).await;
    // When it was killed, its last renewal was younger than the deadline.
    assert!(killed.elapsed() >= QUICK.lease - QUICK.deadline, "after {:?}", killed.elapsed());
    assert_eq!(world.holder().await.as_deref(), Some("second"));
    second.stop().await;
}

#[tokio::test]
async fn a_disconnected_holder_stops_before_the_next_starts_and_can_be_elected_again() {
    let world = world();
    let first = world.candidate("first");
    first.is_elected(1).await;
    let second = world.candidate("second");
    tokio::time::sleep(QUICK.renew).await;
    first.is_cut_off.store(true, Ordering::SeqCst);
    // `candidate` asserts that two never run at once.
    second.is_elected(1).await;
    first.is_cut_off.store(false, Ordering::SeqCst);
    second.stop().await;
    first.is_elected(2).await;
    first.stop().await;
}

#[tokio::test]
async fn a_deleted_lease_is_lost_at_once() {
    let world = world();
    let first = world.candidate("first");
    first.is_elected(1).await;
    let leases: Api<Lease> = Api::namespaced(world.client(Arc::default()), NAMESPACE);
    leases.delete(NAME, &kube::api::DeleteParams::default()).await.unwrap();
    first.is_elected(2).await;
    first.stop().await;
}

#[tokio::test]
async fn a_controller_that_panics_is_restarted() {
    let world = world();
    let election = Election::new(world.client(Arc::default()), "only".to_owned(), QUICK);
    let (shutdown, starts) = (CancellationToken::new(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&starts);
    let start = move |term: Term| {
        let broken = count.fetch_add(1, Ordering::SeqCst) == 0;
        let mut controllers = JoinSet::new();
        controllers.spawn(async move {
            assert!(!broken, "this panic is meant");
            term.end.cancelled().await;
        });
        controllers
    };
    let running = tokio::spawn(election.run(shutdown.clone(), start));
    while starts.load(Ordering::SeqCst) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    shutdown.cancel();
    running.await.unwrap();
}

impl World {
    fn election(&self, name: &str, timing: Timing) -> Election {
        Election::new(self.client(Arc::default()), name.to_owned(), timing)
    }
}

async fn is_granted(term: &Term) -> bool {
    tokio::time::timeout(Duration::from_secs(2), term.permit().granted()).await.is_ok()
}

#[tokio::test]
async fn a_holder_that_was_frozen_gets_no_permit_after_another_took_the_lease() {
    let (world, shutdown) = (world(), CancellationToken::new());
    let first = world.election("first", QUICK);
    let term = first.term(&first.acquire().await, &shutdown);
    assert!(is_granted(&term).await);
    // Frozen: it renews nothing, and none of its timers runs.
    let second = world.election("second", QUICK);
    let other = second.term(&second.acquire().await, &shutdown);
    assert!(!is_granted(&term).await && term.end.is_cancelled(), "its deadline has passed");
    // Even with a clock that stood still, the Lease says who holds it.
    let mut lease = first.leases.get(NAME).await.unwrap();
    lease.spec.as_mut().unwrap().lease_transitions = Some(0);
    let (asked, history) = (Instant::now(), TermHistory::new(None));
    let term = first.term(&Acquired { asked, history, lease, unsettled_until: None }, &shutdown);
    assert!(!is_granted(&term).await && term.end.is_cancelled());
    other.permit.extend(boot_time());
    assert!(is_granted(&other).await && !other.end.is_cancelled());
}

#[tokio::test]
async fn the_permit_of_an_earlier_term_of_the_same_process_does_not_hold() {
    let (world, shutdown) = (world(), CancellationToken::new());
    let first = world.election("first", QUICK);
    let earlier = first.term(&first.acquire().await, &shutdown);
    first.release(true).await;
    let later = first.term(&first.acquire().await, &shutdown);
    earlier.permit.extend(boot_time());
    assert!(!is_granted(&earlier).await);
    later.permit.extend(boot_time());
    assert!(is_granted(&later).await);
}

#[tokio::test]
async fn hv04_only_a_term_after_a_holder_that_was_cut_off_waits_for_its_calls() {
    let (world, shutdown) = (world(), CancellationToken::new());
    let start = async |election: &Election| election.term(&election.acquire().await, &shutdown).start;
    let [first, second, third] = ["first", "second", "third"].map(|name| world.election(name, QUICK));
    let begun = start(&first).await;
    assert_eq!(begun.unsettled(), None, "there was no leader before");
    let after_a_cut = start(&second).await;
    assert!(after_a_cut.unsettled().is_some());
    assert!(begun.number() < after_a_cut.number(), "{begun:?} {after_a_cut:?}");
    second.release(true).await;
    let after_a_release = start(&third).await;
    assert!(after_a_release.unsettled().is_some(), "calls of the first may still be on their way");
    assert!(after_a_cut.number() < after_a_release.number());
    // Their time is over.
    let mut lease = third.leases.get(NAME).await.unwrap();
    let annotations = lease.metadata.annotations.as_mut().unwrap();
    annotations.insert(record::UNSETTLED_UNTIL.to_owned(), "2026-01-01T00:00:00Z".to_owned());
    third.leases.replace(NAME, &PostParams::default(), &lease).await.unwrap();
    third.release(true).await;
    assert_eq!(start(&first).await.unsettled(), None);
    first.release(false).await;
    assert!(start(&second).await.unsettled().is_some(), "calls of the first were given up");
}

/// Ends a leader whose call in flight takes this long. Returns the time until the next leader, and how its term begins.
async fn next_after_a_call(takes: Duration) -> (Duration, TermStart) {
    let (world, shutdown, is_in_flight) = (world(), CancellationToken::new(), Arc::<AtomicBool>::default());
    let begun = Arc::clone(&is_in_flight);
    let start = move |term: Term| {
        let (permit, end, begun) = (term.permit(), term.end, Arc::clone(&begun));
        let mut controllers = JoinSet::new();
        controllers.spawn(async move {
            begun.store(permit.begin(), Ordering::SeqCst);
            end.cancelled().await;
            tokio::time::sleep(takes).await;
            permit.end(true);
        });
        controllers
    };
    let first = tokio::spawn(world.election("first", QUICK).run(shutdown.clone(), start));
    while !is_in_flight.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = world.election("second", QUICK);
    let ended = Instant::now();
    shutdown.cancel();
    let acquired = second.acquire().await;
    let took = ended.elapsed();
    first.await.unwrap();
    (took, second.term(&acquired, &CancellationToken::new()).start)
}

#[tokio::test]
async fn hv_05_an_orderly_end_waits_for_calls_in_flight_and_tells_the_next_leader_of_others() {
    let takes = QUICK.lease + QUICK.renew;
    let (took, next) = next_after_a_call(takes).await;
    assert!(took >= takes, "the Lease was renewed until the end of the call: {took:?}");
    assert_eq!(next.unsettled(), None);
    let (took, next) = next_after_a_call(QUICK.drain * 3).await;
    assert!(took >= QUICK.drain && took < QUICK.drain * 2, "{took:?}");
    assert!(next.unsettled().is_some());
}

/// The Lease of the data that are in place now may be one of the same holder.
#[tokio::test]
async fn df_09_a_term_ends_with_the_history_of_the_store() {
    let (world, shutdown) = (world(), CancellationToken::new());
    let number = Arc::new(AtomicU64::default());
    let now = Arc::clone(&number);
    let first = world.election("first", QUICK).sharing(Some(Arc::new(move || now.load(Ordering::SeqCst))));
    let term = first.term(&first.acquire().await, &shutdown);
    assert!(is_granted(&term).await);
    number.fetch_add(1, Ordering::SeqCst);
    assert!(!is_granted(&term).await && term.end.is_cancelled());
    first.release(true).await;

    let starts = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&starts);
    let start = move |term: Term| {
        count.fetch_add(1, Ordering::SeqCst);
        let mut controllers = JoinSet::new();
        controllers.spawn(async move { term.end.cancelled().await });
        controllers
    };
    let running = tokio::spawn(first.run(shutdown.clone(), start));
    for term in 1..=2 {
        while starts.load(Ordering::SeqCst) < term {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        number.fetch_add(1, Ordering::SeqCst);
    }
    shutdown.cancel();
    running.await.unwrap();
}

#[tokio::test]
async fn calls_that_wait_share_one_reading_of_the_lease() {
    let (world, shutdown) = (world(), CancellationToken::new());
    let first = world.election("first", Timing { deadline: Duration::from_secs(60), ..QUICK });
    let term = first.term(&first.acquire().await, &shutdown);
    let begun = Instant::now();
    let calls: Vec<_> = (0..100).map(|_| is_granted(&term)).collect();
    assert!(futures::future::join_all(calls).await.into_iter().all(|granted| granted));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn hv_03_a_permit_is_fresh_for_half_a_second_after_the_lease_was_read() {
    let (world, shutdown) = (world(), CancellationToken::new());
    let first = world.election("first", Timing { deadline: Duration::from_secs(60), ..QUICK });
    let term = first.term(&first.acquire().await, &shutdown);
    assert!(!term.permit.is_fresh(), "the lease was not read yet");
    // On a busy machine, a reading may take as long itself.
    let fresh = async { while !(is_granted(&term).await && term.permit.is_fresh()) {} };
    tokio::time::timeout(Duration::from_secs(20), fresh).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(!term.permit.is_fresh());
}

#[tokio::test]
async fn a_released_lease_is_acquired_without_the_next_regular_attempt() {
    let world = world();
    let first = world.candidate("first");
    first.is_elected(1).await;
    let second = world.election("second", Timing { retry: Duration::from_secs(60), ..QUICK });
    let acquired = tokio::spawn(async move { second.acquire().await.asked });
    tokio::time::sleep(Duration::from_millis(100)).await;
    first.stop().await;
    tokio::time::timeout(Duration::from_secs(5), acquired).await.unwrap().unwrap();
}
