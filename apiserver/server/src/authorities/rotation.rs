//! Phases of the rotation of a CA. Pure functions.
//!
//! ```text
//! stable → start → started → promote → promoted → finish → stable
//! ```

use anyhow::bail;
use serde::{Deserialize, Serialize};

/// Generations of a CA, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rotation {
    /// Number of the generation that signs.
    pub(super) signing: u64,
    /// Numbers of the generations that are trusted, from the oldest to the newest.
    pub(super) trusted: Vec<u64>,
}

/// Phase of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// One generation signs and is trusted.
    Stable,
    /// A new generation is trusted, and does not sign yet.
    Started,
    /// The new generation signs, and the old one is trusted still.
    Promoted,
}

impl Phase {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Started => "started",
            Self::Promoted => "promoted",
        }
    }
}

impl Rotation {
    /// Returns the state of a CA with one generation.
    pub(super) fn of(number: u64) -> Self {
        Self { signing: number, trusted: vec![number] }
    }

    pub(super) fn phase(&self) -> Phase {
        if self.next().is_some() {
            Phase::Started
        } else if self.trusted.iter().any(|number| *number < self.signing) {
            Phase::Promoted
        } else {
            Phase::Stable
        }
    }

    /// Returns the number of the generation that is trusted, and does not sign yet.
    fn next(&self) -> Option<u64> {
        self.trusted.iter().copied().find(|number| *number > self.signing)
    }

    /// Returns the numbers of the old generations.
    pub(super) fn old(&self) -> impl Iterator<Item = u64> {
        self.trusted.iter().copied().filter(|number| *number < self.signing)
    }

    /// Returns the state with a new generation, or `None` if a rotation has been started.
    ///
    /// # Errors
    /// The rotation before has not ended.
    pub(super) fn start(&self) -> anyhow::Result<Option<Self>> {
        match self.phase() {
            Phase::Started => Ok(None),
            Phase::Promoted => bail!("the last rotation has not ended: run `capstan ca finish` first"),
            Phase::Stable => {
                let mut next = self.clone();
                next.trusted.push(self.signing.saturating_add(1));
                Ok(Some(next))
            }
        }
    }

    /// Returns the state in which the new generation signs, or `None` if it does.
    ///
    /// # Errors
    /// No rotation has been started.
    pub(super) fn promote(&self) -> anyhow::Result<Option<Self>> {
        match (self.phase(), self.next()) {
            (Phase::Started, Some(next)) => Ok(Some(Self { signing: next, ..self.clone() })),
            (Phase::Promoted, _) => Ok(None),
            _ => bail!("no rotation has been started: run `capstan ca start` first"),
        }
    }

    /// Returns the state in which only the new generation is trusted, or `None` if that is so.
    ///
    /// # Errors
    /// The new generation does not sign yet.
    pub(super) fn finish(&self) -> anyhow::Result<Option<Self>> {
        match self.phase() {
            Phase::Stable => Ok(None),
            Phase::Started => bail!("the new CA does not sign yet: run `capstan ca promote` first"),
            Phase::Promoted => Ok(Some(Self::of(self.signing))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_follows_the_one_before_and_a_repetition_changes_nothing() {
        let stable = Rotation::of(0);
        assert!(stable.promote().is_err());
        assert_eq!(stable.finish().unwrap(), None);
        let started = stable.start().unwrap().unwrap();
        assert_eq!(started, Rotation { signing: 0, trusted: vec![0, 1] });
        assert_eq!((started.phase(), started.start().unwrap()), (Phase::Started, None));
        assert!(started.finish().unwrap_err().to_string().contains("ca promote"));
        let promoted = started.promote().unwrap().unwrap();
        assert_eq!(promoted, Rotation { signing: 1, trusted: vec![0, 1] });
        assert_eq!((promoted.phase(), promoted.promote().unwrap()), (Phase::Promoted, None));
        assert!(promoted.start().unwrap_err().to_string().contains("ca finish"));
        assert_eq!(promoted.old().collect::<Vec<_>>(), [0]);
        let finished = promoted.finish().unwrap().unwrap();
        assert_eq!((finished.phase(), &finished), (Phase::Stable, &Rotation::of(1)));
    }
}
