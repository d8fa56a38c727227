//! Plan of an upgrade as text.

use serde_json::Value;

use crate::commands::plan::view::{drains, items, list, named, table, word};

/// Parts of a Cluster, with their fields in the plan.
const PARTS: [(&str, &str); 2] = [("control plane", "controlPlane"), ("workers", "workers")];

/// Returns the result of the request, the versions that remain, the steps, and what holds them.
pub(super) fn text(plan: &Value, is_cancelled: bool) -> String {
    let remain = PARTS.map(|(name, field)| (name, list(&plan["upgrade"][field], ", ")));
    let remain = remain.into_iter().filter(|(_, versions)| versions != "-");
    let remain: String =
        remain.map(|(name, versions)| format!("Upgrade of the {name}: {versions}\n")).collect();
    let obstacles = table(["OBSTACLES"], items(plan, "obstacles").map(|it| [word(it)]));
    let is_done = remain.is_empty() && obstacles.is_none();
    let mut parts = vec![result(plan, is_cancelled, is_done)];
    parts.extend((!remain.is_empty()).then_some(remain));
    parts.extend(steps(plan));
    parts.extend(obstacles);
    parts.extend(table(["NOTES"], items(plan, "notes").map(|it| [word(it)])));
    parts.extend(drains(plan));
    parts.join("\n")
}

/// Returns the line about the request.
fn result(plan: &Value, is_cancelled: bool, is_done: bool) -> String {
    let [namespace, name] = ["namespace", "name"].map(|field| word(&plan["metadata"][field]));
    let (cluster, version) = (format!("Cluster {namespace}/{name}"), word(&plan["version"]));
    let line = match (is_cancelled, plan["dryRun"] == true) {
        (true, _) if version.is_empty() => format!("The upgrade of {cluster} ends before its first step."),
        (true, _) => format!("The upgrade of {cluster} ends at {version}."),
        (false, _) if is_done => return format!("{cluster} has version {version} already.\n"),
        (false, true) => format!("{cluster} would be upgraded to {version}."),
        (false, false) => {
            format!("{cluster} is being upgraded to {version}. See: capstan why {name} -n {namespace}")
        }
    };
    let unchanged = if plan["dryRun"] == true { " Nothing was changed." } else { "" };
    format!("{line}{unchanged}\n")
}

/// Returns the steps in their order, with images if the plan has some.
fn steps(plan: &Value) -> Option<String> {
    let has_images = items(plan, "steps").any(|step| step["image"].is_string());
    let rows = || {
        items(plan, "steps").enumerate().map(|(index, step)| {
            [index.saturating_add(1).to_string(), named(step), word(&step["version"]), word(&step["image"])]
        })
    };
    match has_images {
        true => table(["STEP", "UPGRADES", "VERSION", "IMAGE"], rows()),
        false => {
            let rows = rows().map(|[step, object, version, _]| [step, object, version]);
            table(["STEP", "UPGRADES", "VERSION"], rows)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn plan(version: &str, dry_run: bool) -> Value {
        json!({
            "metadata": {"namespace": "team", "name": "prod"}, "version": version, "dryRun": dry_run,
            "upgrade": {"controlPlane": ["v1.35.0"], "workers": ["v1.35.0"]},
            "steps": [
                {"kind": "KubeadmControlPlane", "name": "cp", "version": "v1.35.0", "image": "kube-v1.35.0"},
                {"kind": "MachineDeployment", "name": "md", "version": "v1.35.0"},
            ],
            "obstacles": ["MachineDeployment md is upgrading. Other steps wait for it"], "notes": [],
        })
    }

    #[test]
    fn a_plan_has_the_result_the_steps_and_the_obstacles() {
        let expected = "\
Cluster team/prod is being upgraded to v1.35.0. See: capstan why prod -n team

Upgrade of the control plane: v1.35.0
Upgrade of the workers: v1.35.0

STEP  UPGRADES                VERSION  IMAGE
1     KubeadmControlPlane/cp  v1.35.0  kube-v1.35.0
2     MachineDeployment/md    v1.35.0  -

OBSTACLES
MachineDeployment md is upgrading. Other steps wait for it
";
        assert_eq!(text(&plan("v1.35.0", false), false), expected);
        let mut dry = plan("v1.35.0", true);
        dry["drains"] = json!(["a budget refuses it"]);
        let dry = text(&dry, false);
        let first = "Cluster team/prod would be upgraded to v1.35.0. Nothing was changed.";
        assert_eq!(dry.lines().next(), Some(first));
        assert!(dry.ends_with("\nDRAINS\na budget refuses it\n"), "{dry}");
    }

    #[test]
    fn a_cancellation_names_the_version_at_which_the_upgrade_ends() {
        let first = |plan: &Value| text(plan, true).lines().next().unwrap().to_owned();
        assert_eq!(first(&plan("v1.34.2", false)), "The upgrade of Cluster team/prod ends at v1.34.2.");
        let before = "The upgrade of Cluster team/prod ends before its first step. Nothing was changed.";
        assert_eq!(first(&plan("", true)), before);
    }
}
