//! Validation of literal patterns, durations and timestamps in expressions.

use chrono::DateTime;
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use regex::Regex;

use super::value::go_duration;

/// Returns the error of the first argument of a function, if the argument is a literal, and the id of the argument.
pub(super) fn error(function: &str, argument: &IdedExpr) -> Option<(u64, String)> {
    let Expr::Literal(LiteralValue::String(text)) = &argument.expr else { return None };
    let text = text.inner();
    let is_right = match function {
        "matches" => Regex::new(text).is_ok(),
        "duration" => go_duration(text).is_some(),
        "timestamp" => DateTime::parse_from_rfc3339(text).is_ok(),
        _ => true,
    };
    (!is_right).then(|| (argument.id, format!("invalid {function} argument")))
}
