//! Audit policy: the level of each request, in the format of Kubernetes' `audit.k8s.io/v1` `Policy`.

mod file;
mod rule;
mod sealed;

use apiserver_access::User;

use super::Stage;
use crate::request::request_info::RequestInfo;
use rule::Rule;
pub(super) use sealed::is_sealed;

/// Amount of a request that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing.
    None,
    /// The user, the verb, the object's name and the result.
    Metadata,
    /// The same, and the body of the request.
    Request,
    /// The same, and the body of the response.
    RequestResponse,
}

impl Level {
    /// Returns the word for the level in an event.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }

    /// Returns the level with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::None, Self::Metadata, Self::Request, Self::RequestResponse]
            .into_iter()
            .find(|level| level.word() == word)
    }
}

/// Set of stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stages(u8);

impl Stages {
    pub(crate) fn contains(self, stage: Stage) -> bool {
        self.0 & bit(stage) != 0
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        Self(stages.into_iter().fold(0, |bits, stage| bits | bit(stage)))
    }
}

const fn bit(stage: Stage) -> u8 {
    match stage {
        Stage::RequestReceived => 1,
        Stage::ResponseStarted => 2,
        Stage::ResponseComplete => 4,
        Stage::Panic => 8,
    }
}

/// Decision of a policy about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) level: Level,
    /// Stages that are not written.
    pub(crate) omitted: Stages,
    /// True if bodies are written without `metadata.managedFields`.
    pub(crate) omits_managed_fields: bool,
}

/// Audit policy. By default every request has level `Metadata`.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The rules of a file; none for the default policy.
    rules: Option<Vec<Rule>>,
    omitted: Stages,
    omits_managed_fields: bool,
}

impl Policy {
    /// Returns true for the policy without a file, under which frequent requests of the server itself are not written.
    pub(crate) fn is_default(&self) -> bool {
        self.rules.is_none()
    }

    /// Decides about a request. `user` is absent if authentication failed. The first matching rule decides; without
    /// one, nothing is recorded.
    pub(crate) fn decide(&self, info: &RequestInfo, user: Option<&User>) -> Decision {
        let (omitted, omits_managed_fields) = (self.omitted, self.omits_managed_fields);
        let of_level = |level| Decision { level, omitted, omits_managed_fields };
        let Some(rules) = &self.rules else { return of_level(Level::Metadata) };
        let Some(rule) = rules.iter().find(|rule| rule.matches(info, user)) else {
            return of_level(Level::None);
        };
        let is_sealed = info.resource().is_some_and(is_sealed);
        Decision {
            level: if is_sealed { rule.level.min(Level::Metadata) } else { rule.level },
            omitted: omitted.union(rule.omitted),
            omits_managed_fields: rule.omits_managed_fields.unwrap_or(omits_managed_fields),
        }
    }
}

#[cfg(test)]
mod tests;
