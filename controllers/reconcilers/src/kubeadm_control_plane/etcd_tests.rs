//! Tests of the calls to etcd (D.7).

use apiserver_types::ConditionStatus;
use async_trait::async_trait;
use controllers_workload::etcd::{Alarm, AlarmKind, Member as OfEtcd};

use super::super::replica::examples::{going, healthy, replica, set};
use super::*;

/// Etcd whose members are `a`, `b`, `c` with the ids 1, 2, 3. The last is a learner if `learner` is set.
#[derive(Debug, Default)]
struct Fake {
    leader: Option<u64>,
    learner: bool,
    /// Members that do not take over.
    refuse: Vec<u64>,
    asked: Mutex<Vec<u64>>,
    /// URLs of learners that were added.
    added: Mutex<Vec<String>>,
}

fn failed(what: &str) -> WorkloadError {
    WorkloadError::Etcd(what.to_owned())
}

#[async_trait]
impl Etcd for Fake {
    async fn members(&self) -> Result<Vec<OfEtcd>, WorkloadError> {
        let member = |(name, id): (&str, u64)| OfEtcd {
            id,
            name: name.to_owned(),
            is_learner: self.learner && id == 3,
            ..OfEtcd::default()
        };
        Ok([("a", 1), ("b", 2), ("c", 3)].map(member).into())
    }

    async fn alarms(&self) -> Result<Vec<Alarm>, WorkloadError> {
        Ok(vec![Alarm { member_id: 2, kind: AlarmKind::NoSpace }])
    }

    async fn leader(&self) -> Result<u64, WorkloadError> {
        self.leader.ok_or_else(|| failed("there is no leader"))
    }

    async fn move_leader(&self, to: u64) -> Result<(), WorkloadError> {
        self.asked.lock().unwrap().push(to);
        if self.refuse.contains(&to) { Err(failed("refused")) } else { Ok(()) }
    }

    async fn add_learner(&self, peer_url: &str) -> Result<(), WorkloadError> {
        self.added.lock().unwrap().push(peer_url.to_owned());
        if self.learner { Err(failed("too many learner members in cluster")) } else { Ok(()) }
    }

    async fn remove_member(&self, _: u64) -> Result<(), WorkloadError> {
        Ok(())
    }
}

/// Forwards the leadership of `a`. Returns the result, and the members that were asked.
async fn forwarded(fake: Fake) -> (Result<Option<String>, String>, Vec<u64>) {
    let fake = Arc::new(fake);
    let replicas = vec![healthy("a", 1), healthy("b", 2), healthy("c", 3)];
    let etcd: Arc<dyn Etcd> = fake.clone();
    let observed = Observed { replicas, etcd: Some(etcd), ..Observed::default() };
    let result = forward_leadership(&observed, "a").await.map_err(|error| error.to_string());
    let asked = fake.asked.lock().unwrap().clone();
    (result, asked)
}

#[test]
fn d7_the_leadership_goes_to_the_healthiest_and_then_to_the_newest_machine() {
    let mut unhealthy = healthy("unhealthy", 9);
    set(&mut unhealthy, "EtcdMemberHealthy", ConditionStatus::Unknown);
    let mut current = healthy("current", 1);
    set(&mut current, "UpToDate", ConditionStatus::True);
    let replicas = [
        healthy("old", 1),
        unhealthy,
        healthy("new", 2),
        current,
        going(healthy("going", 3)),
        replica("without a Node", 4),
        healthy("leader", 5),
    ];
    assert_eq!(successors(&replicas, "leader"), ["current", "new", "old", "unhealthy"]);
}

#[tokio::test]
async fn d7_only_the_leader_hands_over_and_the_successors_are_tried_in_turn() {
    let leader = || Fake { leader: Some(1), ..Fake::default() };
    let node = |name: &str| Ok(Some(name.to_owned()));
    assert_eq!(
        forwarded(Fake { leader: Some(2), ..leader() }).await,
        (Ok(None), vec![]),
        "another one leads"
    );
    assert_eq!(forwarded(leader()).await, (node("c"), vec![3]));
    assert_eq!(forwarded(Fake { refuse: vec![3], ..leader() }).await, (node("b"), vec![3, 2]));
    assert_eq!(
        forwarded(Fake { learner: true, ..leader() }).await,
        (node("b"), vec![2]),
        "a learner cannot lead"
    );
}

#[tokio::test]
async fn d7_an_unknown_leader_or_no_successor_is_an_error_so_that_the_machine_stays() {
    let (result, asked) = forwarded(Fake::default()).await;
    assert!(result.unwrap_err().contains("there is no leader") && asked.is_empty());
    let (result, asked) = forwarded(Fake { leader: Some(1), refuse: vec![2, 3], ..Fake::default() }).await;
    let error = result.unwrap_err();
    assert!(
        error.contains("no member of etcd takes over the leadership of a: c: ") && error.contains("b: "),
        "{error}"
    );
    assert_eq!(asked, [3, 2]);
    let alone = forward_leadership(&Observed::default(), "a").await.unwrap_err().to_string();
    assert!(alone.contains("there is no connection to etcd"), "{alone}");
}

#[tokio::test]
async fn d7_the_slot_is_taken_by_a_learner_at_an_address_that_no_server_has() {
    for (learner, expected) in [(false, Ok(())), (true, Err("too many learner members"))] {
        let fake = Arc::new(Fake { learner, ..Fake::default() });
        let etcd: Arc<dyn Etcd> = fake.clone();
        let observed = Observed { etcd: Some(etcd), ..Observed::default() };
        match (take_slot(&observed).await, expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (result, _) => panic!("{result:?}"),
        }
        assert_eq!(*fake.added.lock().unwrap(), ["https://learner-slot.capstan.invalid:2380"]);
    }
}

#[tokio::test]
async fn d7_members_are_known_with_their_alarms() {
    let found = members(&Fake { learner: true, ..Fake::default() }).await.unwrap();
    let found: Vec<(&str, bool, bool)> =
        found.iter().map(|it| (it.name.as_str(), it.has_alarm, it.is_learner)).collect();
    assert_eq!(found, [("a", false, false), ("b", true, false), ("c", false, true)]);
}

#[tokio::test]
async fn d7_the_client_certificate_is_made_once_per_authority_and_needs_its_key() {
    let ca = || {
        let made = controllers_bootstrap::certificates::certificate_authority;
        made(KeyAlgorithm::EcdsaP256, None, Timestamp::now()).unwrap()
    };
    let (first, second) = (ca(), ca());
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.metadata.uid = Some("uid".to_owned());
    let spec = serde_json::json!({"clusterConfiguration": {"encryptionAlgorithm": "ECDSA-P256"}});
    control_plane.spec.kubeadm_config_spec = serde_json::from_value(spec).unwrap();
    let credentials = Credentials::default();
    let made = credentials.of(&control_plane, &first).await.unwrap();
    assert_eq!(made.ca, first.certificate.as_bytes());
    assert!(credentials.of(&control_plane, &first).await.unwrap() == made, "it is kept");
    assert!(credentials.of(&control_plane, &second).await.unwrap() != made, "of another authority");
    let without_key = PemPair { key: String::new(), ..first };
    let mut observed = Observed::default();
    observed.certificates.etcd = Some(without_key);
    let client = crate::api_in_memory::FakeApi::default().client();
    let error = connect(&ForwardedPorts, &credentials, client, &control_plane, &observed).await.unwrap_err();
    assert_eq!(error, "the Secret with the authority of etcd has no key");
}
