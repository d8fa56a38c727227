//! Gate of rollouts: settings of the owner of Machines, or of its Cluster, that keep the owner from replacing Machines.
//! Pure.

use std::time::Duration;

use apiserver_types::Cluster;
use apiserver_types::maintenance_window::{MAINTENANCE_WINDOW, MaintenanceWindow};
use apiserver_types::rollout_settings::{ROLLOUT_POLICY, RolloutPolicy, rollout_policy, setting_problem};
use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

/// Reason of a rollout that waits until a person changes something.
const BLOCKED: &str = "RolloutBlocked";

/// Reason of a rollout that waits for its maintenance window.
const WAITING: &str = "WaitingForMaintenanceWindow";

/// Delay of the pass after the start of a window, so that it has begun for certain.
const MARGIN: Duration = Duration::from_secs(1);

/// Hold of a rollout: the reason for which its next step is not made now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Reason of the condition.
    pub reason: &'static str,
    /// Text for people.
    pub message: String,
    /// Time until the hold ends by itself. `None`: a person has to act.
    pub wait: Option<Duration>,
}

impl Hold {
    /// Returns the message of the condition RollingOut. `first` is its first line, and `lines` are the differences, one
    /// line each.
    pub(crate) fn text(&self, first: &str, lines: &[String]) -> String {
        let differences: String = lines.iter().map(|line| format!("\n{line}")).collect();
        match self.reason {
            WAITING => format!("{first}{differences}\n* Waiting: {}", self.message),
            _ => format!("{first} is blocked: {}{differences}", self.message),
        }
    }

    /// Returns the interval until the next pass, at most `longest`.
    pub(crate) fn interval(&self, longest: Duration) -> Duration {
        self.wait.map_or(longest, |wait| wait.saturating_add(MARGIN).min(longest))
    }
}

/// Returns the hold of a rollout by the owner of Machines, or `None` if it can go on.
pub(crate) fn hold<K>(owner: &K, cluster: Option<&Cluster>, now: Timestamp) -> Option<Hold>
where
    K: Resource<DynamicType = ()>,
{
    policy(owner).or_else(|| outside_window(owner, cluster, now))
}

/// Part that updates in place by extension servers have in the rollouts of an owner of Machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InPlace {
    /// None: Machines are replaced, or stay because the policy cannot be used.
    Never,
    /// Machines that no server can update are replaced. Upstream's rollout.
    Preferred,
    /// Machines that no server can update stay.
    Only,
}

/// Returns the part of updates in place by the policy of rollouts.
pub(crate) fn in_place<K>(owner: &K) -> InPlace
where
    K: Resource<DynamicType = ()>,
{
    let Some(text) = owner.annotations().get(ROLLOUT_POLICY) else { return InPlace::Preferred };
    match rollout_policy(text) {
        Some(RolloutPolicy::InPlaceThenReplace) => InPlace::Preferred,
        Some(RolloutPolicy::InPlaceOnly) => InPlace::Only,
        Some(RolloutPolicy::Replace) | None => InPlace::Never,
    }
}

/// Returns the hold of updates in place: as of a rollout, but a policy that allows only these is no hold.
pub(crate) fn hold_in_place<K>(owner: &K, cluster: Option<&Cluster>, now: Timestamp) -> Option<Hold>
where
    K: Resource<DynamicType = ()>,
{
    match in_place(owner) {
        InPlace::Only => outside_window(owner, cluster, now),
        InPlace::Never | InPlace::Preferred => hold(owner, cluster, now),
    }
}

/// Returns a hold with this text. `wait` is the time until the next look; `None`: a person has to act.
pub(crate) fn blocked(message: String, wait: Option<Duration>) -> Hold {
    Hold { reason: BLOCKED, message, wait }
}

/// Returns the hold by the policy of rollouts. A value that cannot be used is read as `InPlaceOnly`.
fn policy<K>(owner: &K) -> Option<Hold>
where
    K: Resource<DynamicType = ()>,
{
    let text = owner.annotations().get(ROLLOUT_POLICY)?;
    let message = match rollout_policy(text) {
        Some(RolloutPolicy::Replace | RolloutPolicy::InPlaceThenReplace) => return None,
        Some(RolloutPolicy::InPlaceOnly) => {
            format!("Annotation {ROLLOUT_POLICY} is {text}, and these changes need new Machines")
        }
        None => wrong(ROLLOUT_POLICY, text, &titled(owner)),
    };
    Some(Hold { reason: BLOCKED, message, wait: None })
}

/// Returns the hold outside the maintenance window: that of the owner, or else that of the Cluster. A value that cannot
/// be used has no window.
pub(crate) fn outside_window<K>(owner: &K, cluster: Option<&Cluster>, now: Timestamp) -> Option<Hold>
where
    K: Resource<DynamicType = ()>,
{
    let own = owner.annotations().get(MAINTENANCE_WINDOW).map(|text| (text, titled(owner)));
    let of_cluster = || {
        let cluster = cluster?;
        Some((cluster.annotations().get(MAINTENANCE_WINDOW)?, titled(cluster)))
    };
    let (text, holder) = own.or_else(of_cluster)?;
    let Ok(window) = MaintenanceWindow::parse(text) else {
        let message = wrong(MAINTENANCE_WINDOW, text, &holder);
        return Some(Hold { reason: BLOCKED, message, wait: None });
    };
    if window.is_open(now) {
        return None;
    }
    let next = window.next_start(now);
    let begins = match next {
        Some(next) => format!("begins at {}", window.local_time(next)),
        None => "does not begin any more".to_owned(),
    };
    let wait = next.and_then(|next| Duration::try_from(next.duration_since(now)).ok());
    let message = format!("The maintenance window of {holder} ({text}) {begins}");
    Some(Hold { reason: WAITING, message, wait })
}

fn wrong(key: &str, text: &str, holder: &str) -> String {
    let problem = setting_problem(key, text).unwrap_or_default();
    format!("Annotation {key} of {holder} is {text:?}. It {problem}")
}

fn titled<K>(object: &K) -> String
where
    K: Resource<DynamicType = ()>,
{
    format!("{} {}", K::kind(&()), object.name_any())
}

/// Removes the maintenance window of an object, for a plan: it delays the steps of a rollout, and does not change them.
pub(crate) fn without_window<K>(mut object: K) -> K
where
    K: Resource<DynamicType = ()>,
{
    object.annotations_mut().remove(MAINTENANCE_WINDOW);
    object
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, MachineDeployment, MachineDeploymentSpec};

    use super::*;

    /// Saturday, at noon.
    const NOW: &str = "2026-05-02T12:00:00Z";

    fn hold_of(own: &[(&str, &str)], of_cluster: &[(&str, &str)]) -> Option<Hold> {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        deployment.annotations_mut().extend(own.iter().map(owned));
        cluster.annotations_mut().extend(of_cluster.iter().map(owned));
        hold(&deployment, Some(&cluster), NOW.parse().unwrap())
    }

    #[test]
    fn the_own_window_wins_over_that_of_the_cluster_and_the_next_one_is_named() {
        let (open, closed) = ("0 10 * * sat 4h UTC", "0 2 * * sun 4h Europe/Berlin");
        let window = |text| [(MAINTENANCE_WINDOW, text)];
        assert_eq!(hold_of(&[], &[]), None);
        assert_eq!(hold_of(&[], &window(open)), None);
        assert_eq!(hold_of(&window(open), &window(closed)), None);
        let own = hold_of(&window(closed), &window(open)).unwrap();
        let expected = "The maintenance window of MachineDeployment md (0 2 * * sun 4h Europe/Berlin) begins at \
            2026-05-03 02:00 Europe/Berlin";
        assert_eq!((own.reason, own.message.as_str()), (WAITING, expected));
        assert_eq!(own.wait, Some(Duration::from_hours(12)));
        assert_eq!(own.interval(Duration::from_mins(10)), Duration::from_mins(10));
        assert_eq!(own.interval(Duration::from_hours(24)), Duration::from_secs(12 * 3600 + 1));
        let of_cluster = hold_of(&[], &window(closed)).unwrap();
        assert!(of_cluster.message.contains("of Cluster c ("), "{of_cluster:?}");
        let lines = ["* Version a, b required".to_owned()];
        let text = own.text("Rolling out 1 not up-to-date replicas", &lines);
        assert_eq!(text.lines().nth(2), Some(format!("* Waiting: {expected}").as_str()));
    }

    #[test]
    fn a_value_that_cannot_be_used_blocks_until_a_person_corrects_it() {
        for (own, of_cluster) in
            [(vec![(MAINTENANCE_WINDOW, "")], vec![]), (vec![], vec![(MAINTENANCE_WINDOW, "x")])]
        {
            let found = hold_of(&own, &of_cluster).unwrap();
            assert_eq!((found.reason, found.wait), (BLOCKED, None));
            assert!(found.message.contains("It must be a cron expression"), "{found:?}");
        }
        let typo = hold_of(&[(ROLLOUT_POLICY, "inplaceonly")], &[]).unwrap();
        let expected = "Annotation capstan.dev/rollout-policy of MachineDeployment md is \"inplaceonly\". It must be \
            \"Replace\", \"InPlaceThenReplace\" or \"InPlaceOnly\"";
        assert_eq!((typo.reason, typo.message.as_str()), (BLOCKED, expected));
    }

    #[test]
    fn only_the_policy_in_place_only_blocks_a_rollout_and_it_does_so_in_a_window_too() {
        assert_eq!(hold_of(&[(ROLLOUT_POLICY, "Replace")], &[]), None);
        assert_eq!(hold_of(&[(ROLLOUT_POLICY, "InPlaceThenReplace")], &[]), None);
        let open = [(MAINTENANCE_WINDOW, "* * * * * 1h UTC")];
        let found = hold_of(&[(ROLLOUT_POLICY, "InPlaceOnly")], &open).unwrap();
        assert_eq!((found.reason, found.wait), (BLOCKED, None));
        let text =
            found.text("Rolling out 1 not up-to-date replicas", &["* Version a, b required".to_owned()]);
        assert!(text.starts_with("Rolling out 1 not up-to-date replicas is blocked: Annotation"), "{text}");
        assert!(text.ends_with("\n* Version a, b required"), "{text}");
    }

    #[test]
    fn the_policy_says_whether_servers_update_machines_and_a_window_holds_that_too() {
        let policy = |value: Option<&str>| {
            let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
            let value = value.map(|value| (ROLLOUT_POLICY.to_owned(), value.to_owned()));
            deployment.annotations_mut().extend(value);
            deployment
        };
        let (open, closed) = ("* * * * * 1h UTC", "0 2 * * sun 4h UTC");
        for (value, expected, is_held) in [
            (None, InPlace::Preferred, false),
            (Some("InPlaceThenReplace"), InPlace::Preferred, false),
            (Some("InPlaceOnly"), InPlace::Only, false),
            (Some("Replace"), InPlace::Never, false),
            (Some("inplaceonly"), InPlace::Never, true),
        ] {
            let mut deployment = policy(value);
            assert_eq!(in_place(&deployment), expected, "{value:?}");
            for (window, is_held) in [(open, is_held), (closed, true)] {
                deployment.annotations_mut().insert(MAINTENANCE_WINDOW.to_owned(), window.to_owned());
                let found = hold_in_place(&deployment, None, NOW.parse().unwrap());
                assert_eq!(found.is_some(), is_held, "{value:?} {window}");
            }
        }
    }

    #[test]
    fn a_plan_has_no_window() {
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.annotations_mut().insert(MAINTENANCE_WINDOW.to_owned(), "x".to_owned());
        assert_eq!(without_window(deployment).annotations().len(), 0);
    }
}
