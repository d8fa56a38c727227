use serde_json::json;

use super::*;

fn machine(name: &str, effect: &str, reasons: &[&str]) -> Value {
    json!({"name": name, "effect": effect, "reasons": reasons})
}

fn steps(actions: &str) -> Value {
    let steps = actions.chars().map(|letter| {
        let action = if letter == 'c' { "Create" } else { "Delete" };
        json!({"action": action, "machine": "m"})
    });
    steps.collect()
}

fn texts(lines: &[Line]) -> Vec<&str> {
    lines.iter().map(|line| line.text.as_str()).collect()
}

#[test]
fn machines_with_the_same_effect_for_the_same_reasons_share_a_line() {
    let version = "Version v1.34.1, v1.35.0 required";
    let machines = [
        machine("a", "Replace", &[version]),
        machine("b", "Replace", &[version]),
        machine("c", "Replace", &[version, "OpenStackMachine is not up-to-date"]),
        machine("d", "Keep", &[]),
        machine("e", "InPlace", &["spec.template.metadata.labels.a changes in place"]),
        machine("f", "Delete", &["spec.replicas is 3"]),
    ];
    let plan = json!({
        "machines": machines, "steps": steps("cdcdcdd"),
        "obstacles": ["Cluster spec.paused is set to true"], "forecasts": ["it never fits the quota"],
    });
    let lines = lines(&plan, "MachineDeployment", "md", None);
    assert_eq!(
        texts(&lines),
        [
            "MachineDeployment md: 2 Machines are replaced up to 2 at a time: * Version v1.34.1, v1.35.0 required",
            "MachineDeployment md: 1 Machine is replaced: * Version v1.34.1, v1.35.0 required * OpenStackMachine is not \
             up-to-date",
            "MachineDeployment md: 1 Machine is changed in place: * spec.template.metadata.labels.a changes in place",
            "MachineDeployment md: 1 Machine is deleted: * spec.replicas is 3",
            "MachineDeployment md: the steps wait: Cluster spec.paused is set to true",
            "MachineDeployment md: it never fits the quota",
        ]
    );
    assert_eq!(effects(&lines).len(), 4);
}

#[test]
fn a_plan_without_an_effect_on_machines_has_no_line_and_a_held_rollout_has() {
    let plan = |machines: &[Value]| json!({"machines": machines, "steps": [], "obstacles": ["a policy"]});
    let of = |plan: &Value| lines(plan, "KubeadmControlPlane", "cp", None);
    assert_eq!(of(&plan(&[machine("a", "Keep", &[])])), []);
    assert_eq!(of(&json!({})), []);
    let held = of(&plan(&[machine("a", "Keep", &["After"]), machine("b", "Keep", &["After"])]));
    let expected = [
        "KubeadmControlPlane cp: 2 Machines are kept, but out of date: * After",
        "KubeadmControlPlane cp: the steps wait: a policy",
    ];
    assert_eq!(texts(&held), expected);
}

#[test]
fn replacements_one_by_one_are_said_to_be_so() {
    let plan = json!({"steps": steps("cdcdcd"), "machines": vec![machine("a", "Replace", &["x"]); 3]});
    let lines = lines(&plan, "KubeadmControlPlane", "cp", None);
    assert_eq!(texts(&lines), ["KubeadmControlPlane cp: 3 Machines are replaced one after the other: * x"]);
}

#[test]
fn a_cluster_has_the_sum_the_order_of_upgrades_and_the_rollouts_that_change_something() {
    let rollout = |kind: &str, name: &str, machines: &[Value]| json!({"kind": kind, "name": name, "machines": machines});
    let plan = json!({
        "rollouts": [
            rollout("KubeadmControlPlane", "cp", &[machine("a", "Replace", &["x"])]),
            rollout("MachineDeployment", "idle", &[machine("b", "Keep", &[])]),
            rollout("MachineDeployment", "md", &[machine("c", "Create", &[]), machine("d", "Replace", &[])]),
        ],
        "steps": [{"action": "Upgrade", "kind": "KubeadmControlPlane", "name": "cp", "version": "v1.35.0"}],
        "obstacles": ["a hook"],
    });
    let all = lines(&plan, "Cluster", "blue", None);
    assert_eq!(
        texts(&all),
        [
            "Cluster blue: in all, 2 Machines are replaced, 1 Machine is created",
            "Cluster blue: upgrades in this order: KubeadmControlPlane cp to v1.35.0",
            "Cluster blue: the steps wait: a hook",
            "KubeadmControlPlane cp: 1 Machine is replaced: * x",
            "MachineDeployment md: 1 Machine is created",
            "MachineDeployment md: 1 Machine is replaced",
        ]
    );
    let of_template = json!({"rollouts": plan["rollouts"]});
    let some = lines(&of_template, "KubeadmConfigTemplate", "t", Some(&["KubeadmControlPlane"]));
    assert_eq!(texts(&some), ["KubeadmControlPlane cp: 1 Machine is replaced: * x"]);
    let none = json!({"rollouts": [plan["rollouts"][1]], "steps": [], "obstacles": ["a hook"]});
    assert_eq!(lines(&none, "Cluster", "blue", None), []);
}

#[test]
fn warnings_are_short_printable_and_few() {
    let line = |text: String| Line { text, is_effect: true };
    let more = "The whole plan: there";
    let few = [line("a\nb\t".to_owned()), line("x".repeat(300))];
    let sent = warnings(&few, more);
    assert_eq!((sent.len(), sent[0].as_str(), sent[2].as_str()), (3, "a b", more));
    assert_eq!((sent[1].chars().count(), &sent[1][253..]), (256, "..."));
    assert_eq!(warnings(&few[..1], ""), ["a b"]);
    let many: Vec<Line> = (0..50).map(|index| line(format!("{index:0100}"))).collect();
    let sent = warnings(&many, more);
    assert_eq!((sent.len(), sent[17].as_str()), (18, "33 lines are left out. The whole plan: there"));
    assert!(sent.iter().map(|text| text.chars().count()).sum::<usize>() <= LONGEST);
}
