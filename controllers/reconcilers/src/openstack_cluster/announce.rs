//! Plan of a deletion in Events and in a condition, before anything is deleted.

use apiserver_types::{Cluster, OpenStackCluster};
use controllers_runtime::{Journal, OwnershipTag, ReconcileError, Severity, now, write_status};
use kube::ResourceExt;

use super::csi_shares;
use super::csi_volumes::{self, CsiVolumes};
use super::deletion_plan::{self, Plan, Stage};
use super::desired::Desired;
use super::leftovers::{self, LEFTOVERS};
use super::observe::Observer;
use super::orphans::Orphans;
use super::{OpenStackClusterReconciler, balancer, cluster_name, report};
use crate::{names, project};

/// Number of machines that the plan lists.
const LISTED: usize = 10;

impl OpenStackClusterReconciler {
    /// Returns true if the Cluster is being deleted and no pass has tried to show the plan. If it cannot be shown, later
    /// passes keep the time of the backoff.
    pub(super) async fn has_plan_to_show(&self, object: &OpenStackCluster) -> bool {
        let uid = object.uid().unwrap_or_default();
        if object.metadata.deletion_timestamp.is_some() || self.announced.has(&uid, Stage::TriedEarly) {
            return false;
        }
        let cluster = self.cluster(object).await.ok().flatten();
        cluster.is_some_and(|cluster| cluster.metadata.deletion_timestamp.is_some())
    }

    /// Shows the plan as soon as the Cluster is being deleted: its Machines still exist then, and the user can change the
    /// annotations that the plan names. An error of the cloud is reported by the pass that follows.
    pub(super) async fn announce_early(
        &self,
        object: &mut OpenStackCluster,
        cluster: &Cluster,
    ) -> Result<(), ReconcileError> {
        let uid = object.uid().unwrap_or_default();
        let is_deleted = cluster.metadata.deletion_timestamp.is_some();
        if !is_deleted || !self.announced.is_new(&uid, Stage::ShownEarly) {
            return Ok(());
        }
        self.announced.is_new(&uid, Stage::TriedEarly);
        let shown = Box::pin(self.show_early(object)).await;
        if shown.is_err() {
            self.announced.undo(&uid, Stage::ShownEarly);
        }
        match shown {
            Err(ReconcileError::Api(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn show_early(&self, object: &mut OpenStackCluster) -> Result<(), ReconcileError> {
        let cloud = self.connect(object).await?.cloud;
        project::check(object.annotations(), cloud.as_ref())?;
        let (tag, name) = (OwnershipTag::of(object), cluster_name(object).unwrap_or_default());
        let desired = Desired::read(object, &name);
        let observer = Observer { cloud: &cloud, desired: &desired, tag: &tag };
        let machines = self.machines(object).await?;
        let more = machines.len().saturating_sub(LISTED);
        let listed = machines.iter().take(LISTED);
        let mut titles: Vec<String> =
            listed.map(|name| format!("machine {name} with its server, ports and volumes")).collect();
        if more > 0 {
            titles.push(format!("{more} more machines"));
        }
        let volumes = csi_volumes::find(&cloud, object).await?;
        let journal = Journal::of(object);
        self.show(&observer, object, &journal, (titles, &volumes)).await
    }

    /// Shows the plan once, before the deletion of the first resource.
    pub(super) async fn announce(
        &self,
        observer: &Observer<'_>,
        object: &mut OpenStackCluster,
        journal: &Journal,
        (orphans, volumes): (&Orphans, &CsiVolumes),
    ) -> Result<(), ReconcileError> {
        let uid = object.uid().unwrap_or_default();
        if !self.announced.is_new(&uid, Stage::Shown) {
            return Ok(());
        }
        let shown = self.show(observer, object, journal, (orphans.titles(), volumes)).await;
        shown.inspect_err(|_| self.announced.undo(&uid, Stage::Shown))
    }

    /// Shows the plan in an Event, and in a condition if something is left of the workload cluster.
    async fn show(
        &self,
        observer: &Observer<'_>,
        object: &mut OpenStackCluster,
        journal: &Journal,
        (mut titles, volumes): (Vec<String>, &CsiVolumes),
    ) -> Result<(), ReconcileError> {
        let found = leftovers::find(observer, object, journal, true).await?;
        let shares = csi_shares::find(observer.cloud, object).await?;
        let others = balancer::delete::parts_of_others(observer, journal).await?;
        let obstacles = leftovers::obstacles(observer, object, &found).await?;
        let (given, left) = without_given(observer, journal).await?;
        let is_shared = !others.is_empty() || !obstacles.parts.is_empty();
        titles.extend(others.into_iter().chain(obstacles.parts));
        let plan = Plan {
            titles,
            balancers: found.leftovers().filter(|it| !obstacles.blocked.contains(&it.id)).collect(),
            volumes: Some(volumes),
            shares: Some(&shares),
            given,
            kept: &found.kept,
            blocked: &obstacles.titles,
        };
        let has_leftovers = plan.has_leftovers() || is_shared;
        let text = plan.text(&left);
        self.context.events.record(object, Severity::Normal, deletion_plan::REASON, &text).await;
        if !has_leftovers {
            return Ok(());
        }
        let before = object.clone();
        report::report_leftovers(object, LEFTOVERS, &text, &now());
        *object = write_status(&self.api(&before), &before, object).await?;
        Ok(())
    }
}

/// Returns the address of the floating IP that the spec gives, and the journal of what is deleted.
async fn without_given(
    observer: &Observer<'_>,
    journal: &Journal,
) -> Result<(Option<String>, Journal), ReconcileError> {
    let (name, mut left) = (&observer.desired.name, journal.clone());
    let given = observer.desired.given_floating_ip.clone();
    let given = given.filter(|_| journal.has(names::FLOATING_IP, name));
    if given.is_some() && observer.given_and_own_floating_ips().await?.1.is_empty() {
        left.strike(names::FLOATING_IP, name);
    }
    Ok((given, left))
}
