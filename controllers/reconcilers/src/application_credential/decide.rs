//! Decision about the application credentials of a Cluster: one step of a rotation, or of their end. Pure.

use controllers_infrastructure::ApplicationCredential;
use jiff::{SignedDuration, Timestamp};

use super::record::{Held, Record};

/// Time after which an old credential is revoked although Pods may still use it.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// Everything that a decision depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// The Cluster has opted in. If it has withdrawn, what it has stays until it is deleted.
    pub wanted: bool,
    /// All other resources of the cluster are gone.
    pub ending: bool,
    /// Fingerprint of the credentials of the Cluster, and of the CA.
    pub source: String,
    /// Names of the roles that the Cluster wants; empty for all roles of the user.
    pub roles: Vec<String>,
    /// Id of their user.
    pub user: String,
    /// Credentials of this user with the prefix of the cluster.
    pub known: Vec<ApplicationCredential>,
    /// The workload cluster; `None` if it cannot be reached.
    pub workload: Option<Deployed>,
    pub now: Timestamp,
}

/// State of the workload cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Deployed {
    /// Name of the credential in the Secret, and the time at which it was written.
    pub secret: Option<(String, Timestamp)>,
    /// The Secret has exactly the content of the current credential.
    pub is_current: bool,
    /// Consumers whose Pods have not restarted since the current Secret was written.
    pub stale: Vec<String>,
    /// Consumers whose Pods are not all new and ready.
    pub rolling: Vec<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Record a new credential. The one that was recorded and is not in use becomes an old one.
    Plan,
    /// Make the next credential in Keystone.
    Create,
    /// Keystone has the next credential under this id.
    Adopt(String),
    /// Log in with the next credential, and make it the current one.
    Prove,
    /// Write the Secret of the workload cluster.
    Deliver,
    /// Restart the consumers, which read the Secret at their start.
    Restart,
    /// Revoke an old credential in Keystone, and take it from the record.
    Revoke(Held),
    /// Take an old credential from the record that another user has made: it cannot be revoked.
    Abandon(Held),
    /// Revoke a credential that is not in the record.
    RevokeStray(String),
    /// Nothing is left of the credentials.
    Forget,
    /// Wait. For people.
    Wait(String),
    Settled,
}

/// Decides on the next step.
pub(super) fn next_step(record: &Record, facts: &Facts) -> Step {
    if facts.ending {
        return end(record, facts);
    }
    if let Some(step) = renew(record, facts) {
        return step;
    }
    let unreachable = || Step::Wait("the workload cluster cannot be reached".to_owned());
    let Some(current) = &record.current else {
        return if facts.wanted { unreachable() } else { Step::Settled };
    };
    let Some(workload) = &facts.workload else { return unreachable() };
    if !workload.is_current {
        return Step::Deliver;
    }
    if !workload.stale.is_empty() {
        return Step::Restart;
    }
    let delivered = workload.secret.as_ref().map_or(facts.now, |(_, at)| *at);
    let is_patient = facts.now.duration_since(delivered) < PATIENCE;
    // If the record was lost, Pods may still use one that is not in it.
    let stray = facts.known.iter().find(|it| it.name != current.name);
    let former = record.old.first().map(|old| retire(old, facts));
    let Some(revocation) = former.or_else(|| stray.map(|it| Step::RevokeStray(it.id.clone()))) else {
        return Step::Settled;
    };
    if is_patient && !workload.rolling.is_empty() {
        let rolling = workload.rolling.join(", ");
        return Step::Wait(format!(
            "the Pods of {rolling} must restart before the old credential is revoked"
        ));
    }
    revocation
}

/// Returns the step towards a new credential, if one is due.
fn renew(record: &Record, facts: &Facts) -> Option<Step> {
    // A Cluster that has withdrawn names no roles.
    let has_roles = |held: &Held| !facts.wanted || is_same_set(&held.roles, &facts.roles);
    let is_good = |held: &Held| held.source == facts.source && facts.now < held.expires_at && has_roles(held);
    if let Some(next) = record.next.as_ref().filter(|next| is_good(next)) {
        let known = facts.known.iter().find(|it| it.name == next.name);
        return Some(match (&next.id, known) {
            (Some(id), Some(known)) if *id == known.id => Step::Prove,
            (_, Some(known)) => Step::Adopt(known.id.clone()),
            (_, None) => Step::Create,
        });
    }
    if !facts.wanted {
        return None;
    }
    let is_known = |held: &Held| facts.known.iter().any(|it| Some(&it.id) == held.id.as_ref());
    let is_fine = |held: &&Held| is_good(held) && is_known(held) && facts.now < held.rotation();
    let due = record.current.as_ref().filter(is_fine).is_none();
    // A cluster that never comes up needs no credential.
    (due && (facts.workload.is_some() || record.current.is_some())).then_some(Step::Plan)
}

/// Returns true if both lists have the same names, in any order.
fn is_same_set(one: &[String], other: &[String]) -> bool {
    one.iter().all(|name| other.contains(name)) && other.iter().all(|name| one.contains(name))
}

/// Returns the step towards the end of all credentials.
fn end(record: &Record, facts: &Facts) -> Step {
    let all = record.next.iter().chain(&record.current).chain(&record.old);
    if let Some(foreign) = all.clone().find(|it| is_foreign(it, facts)) {
        return Step::Abandon(foreign.clone());
    }
    facts.known.first().map_or(Step::Forget, |known| Step::RevokeStray(known.id.clone()))
}

fn retire(old: &Held, facts: &Facts) -> Step {
    if is_foreign(old, facts) { Step::Abandon(old.clone()) } else { Step::Revoke(old.clone()) }
}

fn is_foreign(held: &Held, facts: &Facts) -> bool {
    held.user.as_ref().is_some_and(|user| *user != facts.user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hour: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + hour * 3600).unwrap()
    }

    fn held(name: &str, id: Option<&str>) -> Held {
        Held {
            name: name.to_owned(),
            secret: "x".to_owned(),
            id: id.map(str::to_owned),
            user: id.map(|_| "me".to_owned()),
            made_at: at(0),
            expires_at: at(48),
            source: "s".to_owned(),
            roles: Vec::new(),
        }
    }

    fn known(name: &str) -> ApplicationCredential {
        ApplicationCredential { id: format!("id-{name}"), name: name.to_owned(), expires_at: None }
    }

    fn facts(hour: i64, names: &[&str]) -> Facts {
        Facts {
            wanted: true,
            ending: false,
            source: "s".to_owned(),
            roles: Vec::new(),
            user: "me".to_owned(),
            known: names.iter().map(|name| known(name)).collect(),
            workload: Some(Deployed {
                is_current: true,
                secret: Some(("a".to_owned(), at(0))),
                ..Deployed::default()
            }),
            now: at(hour),
        }
    }

    #[test]
    fn a_credential_is_recorded_made_proved_and_delivered() {
        let mut record = Record::default();
        let mut now = facts(0, &[]);
        now.workload = None;
        assert!(matches!(next_step(&record, &now), Step::Wait(_)), "the cluster does not answer yet");
        let withdrawn = Facts { wanted: false, ..now.clone() };
        assert_eq!(next_step(&record, &withdrawn), Step::Settled);
        now.workload = Some(Deployed::default());
        assert_eq!(next_step(&record, &now), Step::Plan);
        record.next = Some(held("a", None));
        assert_eq!(next_step(&record, &now), Step::Create);
        now.known = vec![known("a")];
        assert_eq!(next_step(&record, &now), Step::Adopt("id-a".to_owned()), "its response was lost");
        record.next = Some(held("a", Some("id-a")));
        assert_eq!(next_step(&record, &now), Step::Prove);
        record.current = record.next.take();
        assert_eq!(next_step(&record, &now), Step::Deliver);
        now.workload = None;
        assert!(matches!(next_step(&record, &now), Step::Wait(_)));
        now.workload =
            Some(Deployed { is_current: true, stale: vec!["ccm".to_owned()], ..Deployed::default() });
        assert_eq!(next_step(&record, &now), Step::Restart);
        assert_eq!(next_step(&record, &facts(0, &["a"])), Step::Settled);
    }

    #[test]
    fn half_of_the_life_another_source_and_a_loss_are_reasons_for_a_rotation() {
        let record = Record { current: Some(held("a", Some("id-a"))), ..Record::default() };
        assert_eq!(next_step(&record, &facts(23, &["a"])), Step::Settled);
        assert_eq!(next_step(&record, &facts(24, &["a"])), Step::Plan);
        assert_eq!(next_step(&record, &facts(1, &[])), Step::Plan, "somebody has deleted it");
        let changed = Facts { source: "t".to_owned(), ..facts(1, &["a"]) };
        assert_eq!(next_step(&record, &changed), Step::Plan);
        let withdrawn = Facts { wanted: false, ..changed };
        assert_eq!(next_step(&record, &withdrawn), Step::Settled);
        let changed_again = Record { next: Some(held("b", None)), ..record };
        let again = Facts { source: "u".to_owned(), ..facts(1, &["a"]) };
        assert_eq!(next_step(&changed_again, &again), Step::Plan);
    }

    #[test]
    fn other_roles_are_a_reason_for_a_rotation_and_for_another_attempt() {
        let record = Record { current: Some(held("a", Some("id-a"))), ..Record::default() };
        let less = Facts { roles: vec!["member".to_owned()], ..facts(1, &["a", "b"]) };
        assert_eq!(next_step(&record, &less), Step::Plan);
        let next = Held { roles: less.roles.clone(), ..held("b", Some("id-b")) };
        let rotating = Record { next: Some(next), ..record.clone() };
        assert_eq!(next_step(&rotating, &less), Step::Prove);
        let corrected = Facts { roles: vec!["reader".to_owned()], ..less.clone() };
        assert_eq!(next_step(&rotating, &corrected), Step::Plan, "the probe may have failed for its roles");
        let withdrawn = Facts { wanted: false, roles: Vec::new(), ..less };
        assert_eq!(next_step(&rotating, &withdrawn), Step::Prove);
        let names = |names: [&str; 2]| names.map(str::to_owned);
        assert!(is_same_set(&names(["a", "b"]), &names(["b", "a"])), "another order is no change");
        assert_ne!(next_step(&record, &withdrawn), Step::Plan);
    }

    #[test]
    fn an_old_credential_is_revoked_when_its_users_have_restarted_or_after_an_hour() {
        let old = held("a", Some("id-a"));
        let record =
            Record { current: Some(held("b", Some("id-b"))), old: vec![old.clone()], ..Record::default() };
        let mut now = facts(0, &["a", "b"]);
        now.workload.as_mut().unwrap().rolling = vec!["DaemonSet kube-system/ccm".to_owned()];
        assert!(matches!(next_step(&record, &now), Step::Wait(why) if why.contains("kube-system/ccm")));
        now.now = at(1);
        assert_eq!(next_step(&record, &now), Step::Revoke(old.clone()));
        assert_eq!(next_step(&record, &facts(0, &["a", "b"])), Step::Revoke(old.clone()));
        let other_user = Facts { user: "you".to_owned(), ..facts(0, &["b"]) };
        assert_eq!(next_step(&record, &other_user), Step::Abandon(old));
        let stray = Record { old: Vec::new(), ..record };
        assert_eq!(next_step(&stray, &facts(0, &["b", "c"])), Step::RevokeStray("id-c".to_owned()));
        let mut rolling = facts(0, &["b", "c"]);
        rolling.workload.as_mut().unwrap().rolling = vec!["DaemonSet kube-system/ccm".to_owned()];
        assert!(matches!(next_step(&stray, &rolling), Step::Wait(_)), "the record of it was lost");
        rolling.known = vec![known("b")];
        assert_eq!(next_step(&stray, &rolling), Step::Settled, "nothing is left to revoke");
    }

    #[test]
    fn at_the_end_every_credential_goes() {
        let record = Record {
            next: Some(held("b", None)),
            current: Some(held("a", Some("id-a"))),
            ..Record::default()
        };
        let ending = |names: &[&str]| Facts { ending: true, workload: None, ..facts(0, names) };
        assert_eq!(next_step(&record, &ending(&["a", "b"])), Step::RevokeStray("id-a".to_owned()));
        assert_eq!(next_step(&record, &ending(&["b"])), Step::RevokeStray("id-b".to_owned()));
        assert_eq!(next_step(&record, &ending(&[])), Step::Forget);
        let other_user = Facts { user: "you".to_owned(), ..ending(&[]) };
        assert!(matches!(next_step(&record, &other_user), Step::Abandon(held) if held.name == "a"));
    }
}
