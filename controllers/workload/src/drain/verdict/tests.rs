//! Tables of decisions.

use serde_json::{Value, json};

use super::*;

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Pod {
    let mut pod =
        json!({ "metadata": { "name": name, "namespace": "default" }, "status": { "phase": "Running" } });
    change(&mut pod);
    serde_json::from_value(pod).unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
fn rule(name: &str, spec: Value) -> MachineDrainRule {
    serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap()
}

fn observed(rules: &[MachineDrainRule]) -> Observed<'_> {
    Observed {
        now: "2026-01-01T00:01:00Z".parse().unwrap(),
        unreachable: false,
        rules,
        namespaces: Some(BTreeMap::from([(
            "default".to_owned(),
            BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        )])),
        daemon_sets: BTreeSet::from([("default".to_owned(), "agent".to_owned())]),
    }
}

fn owned_by(name: &str) -> impl Fn(&mut Value) {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "1", "controller": true }]);
    move |pod| pod["metadata"]["ownerReferences"] = owner.clone()
}

const FIRST: Verdict = Verdict::Drain { order: 0 };

#[test]
fn the_first_filter_that_decides_wins() {
    let label = |value: &str| {
        let value = value.to_owned();
        move |pod: &mut Value| pod["metadata"]["labels"] = json!({ "cluster.x-k8s.io/drain": value })
    };
    let cases = [
        ("no filter", pod("a", |_| {}), FIRST),
        ("of a DaemonSet", pod("a", owned_by("agent")), Verdict::Skip),
        ("of a DaemonSet that is gone", pod("a", owned_by("other")), FIRST),
        (
            "finished, of a DaemonSet",
            pod("a", |pod| {
                owned_by("agent")(pod);
                pod["status"]["phase"] = json!("Succeeded");
            }),
            FIRST,
        ),
        (
            "mirror",
            pod("a", |pod| pod["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": "" })),
            Verdict::Skip,
        ),
        ("label skip", pod("a", label("Skip")), Verdict::Skip),
        ("label waitcompleted", pod("a", label("WaitCompleted")), Verdict::WaitCompleted),
        ("label wait-completed", pod("a", label("wait-completed")), Verdict::WaitCompleted),
        ("another label value", pod("a", label("later")), FIRST),
        (
            "completed",
            pod("a", |pod| {
                label("waitcompleted")(pod);
                pod["status"]["phase"] = json!("Failed");
            }),
            Verdict::Skip,
        ),
        ("finished", pod("a", |pod| pod["status"]["phase"] = json!("Succeeded")), FIRST),
        (
            "terminating on a Node that reports",
            pod("a", |pod| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")),
            FIRST,
        ),
    ];
    for (case, pod, expected) in cases {
        assert_eq!(verdict(&pod, &observed(&[])), Ok(expected), "{case}");
    }
}

#[test]
fn an_unreachable_node_does_not_hold_back_deleted_pods() {
    let mut observed = observed(&[]);
    observed.unreachable = true;
    let deleted = |at: &str| pod("a", |pod| pod["metadata"]["deletionTimestamp"] = json!(at));
    assert_eq!(verdict(&deleted("2026-01-01T00:00:58Z"), &observed), Ok(Verdict::Skip));
    assert_eq!(verdict(&deleted("2026-01-01T00:00:59Z"), &observed), Ok(FIRST));
    assert_eq!(verdict(&pod("a", |_| {}), &observed), Ok(FIRST));
}

#[test]
fn the_first_rule_by_name_that_selects_the_pod_decides() {
    let drain = |order: i32| json!({ "drain": { "behavior": "Drain", "order": order } });
    let on = |behavior: &str, pods: Value| json!({ "drain": { "behavior": behavior }, "pods": pods });
    let team = |team: &str| json!([{ "namespaceSelector": { "matchLabels": { "team": team } } }]);
    let cases = [
        (vec![rule("a", drain(7)), rule("b", drain(8))], Verdict::Drain { order: 7 }),
        (
            vec![rule("a", on("Skip", team("b"))), rule("b", on("WaitCompleted", team("a")))],
            Verdict::WaitCompleted,
        ),
        (vec![rule("a", on("Skip", json!([{ "selector": { "matchLabels": { "x": "y" } } }])))], FIRST),
        (vec![rule("a", on("Skip", json!([])))], Verdict::Skip),
    ];
    for (rules, expected) in cases {
        assert_eq!(verdict(&pod("a", |_| {}), &observed(&rules)), Ok(expected), "{rules:?}");
    }
    let rules = [rule("a", on("Skip", team("a")))];
    let elsewhere = pod("a", |pod| pod["metadata"]["namespace"] = json!("unknown"));
    let error = verdict(&elsewhere, &observed(&rules)).unwrap_err().to_string();
    assert!(error.contains("unknown/a"), "{error}");
}

#[test]
fn only_the_lowest_order_is_drained_now() {
    let deleted = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let (a, b, c) = (pod("a", |_| {}), pod("b", |_| {}), pod("c", |_| {}));
    let gone = pod("d", deleted);
    let names = |pods: &[&Pod]| pods.iter().map(|pod| full_name(pod)).collect::<Vec<_>>().join(" ");
    let drain = |order| Verdict::Drain { order };
    // Lists in the order terminating, evicted now, evicted later, waited for now, waited for later.
    let cases = [
        (vec![(&b, drain(0)), (&a, drain(0))], ["", "default/a default/b", "", "", ""]),
        (vec![(&a, drain(1)), (&b, drain(-1)), (&c, Verdict::Skip)], ["", "default/b", "default/a", "", ""]),
        (vec![(&a, Verdict::WaitCompleted), (&b, drain(1))], ["", "", "default/b", "default/a", ""]),
        (vec![(&a, Verdict::WaitCompleted), (&b, drain(-1))], ["", "default/b", "", "", "default/a"]),
        (vec![(&a, Verdict::WaitCompleted), (&b, drain(0))], ["", "default/b", "", "default/a", ""]),
        (vec![(&gone, drain(-1)), (&b, drain(0))], ["default/d", "", "default/b", "", ""]),
        (vec![(&gone, drain(5)), (&b, drain(0))], ["default/d", "default/b", "", "", ""]),
        (vec![(&a, Verdict::Skip)], ["", "", "", "", ""]),
    ];
    for (verdicts, expected) in cases {
        let plan = plan(&verdicts);
        let lists = [&plan.terminating, &plan.evict_now, &plan.evict_later, &plan.wait_now, &plan.wait_later];
        assert_eq!(lists.map(|pods| names(pods)), expected, "{verdicts:?}");
    }
}
