//! Testbed: a namespace with a MachineDeployment, and rounds of its controllers.

use std::sync::Arc;

use apiserver_types::{Machine, MachineDeployment, MachineSet};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::Value;
use tests_scenarios::{Controllers, CrashPoint, World};

use crate::create;
use crate::machines::{list, proceed};

/// Rounds after which a test gives up: several times as many as any test needs.
pub(crate) const ROUNDS: usize = 60;

/// A MachineDeployment, and the controllers of its objects.
pub(crate) struct Life {
    pub(crate) world: World,
    pub(crate) client: Client,
    pub(crate) controllers: Controllers,
    pub(crate) namespace: &'static str,
}

impl Life {
    pub(crate) async fn start(namespace: &'static str, bootstrap: &str) -> Self {
        let world = World::start().await.unwrap();
        create(&world, namespace, bootstrap).await;
        let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
        Self { client: world.admin(), controllers, namespace, world }
    }

    pub(crate) async fn machines(&self) -> Vec<Machine> {
        list(&self.client, self.namespace).await
    }

    pub(crate) async fn sets(&self) -> Vec<MachineSet> {
        list(&self.client, self.namespace).await
    }

    pub(crate) async fn deployment(&self) -> MachineDeployment {
        Api::<MachineDeployment>::namespaced(self.client.clone(), self.namespace).get("md").await.unwrap()
    }

    pub(crate) async fn change(&self, change: Value) {
        let api: Api<MachineDeployment> = Api::namespaced(self.client.clone(), self.namespace);
        api.patch("md", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }

    pub(crate) async fn round(&self) {
        self.controllers.round_of_sets().await.unwrap();
        proceed(&self.client, self.namespace).await;
    }

    /// Makes rounds until the MachineDeployment is complete, with `replicas` Machines and one set.
    pub(crate) async fn until_complete(&self, replicas: i32) {
        for _ in 0..ROUNDS {
            let deployment = self.deployment().await;
            let status = deployment.status.clone().unwrap_or_default();
            let counters = [status.replicas, status.available_replicas, status.up_to_date_replicas];
            let is_observed = status.observed_generation == deployment.metadata.generation;
            if is_observed && counters == [Some(replicas); 3] && self.sets().await.len() == 1 {
                return;
            }
            self.round().await;
            let machines = self.machines().await;
            assert!(machines.len() <= 4, "more than the surge allows: {machines:#?}");
        }
        panic!("not complete: {:#?} {:#?}", self.deployment().await, self.sets().await);
    }

    pub(crate) async fn events(&self) -> Vec<String> {
        let events: Vec<Event> = list(&self.client, self.namespace).await;
        let text = |event: Event| {
            let kind = event.involved_object.kind.unwrap_or_default();
            format!("{kind} {} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
        };
        events.into_iter().map(text).collect()
    }
}
