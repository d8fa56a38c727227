//! Plan of an upgrade: the versions that the control plane and the workers take one after the other.

use semver::Version;

use crate::machine_versions::parse;

/// Minor versions by which a kubelet may be older than the API server: Kubernetes' policy.
const OLDEST_KUBELET: u64 = 3;

/// Action of people if a list of versions leaves out a minor version.
const LIST_EACH: &str = "List a version of each minor version: in spec.kubernetesVersions of the \
    ClusterClass, or without a class in the field through of the request";

/// Action of people if the plan of a server leaves out a minor version.
const PLAN_EACH: &str = "The extension server must plan a version of each minor version";

/// Versions that remain, in order. Both end with the target. A list is empty if there is nothing to upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::cluster_topology) struct Plan {
    pub control_plane: Vec<String>,
    pub workers: Vec<String>,
}

/// Versions at the beginning of a pass, and the version that the topology demands.
#[derive(Debug, Clone, Copy)]
pub(in crate::cluster_topology) struct Versions<'a> {
    pub control_plane: &'a str,
    /// Lowest version of the workers; `None` without workers.
    pub workers: Option<&'a str>,
    pub target: &'a str,
}

/// Source of the versions of an upgrade.
#[derive(Debug, Clone, Copy)]
pub(in crate::cluster_topology) enum Source<'a> {
    /// Versions that the ClusterClass or a request lists. Without any, an upgrade has one step.
    Listed(&'a [String]),
    /// Plan of an extension server, which [`given`] has checked. Steps that are done stay behind.
    Given(&'a Plan),
}

impl<'a> Source<'a> {
    /// Returns the source of a class: the plan of its extension server, or the versions that it lists.
    pub(in crate::cluster_topology) fn of(given: Option<&'a Plan>, listed: &'a [String]) -> Self {
        given.map_or(Self::Listed(listed), Self::Given)
    }
}

/// Returns the plan of an upgrade.
///
/// # Errors
/// The target cannot be reached. For people.
pub(in crate::cluster_topology) fn plan(versions: Versions<'_>, source: Source<'_>) -> Result<Plan, String> {
    if versions.are_reached() {
        return Ok(Plan::default());
    }
    let (control_plane, remedy) = match source {
        _ if versions.is_target(versions.control_plane) => (Vec::new(), LIST_EACH),
        Source::Listed(listed) => (steps(versions.control_plane, versions.target, listed)?, LIST_EACH),
        Source::Given(plan) => (rest(&plan.control_plane, versions.control_plane), PLAN_EACH),
    };
    validate_control_plane(versions, &control_plane, remedy)?;
    let workers = match (versions.workers.filter(|version| !versions.is_target(version)), source) {
        (None, _) => Vec::new(),
        (Some(lowest), Source::Given(plan)) if !plan.workers.is_empty() => rest(&plan.workers, lowest),
        (Some(lowest), _) => stops(lowest, versions, &control_plane)?,
    };
    validate_workers(versions, &control_plane, &workers)?;
    Ok(Plan { control_plane, workers })
}

/// Checks the plan that an extension server made for the present versions. Without steps for the workers, they stop as rarely
/// as the distance of versions allows.
///
/// # Errors
/// It cannot be the plan of an upgrade from these versions. For people.
pub(in crate::cluster_topology) fn given(versions: Versions<'_>, plan: Plan) -> Result<Plan, String> {
    match (plan.control_plane.is_empty(), versions.is_target(versions.control_plane)) {
        (true, false) => return Err("control plane upgrade plan: it has no steps".to_owned()),
        (false, true) => {
            return Err("control plane upgrade plan: the control plane has the version already".to_owned());
        }
        (true, true) | (false, false) => {}
    }
    if !plan.workers.is_empty() && versions.workers.is_none_or(|version| versions.is_target(version)) {
        return Err("workers upgrade plan: there are no workers, or they have the version already".to_owned());
    }
    // Of the whole plan, also of steps that are not above the present versions.
    validate_control_plane(versions, &plan.control_plane, PLAN_EACH)?;
    validate_workers(versions, &plan.control_plane, &plan.workers)?;
    self::plan(versions, Source::Given(&plan))?;
    Ok(plan)
}

impl Versions<'_> {
    fn is_target(&self, version: &str) -> bool {
        version == self.target
    }

    /// Returns true if there is nothing to upgrade.
    pub(in crate::cluster_topology) fn are_reached(&self) -> bool {
        self.is_target(self.control_plane) && self.workers.is_none_or(|version| self.is_target(version))
    }
}

/// Returns the versions of a plan after a version; all, if the version is none of them.
fn rest(plan: &[String], version: &str) -> Vec<String> {
    let done = plan.iter().position(|step| step == version).map_or(0, |position| position + 1);
    plan.iter().skip(done).cloned().collect()
}

fn version(text: &str) -> Result<Version, String> {
    parse(text).ok_or_else(|| format!("version {text:?} is not a semantic version"))
}

/// Returns the versions of the control plane: the newest listed one of each minor version up to the target.
fn steps(current: &str, target: &str, listed: &[String]) -> Result<Vec<String>, String> {
    let (from, to) = (version(current)?, version(target)?);
    let mut steps = Vec::new();
    for minor in from.minor.saturating_add(1)..to.minor {
        let of_minor = listed.iter().filter_map(|text| Some((parse(text)?, text)));
        let of_minor = of_minor.filter(|(found, _)| found.major == to.major && found.minor == minor);
        steps.extend(of_minor.max_by(|a, b| a.0.cmp(&b.0)).map(|(_, text)| text.clone()));
    }
    steps.push(target.to_owned());
    Ok(steps)
}

/// Returns the versions of the workers: a stop where they would become too old for the control plane, and the target.
fn stops(lowest: &str, versions: Versions<'_>, control_plane: &[String]) -> Result<Vec<String>, String> {
    let mut minor = version(lowest)?.minor;
    let mut stops = Vec::new();
    for text in [versions.control_plane].into_iter().chain(control_plane.iter().map(String::as_str)) {
        let found = version(text)?;
        if text != lowest && found.minor >= minor.saturating_add(OLDEST_KUBELET) {
            minor = found.minor;
            stops.push(text.to_owned());
        }
    }
    if stops.last().is_none_or(|last| last != versions.target) {
        stops.push(versions.target.to_owned());
    }
    Ok(stops)
}

/// Checks that the versions rise, leave out no minor version, and end with the target.
fn validate_control_plane(versions: Versions<'_>, plan: &[String], remedy: &str) -> Result<(), String> {
    let Some(last) = plan.last() else { return Ok(()) };
    let mut before = version(versions.control_plane)?;
    for text in plan {
        let next = version(text)?;
        if next <= before {
            return Err(format!(
                "control plane upgrade plan: version {text} is not above {}",
                shown(&before)
            ));
        }
        if next.major != before.major || next.minor > before.minor.saturating_add(1) {
            return Err(format!(
                "control plane upgrade plan: from {} to {text} a minor version is left out. {remedy}",
                shown(&before)
            ));
        }
        before = next;
    }
    if last != versions.target {
        return Err(format!("control plane upgrade plan: it ends with {last}, not with {}", versions.target));
    }
    Ok(())
}

/// Checks that the versions are those of the control plane, if it has steps itself. They must rise, not skip too much, and end
/// with the target.
fn validate_workers(versions: Versions<'_>, control_plane: &[String], plan: &[String]) -> Result<(), String> {
    let (Some(last), Some(lowest)) = (plan.last(), versions.workers) else { return Ok(()) };
    let mut before = version(lowest)?;
    for text in plan {
        let next = version(text)?;
        if !control_plane.is_empty() && text != versions.control_plane && !control_plane.contains(text) {
            return Err(format!("workers upgrade plan: version {text} is not one of the control plane"));
        }
        if next <= before {
            return Err(format!("workers upgrade plan: version {text} is not above {}", shown(&before)));
        }
        if next.minor > before.minor.saturating_add(OLDEST_KUBELET) {
            return Err(format!(
                "workers upgrade plan: from {} to {text} are more than {OLDEST_KUBELET} minor versions",
                shown(&before)
            ));
        }
        before = next;
    }
    if last != versions.target {
        return Err(format!("workers upgrade plan: it ends with {last}, not with {}", versions.target));
    }
    Ok(())
}

fn shown(version: &Version) -> String {
    format!("v{version}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans(current: &str, workers: Option<&str>, target: &str, listed: &[&str]) -> Result<Plan, String> {
        let listed: Vec<String> = listed.iter().map(|&text| text.to_owned()).collect();
        plan(Versions { control_plane: current, workers, target }, Source::Listed(&listed))
    }

    #[test]
    fn a_plan_takes_the_newest_version_of_each_minor_and_lets_workers_skip_three() {
        let listed = [
            "v1.30.0", "v1.31.0", "v1.31.4", "v1.32.1", "v1.33.0", "v1.34.0", "v1.34.2", "v1.35.0", "v1.36.0",
        ];
        type Row = (
            &'static str,
            Option<&'static str>,
            &'static str,
            &'static [&'static str],
            &'static [&'static str],
        );
        let table: [Row; 9] = [
            ("v1.34.0", Some("v1.34.0"), "v1.34.0", &[], &[]),
            ("v1.34.0", None, "v1.34.0", &[], &[]),
            ("v1.34.0", Some("v1.34.0"), "v1.34.2", &["v1.34.2"], &["v1.34.2"]),
            ("v1.30.0", Some("v1.30.0"), "v1.31.0", &["v1.31.0"], &["v1.31.0"]),
            ("v1.30.0", Some("v1.30.0"), "v1.32.1", &["v1.31.4", "v1.32.1"], &["v1.32.1"]),
            (
                "v1.30.0",
                Some("v1.30.0"),
                "v1.34.0",
                &["v1.31.4", "v1.32.1", "v1.33.0", "v1.34.0"],
                &["v1.33.0", "v1.34.0"],
            ),
            ("v1.33.0", Some("v1.30.0"), "v1.34.0", &["v1.34.0"], &["v1.33.0", "v1.34.0"]),
            ("v1.34.0", Some("v1.33.0"), "v1.34.0", &[], &["v1.34.0"]),
            ("v1.33.0", None, "v1.34.0", &["v1.34.0"], &[]),
        ];
        for (current, workers, target, control_plane, steps) in table {
            let found = plans(current, workers, target, &listed).unwrap();
            assert_eq!(found.control_plane, control_plane, "{current} {workers:?} {target}");
            assert_eq!(found.workers, steps, "{current} {workers:?} {target}");
        }
    }

    #[test]
    fn a_plan_that_cannot_be_is_an_error() {
        type Row = (&'static str, Option<&'static str>, &'static str, &'static [&'static str], &'static str);
        let table: [Row; 5] = [
            ("v1.30.0", None, "v1.32.0", &[], "a minor version is left out"),
            ("v1.30.0", None, "v1.32.0", &["v1.30.0", "v1.32.0"], "a minor version is left out"),
            ("v1.31.0", None, "v1.30.0", &[], "is not above v1.31.0"),
            ("v1.31.0", None, "new", &[], "not a semantic version"),
            ("v1.34.0", Some("v1.30.0"), "v1.34.0", &[], "more than 3 minor versions"),
        ];
        for (current, workers, target, listed, expected) in table {
            let error = plans(current, workers, target, listed).unwrap_err();
            assert!(error.contains(expected), "{current} {target}: {error}");
        }
        let versions = Versions { control_plane: "v1.30.0", workers: Some("v1.30.0"), target: "v1.31.0" };
        let of = |text: &str| vec![text.to_owned()];
        let error = validate_control_plane(versions, &of("v1.31.1"), LIST_EACH).unwrap_err();
        assert!(error.contains("ends with v1.31.1"), "{error}");
        let error = validate_workers(versions, &of("v1.31.0"), &of("v1.31.1")).unwrap_err();
        assert!(error.contains("not one of the control plane"), "{error}");
        let error = validate_workers(versions, &of("v1.31.0"), &of("v1.30.0")).unwrap_err();
        assert!(error.contains("is not above"), "{error}");
    }

    fn of_server(
        (current, workers, target): (&str, Option<&str>, &str),
        steps: &[&str],
        workers_steps: &[&str],
    ) -> Result<Plan, String> {
        let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
        let plan = Plan { control_plane: owned(steps), workers: owned(workers_steps) };
        given(Versions { control_plane: current, workers, target }, plan)
    }

    #[test]
    fn the_plan_of_a_server_is_followed_step_by_step() {
        let (from, target) = ("v1.31.0", "v1.34.0");
        let steps = ["v1.32.1", "v1.32.9", "v1.33.0", "v1.34.0"];
        let chosen = of_server((from, Some(from), target), &steps, &["v1.32.9", "v1.34.0"]).unwrap();
        let at = |control_plane: &str, workers: &str| {
            let versions = Versions { control_plane, workers: Some(workers), target };
            let Plan { control_plane, workers } = plan(versions, Source::Given(&chosen)).unwrap();
            (control_plane, workers)
        };
        assert_eq!(at(from, from).0, steps);
        assert_eq!(at(from, from).1, ["v1.32.9", "v1.34.0"]);
        assert_eq!(at("v1.32.1", from).0, steps[1..]);
        assert_eq!(at("v1.32.9", "v1.32.9").1, ["v1.34.0"]);
        assert_eq!(at(target, "v1.32.9"), (Vec::new(), vec![target.to_owned()]));
        assert_eq!(at(target, target), (Vec::new(), Vec::new()));
        // Without steps of their own, the workers stop where they must.
        let free = of_server(("v1.30.0", Some("v1.30.0"), "v1.31.0"), &["v1.31.0"], &[]).unwrap();
        let versions = Versions { control_plane: "v1.30.0", workers: Some("v1.30.0"), target: "v1.31.0" };
        assert_eq!(plan(versions, Source::Given(&free)).unwrap().workers, ["v1.31.0"]);
        // Workers that are late may have steps of their own.
        let late = of_server(("v1.34.0", Some("v1.31.0"), "v1.34.0"), &[], &["v1.33.0", "v1.34.0"]);
        assert_eq!(late.unwrap().workers, ["v1.33.0", "v1.34.0"]);
    }

    #[test]
    fn the_plan_of_a_server_must_lead_from_the_present_versions_to_the_target() {
        let upgrade = ("v1.31.0", Some("v1.31.0"), "v1.33.0");
        type Row = (
            (&'static str, Option<&'static str>, &'static str),
            &'static [&'static str],
            &'static [&'static str],
            &'static str,
        );
        let table: [Row; 9] = [
            (upgrade, &[], &[], "it has no steps"),
            (upgrade, &["v1.33.0"], &[], "a minor version is left out. The extension server must"),
            (upgrade, &["v1.32.0"], &[], "it ends with v1.32.0, not with v1.33.0"),
            (upgrade, &["v1.31.0", "v1.32.0", "v1.33.0"], &[], "v1.31.0 is not above v1.31.0"),
            (upgrade, &["new", "v1.33.0"], &[], "\"new\" is not a semantic version"),
            (upgrade, &["v1.32.0", "v1.33.0"], &["v1.32.5", "v1.33.0"], "v1.32.5 is not one of the control"),
            (upgrade, &["v1.32.0", "v1.33.0"], &["v1.32.0"], "it ends with v1.32.0, not with v1.33.0"),
            (("v1.33.0", Some("v1.32.0"), "v1.33.0"), &["v1.33.0"], &[], "has the version already"),
            (("v1.32.0", None, "v1.33.0"), &["v1.33.0"], &["v1.33.0"], "there are no workers"),
        ];
        for (versions, steps, workers, expected) in table {
            let error = of_server(versions, steps, workers).unwrap_err();
            assert!(error.contains(expected), "{versions:?} {steps:?} {workers:?}: {error}");
        }
    }
}
