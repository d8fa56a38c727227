//! Effects of the steps of a Cluster.

use apiserver_types::{Cluster, KubeadmControlPlane, OpenStackCluster};
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::decide::{self, Step};
use super::descendants;
use super::observe::Observed;
use super::{FINALIZER, kubeconfig, workload_cleanup};
use crate::ownership;

/// Limit of the steps of one pass: more than there are, so that a step that has no effect does not repeat for ever.
const STEPS: usize = 8;

/// Writer of a pass.
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
    pub api: &'a Api<Cluster>,
}

impl Actor<'_> {
    /// Decides and acts until a step ends the pass. Returns that step.
    pub(super) async fn work(
        &self,
        cluster: &mut Cluster,
        observed: &mut Observed,
    ) -> Result<Step, ReconcileError> {
        for _ in 0..STEPS {
            let step = decide::next_step(cluster, observed);
            self.act(&step, cluster, observed).await?;
            if step.ends_pass() {
                return Ok(step);
            }
        }
        Err(crate::endless())
    }

    async fn act(
        &self,
        step: &Step,
        cluster: &mut Cluster,
        observed: &mut Observed,
    ) -> Result<(), ReconcileError> {
        match (step, &mut observed.infrastructure) {
            (Step::AddFinalizer, _) => crate::finalizers::add(self.api, cluster, FINALIZER).await,
            (Step::AdoptInfrastructure, Some(infrastructure)) => {
                let owner = ownership::reference(cluster, false);
                let api = self.infrastructures(cluster);
                ownership::adopt(&api, infrastructure, owner, &cluster.name_any()).await
            }
            (Step::AdoptControlPlane, _) => {
                let Some(control_plane) = &mut observed.control_plane else { return Ok(()) };
                let owner = ownership::reference(cluster, false);
                let namespace = cluster.namespace().unwrap_or_default();
                let api: Api<KubeadmControlPlane> = Api::namespaced(self.context.client.clone(), &namespace);
                ownership::adopt(&api, control_plane, owner, &cluster.name_any()).await
            }
            (Step::SetEndpoint(endpoint), _) => {
                let change = json!({
                    "metadata": {"resourceVersion": cluster.resource_version()},
                    "spec": {"controlPlaneEndpoint": endpoint},
                });
                let (name, change) = (cluster.name_any(), Patch::Merge(&change));
                *cluster = self.api.patch(&name, &PatchParams::default(), &change).await?;
                Ok(())
            }
            (Step::CreateKubeconfig(server), _) => {
                kubeconfig::create(self.context, cluster, observed, server).await
            }
            (Step::DeleteDescendants(_, remaining), _) => {
                // A refused deletion does not keep the others.
                let mut result = Ok(());
                for descendant in remaining.iter().filter(|descendant| descendant.is_due()) {
                    let api = descendants::api(&self.context.client, cluster, descendant.kind);
                    let deleted = ownership::delete(&api, &descendant.name, descendant.uid.clone()).await;
                    result = result.and(deleted);
                }
                result
            }
            (Step::CleanWorkload(_), _) => {
                for message in workload_cleanup::delete(self.context, cluster, &observed.leftovers).await {
                    self.context.events.record(cluster, Severity::Normal, "Deleted", &message).await;
                }
                Ok(())
            }
            (Step::DeleteInfrastructure, Some(it)) => {
                ownership::delete(&self.infrastructures(cluster), &it.name_any(), it.uid()).await
            }
            _ => Ok(()),
        }
    }

    fn infrastructures(&self, cluster: &Cluster) -> Api<OpenStackCluster> {
        Api::namespaced(self.context.client.clone(), &cluster.namespace().unwrap_or_default())
    }
}
