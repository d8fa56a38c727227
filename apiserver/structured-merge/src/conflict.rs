//! What somebody else owns and would lose.

use std::collections::BTreeMap;
use std::fmt;

use crate::element::Path;
use crate::manager::Manager;
use crate::set::Set;

/// One path that one other owner has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Who has it.
    pub owner: Manager,
    /// What.
    pub path: Path,
}

/// All conflicts of one apply; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflicts(Vec<Conflict>);

impl Conflicts {
    /// The conflicts with these owners over these sets; `None` without any.
    pub(crate) fn of(sets: Vec<(Manager, Set)>) -> Option<Self> {
        let sorted: BTreeMap<String, (Manager, Set)> =
            sets.into_iter().map(|(owner, set)| (owner.identity(), (owner, set))).collect();
        let conflicts: Vec<Conflict> = sorted
            .into_values()
            .flat_map(|(owner, set)| {
                set.paths().into_iter().map(move |path| Conflict { owner: owner.clone(), path })
            })
            .collect();
        (!conflicts.is_empty()).then_some(Self(conflicts))
    }

    /// What remains when the conflicts over `allowed` are none; `None` when nothing does.
    pub(crate) fn without(self, allowed: &Set) -> Option<Self> {
        let rest: Vec<Conflict> =
            self.0.into_iter().filter(|conflict| !allowed.has(&conflict.path.0)).collect();
        (!rest.is_empty()).then_some(Self(rest))
    }

    /// Each of them, by owner and then by path.
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
                one.owner, one.path
            );
        }
        write!(formatter, "Apply failed with {} conflicts: ", self.0.len())?;
        let mut last: Option<&Manager> = None;
        for conflict in &self.0 {
            if last.is_none_or(|last| !last.is(&conflict.owner)) {
                let separator = if last.is_some() { "\n" } else { "" };
                write!(formatter, "{separator}conflicts with {}:", conflict.owner)?;
                last = Some(&conflict.owner);
            }
            write!(formatter, "\n- {}", conflict.path)?;
        }
        Ok(())
    }
}
