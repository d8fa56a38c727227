//! Plan of a deletion: what goes with a cluster, and what stays. The user reads it before anything is deleted.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use controllers_infrastructure::LoadBalancer;
use controllers_runtime::Journal;

use super::csi_volumes::{self, CsiVolumes};

/// Reason of the Event with the plan.
pub(super) const REASON: &str = "DeletionPlanned";

/// Clusters for which this process has recorded the Event, by uid.
#[derive(Debug, Default)]
pub(super) struct Announced {
    told: Mutex<HashSet<String>>,
    /// Clusters whose machines have left nothing.
    clean: Mutex<HashSet<String>>,
}

impl Announced {
    /// Returns true for the first pass over a cluster.
    pub(super) fn is_new(&self, uid: &str) -> bool {
        lock(&self.told).insert(uid.to_owned())
    }

    /// Returns true if the machines of a cluster have left nothing, as an earlier pass has seen. No machine comes then.
    pub(super) fn is_clean(&self, uid: &str) -> bool {
        lock(&self.clean).contains(uid)
    }

    /// Notes that the machines of a cluster have left nothing.
    pub(super) fn note_clean(&self, uid: &str) {
        lock(&self.clean).insert(uid.to_owned());
    }

    /// Forgets a cluster that does not exist any more.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.told).remove(uid);
        lock(&self.clean).remove(uid);
    }
}

fn lock(known: &Mutex<HashSet<String>>) -> MutexGuard<'_, HashSet<String>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the plan in words. `titles` are those of resources beside the journal. Pure.
pub(super) fn text(
    journal: &Journal,
    titles: Vec<String>,
    balancers: &[&LoadBalancer],
    volumes: &CsiVolumes,
) -> String {
    let own = journal.entries().iter().map(|entry| format!("{} {}", entry.kind, entry.name));
    let of_services =
        balancers.iter().map(|it| format!("load balancer {} ({}) of a Service", it.name, it.id));
    let mut deleted: Vec<String> = titles.into_iter().chain(own).chain(of_services).collect();
    if !volumes.deleted.is_empty() {
        deleted.push(format!("volumes {}", csi_volumes::describe(&volumes.deleted)));
    }
    let kept = match volumes.kept.as_slice() {
        [] => String::new(),
        kept => format!(". Will keep {}", kept_text(kept)),
    };
    let deleted = if deleted.is_empty() { "nothing".to_owned() } else { deleted.join(", ") };
    format!("will delete {deleted}{kept}")
}

/// Describes volumes that stay, and how they can be deleted.
pub(super) fn kept_text(kept: &[controllers_infrastructure::Volume]) -> String {
    format!(
        "volumes of the workload cluster: {}. They hold data. Delete them in the cloud, or name them in the annotation {} \
         of the OpenStackCluster",
        csi_volumes::describe(kept),
        csi_volumes::DELETE
    )
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::Volume;

    use super::*;

    #[test]
    fn r17_5_the_plan_names_what_goes_and_what_stays() {
        let mut journal = Journal::default();
        assert_eq!(text(&journal, Vec::new(), &[], &CsiVolumes::default()), "will delete nothing");
        journal.intend("network", "k8s-a");
        journal.intend("router", "k8s-a");
        let balancer =
            LoadBalancer { name: "kube_service_x".to_owned(), id: "b".to_owned(), ..LoadBalancer::default() };
        let volume = |name: &str| Volume { name: name.to_owned(), id: "v".to_owned(), ..Volume::default() };
        let volumes = CsiVolumes { deleted: vec![volume("old")], kept: vec![volume("pvc")] };
        let orphans = vec!["server m (s) of a machine that is gone".to_owned()];
        let text = text(&journal, orphans, &[&balancer], &volumes);
        let expected = "will delete server m (s) of a machine that is gone, network k8s-a, router k8s-a, load balancer kube_service_x (b) of a Service, \
            volumes old (v, 0 GiB). Will keep volumes of the workload cluster: pvc (v, 0 GiB). They hold data.";
        assert!(text.starts_with(expected), "{text}");
        let announced = Announced::default();
        assert!(announced.is_new("u") && !announced.is_new("u") && announced.is_new("w"));
        announced.forget("u");
        assert!(announced.is_new("u"));
    }
}
