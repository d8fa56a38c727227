//! Plan as tables.

use serde_json::Value;

use crate::output::columns;

/// Effects in the order of the summary, with their fields.
const EFFECTS: [(&str, &str); 5] = [
    ("keep", "keep"),
    ("in place", "inPlace"),
    ("replace", "replace"),
    ("create", "create"),
    ("delete", "delete"),
];

/// Returns the tables of a plan of either kind. Empty ones are left out.
pub(super) fn text(plan: &Value) -> String {
    let numbers =
        EFFECTS.map(|(name, field)| format!("{} {name}", plan["summary"][field].as_u64().unwrap_or(0)));
    let mut parts = vec![format!("Machines: {}\n", numbers.join(", "))];
    parts.extend(objects(plan));
    parts.extend(versions(plan));
    match plan["rollouts"].as_array() {
        Some(rollouts) => parts.extend(rollouts.iter().map(rollout)),
        None => parts.extend(machines(plan)),
    }
    parts.extend(obstacles(plan));
    parts.extend(forecasts(plan));
    parts.extend(drains(plan));
    parts.join("\n")
}

/// Returns the objects of a Cluster that change.
fn objects(plan: &Value) -> Option<String> {
    let row = |object: &Value| [word(&object["effect"]), named(object), list(&object["fields"], ", ")];
    table(["EFFECT", "OBJECT", "FIELDS"], items(plan, "objects").map(row))
}

/// Returns the order of an upgrade, and the versions that remain without a step.
fn versions(plan: &Value) -> Option<String> {
    let is_upgrade = |step: &&Value| step["version"].is_string();
    let steps = items(plan, "steps").filter(is_upgrade);
    let row = |(index, step): (usize, &Value)| {
        [index.saturating_add(1).to_string(), named(step), word(&step["version"])]
    };
    let order = table(["STEP", "UPGRADES", "VERSION"], steps.enumerate().map(row));
    let remain = [("control plane", "controlPlane"), ("workers", "workers")];
    let remain = remain.map(|(name, field)| (name, list(&plan["upgrade"][field], ", ")));
    let remain = remain.into_iter().filter(|(_, versions)| versions != "-");
    let remain: String =
        remain.map(|(name, versions)| format!("Upgrade of the {name}: {versions}\n")).collect();
    match (order, remain.is_empty()) {
        (Some(order), _) => Some(format!("{remain}{order}")),
        (None, false) => Some(remain),
        (None, true) => None,
    }
}

/// Returns the plan of one owner of Machines.
fn rollout(rollout: &Value) -> String {
    let parts = [machines(rollout), obstacles(rollout), forecasts(rollout)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let content = if parts.is_empty() { "No Machines\n".to_owned() } else { parts.join("\n") };
    format!("{}\n{content}", named(rollout))
}

/// Returns the Machines of a plan, and the order of their creations and deletions.
fn machines(plan: &Value) -> Option<String> {
    let row =
        |machine: &Value| [word(&machine["name"]), word(&machine["effect"]), list(&machine["reasons"], "; ")];
    let machines = table(["MACHINE", "EFFECT", "REASONS"], items(plan, "machines").map(row))?;
    let steps = items(plan, "steps").enumerate();
    let row = |(index, step): (usize, &Value)| {
        [index.saturating_add(1).to_string(), word(&step["action"]), word(&step["machine"])]
    };
    let steps = table(["STEP", "ACTION", "MACHINE"], steps.map(row));
    Some(steps.map_or_else(|| machines.clone(), |steps| format!("{machines}\n{steps}")))
}

fn obstacles(plan: &Value) -> Option<String> {
    table(["OBSTACLES"], items(plan, "obstacles").map(|it| [word(it)]))
}

/// Returns the sentences about quotas that a rollout will meet.
fn forecasts(plan: &Value) -> Option<String> {
    table(["FORECASTS"], items(plan, "forecasts").map(|it| [word(it)]))
}

/// Returns the sentences about disruption budgets that refuse the drains of Machines that go.
pub(in crate::commands) fn drains(plan: &Value) -> Option<String> {
    table(["DRAINS"], items(plan, "drains").map(|it| [word(it)]))
}

pub(in crate::commands) fn items<'a>(plan: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    plan[field].as_array().into_iter().flatten()
}

/// Returns kind and name.
pub(in crate::commands) fn named(object: &Value) -> String {
    format!("{}/{}", word(&object["kind"]), word(&object["name"]))
}

pub(in crate::commands) fn word(field: &Value) -> String {
    field.as_str().map_or_else(|| "-".to_owned(), |text| text.replace('\n', " "))
}

pub(in crate::commands) fn list(field: &Value, joint: &str) -> String {
    let texts: Vec<String> = field.as_array().into_iter().flatten().map(word).collect();
    if texts.is_empty() { "-".to_owned() } else { texts.join(joint) }
}

/// Returns a table; `None` without rows.
pub(in crate::commands) fn table<const N: usize>(
    titles: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Option<String> {
    let rows: Vec<[String; N]> = std::iter::once(titles.map(str::to_owned)).chain(rows).collect();
    (rows.len() > 1).then(|| columns(&rows))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_of_a_cluster_has_objects_order_machines_and_obstacles() {
        let machine = |name: &str, effect: &str, reason: &str| json!({"name": name, "effect": effect, "reasons": [reason]});
        let plan = json!({
            "summary": {"keep": 0, "inPlace": 0, "replace": 1, "create": 0, "delete": 0},
            "objects": [{"effect": "Change", "kind": "KubeadmControlPlane", "name": "cp", "fields": ["spec.version"]}],
            "upgrade": {"controlPlane": ["v1.32.0"], "workers": []},
            "steps": [{"action": "Upgrade", "kind": "KubeadmControlPlane", "name": "cp", "version": "v1.32.0"}],
            "rollouts": [
                {"kind": "KubeadmControlPlane", "name": "cp",
                    "machines": [machine("cp-a", "Replace", "Version v1.31.0, v1.32.0 required")],
                    "steps": [{"action": "Create", "machine": "cp-(new-1)"}, {"action": "Delete", "machine": "cp-a"}],
                    "obstacles": []},
                {"kind": "MachineDeployment", "name": "md", "machines": [], "steps": [], "obstacles": []},
            ],
            "obstacles": ["Cluster spec.paused is set to true"],
        });
        let expected = "\
Machines: 0 keep, 0 in place, 1 replace, 0 create, 0 delete

EFFECT  OBJECT                  FIELDS
Change  KubeadmControlPlane/cp  spec.version

Upgrade of the control plane: v1.32.0
STEP  UPGRADES                VERSION
1     KubeadmControlPlane/cp  v1.32.0

KubeadmControlPlane/cp
MACHINE  EFFECT   REASONS
cp-a     Replace  Version v1.31.0, v1.32.0 required

STEP  ACTION  MACHINE
1     Create  cp-(new-1)
2     Delete  cp-a

MachineDeployment/md
No Machines

OBSTACLES
Cluster spec.paused is set to true
";
        assert_eq!(text(&plan), expected);
    }

    #[test]
    fn a_plan_of_one_owner_has_its_machines_at_once() {
        let plan = json!({
            "summary": {"keep": 1, "inPlace": 0, "replace": 0, "create": 0, "delete": 0},
            "machines": [{"name": "a", "effect": "Keep", "reasons": []}], "steps": [], "obstacles": [],
        });
        let expected = "Machines: 1 keep, 0 in place, 0 replace, 0 create, 0 delete\n\nMACHINE  EFFECT  REASONS\na        Keep    -\n";
        assert_eq!(text(&plan), expected);
        let mut foreseen = plan;
        foreseen["forecasts"] = json!(["it never fits"]);
        foreseen["drains"] = json!(["a budget refuses it"]);
        let tables = "FORECASTS\nit never fits\n\nDRAINS\na budget refuses it\n";
        assert_eq!(text(&foreseen), format!("{expected}\n{tables}"));
    }
}
