//! Crashes of the controllers at every step of a creation: nothing is made twice, and nothing is left over.

use std::sync::Arc;

use apiserver_types::{KubeadmConfig, Machine, MachineDeployment, MachineSet, OpenStackMachine};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tests_scenarios::{Controllers, CrashPoint, Side, World};

use crate::machines::{list, proceed};
use crate::names::NAMING;
use crate::{TEMPLATE, create};

/// Rounds in which a creation is complete.
const ROUNDS: usize = 6;

async fn work(controllers: &Controllers, client: &Client, namespace: &str) {
    for _ in 0..ROUNDS {
        controllers.round_of_sets().await.unwrap();
        proceed(client, namespace).await;
    }
}

/// Creates a MachineDeployment, with a crash of the first process. Returns the number of each kind of object. With an index
/// in their names, the Machines get the first ones, as without a crash.
async fn run(world: &World, namespace: &str, crash: &Arc<CrashPoint>, has_index: bool) -> [usize; 4] {
    create(world, namespace, TEMPLATE).await;
    let client = world.admin();
    if has_index {
        let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), namespace);
        let change = Patch::Merge(json!({"spec": {"machineNaming": {"template": NAMING}}}));
        deployments.patch("md", &PatchParams::default(), &change).await.unwrap();
    }
    let first = Controllers::start(world, crash);
    tokio::select! {
        () = crash.crashed() => {}
        () = work(&first, &client, namespace) => {}
    }
    drop(first);
    let second = Controllers::start(world, &Arc::new(CrashPoint::never()));
    work(&second, &client, namespace).await;
    if has_index {
        let machines: Vec<Machine> = list(&client, namespace).await;
        let names: Vec<String> = machines.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["c-w-0", "c-w-1"], "crash at {:?}", crash.effects().last());
    }
    [
        list::<MachineSet>(&client, namespace).await.len(),
        list::<Machine>(&client, namespace).await.len(),
        list::<OpenStackMachine>(&client, namespace).await.len(),
        list::<KubeadmConfig>(&client, namespace).await.len(),
    ]
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_creation_leaves_no_object_behind() {
    let never = Arc::new(CrashPoint::never());
    let world = World::start().await.unwrap();
    assert_eq!(Box::pin(run(&world, "whole", &never, false)).await, [1, 2, 2, 2]);
    let steps = never.effects().len();
    assert!(steps > 15, "{:#?}", never.effects());
    for (turn, side) in [Side::Before, Side::After].into_iter().enumerate() {
        for n in 0..steps {
            let has_index = (n + turn) % 2 == 0;
            let world = World::start().await.unwrap();
            let crash = Arc::new(CrashPoint::at(n, side));
            let counts = Box::pin(run(&world, "crash", &crash, has_index)).await;
            assert!(crash.has_crashed(), "step {n}");
            assert_eq!(counts, [1, 2, 2, 2], "crash {side:?} {:?}", crash.effects().last());
        }
    }
}
