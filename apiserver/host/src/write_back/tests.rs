//! Tests of the copies of clusters' Secrets.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use kube::core::Status;
use serde_json::{Value, json};

use super::schedule::COMPARE;
use super::*;
use crate::fake::{Fake, status};
use crate::health::HostState;

/// Reports and records of this process and of earlier ones.
#[derive(Default)]
struct Memory {
    reports: Mutex<Vec<(Vec<Refusal>, bool)>>,
    records: Mutex<HashMap<String, CopyRecord>>,
    /// True if the store takes no records.
    is_down: bool,
}

impl Memory {
    /// Returns the reports without repetitions.
    fn reports(&self) -> Vec<(Vec<&'static str>, bool)> {
        let reports = self.reports.lock().unwrap();
        let reasons = |all: &[Refusal]| all.iter().map(|it| it.reason).collect();
        let mut found: Vec<_> =
            reports.iter().map(|(all, is_complete)| (reasons(all), *is_complete)).collect();
        found.dedup();
        found
    }

    fn owners(&self) -> Vec<String> {
        self.records.lock().unwrap().values().map(|record| record.owner.clone()).collect()
    }
}

#[async_trait]
impl WriteBackReport for Memory {
    async fn report(&self, _: &DynamicObject, refusals: &[Refusal], is_complete: bool) {
        self.reports.lock().unwrap().push((refusals.to_vec(), is_complete));
    }
}

#[async_trait]
impl CopyRecords for Memory {
    async fn list(&self) -> Vec<CopyRecord> {
        self.records.lock().unwrap().values().cloned().collect()
    }

    async fn write(&self, record: &CopyRecord) -> bool {
        if !self.is_down {
            self.records.lock().unwrap().insert(record.name.clone(), record.clone());
        }
        !self.is_down
    }

    async fn remove(&self, record: &CopyRecord) -> bool {
        self.records.lock().unwrap().remove(&record.name);
        true
    }
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": name, "namespace": "n", "uid": "s", "resourceVersion": "1",
            "labels": {CLUSTER_NAME: "c"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Cluster", "name": "c", "uid": "u"}]},
        "data": {"value": "YQ=="}})
}

fn cluster(uid: &str, policy: Option<&str>) -> Value {
    let annotations = policy.map(|policy| json!({"capstan.dev/host-secrets": policy}));
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "n", "uid": uid, "annotations": annotations}})
}

/// Own store with these Secrets, and perhaps a Cluster.
fn own(names: &'static [&'static str], cluster: Option<Value>) -> Fake {
    let own = Fake::new(status(404));
    own.responds(move |request, _| {
        let named = names.iter().find(|name| request.ends_with(&format!("/secrets/{name}")));
        let items: Vec<Value> = names.iter().map(|name| secret(name)).collect();
        Some(match (request, named, &cluster) {
            (request, _, _) if request.starts_with("WATCH") => return None,
            (_, Some(name), _) => (200, secret(name)),
            (request, _, Some(cluster)) if request.contains("/clusters/c") => (200, cluster.clone()),
            (request, _, _) if request.contains("/clusters/") || request.contains("/secrets/") => status(404),
            _ => (
                200,
                json!({"apiVersion": "v1", "kind": "SecretList", "metadata": {"resourceVersion": "1"}, "items": items}),
            ),
        })
    });
    own
}

/// Host with these Secrets, by name.
type Objects = Arc<Mutex<HashMap<String, Value>>>;

fn host(objects: &Objects) -> Fake {
    let host = Fake::new(status(404));
    host.responds(stored(objects));
    host
}

/// Responds as a host with these Secrets does.
fn stored(objects: &Objects) -> impl FnMut(&str, &Value) -> Option<(u16, Value)> + Send + use<> {
    let objects = Arc::clone(objects);
    move |request, body| {
        let mut objects = objects.lock().unwrap();
        let (method, path) = request.split_once(' ').unwrap();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let known = objects.get(&name).cloned();
        Some(match (method, known) {
            ("POST", _) => {
                let mut created = body.clone();
                created["metadata"]["uid"] = json!("made");
                created["metadata"]["resourceVersion"] = json!("1");
                objects.insert(body["metadata"]["name"].as_str().unwrap().to_owned(), created.clone());
                (201, created)
            }
            (_, None) => status(404),
            ("PUT", Some(known)) if body["metadata"]["uid"] == known["metadata"]["uid"] => {
                objects.insert(name, body.clone());
                (200, body.clone())
            }
            ("DELETE", Some(known)) if body["preconditions"]["uid"] == known["metadata"]["uid"] => {
                objects.remove(&name);
                (200, known)
            }
            ("GET", Some(known)) => (200, known),
            _ => status(409),
        })
    }
}

fn objects(all: &[(&str, Value)]) -> Objects {
    Arc::new(Mutex::new(all.iter().map(|(name, object)| ((*name).to_owned(), object.clone())).collect()))
}

/// Returns a Secret of the host with the label of this owner, if there is one, and this content.
fn in_host(name: &str, owner: Option<&str>, data: &str) -> Value {
    let mut copy = secret(name);
    copy["metadata"]["labels"] = owner.map_or(Value::Null, |owner| json!({OWNER: owner}));
    (copy["metadata"]["uid"], copy["data"]) = (json!("in host"), json!({"value": data}));
    copy
}

/// Leads for a while.
async fn lead(own: &Fake, host: &Fake, memory: &Arc<Memory>, health: &HostHealth, time: Duration) {
    let pin = HostPin::default();
    pin.restore("h".to_owned());
    let target = WriteBackHost { health: health.clone(), pin, limit: WriteLimit::default() };
    let (records, report) = (Arc::clone(memory), Arc::clone(memory));
    let writer = SecretWriteBack::new(own.client(), (host.client(), target), records, report);
    let _ = tokio::time::timeout(time, writer.run(CancellationToken::new())).await;
}

fn up() -> HostHealth {
    HostHealth::in_state(HostState::Up)
}

fn writes(host: &Fake) -> Vec<String> {
    host.requests().into_iter().filter(|request| !request.starts_with("GET ")).collect()
}

const CA: &[&str] = &["c-ca"];

const SECOND: Duration = Duration::from_secs(1);

const A_WHILE: Duration = Duration::from_secs(6);

/// Longer than the time for which the record of a missing copy stays.
const LONG: Duration = Duration::from_secs(180);

#[tokio::test(start_paused = true)]
async fn ho_30_a_copy_is_recorded_and_created_and_other_secrets_cost_no_call() {
    let (memory, found) = (Arc::new(Memory::default()), objects(&[]));
    let fake = host(&found);
    lead(&own(&["c-ca", "machine-1"], Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    assert_eq!(
        fake.requests(),
        ["GET /api/v1/namespaces/n/secrets/c-ca", "POST /api/v1/namespaces/n/secrets"]
    );
    assert_eq!(memory.owners(), ["u"]);
    let copy = found.lock().unwrap()["c-ca"].clone();
    assert_eq!((&copy["data"], &copy["metadata"]["labels"][OWNER]), (&secret("c-ca")["data"], &json!("u")));
    let without_store = Arc::new(Memory { is_down: true, ..Memory::default() });
    let fake = host(&objects(&[]));
    lead(&own(CA, Some(cluster("u", None))), &fake, &without_store, &up(), A_WHILE).await;
    assert_eq!(writes(&fake), Vec::<String>::new(), "a copy that is not recorded might stay for ever");
}

#[tokio::test(start_paused = true)]
async fn ho_32_nothing_is_sent_while_the_host_is_not_up_and_all_afterwards() {
    let (memory, own, fake) =
        (Arc::new(Memory::default()), own(CA, Some(cluster("u", None))), host(&objects(&[])));
    let health = HostHealth::in_state(HostState::Down);
    let backlog = || health.metrics().outbox(Outbox::Secrets);
    lead(&own, &fake, &memory, &health, REPORT_INTERVAL * 3 - SECOND).await;
    assert_eq!(fake.requests(), Vec::<String>::new());
    assert_eq!(backlog(), (1, 10), "one Secret waits for ten seconds");
    // The next leader knows what is owed, because the Secret is in the store.
    health.set(HostState::Up);
    lead(&own, &fake, &memory, &health, A_WHILE).await;
    assert_eq!(writes(&fake), ["POST /api/v1/namespaces/n/secrets"]);
    assert_eq!(backlog(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn ho_31_the_next_leader_removes_the_copy_of_a_cluster_that_was_deleted_during_an_outage() {
    let (memory, found) = (Arc::new(Memory::default()), objects(&[]));
    let fake = host(&found);
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    assert_eq!(found.lock().unwrap().len(), 1);
    // The host is down. The leader is killed after the deletion, of which nothing is left in the store.
    let health = HostHealth::in_state(HostState::Down);
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &health, A_WHILE).await;
    lead(&own(&[], None), &fake, &memory, &health, LONG).await;
    assert_eq!(health.metrics().outbox(Outbox::Secrets).0, 1, "a removal waits");
    health.set(HostState::Up);
    lead(&own(&[], None), &fake, &memory, &health, A_WHILE).await;
    assert_eq!(found.lock().unwrap().len(), 0, "{:?}", fake.requests());
    assert_eq!(memory.owners(), ["u"], "a late call of the former leader may create it again");
    lead(&own(&[], None), &fake, &memory, &health, LONG).await;
    assert!(memory.owners().is_empty());
}

#[tokio::test(start_paused = true)]
async fn ho_31_a_copy_is_replaced_by_that_of_the_next_cluster_of_the_name() {
    let (memory, found) = (Arc::new(Memory::default()), objects(&[]));
    let fake = host(&found);
    lead(&own(CA, Some(cluster("old", None))), &fake, &memory, &up(), A_WHILE).await;
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    assert_eq!(found.lock().unwrap()["c-ca"]["metadata"]["labels"][OWNER], "u");
    assert_eq!(memory.owners(), ["u"]);
    assert!(memory.reports().iter().all(|(refusals, _)| refusals.is_empty()), "it was no foreign Secret");
    lead(&own(CA, Some(cluster("u", Some("none")))), &fake, &memory, &up(), LONG).await;
    assert!(found.lock().unwrap().is_empty() && memory.owners().is_empty(), "{:?}", fake.requests());
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_comes_back_with_its_moved_cluster_is_not_removed() {
    let (memory, found) = (Arc::new(Memory::default()), objects(&[]));
    let fake = host(&found);
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    let uids = || -> Vec<Option<String>> {
        memory.records.lock().unwrap().values().map(|record| record.uid.clone()).collect()
    };
    assert_eq!(uids(), [Some("made".to_owned())]);
    // clusterctl has deleted the copy and the Cluster, and has brought both back: with the label, and with other uids.
    found.lock().unwrap().insert("c-ca".to_owned(), in_host("c-ca", Some("u"), "YQ=="));
    lead(&own(&[], Some(cluster("v", None))), &fake, &memory, &up(), LONG).await;
    assert_eq!(found.lock().unwrap()["c-ca"]["metadata"]["uid"], "in host", "{:?}", fake.requests());
    assert!(memory.owners().is_empty(), "the copy of the record is gone");
}

#[tokio::test(start_paused = true)]
async fn ho_03_a_record_of_another_host_cluster_changes_nothing() {
    let memory = Arc::new(Memory::default());
    lead(&own(CA, Some(cluster("u", None))), &host(&objects(&[])), &memory, &up(), A_WHILE).await;
    for record in memory.records.lock().unwrap().values_mut() {
        record.host = "other".to_owned();
    }
    let found = objects(&[("c-ca", in_host("c-ca", Some("u"), "YQ=="))]);
    let fake = host(&found);
    lead(&own(&[], None), &fake, &memory, &up(), LONG).await;
    assert_eq!((fake.requests(), memory.owners()), (Vec::<String>::new(), Vec::<String>::new()));
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_changed_copy_is_restored_and_a_foreign_secret_is_never_touched() {
    for (owner, expected) in [(Some("u"), None), (None, Some("WriteBackRefused"))] {
        let memory = Arc::new(Memory::default());
        let found = objects(&[("c-ca", in_host("c-ca", owner, "Yg=="))]);
        let fake = host(&found);
        lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), COMPARE * 3).await;
        let changed = found.lock().unwrap()["c-ca"]["data"] == secret("c-ca")["data"];
        assert_eq!(changed, expected.is_none(), "{:?}", fake.requests());
        assert_eq!(writes(&fake).len(), usize::from(changed), "{:?}", fake.requests());
        assert_eq!(memory.reports(), [(expected.into_iter().collect(), true)]);
        // The Cluster is deleted: a foreign Secret stays.
        lead(&own(&[], None), &fake, &memory, &up(), LONG).await;
        assert_eq!(found.lock().unwrap().is_empty(), changed);
    }
}

#[tokio::test(start_paused = true)]
async fn ho_34_a_missing_permission_is_reported_and_tried_again() {
    let (memory, fake) = (Arc::new(Memory::default()), Fake::new(status(403)));
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), COMPARE * 3).await;
    assert_eq!(memory.reports(), [(vec!["WriteBackForbidden"], true)]);
    let message = memory.reports.lock().unwrap()[0].0[0].message.clone();
    assert!(message.contains("--write-secrets"), "{message}");
    assert!(fake.requests().len() >= 3, "{:?}", fake.requests());
    fake.answer((200, in_host("c-ca", None, "YQ==")));
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    assert_eq!(memory.reports().last(), Some(&(vec![], true)), "the refusal has ended");
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_refused_or_hanging_secret_stops_no_other() {
    let names = &["c-ca", "c-etcd", "c-proxy", "c-sa"];
    let (memory, fake) = (Arc::new(Memory::default()), Fake::new(status(404)));
    fake.responds(|request, body| {
        let name = body["metadata"]["name"].as_str().unwrap_or_default();
        match name {
            _ if request.starts_with("GET ") => Some(status(404)),
            "c-ca" => None,
            "c-etcd" => Some(status(403)),
            "c-proxy" => Some(status(500)),
            _ => Some((201, body.clone())),
        }
    });
    lead(&own(names, Some(cluster("u", None))), &fake, &memory, &up(), SECOND).await;
    let created = fake.bodies().into_iter().filter(|body| body["metadata"]["name"] == "c-sa").count();
    assert_eq!(created, 1, "{:?}", fake.requests());
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_on_probation_is_not_believed_and_a_missing_namespace_is_no_refusal() {
    let memory = Arc::new(Memory::default());
    let health = up();
    let starting = health.clone();
    let fake = Fake::new(status(403));
    fake.responds(move |_, _| {
        starting.set(HostState::Probation);
        Some(status(403))
    });
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &health, A_WHILE).await;
    assert_eq!(memory.reports(), [(vec![], false)], "it has not read its roles");
    let terminating = Status::failure("it ends", "Forbidden").with_code(403);
    let mut terminating = json!(terminating);
    terminating["details"] = json!({"causes": [{"reason": "NamespaceTerminating"}]});
    let fake = Fake::new(status(404));
    fake.responds(move |request, _| {
        Some(if request.starts_with("GET") { status(404) } else { (403, terminating.clone()) })
    });
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    assert_eq!(memory.reports().last(), Some(&(vec![], true)));
    assert_eq!(writes(&fake).len(), 1, "it is tried again after a while: {:?}", fake.requests());
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_secret_that_was_refused_before_an_outage_is_tried_again_when_the_host_is_back() {
    let (memory, fake, health) = (Arc::new(Memory::default()), Fake::new(status(403)), up());
    let own = own(CA, Some(cluster("u", None)));
    let outage = async {
        // The pause is the longest one by now.
        tokio::time::sleep(COMPARE).await;
        health.set(HostState::Down);
        fake.answer((200, in_host("c-ca", Some("u"), "YQ==")));
        tokio::time::sleep(SECOND).await;
        let before = fake.requests().len();
        health.set(HostState::Up);
        tokio::time::sleep(SECOND).await;
        assert_eq!(fake.requests().len(), before + 1, "{:?}", fake.requests());
    };
    tokio::select! {
        () = lead(&own, &fake, &memory, &health, COMPARE * 3) => {}
        () = outage => {}
    }
    assert_eq!(memory.reports().last(), Some(&(vec![], true)), "the refusal has ended");
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_copy_that_the_host_does_not_accept_is_reported_with_its_words() {
    let (memory, fake) = (Arc::new(Memory::default()), Fake::new(status(404)));
    fake.responds(|request, _| Some(status(if request.starts_with("GET ") { 404 } else { 422 })));
    lead(&own(CA, Some(cluster("u", None))), &fake, &memory, &up(), A_WHILE).await;
    assert_eq!(memory.reports(), [(vec!["WriteBackRefused"], true)]);
    let message = memory.reports.lock().unwrap()[0].0[0].message.clone();
    assert!(message.contains("Secret n/c-ca: the fake responds 422"), "{message}");
    assert_eq!(writes(&fake).len(), 1, "{:?}", fake.requests());
}

#[tokio::test(start_paused = true)]
async fn ho_31_a_copy_that_a_slow_host_creates_after_its_cluster_is_gone_is_removed() {
    let (memory, health) = (Arc::new(Memory::default()), up());
    let own = own(CA, Some(cluster("u", None)));
    let found = objects(&[("c-ca", in_host("c-ca", Some("u"), "YQ=="))]);
    let (fake, is_slow) = (Fake::new(status(404)), Arc::new(AtomicBool::new(false)));
    let (mut answers, slow) = (stored(&found), Arc::clone(&is_slow));
    fake.responds(move |request, body| match request.starts_with("POST ") && slow.load(Ordering::SeqCst) {
        true => Some(status(504)),
        false => answers(request, body),
    });
    let outage = async {
        tokio::time::sleep(COMPARE - SECOND).await;
        found.lock().unwrap().clear();
        is_slow.store(true, Ordering::SeqCst);
        tokio::time::sleep(SECOND * 2).await;
        assert!(!writes(&fake).is_empty(), "the copy is created again, without an answer");
        own.responds(|request, _| (!request.starts_with("WATCH")).then(|| status(404)));
        tokio::time::sleep(SECOND * 10).await;
        assert_eq!(memory.owners(), ["u"], "the host may still create it");
        found.lock().unwrap().insert("c-ca".to_owned(), in_host("c-ca", Some("u"), "YQ=="));
        tokio::time::sleep(LONG).await;
    };
    tokio::select! {
        () = lead(&own, &fake, &memory, &health, COMPARE * 2) => {}
        () = outage => {}
    }
    assert!(found.lock().unwrap().is_empty() && memory.owners().is_empty(), "{:?}", fake.requests());
}
