//! Answers about permissions for expressions, which cannot wait for an authorizer.
//!
//! An expression that needs an answer that is not known is interrupted. The caller gets the question, adds the answer, and
//! evaluates the expression again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Question whether a user may do something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AuthorizationQuestion {
    /// Namespace and name of a service account; `None` for the user of the request.
    pub service_account: Option<(String, String)>,
    /// Verb.
    pub verb: String,
    /// Path; empty for a question about a resource.
    pub path: String,
    /// API group.
    pub group: String,
    /// Plural.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace, or empty.
    pub namespace: String,
    /// Name, or empty.
    pub name: String,
}

/// Answer to a question.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationAnswer {
    /// True if the user may.
    pub allowed: bool,
    /// Reason.
    pub reason: String,
    /// Error of the authorizer; empty if it has decided.
    pub error: String,
}

/// Known answers and open questions. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct AuthorizationOracle(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    answers: HashMap<AuthorizationQuestion, AuthorizationAnswer>,
    open: Vec<AuthorizationQuestion>,
}

impl AuthorizationOracle {
    /// Returns the answer. An unknown one makes the question open.
    pub(super) fn ask(&self, question: &AuthorizationQuestion) -> Option<AuthorizationAnswer> {
        let mut state = self.state();
        let known = state.answers.get(question).cloned();
        if known.is_none() && !state.open.contains(question) {
            state.open.push(question.clone());
        }
        known
    }

    /// Returns the open questions, and closes them.
    pub fn take_open(&self) -> Vec<AuthorizationQuestion> {
        std::mem::take(&mut self.state().open)
    }

    /// Adds an answer.
    pub fn answer(&self, question: AuthorizationQuestion, answer: AuthorizationAnswer) {
        self.state().answers.insert(question, answer);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
