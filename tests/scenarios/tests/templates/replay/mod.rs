//! Replay of what was recorded of upstream's controllers: the same manifest and the same steps on hollow clusters, with
//! a comparison of all objects at each rest, and with the calls to the cloud counted.
//!
//! `differences.txt` lists the differences that are known. A line that matches no difference is an error, so that the
//! list only shrinks. With `CAPSTAN_WRITE_DIFFERENCES` the test writes all unknown ones to that file.

mod deletion;
mod differences;
mod facts;
mod stage;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::source;
use differences::Comparison;
use stage::Stage;

/// Time for which servers do not boot, so that the state before the first Node is at rest.
const BEFORE_BOOT: Duration = Duration::from_secs(15);

/// Most calls for one Machine.
const CALLS_PER_MACHINE: usize = 15;

/// Manifest that was recorded.
const MANIFEST: &str = "capo/without-lb";

/// Objects of a recording that no step changes by itself: the replay takes the user's changes from it.
fn recorded(folder: &Path, step: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(format!("{step}.yaml"))).unwrap();
    // The recorder left a text without quotes that YAML 1.1 takes for a boolean.
    let text = text.replace("note: y\n", "note: \"y\"\n");
    serde_saphyr::from_multiple(&text).unwrap()
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name} was recorded"))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and times out beside other tests"]
async fn objects_are_at_each_rest_as_upstream_left_them() {
    let Some(folder) = source::folder("observed/without-lb") else { return };
    let (templates, _) = source::all();
    let Some(template) = templates.into_iter().find(|template| template.name == MANIFEST) else { return };
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let external = crate::external_network(&world).await;
    let mut comparison = Comparison::new();
    let stage = Stage::new(&world, &template.namespace);

    hollow.boot_delay(BEFORE_BOOT);
    world.apply(&template.namespace, &template.documents(&world.cloud.address(), &external)).await.unwrap();
    let rest = stage.rest(3, "Provisioned", 1).await;
    compare(&mut comparison, &folder, "1-provisioned", &rest);
    hollow.boot_delay(Duration::from_millis(50));
    let rest = stage.rest(3, "Running", 3).await;
    compare(&mut comparison, &folder, "2-running", &rest);
    let secrets = facts::of_all(&recorded(&folder, "secrets"));
    comparison.add("secrets", &secrets, &facts::of_all(&stage.secrets().await));

    world.cloud.clear_log();
    stage.change_workers(&json!({"spec": {"replicas": 3}})).await;
    let rest = stage.rest(4, "Running", 4).await;
    let calls = world.cloud.log();
    compare(&mut comparison, &folder, "3-scaled-out", &rest);
    stage.change_workers(&json!({"spec": {"replicas": 2}})).await;
    let rest = stage.rest(3, "Running", 3).await;
    compare(&mut comparison, &folder, "4-scaled-in", &rest);

    for (step, template_name) in [("5-rolled-out", Some("capo-without-lb-md-0-v2")), ("6-in-place", None)] {
        let objects = recorded(&folder, step);
        if let Some(name) = template_name {
            let made = find(&objects, "OpenStackMachineTemplate", name);
            let made = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
                "metadata": {"name": name}, "spec": made["spec"]});
            world.apply(&template.namespace, &[made]).await.unwrap();
        }
        let workers = find(&objects, "MachineDeployment", "capo-without-lb-md-0");
        stage.change_workers(&json!({"spec": {"template": workers["spec"]["template"]}})).await;
        let rest = stage.rest(3, "Running", 3).await;
        compare(&mut comparison, &folder, step, &rest);
    }
    deletion::remediate(&world, &hollow, &stage, &mut comparison, &folder).await;
    deletion::delete(&world, &stage, &mut comparison, &folder).await;
    assert!(world.cloud.inventory("demo").is_empty(), "{}", world.counts());
    let found = comparison.finish();
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    let listed: Vec<String> = calls.iter().map(|call| format!("{} {}", call.method, call.path)).collect();
    assert!(
        calls.len() <= CALLS_PER_MACHINE,
        "{} calls for one Machine:\n{}",
        calls.len(),
        listed.join("\n")
    );
    term.cancel();
    running.join_all().await;
}

fn compare(comparison: &mut Comparison, folder: &Path, step: &str, ours: &[Value]) {
    comparison.add(step, &facts::of_all(&recorded(folder, step)), &facts::of_all(ours));
}
