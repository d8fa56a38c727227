//! Disagreements of the mirror with the host: the mirror would allow what the host denies.
//!
//! A host may have an authorizer beside its RBAC, for example a webhook that denies. The mirror cannot know it. So each
//! disagreement closes the mirror for this user and class, and many of them close it for all.

use std::collections::{HashMap, HashSet};

use apiserver_access::Attributes;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::class::Class;

/// Time for which a disagreement closes the mirror for its user and class.
const CLOSED: SignedDuration = SignedDuration::from_hours(24);

/// Window of the disagreements that are counted together.
const WINDOW: SignedDuration = SignedDuration::from_hours(1);

/// Number of disagreements in the window that the mirror survives.
const MOST: usize = 10;

/// Maximum number of questions that wait for a second answer: each costs the host a review.
const MOST_PENDING: usize = 64;

/// Maximum number of disagreements that are kept: they come from requests, and an older one than these has ended.
const MOST_KEPT: usize = 256;

/// One disagreement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disagreement {
    /// User.
    pub user: String,
    /// Name of the class of the request.
    pub class: String,
    /// Request that the host denies.
    pub question: String,
    /// Time, in Unix seconds.
    pub at: i64,
}

impl Disagreement {
    /// Returns true while it closes the mirror for its user and class.
    fn is_recent(&self, now: Timestamp) -> bool {
        now.as_second().saturating_sub(self.at) < CLOSED.as_secs()
    }
}

/// Disagreements so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    known: HashMap<String, Disagreement>,
    pending: HashSet<String>,
    /// Disagreements up to this second do not count: an operator has looked at them.
    accepted: Timestamp,
}

impl Findings {
    pub(super) fn accepting(accepted: Timestamp) -> Self {
        Self { accepted, ..Self::default() }
    }

    /// Returns true if a question is new, and notes that its second answer is pending. A closed mirror has no questions:
    /// nothing would change.
    pub(super) fn begin(&mut self, attributes: &Attributes, now: Timestamp) -> bool {
        let name = question(attributes);
        let is_known = self.known.get(&name).is_some_and(|found| found.is_recent(now));
        let is_new = !is_known && self.pending.len() < MOST_PENDING && !self.is_closed();
        is_new && self.pending.insert(name)
    }

    /// Ends the wait for a second answer. Returns the disagreement if that answer confirms it.
    pub(super) fn end(
        &mut self,
        attributes: &Attributes,
        is_confirmed: bool,
        now: Timestamp,
    ) -> Option<Disagreement> {
        let question = question(attributes);
        self.pending.remove(&question);
        let user = attributes.user.name.clone();
        let class = Class::of(attributes).name().to_owned();
        is_confirmed.then(|| Disagreement { user, class, question, at: now.as_second() })
    }

    /// Adds a disagreement, also one that another replica has found.
    pub(super) fn add(&mut self, found: Disagreement) {
        // Those of a closed mirror must stay: they are why it is closed.
        if self.has_accepted(&found) || self.is_closed() {
            return;
        }
        // Another replica may have kept an earlier answer to the same question.
        if self.known.get(&found.question).is_some_and(|known| known.at >= found.at) {
            return;
        }
        if self.known.len() >= MOST_KEPT
            && let Some(oldest) = self.known.iter().min_by_key(|(_, found)| found.at).map(|(name, _)| name)
        {
            let oldest = oldest.clone();
            self.known.remove(&oldest);
        }
        self.known.insert(found.question.clone(), found);
    }

    /// Returns true if an operator has accepted a disagreement. Its time is in whole seconds, so those of the same second are
    /// accepted, too. One that is found later in that second closes the mirror when it is found again.
    fn has_accepted(&self, found: &Disagreement) -> bool {
        found.at <= self.accepted.as_second()
    }

    /// Returns true if the mirror is closed for all, until an operator accepts the disagreements.
    pub(super) fn is_closed(&self) -> bool {
        !closing(self.known.values()).is_empty()
    }

    /// Returns the names of those kept disagreements that close nothing any more: old ones, except those that close the
    /// mirror for all, and those that an operator has accepted.
    pub(super) fn expired(&self, kept: &HashMap<String, Disagreement>, now: Timestamp) -> Vec<String> {
        let closing = closing(kept.values().filter(|found| !self.has_accepted(found)));
        let is_over = |found: &Disagreement| {
            self.has_accepted(found) || !(found.is_recent(now) || closing.contains(found.question.as_str()))
        };
        kept.iter().filter(|(_, found)| is_over(found)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if the mirror is closed for a user and a class.
    pub(super) fn suspects(&self, user: &str, class: Class, now: Timestamp) -> bool {
        let is_known = self
            .known
            .values()
            .any(|found| found.user == user && found.class == class.name() && found.is_recent(now));
        let prefix = prefix(user, class);
        is_known || self.pending.iter().any(|question| question.starts_with(&prefix))
    }
}

/// Returns the questions of the disagreements that close the mirror for all: those of each window that has too many.
fn closing<'a>(found: impl Iterator<Item = &'a Disagreement>) -> HashSet<&'a str> {
    let mut found: Vec<&Disagreement> = found.collect();
    found.sort_unstable_by_key(|found| found.at);
    let has_too_many = |window: &&[&Disagreement]| match window {
        [first, .., last] => last.at.saturating_sub(first.at) <= WINDOW.as_secs(),
        _ => false,
    };
    let windows = found.windows(MOST + 1).filter(has_too_many);
    windows.flatten().map(|found| found.question.as_str()).collect()
}

fn prefix(user: &str, class: Class) -> String {
    format!("{user:?} {} ", class.name())
}

/// Returns the question as text. Names of objects do not make it another one: a user would fill the memory.
fn question(attributes: &Attributes) -> String {
    let Attributes { user, verb, group, resource, subresource, namespace, path, .. } = attributes;
    let prefix = prefix(&user.name, Class::of(attributes));
    if attributes.is_resource() {
        let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        format!("{prefix}{verb} {resource}{part}.{group} in {namespace:?}")
    } else {
        format!("{prefix}{verb} {path:?}")
    }
}

#[cfg(test)]
mod tests {
    use apiserver_access::User;

    use super::*;

    fn asks(user: &str, verb: &str, namespace: &str) -> Attributes {
        Attributes {
            user: User::authenticated(user, []).into(),
            verb: verb.to_owned(),
            resource: "machines".to_owned(),
            namespace: namespace.to_owned(),
            ..Attributes::default()
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    fn found(number: i64, seconds: i64) -> Disagreement {
        Disagreement {
            user: "alice".to_owned(),
            class: "read".to_owned(),
            question: number.to_string(),
            at: at(seconds).as_second(),
        }
    }

    #[test]
    fn a_disagreement_closes_the_mirror_for_its_user_and_class() {
        let mut findings = Findings::default();
        let question = asks("alice", "get", "team");
        let begin = |findings: &mut Findings, seconds| findings.begin(&question, at(seconds));
        assert!(begin(&mut findings, 0) && !begin(&mut findings, 0), "it is asked once more, and once");
        assert!(findings.suspects("alice", Class::Read, at(0)), "until the second answer");
        assert_eq!(findings.end(&question, false, at(0)), None);
        assert!(!findings.suspects("alice", Class::Read, at(0)), "the host had not read its newest objects");
        assert!(begin(&mut findings, 0));
        let found = findings.end(&question, true, at(0)).unwrap();
        findings.add(found);
        let day = CLOSED.as_secs();
        for (user, class, seconds, expected) in [
            ("alice", Class::Read, 0, true),
            ("alice", Class::Read, day - 1, true),
            ("alice", Class::Read, day, false),
            ("alice", Class::Write, 0, false),
            ("alic", Class::Read, 0, false),
            ("bob", Class::Read, 0, false),
        ] {
            assert_eq!(findings.suspects(user, class, at(seconds)), expected, "{user} {class:?} {seconds}");
        }
        assert!(!begin(&mut findings, day - 1), "it is known");
        assert!(begin(&mut findings, day), "the mirror would decide again");
    }

    #[test]
    fn many_disagreements_in_an_hour_close_the_mirror_until_they_are_accepted() {
        for (pause, expected) in [(360, true), (361, false)] {
            let mut findings = Findings::default();
            (0..=10).for_each(|number| findings.add(found(number, number * pause)));
            assert_eq!(findings.is_closed(), expected, "{pause}");
        }
        let mut accepted = Findings::accepting(at(3600));
        (0..=10).for_each(|number| accepted.add(found(number, number * 360)));
        assert!(!accepted.is_closed());
        (0..=9).for_each(|number| accepted.add(found(number, 3601)));
        assert!(!accepted.is_closed(), "ten are not more than ten");
        accepted.add(found(10, 3601));
        assert!(accepted.is_closed());
        let mut many = Findings::default();
        (0..1000).for_each(|number| many.add(found(number, number * 400)));
        assert_eq!(many.known.len(), MOST_KEPT);
    }

    #[test]
    fn a_closed_mirror_sends_no_question_a_second_time() {
        let mut findings = Findings::default();
        (0..=9).for_each(|number| findings.add(found(number, 0)));
        assert!(findings.begin(&asks("alice", "get", "team"), at(0)));
        findings.add(found(10, 0));
        assert!(
            !findings.begin(&asks("bob", "get", "team"), at(0)),
            "it would cost the host a review, for nothing"
        );
    }

    #[test]
    fn only_disagreements_that_close_something_are_kept() {
        let day = CLOSED.as_secs();
        let kept = |found: Vec<Disagreement>| found.into_iter().map(|it| (it.question.clone(), it)).collect();
        let expired = |accepted, found| {
            let mut names = Findings::accepting(at(accepted)).expired(&kept(found), at(day));
            names.sort();
            names
        };
        assert_eq!(expired(0, vec![found(1, 0), found(2, 1), found(3, day)]), ["1"]);
        let mut many: Vec<_> = (10..=20).map(|number| found(number, number - 10)).collect();
        many.push(found(30, -4000));
        assert_eq!(
            expired(-5000, many.clone()),
            ["30"],
            "the others close the mirror until they are accepted"
        );
        assert_eq!(expired(0, many), ["10", "30"], "ten close it for their user and class only");
    }
}
