//! Conflicts of an apply: fields that another field manager owns and would lose.

use std::collections::BTreeMap;
use std::fmt;

use crate::element::Path;
use crate::manager_identifier::ManagerIdentifier;
use crate::set::Set;

/// Conflict over one path with one other field manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The field manager that owns the path.
    pub manager: ManagerIdentifier,
    /// The path.
    pub path: Path,
}

/// Conflicts of one apply; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// Creates the conflicts with these field managers over these sets; `None` without any.
    pub(crate) fn of(sets: Vec<(ManagerIdentifier, Set)>) -> Option<Self> {
        let sorted: BTreeMap<String, (ManagerIdentifier, Set)> =
            sets.into_iter().map(|(manager, set)| (manager.identity(), (manager, set))).collect();
        let conflicts: Vec<Conflict> = sorted
            .into_values()
            .flat_map(|(manager, set)| {
                set.paths().into_iter().map(move |path| Conflict { manager: manager.clone(), path })
            })
            .collect();
        (!conflicts.is_empty()).then_some(Self(conflicts))
    }

    /// Returns the conflicts without those over `allowed`; `None` when none remains.
    pub(crate) fn without(self, allowed: &Set) -> Option<Self> {
        let rest: Vec<Conflict> =
            self.0.into_iter().filter(|conflict| !allowed.has(&conflict.path.0)).collect();
        (!rest.is_empty()).then_some(Self(rest))
    }

    /// Iterates over the conflicts, by field manager and then by path.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(
                formatter,
                "Apply failed with 1 conflict: conflict with {}: {}",
                one.manager, one.path
            );
        }
        write!(formatter, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last: Option<&ManagerIdentifier> = None;
        for conflict in &self.0 {
            if last.is_none_or(|last| !last.is(&conflict.manager)) {
                let separator = if last.is_some() { "\n" } else { "" };
                write!(formatter, "{separator}conflicts with {}:", conflict.manager)?;
                last = Some(&conflict.manager);
            }
            write!(formatter, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}
