//! Tests of the upkeep of the copies.

use super::super::upkeep::UNUSED;
use super::*;

/// Objects that name some Secrets of the namespace `n`.
#[derive(Debug, Default)]
struct Users(Mutex<Option<SecretReferences>>);

impl Users {
    fn name(&self, named: &[&str], derived: &[&str]) {
        let keys = |names: &[&str]| names.iter().map(|name| ("n".to_owned(), (*name).to_owned())).collect();
        let references = SecretReferences { named: keys(named), derived: keys(derived) };
        *self.0.lock().unwrap() = Some(references);
    }
}

#[async_trait]
impl SecretUsers for Users {
    async fn references(&self) -> Option<SecretReferences> {
        self.0.lock().unwrap().clone()
    }
}

/// Time after which a pass has surely been made.
const PASS: Duration = Duration::from_secs(660);

#[tokio::test(start_paused = true)]
async fn c3_a_copy_is_removed_an_hour_after_no_object_names_it_and_no_reader_needs_it() {
    let (_host, health, stored, next) = leaders();
    let (secrets, users) = (next(), Users::default());
    secrets.secret("n", "s").await.unwrap();
    let keeping = secrets.keep_copies(&users);
    let waiting = async {
        tokio::time::sleep(UNUSED * 3).await;
        assert_eq!(stored.names().await.len(), 1, "it is unknown what objects name");
        users.name(&["s"], &[]);
        tokio::time::sleep(UNUSED * 48).await;
        assert_eq!(stored.names().await.len(), 1, "an object names it");
        users.name(&[], &["s"]);
        tokio::time::sleep(UNUSED * 48).await;
        assert_eq!(stored.names().await.len(), 1, "its name follows from that of an object");
        users.name(&[], &[]);
        tokio::time::sleep(UNUSED / 2).await;
        secrets.secret("n", "s").await.unwrap();
        tokio::time::sleep(UNUSED * 3 / 4).await;
        assert_eq!(stored.names().await.len(), 1, "it was read");
        health.set(HostState::Down);
        tokio::time::sleep(UNUSED * 3).await;
        assert_eq!(stored.names().await.len(), 1, "a host that is down says nothing");
        health.set(HostState::Up);
        tokio::time::sleep(UNUSED / 2).await;
        assert_eq!(stored.names().await.len(), 1, "the time begins anew");
        tokio::time::sleep(UNUSED / 2 + PASS).await;
        assert!(stored.names().await.is_empty());
    };
    tokio::select! { () = keeping => {}, () = waiting => {} }
}

#[tokio::test(start_paused = true)]
async fn c3_secrets_that_objects_name_are_read_every_ten_minutes_and_derived_ones_only_if_known() {
    let (host, health, stored, next) = leaders();
    host.responds(|line, _| {
        let name = line.rsplit('/').next().unwrap_or_default();
        let metadata = json!({"name": name, "namespace": "n", "resourceVersion": "1"});
        Some((200, json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})))
    });
    let (secrets, users) = (next(), Users::default());
    users.name(&["a", "b"], &["c", "d"]);
    secrets.secret("n", "c").await.unwrap();
    let keeping = secrets.keep_copies(&users);
    let waiting = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let known = || async {
            let mut names: Vec<String> = stored.names().await.into_iter().map(|(_, name)| name).collect();
            names.sort();
            names.join(" ")
        };
        assert_eq!((known().await.as_str(), host.requests().len()), ("a b c", 3));
        tokio::time::sleep(PASS * 6).await;
        for name in ["a", "b", "c"] {
            let (_, age) = stored.read("n", name).await.unwrap();
            assert!(age <= PASS * 2, "{name}: {age:?}");
        }
        assert!(!host.requests().iter().any(|line| line.ends_with("/d")), "the host may not have it");
        health.set(HostState::Down);
        let before = host.requests().len();
        tokio::time::sleep(PASS * 6).await;
        assert_eq!((known().await.as_str(), host.requests().len()), ("a b c", before));
    };
    tokio::select! { () = keeping => {}, () = waiting => {} }
}

#[tokio::test(start_paused = true)]
async fn ho_03_copies_in_a_namespace_that_the_host_has_lost_are_kept_for_an_hour() {
    let (host, own) = (Fake::new(secret("1")), Fake::new(status(404)));
    let (health, stored) = (HostHealth::in_state(HostState::Up), Arc::new(Stored::default()));
    let namespaces = HostNamespaces::new(host.client()).with_health(health.clone());
    namespaces.restore(HashMap::from([("n".to_owned(), json!({"metadata": {"name": "n"}}))]));
    let copies: Arc<dyn SecretCopies> = Arc::<Stored>::clone(&stored);
    let secrets = HostSecrets::with_copies(namespaces.clone(), own.client(), copies);
    secrets.secret("n", "s").await.unwrap();
    namespaces.lose("n");
    for code in [404, 403, 403] {
        tokio::time::sleep(REFUSED).await;
        host.answer(status(code));
        assert_eq!(version(secrets.secret("n", "s").await).as_deref(), Some("1"), "{code}");
    }
    tokio::time::sleep(Duration::from_secs(3600)).await;
    namespaces.believe_absence();
    host.answer(status(404));
    assert_eq!(version(secrets.secret("n", "s").await), None);
    assert!(stored.names().await.is_empty());
}
