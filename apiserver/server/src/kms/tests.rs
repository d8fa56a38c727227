//! Tests against a plug-in on a real unix socket.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use apiserver_machinery::encryption::{Encryption, EncryptionError, Provider, Rules};
use bytes::Bytes;
use http::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tonic::Status;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic_prost::ProstCodec;

use super::messages::*;
use super::*;

const FAST: Intervals = Intervals { well: Duration::from_millis(50), failing: Duration::from_millis(50) };

/// Key management system behind the plug-in. It outlives the plug-in's process.
#[derive(Debug, Default)]
struct System {
    /// Number of the key in use.
    key: AtomicU64,
    /// Seeds that it has sealed: key id and number. A ciphertext is the number.
    sealed: Mutex<Vec<(String, Vec<u8>)>>,
    /// Pause before each answer, in milliseconds.
    pause: AtomicU64,
    /// Numbers of the calls: status, seal, open.
    calls: [AtomicUsize; 3],
    unwell: Mutex<Option<String>>,
    /// Key id that the status has instead of that of the seeds.
    other_key_id: Mutex<Option<String>>,
}

impl System {
    fn key_id(&self) -> String {
        format!("key-{}", self.key.load(Ordering::SeqCst))
    }

    fn seals(&self) -> usize {
        self.calls[1].load(Ordering::SeqCst)
    }

    fn opens(&self) -> usize {
        self.calls[2].load(Ordering::SeqCst)
    }
}

/// One method of the plug-in.
struct Method<Q, A>(Arc<System>, fn(&System, Q) -> Result<A, Status>);

impl<Q: prost::Message + Send + 'static, A: prost::Message + Send + 'static> UnaryService<Q>
    for Method<Q, A>
{
    type Response = A;
    type Future = futures::future::BoxFuture<'static, Result<tonic::Response<A>, Status>>;

    fn call(&mut self, request: tonic::Request<Q>) -> Self::Future {
        let (system, method) = (Arc::clone(&self.0), self.1);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(system.pause.load(Ordering::SeqCst))).await;
            method(&system, request.into_inner()).map(tonic::Response::new)
        })
    }
}

fn status(system: &System, _: StatusRequest) -> Result<StatusResponse, Status> {
    system.calls[0].fetch_add(1, Ordering::SeqCst);
    let healthz = system.unwell.lock().unwrap().clone().unwrap_or_else(|| "ok".to_owned());
    let key_id = system.other_key_id.lock().unwrap().clone().unwrap_or_else(|| system.key_id());
    Ok(StatusResponse { version: "v2".to_owned(), healthz, key_id })
}

fn encrypt(system: &System, request: EncryptRequest) -> Result<EncryptResponse, Status> {
    system.calls[1].fetch_add(1, Ordering::SeqCst);
    let mut sealed = system.sealed.lock().unwrap();
    sealed.push((system.key_id(), request.plaintext));
    let annotations = BTreeMap::from([("tests.capstan.dev/a".to_owned(), b"x".to_vec())]);
    Ok(EncryptResponse {
        ciphertext: vec![u8::try_from(sealed.len()).unwrap()],
        key_id: system.key_id(),
        annotations,
    })
}

fn decrypt(system: &System, request: DecryptRequest) -> Result<DecryptResponse, Status> {
    system.calls[2].fetch_add(1, Ordering::SeqCst);
    let sealed = system.sealed.lock().unwrap();
    let DecryptRequest { ciphertext, key_id: requested, annotations, .. } = request;
    let found = ciphertext.first().and_then(|number| sealed.get(usize::from(*number) - 1));
    match found {
        Some((key_id, seed)) if *key_id == requested && annotations.len() == 1 => {
            Ok(DecryptResponse { plaintext: seed.clone() })
        }
        _ => Err(Status::invalid_argument("this is no ciphertext of mine")),
    }
}

/// Plug-in process: a gRPC server on a unix socket.
struct Process(tokio::task::JoinHandle<()>);

impl Process {
    fn start(socket: &Path, system: &Arc<System>) -> Self {
        let _ = std::fs::remove_file(socket);
        let (listener, system) = (UnixListener::bind(socket).unwrap(), Arc::clone(system));
        Self(tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let system = Arc::clone(&system);
                connections.spawn(async move {
                    let service =
                        hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
                            let system = Arc::clone(&system);
                            async move { Ok::<_, std::convert::Infallible>(answer(system, request).await) }
                        });
                    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        }))
    }

    /// Ends the process with all connections.
    async fn crash(self) {
        self.0.abort();
        let _ = self.0.await;
    }
}

async fn answer(system: Arc<System>, request: Request<hyper::body::Incoming>) -> Response<Body> {
    async fn unary<Q, A>(method: Method<Q, A>, request: Request<hyper::body::Incoming>) -> Response<Body>
    where
        Q: prost::Message + Default + Send + 'static,
        A: prost::Message + Default + Send + 'static,
    {
        Grpc::new(ProstCodec::<A, Q>::default()).unary(method, request).await
    }
    match request.uri().path() {
        "/v2.KeyManagementService/Status" => unary(Method(system, status), request).await,
        "/v2.KeyManagementService/Encrypt" => unary(Method(system, encrypt), request).await,
        "/v2.KeyManagementService/Decrypt" => unary(Method(system, decrypt), request).await,
        _ => Status::unimplemented("no such method").into_http(),
    }
}

/// Encryption of a server that uses the plug-in.
async fn server(socket: &Path) -> Encryption {
    let settings = KmsSettings {
        name: "vault".to_owned(),
        socket: socket.to_owned(),
        timeout: Duration::from_millis(500),
    };
    let provider = tokio::task::spawn_blocking(|| settings.start_with(FAST).unwrap()).await.unwrap();
    Encryption::new(Rules::from([("secrets".to_owned(), vec![Provider::Kms(provider)])]))
}

fn seal(encryption: &Encryption, key: &str) -> Result<Bytes, EncryptionError> {
    encryption.seal("secrets", key, Bytes::from_static(b"hunter2"))
}

/// Opens a value outside of the runtime's threads, as the thread of a request may wait.
fn open(encryption: &Encryption, key: &str, stored: &Bytes) -> Result<Bytes, EncryptionError> {
    encryption.open("secrets", key, stored)
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..200 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_many_values_need_one_seed_and_another_server_opens_them() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let _process = Process::start(&socket, &system);
    let writer = server(&socket).await;
    let stored: Vec<_> = (0..100).map(|number| seal(&writer, &format!("/{number}")).unwrap()).collect();
    assert!(stored[0].starts_with(b"k8s:enc:kms:v2:vault:"));
    assert!(!stored[0].windows(7).any(|window| window == b"hunter2"));
    assert_eq!((system.seals(), system.opens()), (1, 0));
    assert_eq!(writer.opening_keys(), BTreeSet::from(["kms:vault".to_owned()]));
    let reader = server(&socket).await;
    for (number, stored) in stored.iter().enumerate() {
        assert_eq!(open(&reader, &format!("/{number}"), stored).unwrap(), "hunter2");
    }
    assert_eq!(system.opens(), 1, "the seed stays in memory");
    let moved = open(&reader, "/other", &stored[0]);
    assert_eq!(moved, Err(EncryptionError::Damaged("/other".to_owned())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_a_changed_key_id_makes_a_new_seed_and_old_values_are_not_current() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let _process = Process::start(&socket, &system);
    let encryption = server(&socket).await;
    let old = seal(&encryption, "/a").unwrap();
    assert!(encryption.is_current("secrets", &old));
    system.key.store(7, Ordering::SeqCst);
    until("a seed of the new key", || system.seals() == 2).await;
    until("values of the old key are not current", || !encryption.is_current("secrets", &old)).await;
    let new = seal(&encryption, "/a").unwrap();
    assert!(encryption.is_current("secrets", &new));
    assert_eq!(encryption.is_sealed_as_now("secrets", "/a", &old), Ok(false));
    for stored in [&old, &new] {
        assert_eq!(open(&encryption, "/a", stored).unwrap(), "hunter2");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_after_a_crash_known_seeds_are_used_and_a_new_plugin_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let process = Process::start(&socket, &system);
    let (encryption, other) = (server(&socket).await, server(&socket).await);
    let (own, foreign) = (seal(&encryption, "/a").unwrap(), seal(&other, "/b").unwrap());
    process.crash().await;
    let begun = Instant::now();
    assert_eq!(open(&encryption, "/a", &own).unwrap(), "hunter2");
    assert!(encryption.kms_is_well() && seal(&encryption, "/c").is_ok(), "for three minutes");
    let error = open(&encryption, "/b", &foreign).unwrap_err();
    assert!(error.is_temporary() && error.to_string().contains("vault"), "{error}");
    // Values of unknown seeds do not wait one after the other.
    for _ in 0..100 {
        assert!(open(&encryption, "/b", &foreign).is_err());
    }
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    let _process = Process::start(&socket, &system);
    let opens = || open(&encryption, "/b", &foreign).is_ok();
    until("the new plug-in opens the seed", opens).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_a_destroyed_key_concerns_only_its_values_and_is_no_outage() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let _process = Process::start(&socket, &system);
    let stored: Vec<Bytes> = [seal(&server(&socket).await, "/a"), seal(&server(&socket).await, "/b")]
        .into_iter()
        .map(Result::unwrap)
        .collect();
    system.sealed.lock().unwrap()[0].0 = "destroyed".to_owned();
    let reader = server(&socket).await;
    let refused = open(&reader, "/a", &stored[0]).unwrap_err();
    assert!(!refused.is_temporary() && refused.to_string().contains("no ciphertext of mine"), "{refused}");
    assert_eq!(open(&reader, "/b", &stored[1]).unwrap(), "hunter2");
    assert_eq!(reader.is_sealed_as_now("secrets", "/a", &stored[0]), Ok(false), "a scan counts it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_a_slow_plugin_costs_each_caller_a_bounded_time_and_a_server_starts_without_one() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let begun = Instant::now();
    let encryption = server(&socket).await;
    let refused = seal(&encryption, "/a").unwrap_err();
    assert!(refused.is_temporary() && !encryption.kms_is_well(), "{refused}");
    system.pause.store(5_000, Ordering::SeqCst);
    let _process = Process::start(&socket, &system);
    assert!(seal(&encryption, "/a").is_err());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    system.pause.store(0, Ordering::SeqCst);
    until("the plug-in is well", || seal(&encryption, "/a").is_ok()).await;
    assert!(encryption.kms_is_well());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn hv_43_a_caller_that_waits_for_the_plugin_keeps_no_other_task_from_running() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let _process = Process::start(&socket, &system);
    let stored = seal(&server(&socket).await, "/a").unwrap();
    let reader = server(&socket).await;
    // The tasks of the plug-in have the same thread.
    let reading = tokio::spawn(async move { open(&reader, "/a", &stored) });
    assert_eq!(reading.await.unwrap().unwrap(), "hunter2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_a_plugin_that_is_not_well_seals_no_first_seed() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    *system.unwell.lock().unwrap() = Some("the vault is sealed".to_owned());
    let _process = Process::start(&socket, &system);
    let encryption = server(&socket).await;
    assert!(seal(&encryption, "/a").unwrap_err().is_temporary());
    assert_eq!(system.seals(), 0);
    *system.unwell.lock().unwrap() = None;
    until("it is well", || seal(&encryption, "/a").is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hv_43_a_status_whose_key_id_is_too_long_or_differs_from_that_of_the_seed_gives_no_seed() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, system) = (directory.path().join("kms.sock"), Arc::new(System::default()));
    let set = |key_id: Option<String>| *system.other_key_id.lock().unwrap() = key_id;
    set(Some("k".repeat(1025)));
    let _process = Process::start(&socket, &system);
    let encryption = server(&socket).await;
    assert!(seal(&encryption, "/a").is_err() && system.seals() == 0);
    set(Some("k".repeat(1024)));
    until("the plug-in has sealed a seed", || system.seals() > 1).await;
    assert!(seal(&encryption, "/a").is_err() && !encryption.kms_is_well(), "each status would make a seed");
    set(None);
    until("both have the same key id", || seal(&encryption, "/a").is_ok()).await;
    let seals = system.seals();
    until("the status is good", || encryption.kms_is_well()).await;
    tokio::time::sleep(FAST.well * 4).await;
    assert_eq!(system.seals(), seals, "one seed per key id");
}

#[test]
fn hv_43_the_status_is_requested_each_minute_and_each_ten_seconds_while_it_is_bad() {
    assert_eq!((STATUS.well, STATUS.failing), (Duration::from_secs(60), Duration::from_secs(10)));
}

#[test]
fn hv_43_a_seed_seals_for_three_minutes_after_the_last_good_status() {
    let seeds = KmsSeeds::default();
    let now = Instant::now();
    assert!(!seeds.confirm("k", now) && !seeds.seals(now));
    let sealed = SealedSeed { key_id: "k".to_owned(), ciphertext: vec![1], annotations: BTreeMap::new() };
    seeds.replace(&[1; SEED], sealed.clone(), now);
    let later = |seconds| now + Duration::from_secs(seconds);
    assert!(seeds.seals(later(179)) && !seeds.seals(later(181)));
    assert!(seeds.confirm("k", later(170)) && seeds.seals(later(340)));
    assert!(!seeds.confirm("other", now));
    let large = |ciphertext: usize, key_id: usize| SealedSeed {
        key_id: "k".repeat(key_id),
        ciphertext: vec![1; ciphertext],
        ..sealed.clone()
    };
    assert!(large(1024, 1024).check().is_ok());
    assert!(
        large(1025, 1).check().is_err() && large(1, 1025).check().is_err() && large(0, 1).check().is_err()
    );
    let annotated = |size: usize| SealedSeed {
        annotations: BTreeMap::from([("a".to_owned(), vec![1; size])]),
        ..sealed.clone()
    };
    assert!(annotated(32 * 1024 - 1).check().is_ok() && annotated(32 * 1024).check().is_err());
}

#[test]
fn settings_need_a_name_and_an_absolute_socket() {
    let parsed = KmsSettings::parse("vault", "unix:///run/kms.sock", Some("5s")).unwrap();
    assert_eq!((parsed.socket.to_str(), parsed.timeout), (Some("/run/kms.sock"), Duration::from_secs(5)));
    for (name, endpoint) in [("", "unix:///s"), ("a:b", "unix:///s"), ("a", "unix://s"), ("a", "http://s")] {
        assert!(KmsSettings::parse(name, endpoint, None).is_err(), "{name} {endpoint}");
    }
}
