//! Settings that the operator of the server makes for all controllers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use regex::Regex;

/// Regular expressions, of which one has to match. Without any, nothing matches.
#[derive(Debug, Clone, Default)]
pub struct Patterns(Vec<Regex>);

impl Patterns {
    /// Compiles expressions.
    ///
    /// # Errors
    /// The first expression that cannot be used, and the reason.
    pub fn new(expressions: &[String]) -> Result<Self, String> {
        let compiled = expressions.iter().map(|expression| {
            if expression.is_empty() {
                return Err(
                    "an expression is empty, so that everything matches; remove it, or use .*".to_owned()
                );
            }
            Regex::new(expression).map_err(|error| format!("{expression:?} cannot be used: {error}"))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    /// Reports whether one of the expressions matches a part of a text.
    pub fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|expression| expression.is_match(text))
    }
}

/// Settings that the operator of the server makes for all controllers.
#[derive(Debug, Clone)]
pub struct ControllerSettings {
    /// Time that a bootstrap token has from each extension on. A machine that does not join in it needs another extension.
    /// Default: 15 minutes, as upstream.
    pub bootstrap_token_lifetime: Duration,
    /// Keys of the labels that Machines pass on to their Nodes, in addition to those of the known domains.
    pub node_labels: Patterns,
    /// Keys of the annotations that Machines pass on to their Nodes, in addition to those of the known domain.
    pub node_annotations: Patterns,
    /// Names or ids of the flavors whose servers the cloud may stop at any time.
    pub interruptible_flavors: Patterns,
    /// Age of the last successful probe after which a workload cluster counts as down. Default: 50 s, as upstream.
    pub connection_grace: Duration,
    /// Age of the last successful probe after which conditions about a workload cluster become unknown. Default: 5
    /// minutes, as upstream.
    pub conditions_grace: Duration,
    /// Least time between two passes over one MachineHealthCheck. Nodes change often. Default: 15 s, as upstream.
    pub health_check_distance: Duration,
    /// Time for which Nova must report a server as off before its Pods and volumes are not waited for. Default: 60 s.
    pub server_off_time: Duration,
    /// Record of the last restore of the store. Default: none.
    pub restores: Option<Arc<dyn RestoreRecord>>,
}

/// Record of the last restore of the store from a backup.
#[async_trait]
pub trait RestoreRecord: Send + Sync + Debug {
    /// Returns the time of the last restore; `None` if there was none. Objects from before it may be older than what is in
    /// the clouds.
    ///
    /// # Errors
    /// The reason why the record cannot be read, for people.
    async fn last(&self) -> Result<Option<Timestamp>, String>;

    /// Returns the time of the last restore, unless an operator has compared the objects with the clouds since.
    ///
    /// # Errors
    /// The reason why the record cannot be read, for people.
    async fn unfinished(&self) -> Result<Option<Timestamp>, String>;
}

impl Default for ControllerSettings {
    fn default() -> Self {
        let (node_labels, node_annotations, interruptible_flavors) = Default::default();
        Self {
            bootstrap_token_lifetime: Duration::from_mins(15),
            node_labels,
            node_annotations,
            interruptible_flavors,
            connection_grace: Duration::from_secs(50),
            conditions_grace: Duration::from_mins(5),
            health_check_distance: Duration::from_secs(15),
            server_off_time: Duration::from_mins(1),
            restores: None,
        }
    }
}

impl ControllerSettings {
    /// Returns true if a workload cluster counts as down that was last seen `age` ago.
    pub fn is_down(&self, age: SignedDuration) -> bool {
        exceeds(age, self.connection_grace)
    }

    /// Returns true if conditions about a workload cluster are unknown that was last seen `age` ago.
    pub fn is_unknown(&self, age: SignedDuration) -> bool {
        exceeds(age, self.conditions_grace)
    }
}

fn exceeds(age: SignedDuration, limit: Duration) -> bool {
    Duration::try_from(age).is_ok_and(|age| age > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(expressions: &[&str]) -> Result<Patterns, String> {
        Patterns::new(&expressions.iter().map(|&it| it.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_expression_matches_a_part_of_a_text_and_none_matches_nothing() {
        let known = patterns(&["^team$", "example\\.org/"]).unwrap();
        assert!(known.matches("team") && known.matches("x.example.org/pool"));
        assert!(!known.matches("teams") && !known.matches("example-org/pool"));
        assert!(!Patterns::default().matches(""));
    }

    #[test]
    fn an_expression_that_cannot_be_used_is_named() {
        let error = patterns(&["good", "(bad"]).unwrap_err();
        assert!(error.contains("\"(bad\" cannot be used"), "{error}");
        assert!(patterns(&[""]).unwrap_err().contains("is empty"));
    }
}
