//! Settings of the application credential of a Cluster: its annotations. Pure.

use apiserver_types::Cluster;
use jiff::SignedDuration;
use kube::ResourceExt;

/// Annotation that has Capstan make the credential: `true`.
pub(super) const OPT_IN: &str = "capstan.dev/application-credential";

/// Annotation with the life of a credential, such as `720h`. Half of it passes before a rotation. Default: 90 days.
const LIFE: &str = "capstan.dev/application-credential-life";

/// Annotation with the names of the roles, separated by commas. Default: all roles of the Cluster's own credentials.
pub(super) const ROLES: &str = "capstan.dev/application-credential-roles";

/// Default life of a credential, in hours. Half of it is an outage that a cluster survives.
const DEFAULT_LIFE: i64 = 90 * 24;

/// Shortest life, in hours: a day is the least in which an operator can act on a failed rotation.
const SHORTEST_LIFE: i64 = 24;

/// Settings of a Cluster that has opted in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub life: SignedDuration,
    pub roles: Vec<String>,
}

/// Reads the settings; `None` if the Cluster has not opted in.
///
/// # Errors
/// An annotation has an unusable value. For people.
pub(super) fn read(cluster: &Cluster) -> Result<Option<Settings>, String> {
    let annotation = |key: &str| cluster.annotations().get(key).map(|value| value.trim());
    match annotation(OPT_IN) {
        None | Some("" | "false") => return Ok(None),
        Some("true") => {}
        Some(other) => {
            return Err(format!("annotation {OPT_IN} is {other:?}. Set it to \"true\", or remove it"));
        }
    }
    let shortest = SignedDuration::from_hours(SHORTEST_LIFE);
    let life = match annotation(LIFE) {
        None => SignedDuration::from_hours(DEFAULT_LIFE),
        Some(text) => text.parse().ok().filter(|life| *life >= shortest).ok_or_else(|| {
            format!("annotation {LIFE} is {text:?}. Set it to a duration of at least 24h, such as \"720h\"")
        })?,
    };
    let roles = annotation(ROLES).unwrap_or_default().split(',').map(str::trim);
    let roles = roles.filter(|role| !role.is_empty()).map(str::to_owned).collect();
    Ok(Some(Settings { life, roles }))
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;

    use super::*;

    #[test]
    fn a_cluster_opts_in_and_wrong_values_are_named() {
        let of = |pairs: &[(&str, &str)]| {
            let mut cluster = Cluster::new("c", ClusterSpec::default());
            for (key, value) in pairs {
                cluster.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
            }
            read(&cluster)
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(LIFE, "x")]), Ok(None), "it has not opted in");
        let settings = of(&[(OPT_IN, "true"), (LIFE, "48h"), (ROLES, "member, load-balancer_member,")]);
        let roles = vec!["member".to_owned(), "load-balancer_member".to_owned()];
        assert_eq!(settings, Ok(Some(Settings { life: SignedDuration::from_hours(48), roles })));
        assert_eq!(of(&[(OPT_IN, "true")]).unwrap().unwrap().life, SignedDuration::from_hours(2160));
        assert!(of(&[(OPT_IN, "yes")]).unwrap_err().contains("Set it to \"true\""));
        assert!(of(&[(OPT_IN, "true"), (LIFE, "1h")]).unwrap_err().contains("at least 24h"));
    }
}
