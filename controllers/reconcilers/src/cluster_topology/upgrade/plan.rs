//! Plan of an upgrade: the versions that the control plane and the workers take one after the other.

use semver::Version;

use crate::machine_versions::parse;

/// Minor versions by which a kubelet may be older than the API server: Kubernetes' policy.
const OLDEST_KUBELET: u64 = 3;

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

/// Returns the plan of an upgrade. `listed` are the versions of the ClusterClass.
///
/// # Errors
/// The target cannot be reached. For people.
pub(in crate::cluster_topology) fn plan(versions: Versions<'_>, listed: &[String]) -> Result<Plan, String> {
    let is_done = |version: &str| version == versions.target;
    if is_done(versions.control_plane) && versions.workers.is_none_or(is_done) {
        return Ok(Plan::default());
    }
    let control_plane = match is_done(versions.control_plane) {
        true => Vec::new(),
        false => steps(versions.control_plane, versions.target, listed)?,
    };
    validate_control_plane(versions, &control_plane)?;
    let workers = match versions.workers.filter(|version| !is_done(version)) {
        Some(lowest) => stops(lowest, versions, &control_plane)?,
        None => Vec::new(),
    };
    validate_workers(versions, &control_plane, &workers)?;
    Ok(Plan { control_plane, workers })
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
fn validate_control_plane(versions: Versions<'_>, plan: &[String]) -> Result<(), String> {
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
                "control plane upgrade plan: from {} to {text} a minor version is left out. List a version of each \
                 minor version in spec.kubernetesVersions of the ClusterClass",
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

/// Checks that the versions are those of the control plane, rise, do not skip too much, and end with the target.
fn validate_workers(versions: Versions<'_>, control_plane: &[String], plan: &[String]) -> Result<(), String> {
    let (Some(last), Some(lowest)) = (plan.last(), versions.workers) else { return Ok(()) };
    let mut before = version(lowest)?;
    for text in plan {
        let next = version(text)?;
        if text != versions.control_plane && !control_plane.contains(text) {
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
        plan(Versions { control_plane: current, workers, target }, &listed)
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
        assert!(validate_control_plane(versions, &of("v1.31.1")).unwrap_err().contains("ends with v1.31.1"));
        let error = validate_workers(versions, &of("v1.31.0"), &of("v1.31.1")).unwrap_err();
        assert!(error.contains("not one of the control plane"), "{error}");
        let error = validate_workers(versions, &of("v1.31.0"), &of("v1.30.0")).unwrap_err();
        assert!(error.contains("is not above"), "{error}");
    }
}
