//! Changes of a cluster by a user, or by the cloud.

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment, OpenStackMachineTemplate};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::life::{CONTROL_PLANE, Life, NAMESPACE, RELEASES};
use super::plan::Change;
use crate::scale;

/// Name of the control plane and of its first template.
const NAME: &str = "blue-control-plane";

/// Selector of the workers.
const WORKERS: &str = "!cluster.x-k8s.io/control-plane";

/// Flavors of the templates, by turns.
const FLAVORS: [&str; 2] = ["m1.medium", "m1.small"];

impl Life<'_> {
    /// Makes a change.
    pub(super) async fn change(&mut self, change: &Change) {
        self.wanted.gone = None;
        match change {
            Change::Workers(replicas) => {
                self.wanted.workers = *replicas;
                scale(&self.deployments(), "blue-md-0", i32::try_from(*replicas).unwrap()).await;
            }
            Change::ControlPlane(replicas) => {
                self.wanted.control_plane = *replicas;
                scale(&self.control_planes(), NAME, i32::try_from(*replicas).unwrap()).await;
            }
            Change::DeleteWorker(place) => self.delete(WORKERS, *place, false).await,
            Change::LoseWorker(place) => self.delete(WORKERS, *place, true).await,
            Change::HealWorker(place) => self.hurt(WORKERS, *place).await,
            // With a member less, a smaller control plane would have no quorum.
            Change::LoseControlPlane(_) | Change::HealControlPlane(_) if self.wanted.control_plane < 3 => {}
            Change::LoseControlPlane(place) => self.delete(CONTROL_PLANE, *place, true).await,
            Change::HealControlPlane(place) => self.hurt(CONTROL_PLANE, *place).await,
            Change::Rotate => self.roll_out().await,
            Change::UpgradeWorkers => {
                self.wanted.release = RELEASES.len() - 1;
                self.roll_out().await;
            }
            Change::UpgradeControlPlane => self.upgrade_control_plane().await,
        }
    }

    fn control_planes(&self) -> Api<KubeadmControlPlane> {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    fn deployments(&self) -> Api<MachineDeployment> {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    /// Returns the Machine at this place in the list, if there is one.
    async fn machine(&self, labels: &str, place: usize) -> Option<Machine> {
        let api: Api<Machine> = Api::namespaced(self.world.admin(), NAMESPACE);
        let machines = api.list(&ListParams::default().labels(labels)).await.unwrap().items;
        machines.into_iter().nth(place)
    }

    /// Deletes the Machine at this place in the list, if there is one. With `loses`, its server is destroyed before.
    async fn delete(&mut self, labels: &str, place: usize, loses: bool) {
        let Some(machine) = self.machine(labels, place).await else { return };
        let server = machine.spec.provider_id.as_deref().and_then(|id| id.rsplit('/').next());
        if let Some(server) = server.filter(|_| loses) {
            self.world.project().await.unwrap().delete_server(server).await.unwrap();
        }
        let api: Api<Machine> = Api::namespaced(self.world.admin(), NAMESPACE);
        api.delete(&machine.name_any(), &DeleteParams::default()).await.unwrap();
        self.wanted.gone = Some(machine.name_any());
    }

    /// Kills the kubelet of the Machine at this place in the list. Its health check has it replaced.
    async fn hurt(&mut self, labels: &str, place: usize) {
        let Some(machine) = self.machine(labels, place).await else { return };
        self.hollow.kubelet_dead(&machine.name_any(), true);
        // A Machine whose Node was never ready has no Node that becomes unhealthy.
        let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
        self.wanted.gone = has_node.then(|| machine.name_any());
    }

    /// Gives the control plane the next patch release, with its image.
    async fn upgrade_control_plane(&mut self) {
        self.wanted.control_plane_release = RELEASES.len() - 1;
        let (name, release) = (format!("{NAME}-next"), RELEASES[RELEASES.len() - 1]);
        if !self.post_template(&name, FLAVORS[0], release).await {
            return;
        }
        let template = json!({"spec": {"infrastructureRef": {"name": name}}});
        let patch = Patch::Merge(json!({"spec": {"version": release, "machineTemplate": template}}));
        self.control_planes().patch(NAME, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a template of Machines. Returns false if there is one of this name.
    async fn post_template(&self, name: &str, flavor: &str, release: &str) -> bool {
        let api: Api<OpenStackMachineTemplate> = Api::namespaced(self.world.admin(), NAMESPACE);
        if api.get_opt(name).await.unwrap().is_some() {
            return false;
        }
        let image = format!("ubuntu-2204-kube-{release}");
        let spec = json!({"flavor": {"filter": {"name": flavor}}, "image": {"filter": {"name": image}}});
        let template = json!({"metadata": {"name": name}, "spec": {"template": {"spec": spec}}});
        api.create(&PostParams::default(), &serde_json::from_value(template).unwrap()).await.unwrap();
        true
    }

    /// Gives the workers a new template, and their release.
    async fn roll_out(&mut self) {
        self.wanted.templates += 1;
        let (name, release) = (self.wanted.template(), RELEASES[self.wanted.release]);
        self.post_template(&name, FLAVORS[self.wanted.templates % FLAVORS.len()], release).await;
        let spec = json!({"version": release, "infrastructureRef": {"name": name}});
        let patch = Patch::Merge(json!({"spec": {"template": {"spec": spec}}}));
        self.deployments().patch("blue-md-0", &PatchParams::default(), &patch).await.unwrap();
    }
}
