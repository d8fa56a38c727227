//! Crash tests: the process ends at every possible effect, the next process continues, and the operation happens once.

use apiserver_types::OperationPhase;
use serde_json::{Value, json};

use crate::crash_point::Crash;
use crate::world::{INFRASTRUCTURE, MACHINE, World, message, phase};

/// Operation whose process crashes at every effect.
struct Scenario {
    name: &'static str,
    from_volume: bool,
    spec: fn() -> Value,
    prepare: fn(&World),
    check: fn(&World, &str),
}

fn scenario(name: &'static str, spec: fn() -> Value, check: fn(&World, &str)) -> Scenario {
    Scenario { name, from_volume: false, spec, prepare: |_| {}, check }
}

fn scenarios() -> Vec<Scenario> {
    let of_nodes = scenarios_of_nodes().into_iter();
    of_nodes.chain(scenarios_of_servers()).collect()
}

/// Operations that leave the server alone.
fn scenarios_of_nodes() -> Vec<Scenario> {
    vec![
        Scenario {
            prepare: World::with_node,
            ..scenario("cordon of a node", || json!({"action": "Cordon"}), cordoned)
        },
        Scenario {
            prepare: |world| {
                world.with_node();
                world.cordon_by_hand();
            },
            ..scenario(
                "uncordon of a node",
                || json!({"action": "Uncordon", "uncordon": {"force": true}}),
                |world, case| assert_eq!(world.is_cordoned(), Some(false), "{case}"),
            )
        },
        Scenario {
            prepare: busy,
            ..scenario(
                "drain of a node by force",
                || json!({"action": "Drain", "drain": {"force": true, "timeoutSeconds": 60}}),
                |world, case| {
                    cordoned(world, case);
                    assert_eq!(world.pods(), Vec::<String>::new(), "{case}");
                },
            )
        },
    ]
}

fn scenarios_of_servers() -> Vec<Scenario> {
    vec![
        scenario(
            "soft reboot",
            || json!({"action": "Reboot", "reboot": {}}),
            |world, case| rebooted(world, case, 1),
        ),
        scenario(
            "hard reboot",
            || json!({"action": "Reboot", "reboot": {"type": "Hard"}}),
            |world, case| rebooted(world, case, 1),
        ),
        Scenario {
            prepare: |world| world.nova().soft_hangs = true,
            ..scenario(
                "soft reboot that hangs",
                || json!({"action": "Reboot", "reboot": {"softTimeoutSeconds": 30}}),
                |world, case| rebooted(world, case, 2),
            )
        },
        scenario(
            "power-off",
            || json!({"action": "PowerOff"}),
            |world, case| powered(world, case, "stop", "SHUTOFF"),
        ),
        Scenario {
            prepare: |world| world.set_status("SHUTOFF"),
            ..scenario(
                "power-on",
                || json!({"action": "PowerOn"}),
                |world, case| powered(world, case, "start", "ACTIVE"),
            )
        },
        Scenario {
            prepare: retirable,
            ..scenario("retirement of a node", || json!({"action": "Retire"}), retired)
        },
        scenario("rebuild", || upgrade("Auto"), rebuilt),
        scenario("replacement", || upgrade("Replace"), replaced),
        Scenario {
            from_volume: true,
            ..scenario("replacement of a server that boots from a volume", || upgrade("Auto"), replaced)
        },
        Scenario {
            prepare: |world| world.nova().builds_fail = 2,
            ..scenario("replacement that cannot be built at first", || upgrade("Replace"), replaced)
        },
        Scenario {
            prepare: World::with_node,
            ..scenario(
                "rebuild of a node",
                || upgrade("Auto"),
                |world, case| {
                    rebuilt(world, case);
                    world.has_rejoined(case);
                },
            )
        },
        Scenario {
            prepare: World::with_node,
            ..scenario(
                "replacement of a node",
                || upgrade("Replace"),
                |world, case| {
                    replaced(world, case);
                    world.has_rejoined(case);
                },
            )
        },
        Scenario {
            prepare: |world| world.nova().rebuilds_fail = true,
            ..scenario("rebuild that fails, then a replacement", || upgrade("Auto"), replaced)
        },
    ]
}

fn upgrade(strategy: &str) -> Value {
    json!({"action": "Upgrade", "upgrade": {"version": "v1.30.0", "strategy": strategy}})
}

fn rebooted(world: &World, case: &str, times: usize) {
    assert_eq!(world.nova().count("reboot"), times, "{case}");
    assert_eq!(world.nova().instances.len(), 1, "{case}");
}

fn powered(world: &World, case: &str, action: &str, status: &str) {
    let nova = world.nova();
    assert_eq!((nova.count(action), nova.instances.len()), (1, 1), "{case}");
    assert_eq!(nova.instances.values().next().unwrap().server.status, status, "{case}");
}

/// Gives the Machine a Node, and the finalizer that every Machine has.
fn retirable(world: &World) {
    world.with_node();
    world.api.change(MACHINE, |machine| {
        machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    });
}

fn retired(world: &World, case: &str) {
    let machine = world.api.get(MACHINE).unwrap();
    assert!(machine["metadata"]["deletionTimestamp"].is_string(), "{case}");
    assert_eq!(world.is_cordoned(), Some(true), "{case}");
    assert_eq!(world.nova().instances.len(), 1, "{case}: the server is deleted with its Machine");
}

/// Gives the Machine a Node with two Pods. A budget forbids the eviction of one.
fn busy(world: &World) {
    world.with_node();
    world.run_pod("free", json!({}));
    world.run_pod("held", json!({"labels": {"budget": ""}}));
}

fn cordoned(world: &World, case: &str) {
    assert_eq!(world.is_cordoned(), Some(true), "{case}");
    assert_eq!(world.cordoned_by().as_deref(), Some("uid-op/boot of before"), "{case}");
}

fn rebuilt(world: &World, case: &str) {
    let nova = world.nova();
    assert_eq!((nova.count("rebuild"), nova.instances.len()), (1, 1), "{case}");
    let instance = nova.instances.values().next().unwrap();
    assert_eq!(instance.server.image_id.as_deref(), Some("image-kube-v1.30.0"), "{case}");
    assert_eq!(instance.user_data, b"join", "{case}");
    upgraded(world, case);
}

fn replaced(world: &World, case: &str) {
    let nova = world.nova();
    let [(id, instance)] = nova.instances.iter().collect::<Vec<_>>()[..] else {
        panic!("{case}: servers are left: {:?}", nova.instances.keys());
    };
    let provider_id = format!("openstack:///{id}");
    let infrastructure = world.api.get(INFRASTRUCTURE).unwrap();
    assert_eq!(infrastructure["spec"]["providerID"], json!(provider_id), "{case}");
    assert_eq!(infrastructure["status"]["instanceID"], json!(id), "{case}");
    assert_eq!(world.api.get(MACHINE).unwrap()["spec"]["providerID"], json!(provider_id), "{case}");
    let made = &instance.made_from;
    assert_eq!(instance.server.status, "ACTIVE", "{case}");
    assert_eq!(instance.user_data, b"join", "{case}");
    assert_eq!(made.ports, ["port-1", "port-2"], "{case}");
    assert_eq!(made.tags, ["mine", "capstan-uid-m1", "capstan-uid-op"], "{case}");
    assert_eq!((made.key_name.as_deref(), made.flavor_id.as_str()), (Some("key"), "f"), "{case}");
    assert_eq!(made.metadata.get("k").map(String::as_str), Some("v"), "{case}");
    let from_volume = made.image_id.is_none();
    assert_eq!(nova.volumes.len(), usize::from(from_volume), "{case}: volumes are left");
    assert!(from_volume || made.image_id.as_deref() == Some("image-kube-v1.30.0"), "{case}");
    upgraded(world, case);
}

fn upgraded(world: &World, case: &str) {
    let infrastructure = world.api.get(INFRASTRUCTURE).unwrap();
    let annotations = &infrastructure["metadata"]["annotations"];
    assert_eq!(*annotations, json!({"capstan.dev/image": "image-kube-v1.30.0"}), "{case}");
    assert_eq!(infrastructure["status"]["resolved"]["imageID"], json!("image-kube-v1.30.0"), "{case}");
    assert_eq!(world.api.get(MACHINE).unwrap()["spec"]["version"], json!("v1.30.0"), "{case}");
}

/// Runs a scenario with a crash. Returns the number of effects.
async fn run(scenario: &Scenario, case: &str, crash: impl FnOnce(&World)) -> usize {
    let world = World::new(scenario.from_volume);
    (scenario.prepare)(&world);
    world.request("op", (scenario.spec)());
    crash(&world);
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{case}: {}", message(&operation));
    // Late calls have arrived by now.
    world.pass_time(3600);
    (scenario.check)(&world, case);
    world.crash_point.effects()
}

#[tokio::test]
async fn an_operation_takes_effect_once_despite_a_crash_at_any_effect() {
    for scenario in scenarios() {
        let effects = run(&scenario, scenario.name, |_| {}).await;
        assert!(effects > 5, "{}: {effects} effects", scenario.name);
        for crash in [Crash::Before, Crash::After, Crash::Late] {
            for number in 0..effects {
                let case = format!("{}, crash {crash:?} at effect {number} of {effects}", scenario.name);
                run(&scenario, &case, |world| world.crash_point.crash_at(number, crash)).await;
            }
        }
    }
}

#[tokio::test]
async fn an_operation_takes_effect_once_if_every_response_is_lost() {
    for scenario in scenarios() {
        let case = format!("{}, crash after every effect", scenario.name);
        run(&scenario, &case, |world| world.crash_point.crash_after_every()).await;
    }
}
