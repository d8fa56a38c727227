//! Quotas of another source than the store: those of the host cluster.

use super::{Amounts, Quota};

/// Source of quotas besides the ResourceQuotas in the store.
pub trait QuotaSource: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the quotas of a namespace. They limit only kinds that the host serves.
    fn quotas(&self, namespace: &str) -> SourceQuotas;
}

/// Quotas of a source, as far as they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceQuotas {
    /// All quotas.
    Known(Vec<Quota>),
    /// Quotas that cannot decide any more. The text says why.
    Outdated(Vec<Quota>, String),
    /// The source has never been read, although it answers. The text says so.
    Unread(String),
}

impl Default for SourceQuotas {
    fn default() -> Self {
        Self::Known(Vec::new())
    }
}

/// Reason why the quotas of a source cannot decide about a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Doubt {
    /// Name of a quota that limits the write.
    pub(crate) name: String,
    /// The reason, for people.
    pub(crate) why: String,
    /// True if it may last for hours.
    pub(crate) is_lasting: bool,
}

impl SourceQuotas {
    /// Returns true if they limit nothing.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Known(quotas) | Self::Outdated(quotas, _) if quotas.is_empty())
    }

    /// Returns the reason why they cannot decide about a write of these amounts; `None` if they can.
    pub(crate) fn doubt(&self, touched: &Amounts) -> Option<Doubt> {
        match self {
            Self::Known(_) => None,
            Self::Outdated(quotas, why) => {
                let limits = |quota: &&Quota| touched.names().any(|name| quota.hard.get(name).is_some());
                let name = quotas.iter().find(limits)?.name.clone();
                let why = format!("quota {name:?} of the host cluster cannot decide: {why}");
                Some(Doubt { name, why, is_lasting: true })
            }
            Self::Unread(why) => {
                Some(Doubt { name: "unread".to_owned(), why: why.clone(), is_lasting: false })
            }
        }
    }

    /// Returns the quotas.
    pub(crate) fn into_quotas(self) -> Vec<Quota> {
        match self {
            Self::Known(quotas) | Self::Outdated(quotas, _) => quotas,
            Self::Unread(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_write_that_an_outdated_quota_limits_is_in_doubt() {
        let hard = json!({"count/machines.cluster.x-k8s.io": "2"});
        let quota = Quota::of(&json!({"metadata": {"name": "q"}, "spec": {"hard": hard}}));
        let [limited, free] = ["count/machines.cluster.x-k8s.io", "count/clusters.cluster.x-k8s.io"]
            .map(|name| Amounts::of(&json!({name: 1})));
        let outdated = SourceQuotas::Outdated(vec![quota.clone()], "it is old".to_owned());
        assert_eq!(outdated.doubt(&free), None);
        let doubt = outdated.doubt(&limited).unwrap();
        assert_eq!(doubt.why, "quota \"q\" of the host cluster cannot decide: it is old");
        assert!(doubt.is_lasting && doubt.name == "q");
        assert_eq!(SourceQuotas::Known(vec![quota]).doubt(&limited), None);
        let unread = SourceQuotas::Unread("not read".to_owned());
        assert!(unread.doubt(&free).is_some(), "each amount may be limited");
        assert!(!unread.is_empty() && SourceQuotas::default().is_empty());
    }
}
