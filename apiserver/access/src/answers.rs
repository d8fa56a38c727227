//! Answers of all authorizers behind an endpoint to one request, for people to read.

use std::time::Duration;

use crate::authorizer::{Decision, Verdict};

/// Answers of authorizers in their order, also of those after the one that decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers {
    /// Answer of each authorizer. Its reason may be longer than the one that a client gets.
    pub each: Vec<Verdict>,
    /// Verdict on the request, exactly as a client gets it.
    pub verdict: Verdict,
}

impl Answers {
    /// Creates the answer of one authorizer.
    pub fn one(verdict: Verdict) -> Self {
        Self { each: vec![verdict.clone()], verdict }
    }

    /// Creates the answer of one authorizer with another reason, which only people read.
    pub fn explained(verdict: Verdict, reason: impl Into<String>) -> Self {
        Self { each: vec![verdict.clone().because(reason)], verdict }
    }

    /// Adds this reason to each answer that has none.
    #[must_use]
    pub fn or_because(mut self, reason: &str) -> Self {
        for answer in self.each.iter_mut().filter(|answer| answer.why().is_empty()) {
            *answer = answer.clone().because(reason);
        }
        self
    }
}

impl Verdict {
    /// Returns the reason of the decision; empty if there is none.
    pub fn why(&self) -> &str {
        match &self.decision {
            Decision::Allow => &self.reason,
            Decision::Deny(reason) | Decision::NoOpinion(reason) | Decision::Error(reason) => reason,
        }
    }

    /// Returns the same verdict with another reason.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        match &mut self.decision {
            Decision::Allow => self.reason = reason,
            Decision::Deny(old) | Decision::NoOpinion(old) | Decision::Error(old) => *old = reason,
        }
        self
    }
}

/// Verdict of a chain, of which the authorizers are added in their order. The first that allows or denies decides. If one
/// fails, the later ones still decide. Without a decision, the answer is the error, or else no.
#[derive(Debug, Default)]
pub(crate) struct ChainVerdict {
    decided: Option<Verdict>,
    reasons: Vec<String>,
    errors: Vec<String>,
    /// Age of the oldest copy by which an authorizer had no opinion.
    age: Option<Duration>,
}

impl ChainVerdict {
    /// Adds the verdict of the next authorizer. Returns true if the chain has decided.
    pub(crate) fn add(&mut self, verdict: Verdict) -> bool {
        if self.decided.is_none() {
            match verdict.decision {
                Decision::NoOpinion(reason) => {
                    self.reasons.push(reason);
                    self.age = self.age.max(verdict.age);
                }
                Decision::Error(error) => self.errors.push(error),
                Decision::Allow | Decision::Deny(_) => self.decided = Some(verdict),
            }
        }
        self.decided.is_some()
    }

    /// Returns the verdict. Nothing is its origin if no authorizer decided. It has an age if one of them knew a copy alone.
    pub(crate) fn end(mut self) -> Verdict {
        if let Some(verdict) = self.decided {
            return verdict;
        }
        if !self.errors.is_empty() {
            return Verdict::new((Decision::Error(self.errors.join(", ")), String::new()), "");
        }
        self.reasons.retain(|reason| !reason.is_empty());
        let none = (Decision::NoOpinion(self.reasons.join(", ")), String::new());
        Verdict { age: self.age, ..Verdict::new(none, "") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iz_05_a_refusal_has_the_age_of_the_oldest_copy_and_a_decision_only_its_own() {
        let verdict = |decision: Decision, age: Option<u64>| {
            let decided = Verdict::new((decision, String::new()), "a");
            Verdict { age: age.map(Duration::from_secs), ..decided }
        };
        let no = |age| verdict(Decision::NoOpinion("no".to_owned()), age);
        for (chain, expected) in [
            (vec![no(None), no(None)], None),
            (vec![no(None), no(Some(7)), no(Some(5)), no(None)], Some(7)),
            (vec![no(Some(7)), verdict(Decision::Allow, None)], None),
            (vec![no(Some(7)), verdict(Decision::Deny("never".to_owned()), Some(3))], Some(3)),
            (vec![no(Some(7)), verdict(Decision::Error("silent".to_owned()), Some(9))], None),
        ] {
            let mut found = ChainVerdict::default();
            for verdict in &chain {
                found.add(verdict.clone());
            }
            assert_eq!(found.end().age.map(|age| age.as_secs()), expected, "{chain:?}");
        }
    }
}
