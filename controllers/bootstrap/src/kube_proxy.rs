//! kube-proxy of a running cluster: the image that belongs to the version of the control plane.

use crate::core_dns::split;

/// Returns the image that kube-proxy is to have instead of `current`; `None` if it has it. Without a repository, it keeps
/// its own.
///
/// # Errors
/// The image cannot be changed, with the remedy. For people.
pub fn image(current: &str, version: &str, repository: Option<&str>) -> Result<Option<String>, String> {
    let (path, _) = split(current).ok_or_else(|| {
        format!(
            "the image {current:?} of kube-proxy has no tag, or a digest. Change the DaemonSet kube-system/kube-proxy by hand, \
             and set the annotation controlplane.cluster.x-k8s.io/skip-kube-proxy"
        )
    })?;
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let path = match repository.filter(|repository| !repository.is_empty()) {
        Some(repository) => format!("{repository}/{name}"),
        None => path.to_owned(),
    };
    // A tag has no plus sign.
    let image = format!("{path}:{}", version.replace('+', "_"));
    Ok((image != current).then_some(image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d9_the_tag_is_the_version_and_the_repository_follows_only_if_it_is_set() {
        let official = "registry.k8s.io/kube-proxy:v1.33.0";
        let table = [
            (official, "v1.33.0", None, Ok(None)),
            (official, "v1.34.1", None, Ok(Some("registry.k8s.io/kube-proxy:v1.34.1"))),
            (official, "v1.34.1+k3", None, Ok(Some("registry.k8s.io/kube-proxy:v1.34.1_k3"))),
            (official, "v1.33.0", Some("h:5000/a"), Ok(Some("h:5000/a/kube-proxy:v1.33.0"))),
            ("h:5000/a/kube-proxy:v1.33.0", "v1.34.0", None, Ok(Some("h:5000/a/kube-proxy:v1.34.0"))),
            (official, "v1.33.0", Some(""), Ok(None)),
            ("a/kube-proxy@sha256:00", "v1.34.0", None, Err("digest")),
            ("a:5000/kube-proxy", "v1.34.0", None, Err("has no tag")),
        ];
        for (current, version, repository, expected) in table {
            match (image(current, version, repository), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{current}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, _) => panic!("{current}: {found:?}"),
            }
        }
    }
}
