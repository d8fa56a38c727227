//! A leader that is frozen before one of its calls to the cloud (HV-06): between its decision and the permit, and between
//! the permit and the call. `late_calls.rs` freezes it after its calls.
//!
//! `CAPSTAN_FREEZE_SECONDS=60` freezes it for a minute each time, and also before calls that create and before a reboot.
//! The next leader waits for such calls for a minute.

use serde_json::json;

use crate::client::Client;
use crate::frozen_scene::{Scene, machine};
use crate::late_calls::{CLUSTER, delete, freeze_time, worker};

#[tokio::test(flavor = "multi_thread")]
async fn hv_06_a_leader_that_is_frozen_before_its_calls_leaves_one_of_each_thing() {
    let scene = Scene::start().await;
    let client = scene.servers[0].client();
    scene.create(&client, CLUSTER).await;
    for name in ["w1", "w2", "w3"] {
        scene.create(&client, &worker(name)).await;
        scene.until_provisioned(&client, &machine(name)).await;
    }
    scene.assert_one_of_each(3);

    let frozen = scene.freeze_before_the_permits(&["w1", "w2"]).await;
    let client = scene.taken_over(&frozen).await;
    for name in ["w1", "w2"] {
        scene.until_gone(&client, name).await;
    }
    let before = scene.inventory();
    scene.continues(&frozen).await;
    assert!(scene.refused(frozen.number).await > frozen.refused, "no call waited for its permit");
    assert_eq!(json!(scene.inventory()), json!(before), "a former leader has changed the cloud");

    let is_deletion = |step: &str| step.starts_with("DELETE /servers/");
    let deletes = async |client: &Client| delete(client, &machine("w3")).await;
    let frozen = scene.freeze_after_the_permit(is_deletion, deletes).await;
    let client = scene.taken_over(&frozen).await;
    scene.until_gone(&client, "w3").await;
    // A Machine of the same name. The late call names the server of the first one.
    scene.create(&client, &worker("w3")).await;
    scene.until_provisioned(&client, &machine("w3")).await;
    let before = scene.inventory();
    scene.continues(&frozen).await;
    assert_eq!(json!(scene.inventory()), json!(before), "a late call has changed the cloud");
    scene.assert_one_of_each(1);
    if !freeze_time().is_zero() {
        Box::pin(creations_and_a_reboot(&scene)).await;
    }
}

/// Freezes the leader before calls whose effects the next leader waits for.
async fn creations_and_a_reboot(scene: &Scene) {
    for (number, call) in ["POST /ports", "POST /volumes", "POST /servers"].into_iter().enumerate() {
        let name = format!("w{}", number + 4);
        let creates = async |client: &Client| scene.create(client, &worker(&name)).await;
        let frozen = scene.freeze_after_the_permit(|step| step == call, creates).await;
        let client = scene.taken_over(&frozen).await;
        scene.continues(&frozen).await;
        scene.until_provisioned(&client, &machine(&name)).await;
        scene.assert_one_of_each(number + 2);
    }
    let path = format!("{}/reboot", machine("w3"));
    scene.simulator.clear_log();
    let reboots = async |client: &Client| {
        let answer = client.once("POST", &path, r#"{"type": "Hard"}"#).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.text());
    };
    let frozen = scene.freeze_after_the_permit(|step| step.ends_with("/action"), reboots).await;
    let client = scene.taken_over(&frozen).await;
    scene.continues(&frozen).await;
    let operations = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";
    let is_complete = async |client: &Client| {
        let answer = client.get(operations).await;
        answer.is_ok_and(|answer| answer.text().contains(r#""phase":"Complete""#))
    };
    scene.until(&client, "the reboot", is_complete).await;
    let log = scene.simulator.log();
    let reboots = log.iter().filter(|call| call.action.as_deref() == Some("reboot") && call.status == 202);
    assert_eq!(reboots.count(), 1);
}
