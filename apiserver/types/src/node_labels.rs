//! List of labels that the Machines of a Cluster pass on to their Nodes: an annotation of the Cluster.
//!
//! The server validates it, and the controllers read it with the same functions.

/// Annotation of a Cluster with the keys of the labels that its Machines pass on to their Nodes, in addition to those of the
/// known domains. Comma-separated. A key that ends in `*` stands for all keys with this beginning. Absent: none.
pub const NODE_LABELS: &str = "capstan.dev/node-labels";

/// Beginning of each text about a wrong list.
const FORM: &str =
    "must be a comma-separated list of label keys, which may end in *, such as \"team,example.org/*\"";

/// Domains of labels that have a meaning for Kubernetes itself. Only the known ones among them are passed on.
const OF_KUBERNETES: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// List of keys, and of beginnings of keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeLabels {
    keys: Vec<String>,
    prefixes: Vec<String>,
}

impl NodeLabels {
    /// Parses the value of [`NODE_LABELS`].
    ///
    /// # Errors
    /// An entry is no key, or is one of Kubernetes. The text is for people and begins with "must be".
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut list = Self::default();
        for entry in text.split(',').map(str::trim) {
            let (key, is_prefix) = entry.strip_suffix('*').map_or((entry, false), |prefix| (prefix, true));
            let is_key = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
                && key.matches('/').count() <= 1
                && !entry.is_empty();
            if !is_key {
                return Err(format!("{FORM}: {entry:?} is no key"));
            }
            if is_of_kubernetes(key) {
                return Err(format!("{FORM}: {entry:?} is a label of Kubernetes, which is not passed on"));
            }
            let entries = if is_prefix { &mut list.prefixes } else { &mut list.keys };
            entries.push(key.to_owned());
        }
        Ok(list)
    }

    /// Reports whether a label is passed on. One of Kubernetes never is.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        let is_listed = self.keys.iter().any(|listed| listed == key)
            || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        is_listed && !is_of_kubernetes(key)
    }
}

/// Reports whether the domain of a key is one of Kubernetes, or a sub-domain.
fn is_of_kubernetes(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    OF_KUBERNETES
        .iter()
        .any(|of| domain.strip_suffix(*of).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_keys_match_and_those_of_kubernetes_never() {
        let list = NodeLabels::parse("team, example.org/*,x").unwrap();
        for (key, expected) in [
            ("team", true),
            ("teams", false),
            ("example.org/rack", true),
            ("sub.example.org/rack", false),
            ("x", true),
            ("topology.kubernetes.io/zone", false),
        ] {
            assert_eq!(list.matches(key), expected, "{key}");
        }
        let all = NodeLabels::parse("*").unwrap();
        assert!(all.matches("anything") && all.matches("cluster.x-k8s.io/pool"));
        for key in ["kubernetes.io/hostname", "topology.kubernetes.io/zone", "a.k8s.io/b"] {
            assert!(!all.matches(key), "{key}");
        }
        assert!(!NodeLabels::default().matches("team"));
    }

    #[test]
    fn an_entry_that_cannot_be_used_is_named() {
        for (text, cause) in [
            ("", "\"\" is no key"),
            ("team,", "\"\" is no key"),
            ("a b", "\"a b\" is no key"),
            ("*.example.org/x", "\"*.example.org/x\" is no key"),
            ("a/b/c", "\"a/b/c\" is no key"),
            ("node.kubernetes.io/pool", "is a label of Kubernetes"),
        ] {
            let error = NodeLabels::parse(text).unwrap_err();
            assert!(error.starts_with("must be") && error.contains(cause), "{error}");
        }
    }
}
