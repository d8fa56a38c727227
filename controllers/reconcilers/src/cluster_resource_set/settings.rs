//! Settings of a set that upstream does not have: annotations. Pure.

use std::time::Duration;

use apiserver_types::{ClusterResourceSet, ClusterResourceSetStrategy};
use jiff::SignedDuration;
use kube::ResourceExt;

/// Annotation with the interval in which resources are applied again, such as `10m`. It needs the strategy Reconcile.
const REAPPLY: &str = "capstan.dev/reapply";

/// Annotation that has objects deleted which have left the set: `true`. It needs the strategy Reconcile.
const PRUNE: &str = "capstan.dev/prune";

/// Annotation that has the next resource wait for the present one: `ready`.
const WAIT_FOR: &str = "capstan.dev/wait-for";

/// Shortest interval of applying again: workload clusters are remote, and a set may have hundreds of objects.
const SHORTEST: Duration = Duration::from_secs(30);

/// Settings of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Settings {
    pub reconcile: bool,
    pub reapply: Option<Duration>,
    pub prune: bool,
    pub wait: bool,
}

/// Reads the settings.
///
/// # Errors
/// An annotation has an unusable value. For people.
pub(super) fn read(set: &ClusterResourceSet) -> Result<Settings, String> {
    let reconcile = set.spec.strategy == Some(ClusterResourceSetStrategy::Reconcile);
    let annotation = |key: &str| set.annotations().get(key).map(|value| value.trim());
    let flag = |key: &str, word: &str| match annotation(key) {
        None | Some("" | "false") => Ok(false),
        Some(value) if value == word => Ok(true),
        Some(value) => Err(format!("annotation {key} is {value:?}. Set it to {word:?}, or remove it")),
    };
    let reapply = annotation(REAPPLY).map(interval).transpose()?;
    let (prune, wait) = (flag(PRUNE, "true")?, flag(WAIT_FOR, "ready")?);
    for (key, given) in [(REAPPLY, reapply.is_some()), (PRUNE, prune)] {
        if given && !reconcile {
            return Err(format!(
                "annotation {key} needs the strategy Reconcile. Create the set again with it"
            ));
        }
    }
    Ok(Settings { reconcile, reapply, prune, wait })
}

fn interval(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok().and_then(|it| Duration::try_from(it).ok());
    parsed.filter(|it| *it >= SHORTEST).ok_or_else(|| {
        format!("annotation {REAPPLY} is {text:?}. Set it to a duration of at least 30s, such as \"10m\"")
    })
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterResourceSetSpec;

    use super::*;

    fn of(strategy: ClusterResourceSetStrategy, annotations: &[(&str, &str)]) -> Result<Settings, String> {
        let spec = ClusterResourceSetSpec { strategy: Some(strategy), ..ClusterResourceSetSpec::default() };
        let mut set = ClusterResourceSet::new("cni", spec);
        for (key, value) in annotations {
            set.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
        }
        read(&set)
    }

    #[test]
    fn settings_are_read_and_wrong_ones_are_named_with_the_remedy() {
        use ClusterResourceSetStrategy::{ApplyOnce, Reconcile};
        assert_eq!(of(ApplyOnce, &[]), Ok(Settings::default()));
        let all = [(REAPPLY, "1h30m"), (PRUNE, "true"), (WAIT_FOR, "ready")];
        let reapply = Some(Duration::from_secs(5400));
        assert_eq!(of(Reconcile, &all), Ok(Settings { reconcile: true, reapply, prune: true, wait: true }));
        for (strategy, key, value, expected) in [
            (Reconcile, REAPPLY, "5s", "at least 30s"),
            (Reconcile, REAPPLY, "soon", "such as \"10m\""),
            (Reconcile, REAPPLY, "-10m", "at least 30s"),
            (ApplyOnce, REAPPLY, "10m", "needs the strategy Reconcile"),
            (ApplyOnce, PRUNE, "true", "needs the strategy Reconcile"),
            (Reconcile, PRUNE, "yes", "Set it to \"true\""),
            (Reconcile, WAIT_FOR, "true", "Set it to \"ready\""),
        ] {
            let error = of(strategy, &[(key, value)]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
