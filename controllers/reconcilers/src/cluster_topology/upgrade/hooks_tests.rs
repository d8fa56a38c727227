//! Tests of the hooks.

use apiserver_types::ClusterSpec;

use super::*;

fn cluster(annotations: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    for (key, value) in annotations {
        cluster.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
    }
    cluster
}

fn hooks(annotations: &[(&str, &str)]) -> Hooks {
    Hooks::of(&cluster(annotations))
}

/// Returns hooks with servers for this one, which have this answer.
fn served(pending: &str, hook: Hook, answer: Option<Answer>) -> Hooks {
    let answers = answer.map(|answer| (hook, answer)).into_iter().collect();
    let servers = Servers { hooks: BTreeSet::from([hook]), answers };
    Hooks::with(&cluster(&[(PENDING_HOOKS, pending)]), servers)
}

fn waits(message: &str, seconds: u64) -> Answer {
    Answer::Waits(message.to_owned(), Duration::from_secs(seconds))
}

#[test]
fn a_hook_before_something_blocks_while_its_annotations_exist() {
    let mut free = hooks(&[]);
    assert!(!free.blocks(Hook::BeforeClusterUpgrade) && free.is_free());
    let one = "before-upgrade.hook.cluster.cluster.x-k8s.io/backup";
    let mut held = hooks(&[(one, "")]);
    assert!(held.blocks(Hook::BeforeClusterUpgrade) && held.blocks(Hook::BeforeClusterUpgrade));
    assert_eq!(held.text(), format!("BeforeClusterUpgrade: annotation {one} is set"));
    assert_eq!((held.is_free(), held.retry()), (false, None));
    let other = "before-upgrade.hook.cluster.cluster.x-k8s.io/check";
    let mut twice = hooks(&[(one, ""), (other, "")]);
    assert!(twice.blocks(Hook::BeforeClusterUpgrade));
    assert_eq!(twice.text(), format!("BeforeClusterUpgrade: annotations {one}, {other} are set"));
}

#[test]
fn a_hook_after_something_blocks_only_once_it_is_pending() {
    let annotation = "after-control-plane.hook.cluster.cluster.x-k8s.io/check";
    let mut before = hooks(&[(annotation, "")]);
    assert!(!before.blocks(Hook::AfterControlPlaneUpgrade), "no step has begun");
    before.begin_step(true);
    let all = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    assert_eq!(before.pending().as_deref(), Some(all));
    assert_eq!(before.pending_before(), None, "it has not begun yet");
    assert!(before.blocks(Hook::AfterControlPlaneUpgrade));
    let mut passed = hooks(&[(PENDING_HOOKS, "AfterControlPlaneUpgrade,Other")]);
    assert!(!passed.blocks(Hook::AfterControlPlaneUpgrade));
    assert_eq!(passed.pending().as_deref(), Some("Other"), "of another controller");
}

#[test]
fn a_hook_whose_servers_have_not_answered_is_due_and_nothing_goes_past_it() {
    let mut found = served("AfterWorkersUpgrade,Other", Hook::AfterWorkersUpgrade, None);
    assert!(found.blocks(Hook::AfterWorkersUpgrade));
    assert_eq!(found.due(), Some(Hook::AfterWorkersUpgrade));
    assert!(found.blocks(Hook::BeforeControlPlaneUpgrade), "although nothing else holds it");
    assert!(!found.blocks(Hook::AfterClusterUpgrade), "it is not pending");
    assert_eq!(found.pending().as_deref(), Some("AfterWorkersUpgrade,Other"));
    assert_eq!((found.is_free(), found.blocking.len()), (false, 0));
    let mut unserved = served("", Hook::AfterWorkersUpgrade, None);
    assert!(!unserved.blocks(Hook::BeforeControlPlaneUpgrade) && unserved.due().is_none());
}

#[test]
fn servers_block_until_they_agree() {
    let hook = Hook::AfterControlPlaneUpgrade;
    let mut held = served("AfterControlPlaneUpgrade", hook, Some(waits("backup", 30)));
    assert!(held.blocks(hook) && held.due().is_none());
    assert_eq!(held.text(), "AfterControlPlaneUpgrade: backup");
    assert_eq!(held.retry(), Some(Duration::from_secs(30)));
    assert_eq!(held.pending().as_deref(), Some("AfterControlPlaneUpgrade"));
    let mut silent = served("AfterControlPlaneUpgrade", hook, Some(waits("", 30)));
    assert!(silent.blocks(hook));
    assert_eq!(silent.text(), "AfterControlPlaneUpgrade");
    let mut free = served("AfterControlPlaneUpgrade", hook, Some(Answer::Agreed));
    assert!(!free.blocks(hook) && free.pending().is_none());
}

#[test]
fn annotations_come_before_the_servers_of_a_hook() {
    let annotation = "before-delete.hook.cluster.cluster.x-k8s.io/backup";
    let servers = Servers { hooks: BTreeSet::from([Hook::BeforeClusterDelete]), ..Servers::default() };
    let mut found = Hooks::with(&cluster(&[(annotation, "")]), servers);
    assert!(found.blocks(Hook::BeforeClusterDelete));
    assert_eq!((found.due(), found.blocking.len()), (None, 1), "the servers are not called");
}

#[test]
fn servers_that_agreed_to_an_upgrade_are_not_called_for_its_begin_again() {
    let hook = Hook::BeforeClusterUpgrade;
    let mut first = served("", hook, Some(Answer::Agreed));
    assert!(!first.blocks(hook));
    first.begin_upgrade();
    assert_eq!(first.pending().as_deref(), Some("AfterClusterUpgrade"));
    let mut second = served("AfterClusterUpgrade", hook, None);
    assert!(!second.blocks(hook) && second.due().is_none());
    let mut without = hooks(&[]);
    without.begin_upgrade();
    assert_eq!(without.pending(), None, "no server has agreed");
}

#[test]
fn a_creation_is_marked_for_servers_alone() {
    let mut plain = hooks(&[]);
    plain.begin_creation();
    assert_eq!(plain.pending(), None);
    let mut found = served("", Hook::AfterControlPlaneInitialized, None);
    found.begin_creation();
    assert_eq!(found.pending().as_deref(), Some("AfterControlPlaneInitialized"));
    // Without its servers, a mark is over at the time of the hook.
    let mut marked = hooks(&[(PENDING_HOOKS, "AfterControlPlaneInitialized")]);
    assert!(!marked.blocks(Hook::AfterControlPlaneInitialized));
    assert_eq!(marked.pending(), None);
}

#[test]
fn marks_of_a_step_that_did_not_begin_are_removed() {
    let all = "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade";
    let mut announced = hooks(&[(PENDING_HOOKS, all)]);
    announced.forget_step();
    assert_eq!(announced.pending().as_deref(), Some("AfterClusterUpgrade"));
    let mut without_workers = hooks(&[(PENDING_HOOKS, all)]);
    without_workers.forget_workers();
    let left = "AfterClusterUpgrade,AfterControlPlaneUpgrade";
    assert_eq!(without_workers.pending().as_deref(), Some(left));
    let mut done = hooks(&[(PENDING_HOOKS, "AfterClusterUpgrade,AfterWorkersUpgrade")]);
    done.forget_workers();
    assert_eq!(done.pending().as_deref(), Some("AfterClusterUpgrade,AfterWorkersUpgrade"), "they have begun");
}
