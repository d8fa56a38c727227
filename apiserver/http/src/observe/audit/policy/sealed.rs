//! Resources whose bodies are secrets. No policy can record them.

use crate::request::request_info::ResourcePath;

/// Group, resource and subresource whose bodies are never recorded. `*` stands for any group or resource.
const SEALED: [(&str, &str, &str); 4] = [
    ("", "secrets", ""),
    // Both bodies have a token, or a key.
    ("*", "*", "token"),
    ("*", "*", "kubeconfig"),
    ("authentication.k8s.io", "tokenreviews", ""),
];

/// Returns true if the bodies of a resource are never recorded.
pub(in crate::observe::audit) fn is_sealed(path: &ResourcePath) -> bool {
    let is = |pattern: &str, text: &str| pattern == "*" || pattern == text;
    SEALED.iter().any(|(group, resource, subresource)| {
        // A subresource of a secret has the secret.
        let has_subresource = subresource.is_empty() || path.subresource == *subresource;
        is(group, &path.group) && is(resource, &path.resource) && has_subresource
    })
}

/// Returns true if a pattern of a rule names such a resource. `*` and `*/*` name none.
pub(super) fn is_named(group: &str, pattern: &str) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    SEALED.iter().any(|(sealed_group, sealed, sealed_child)| {
        let is_group = *sealed_group == "*" || *sealed_group == group;
        let is_name = if *sealed == "*" { subresource == *sealed_child } else { resource == *sealed };
        is_group && is_name
    })
}

#[cfg(test)]
mod tests {
    use super::super::rule::has_resource;
    use super::*;

    fn path(group: &str, resource: &str, subresource: &str) -> ResourcePath {
        ResourcePath {
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            ..ResourcePath::default()
        }
    }

    #[test]
    fn secrets_tokens_and_kubeconfigs_are_sealed_in_every_form() {
        for (group, resource, subresource) in [
            ("", "secrets", ""),
            ("", "secrets", "status"),
            ("", "serviceaccounts", "token"),
            ("cluster.x-k8s.io", "clusters", "kubeconfig"),
            ("authentication.k8s.io", "tokenreviews", ""),
        ] {
            assert!(is_sealed(&path(group, resource, subresource)), "{group}/{resource}/{subresource}");
        }
        assert!(!is_sealed(&path("", "configmaps", "")) && !is_sealed(&path("g", "secrets", "")));
    }

    #[test]
    fn a_pattern_names_a_sealed_resource_only_without_a_wildcard() {
        for (group, pattern) in
            [("", "secrets"), ("", "secrets/*"), ("", "*/token"), ("g", "clusters/kubeconfig")]
        {
            assert!(is_named(group, pattern), "{group} {pattern}");
        }
        for (group, pattern) in [("", "*"), ("", "*/*"), ("g", "secrets"), ("", "serviceaccounts/*")] {
            assert!(!is_named(group, pattern), "{group} {pattern}");
        }
        assert!(has_resource("serviceaccounts/*", &path("", "serviceaccounts", "token")));
    }
}
