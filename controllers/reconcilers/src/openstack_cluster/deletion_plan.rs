//! Plan of a deletion: what goes with a cluster, and what stays. The user reads it before anything is deleted.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use controllers_infrastructure::{LoadBalancer, Snapshot, Volume};
use controllers_runtime::Journal;

use super::csi_shares::CsiShares;
use super::csi_volumes::{self, CsiVolumes};
use super::leftovers;

/// Reason of the Event with the plan.
pub(super) const REASON: &str = "DeletionPlanned";

/// Stages of the deletions that this process has seen, by uid.
#[derive(Debug, Default)]
pub(super) struct Announced(Mutex<HashSet<(String, Stage)>>);

/// Stage of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// A pass has tried to show the plan while the Machines existed. It came before its time; later ones do not.
    TriedEarly,
    /// The plan was shown while the Machines existed.
    ShownEarly,
    /// The plan was shown before the deletion of the first resource.
    Shown,
    /// The machines have left nothing. No machine comes then.
    WithoutOrphans,
    /// The load balancers of Services are gone.
    WithoutServices,
}

impl Announced {
    /// Returns true the first time that a cluster reaches a stage.
    pub(super) fn is_new(&self, uid: &str, stage: Stage) -> bool {
        self.lock().insert((uid.to_owned(), stage))
    }

    /// Returns true if a cluster has reached a stage.
    pub(super) fn has(&self, uid: &str, stage: Stage) -> bool {
        self.lock().contains(&(uid.to_owned(), stage))
    }

    /// Forgets that a cluster has reached a stage.
    pub(super) fn undo(&self, uid: &str, stage: Stage) {
        self.lock().remove(&(uid.to_owned(), stage));
    }

    /// Forgets a cluster that does not exist any more.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().retain(|(known, _)| known != uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<(String, Stage)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contents of a plan.
#[derive(Debug, Default)]
pub(super) struct Plan<'a> {
    /// Titles of resources beside the journal that are deleted.
    pub titles: Vec<String>,
    /// Load balancers of Services that are deleted.
    pub balancers: Vec<&'a LoadBalancer>,
    /// Volumes of the workload cluster.
    pub volumes: Option<&'a CsiVolumes>,
    /// Shares of the workload cluster.
    pub shares: Option<&'a CsiShares>,
    /// Address of the floating IP that the spec gives, which stays.
    pub given: Option<String>,
    /// Titles of what may be another cluster's, and stays.
    pub kept: &'a [String],
    /// Titles of what others use, and the deletion waits for.
    pub blocked: &'a [String],
}

impl Plan<'_> {
    /// Returns true if something is left of the workload cluster.
    pub(super) fn has_leftovers(&self) -> bool {
        let has_volumes = self.volumes.is_some_and(|it| *it != CsiVolumes::default());
        let has_shares = self.shares.is_some_and(|it| !it.is_empty());
        let has_others = !self.kept.is_empty() || !self.blocked.is_empty();
        !self.balancers.is_empty() || has_others || has_volumes || has_shares
    }

    /// Returns the plan in words. Pure.
    pub(super) fn text(self, journal: &Journal) -> String {
        let own = journal.entries().iter().map(|entry| format!("{} {}", entry.kind, entry.name));
        let of_services =
            self.balancers.iter().map(|it| format!("load balancer {} ({}) of a Service", it.name, it.id));
        let mut deleted: Vec<String> = self.titles.into_iter().chain(own).chain(of_services).collect();
        let none = CsiVolumes::default();
        let volumes = self.volumes.unwrap_or(&none);
        if !volumes.deleted.is_empty() {
            let text = csi_volumes::describe(&volumes.deleted, &volumes.snapshots);
            deleted.push(format!("volumes {text}"));
        }
        let mut kept = String::new();
        if !volumes.kept.is_empty() {
            let what = kept_text(&volumes.kept, &volumes.snapshots);
            kept = format!(
                ". Will keep {what}. Delete them in the cloud, or name them in the annotation {} of the OpenStackCluster",
                csi_volumes::DELETE
            );
        }
        if let Some(shares) = self.shares.filter(|it| !it.is_empty()) {
            kept = format!("{kept}. Will keep {}. Delete them in the cloud", shares.kept_text());
        }
        if let Some(address) = self.given {
            kept = format!("{kept}. Will keep floating IP {address}, which spec.apiServer.floatingIP names");
        }
        if !self.kept.is_empty() {
            kept = format!(
                "{kept}. Will keep {}. Delete them in the cloud, or name load balancers in the annotation {} of the \
                 OpenStackCluster",
                leftovers::kept_text(self.kept),
                leftovers::DELETE
            );
        }
        if !self.blocked.is_empty() {
            kept = format!(
                "{kept}. Blocked by {}. Move them, or name them in the annotation {} of the OpenStackCluster",
                self.blocked.join(", "),
                leftovers::DELETE
            );
        }
        let deleted = if deleted.is_empty() { "nothing".to_owned() } else { deleted.join(", ") };
        format!("will delete {deleted}{kept}")
    }
}

/// Describes volumes that stay.
pub(super) fn kept_text(kept: &[Volume], snapshots: &[Snapshot]) -> String {
    format!("volumes of the workload cluster: {}. They hold data", csi_volumes::describe(kept, snapshots))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openstack_cluster::csi_shares;

    #[test]
    fn r17_5_the_plan_names_what_goes_and_what_stays() {
        let mut journal = Journal::default();
        assert_eq!(Plan::default().text(&journal), "will delete nothing");
        assert!(!Plan::default().has_leftovers());
        journal.intend("network", "k8s-a");
        journal.intend("router", "k8s-a");
        let balancer =
            LoadBalancer { name: "kube_service_x".to_owned(), id: "b".to_owned(), ..LoadBalancer::default() };
        let volume = |name: &str| Volume { name: name.to_owned(), id: "v".to_owned(), ..Volume::default() };
        let volumes =
            CsiVolumes { deleted: vec![volume("old")], kept: vec![volume("pvc")], ..CsiVolumes::default() };
        let unclear = ["load balancer kube_service_y (c)".to_owned()];
        let blocked = ["load balancer kube_service_z (d), and other workload clusters use it".to_owned()];
        let plan = Plan {
            titles: vec!["server m (s) of a machine that is gone".to_owned()],
            balancers: vec![&balancer],
            volumes: Some(&volumes),
            shares: None,
            given: None,
            kept: &unclear,
            blocked: &blocked,
        };
        assert!(plan.has_leftovers());
        let text = plan.text(&journal);
        let expected = "will delete server m (s) of a machine that is gone, network k8s-a, router k8s-a, \
            load balancer kube_service_x (b) of a Service, volumes old (v, 0 GiB). Will keep volumes of the workload \
            cluster: pvc (v, 0 GiB). They hold data.";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("Will keep load balancer kube_service_y (c). They may belong"), "{text}");
        assert!(text.contains("Blocked by load balancer kube_service_z (d), and other"), "{text}");
        let given = Plan { given: Some("203.0.113.9".to_owned()), ..Plan::default() };
        assert!(!given.has_leftovers());
        let expected =
            "will delete nothing. Will keep floating IP 203.0.113.9, which spec.apiServer.floatingIP names";
        assert_eq!(given.text(&Journal::default()), expected);
        let shares = csi_shares::examples("blue", &["pvc-a"]);
        assert!(Plan { shares: Some(&shares), ..Plan::default() }.has_leftovers());
        assert!(!Plan { shares: Some(&CsiShares::default()), ..Plan::default() }.has_leftovers());
        let text = Plan { shares: Some(&shares), ..Plan::default() }.text(&Journal::default());
        let expected = "will delete nothing. Will keep shares of the Manila CSI driver with cluster id blue: pvc-a \
            (pvc-a, 5 GiB). They hold data, and another workload cluster may have the same id. Delete them in the cloud";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_stage_of_a_deletion_is_reached_once() {
        let announced = Announced::default();
        assert!(announced.is_new("u", Stage::Shown) && !announced.is_new("u", Stage::Shown));
        assert!(announced.is_new("w", Stage::Shown) && announced.is_new("u", Stage::ShownEarly));
        announced.undo("u", Stage::ShownEarly);
        assert!(!announced.has("u", Stage::ShownEarly) && announced.has("u", Stage::Shown));
        announced.forget("u");
        assert!(!announced.has("u", Stage::Shown) && announced.has("w", Stage::Shown));
    }
}
