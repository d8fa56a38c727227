//! Selection of the conditions that a table shows.

use apiserver_types::Condition;

use crate::tree::{Node, is_steady};

/// Objects whose conditions are shown, from `--show-conditions`.
#[derive(Debug, Clone, Default)]
pub struct ConditionFilter {
    entries: Vec<Entry>,
}

/// One entry of the list, such as `machine/worker-0!`.
#[derive(Debug, Clone)]
struct Entry {
    /// Kind in lower case. Unset: every kind.
    kind: Option<String>,
    /// Name. Unset: every object of the kind.
    name: Option<String>,
    /// Leaves out conditions in their steady state.
    only_open: bool,
}

impl ConditionFilter {
    /// Parses a list such as `all`, `all!`, `machine,openstackmachine/worker-0!`.
    ///
    /// # Errors
    /// An entry is empty, or has an empty kind or name.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries: Option<Vec<Entry>> = text.split(',').map(|entry| Entry::parse(entry.trim())).collect();
        let entries = entries.ok_or_else(|| {
            format!("{text:?} is not a list such as all, machine, machine/worker-0 or machine!")
        })?;
        Ok(Self { entries })
    }

    /// Returns the conditions of the object that are shown.
    pub(super) fn select<'a>(&self, node: &'a Node) -> Vec<&'a Condition> {
        let entries: Vec<&Entry> = self.entries.iter().filter(|entry| entry.matches(node)).collect();
        if entries.is_empty() {
            return Vec::new();
        }
        let only_open = entries.iter().all(|entry| entry.only_open);
        node.conditions.iter().filter(|condition| !only_open || !is_steady(condition)).collect()
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        let (text, only_open) = text.strip_suffix('!').map_or((text, false), |text| (text, true));
        let (kind, name) = text.split_once('/').map_or((text, None), |(kind, name)| (kind, Some(name)));
        let is_empty = kind.is_empty() || name.is_some_and(str::is_empty);
        let kind = kind.to_lowercase();
        let kind = (kind != "all").then_some(kind);
        (!is_empty).then(|| Self { kind, name: name.map(str::to_owned), only_open })
    }

    fn matches(&self, node: &Node) -> bool {
        let kind = self.kind.as_deref().is_none_or(|kind| kind == node.kind.to_lowercase());
        kind && self.name.as_deref().is_none_or(|name| name == node.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_of_kinds_and_names_are_accepted() {
        for good in ["all", "all!", "Machine", "machine/a,kubeadmcontrolplane!"] {
            assert!(ConditionFilter::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "machine,", "/a", "machine/", "!", "machine/!"] {
            assert!(ConditionFilter::parse(bad).is_err(), "{bad}");
        }
    }
}
