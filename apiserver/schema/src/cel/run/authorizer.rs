//! Authorizer of expressions: builders of questions about permissions, and their answers.

use std::sync::Arc;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::Opaque;

use super::{Failure, Outcome};
use crate::cel::declarations::{AUTHORIZER, DECISION, GROUP_CHECK, PATH_CHECK, RESOURCE_CHECK};
use crate::cel::oracle::{AuthorizationAnswer, AuthorizationOracle, AuthorizationQuestion};

/// Question that is not complete yet.
#[derive(Debug, Clone)]
struct Check {
    kind: &'static str,
    question: AuthorizationQuestion,
    /// Question about the resource of the request.
    requested: Arc<AuthorizationQuestion>,
    oracle: AuthorizationOracle,
}

impl PartialEq for Check {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, &self.question) == (other.kind, &other.question)
    }
}

impl Eq for Check {}

impl Opaque for Check {
    fn runtime_type_name(&self) -> &str {
        self.kind
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Decision(AuthorizationAnswer);

impl Opaque for Decision {
    fn runtime_type_name(&self) -> &str {
        DECISION
    }
}

/// Returns the value of the variable `authorizer`.
pub(in crate::cel) fn authorizer(oracle: &AuthorizationOracle, requested: AuthorizationQuestion) -> Cel {
    Cel::Opaque(Arc::new(Check {
        kind: AUTHORIZER,
        question: AuthorizationQuestion::default(),
        requested: Arc::new(requested),
        oracle: oracle.clone(),
    }))
}

/// Returns a field of an authorizer; `None` for other values and fields.
pub(super) fn field(on: &Cel, name: &str) -> Option<Cel> {
    let check = check(on).filter(|check| check.kind == AUTHORIZER && name == "requestResource")?;
    let service_account = check.question.service_account.clone();
    let question = AuthorizationQuestion { service_account, ..(*check.requested).clone() };
    Some(Cel::Opaque(Arc::new(Check { kind: RESOURCE_CHECK, question, ..check.clone() })))
}

fn check(value: &Cel) -> Option<&Check> {
    match value {
        Cel::Opaque(inner) => inner.downcast_ref(),
        _ => None,
    }
}

/// Returns the result of a function of an authorizer; `None` for other receivers.
pub(super) fn result(name: &str, given: &[Cel]) -> Option<Outcome> {
    let (on, arguments) = given.split_first()?;
    if let Cel::Opaque(inner) = on
        && let Some(Decision(answer)) = inner.downcast_ref()
    {
        return Some(of_decision(name, answer));
    }
    let check = check(on)?;
    let texts: Option<Vec<&str>> = arguments
        .iter()
        .map(|argument| match argument {
            Cel::String(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let Some(texts) = texts else { return Some(Err(Failure::no_overload())) };
    Some(of_check(check, name, &texts))
}

fn of_check(check: &Check, name: &str, arguments: &[&str]) -> Outcome {
    let mut next = check.clone();
    let question = &mut next.question;
    match (check.kind, name, arguments) {
        (PATH_CHECK | RESOURCE_CHECK, "check", [verb]) => {
            (*verb).clone_into(&mut question.verb);
            let answer = next.oracle.ask(question).ok_or(Failure::Interrupted)?;
            return Ok(Cel::Opaque(Arc::new(Decision(answer))));
        }
        (AUTHORIZER, "path", [path]) => {
            (*path).clone_into(&mut question.path);
            next.kind = PATH_CHECK;
        }
        (AUTHORIZER, "group", [group]) => {
            (*group).clone_into(&mut question.group);
            next.kind = GROUP_CHECK;
        }
        (AUTHORIZER, "serviceAccount", [namespace, name]) => {
            question.service_account = Some(((*namespace).to_owned(), (*name).to_owned()));
        }
        (GROUP_CHECK, "resource", [resource]) => {
            (*resource).clone_into(&mut question.resource);
            next.kind = RESOURCE_CHECK;
        }
        (RESOURCE_CHECK, "subresource", [text]) => (*text).clone_into(&mut question.subresource),
        (RESOURCE_CHECK, "namespace", [text]) => (*text).clone_into(&mut question.namespace),
        (RESOURCE_CHECK, "name", [text]) => (*text).clone_into(&mut question.name),
        _ => return Err(Failure::no_overload()),
    }
    Ok(Cel::Opaque(Arc::new(next)))
}

fn of_decision(name: &str, answer: &AuthorizationAnswer) -> Outcome {
    let text = |text: &str| Cel::String(Arc::new(text.to_owned()));
    match name {
        "allowed" => Ok(Cel::Bool(answer.allowed)),
        "errored" => Ok(Cel::Bool(!answer.error.is_empty())),
        "reason" => Ok(text(&answer.reason)),
        "error" => Ok(text(&answer.error)),
        _ => Err(Failure::no_overload()),
    }
}
