//! Membership of a real etcd of three members, through an API server that forwards ports.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod forward;
mod members;

use std::time::Duration;

use controllers_workload::etcd::{Etcd, EtcdAccess};
use controllers_workload::{KubeconfigConnector, WorkloadConnector, WorkloadError};
use forward::Forwarder;
use members::{Authority, Members};
use tokio::time::sleep;

fn nodes(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Asks until the members agree again.
async fn until<T>(
    what: &str,
    ask: impl AsyncFn() -> Result<T, WorkloadError>,
    wanted: impl Fn(&T) -> bool,
) -> T {
    let mut last = None;
    for _ in 0..100 {
        match ask().await {
            Ok(answer) if wanted(&answer) => return answer,
            Ok(_) => {}
            Err(error) => last = Some(error),
        }
        sleep(Duration::from_millis(200)).await;
    }
    panic!("not {what}, last error {last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_moves_and_members_leave_down_to_the_last_one() {
    let authority = Authority::new();
    let members = Members::start(&authority, &["n0", "n1", "n2"]);
    let server = Forwarder::start(members.ports()).await;
    let client = KubeconfigConnector::default().client(&server.kubeconfig()).await.unwrap();
    let etcd = |names: &[&str]| {
        EtcdAccess::new(client.clone(), nodes(names), &authority.client_credentials()).unwrap()
    };
    let all = etcd(&["gone", "n0", "n1", "n2"]);
    let list = until(
        "three members with names and addresses",
        || all.members(),
        // A member publishes its name, and then its addresses.
        |list| list.len() == 3 && list.iter().all(|it| !it.name.is_empty() && it.client_urls.len() == 1),
    )
    .await;
    let id = |name: &str| list.iter().find(|member| member.name == name).unwrap().id;
    assert!(list.iter().all(|member| !member.is_learner));
    assert_eq!(all.alarms().await.unwrap(), []);
    let leader = until("a leader", || all.leader(), |_| true).await;
    let other = list.iter().find(|member| member.id != leader).unwrap();
    all.move_leader(other.id).await.unwrap();
    assert_eq!(all.leader().await.unwrap(), other.id);
    all.move_leader(other.id).await.unwrap();
    for name in ["n2", "n1"] {
        until("removed", || all.remove_member(id(name)), |()| true).await;
        all.remove_member(id(name)).await.unwrap();
    }
    let one = until("one member", || all.members(), |list| list.len() == 1).await;
    let error = all.remove_member(one[0].id).await.unwrap_err().to_string();
    assert!(error.contains("\"n0\" is the last one"), "{error}");
}

/// The control plane relies on it: a learner that never starts keeps other members from joining.
#[tokio::test(flavor = "multi_thread")]
async fn a_single_voter_accepts_one_learner_at_a_time() {
    let authority = Authority::new();
    let members = Members::start(&authority, &["n0"]);
    let server = Forwarder::start(members.ports()).await;
    let client = KubeconfigConnector::default().client(&server.kubeconfig()).await.unwrap();
    let etcd = EtcdAccess::new(client, nodes(&["n0"]), &authority.client_credentials()).unwrap();
    until("one member", || etcd.members(), |list| list.len() == 1 && !list[0].name.is_empty()).await;
    let (slot, late) = ("https://slot.example.invalid:2380", "https://10.0.0.9:2380");
    // A call that ended without an answer may have added it.
    let added = async |peer: &str| {
        let attempt = async || {
            let _ = etcd.add_learner(peer).await;
            etcd.members().await
        };
        until("added", attempt, |list| list.iter().any(|it| it.is_learner && it.peer_urls[0] == peer)).await
    };
    let list = added(slot).await;
    let learner = list.iter().find(|member| member.is_learner).unwrap();
    assert_eq!((list.len(), learner.name.as_str(), &learner.peer_urls[..]), (2, "", &[slot.to_owned()][..]));
    let refused = async || Ok(etcd.add_learner(late).await.unwrap_err().to_string());
    until("refused", refused, |error| error.contains("too many learner members")).await;
    until("removed", || etcd.remove_member(learner.id), |()| true).await;
    added(late).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_every_node_and_what_it_answered() {
    let authority = Authority::new();
    let members = Members::start(&authority, &["n0"]);
    let server = Forwarder::start(members.ports()).await;
    let client = KubeconfigConnector::default().client(&server.kubeconfig()).await.unwrap();
    let access =
        |credentials, names: &[&str]| EtcdAccess::new(client.clone(), nodes(names), credentials).unwrap();
    let good = authority.client_credentials();
    until("an answer", || async { access(&good, &["n0"]).members().await }, |_| true).await;
    let gone = access(&good, &["n7", "n8"]).members().await.unwrap_err().to_string();
    for part in ["n7: cannot forward port 2379 of Pod kube-system/etcd-n7", "n8: ", "not found"] {
        assert!(gone.contains(part), "{gone}");
    }
    let foreign = Authority::new().client_credentials();
    let error = access(&foreign, &["n0"]).members().await.unwrap_err().to_string();
    assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
    let unsigned = controllers_workload::etcd::EtcdCredentials { ca: good.ca.clone(), ..foreign.clone() };
    access(&unsigned, &["n0"]).members().await.expect_err("etcd refuses the client certificate");
    let broken = controllers_workload::etcd::EtcdCredentials { key: b"no key".to_vec(), ..good };
    let error = EtcdAccess::new(client.clone(), Vec::new(), &broken).unwrap_err().to_string();
    assert!(error.contains("the key of the etcd client certificate is not PEM"), "{error}");
}
