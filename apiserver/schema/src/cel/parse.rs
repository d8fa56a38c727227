//! Parser of CEL expressions.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::Expr;
use kube_cel::cel::common::ast::operators::{OPT_INDEX, OPT_SELECT};
use kube_cel::cel::parser::Parser;

use super::macros::Macros;
use super::negation::without_pairs;
use super::parts::each;
use super::type_error;

/// Longest expression: upstream's limit for the rules of a ClusterClass. Unit: bytes.
const LONGEST: usize = 4096;

/// Largest number of operators. The parser and the engine recurse once for each operator in a chain such as `1 + 1 +
/// 1`, without a limit of their own.
const MOST_OPERATORS: usize = 400;

/// Number of operators that need 300 KiB of stack without optimisation. So much stack is always left.
const FEW_OPERATORS: usize = 20;

/// Parses an expression.
///
/// # Errors
/// The error shows the location of the problem.
pub(super) fn parse(source: &str) -> Result<IdedExpr, String> {
    if source.len() > LONGEST {
        return Err(format!("the expression is longer than {LONGEST} bytes"));
    }
    if operators(source) > MOST_OPERATORS {
        return Err(format!("the expression has more than {MOST_OPERATORS} operators"));
    }
    // As in kube-apiserver, which accepts `self.?field`.
    let parser = Parser::new().enable_optional_syntax(true);
    let mut parsed =
        parser.parse(&without_pairs(source)).map_err(|errors| type_error::unread(source, &errors))?;
    let mut macros = Macros::default();
    each(&mut parsed, &mut |part| {
        index_optional_field(part);
        macros.expand(part);
    });
    if macros.errors.is_empty() { Ok(parsed) } else { Err(type_error::shown(source, &macros.errors)) }
}

/// Reports whether an expression may recurse deeper than the remaining stack allows.
pub(super) fn is_deep(source: &str) -> bool {
    operators(source) > FEW_OPERATORS
}

/// Returns an upper bound of the number of operators. Operators in texts do not count.
fn operators(source: &str) -> usize {
    let (mut count, mut quote, mut is_escaped) = (0, None, false);
    for letter in source.chars() {
        match (quote, letter) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (
                None,
                '.' | '+' | '-' | '*' | '/' | '%' | '[' | '(' | '?' | '&' | '|' | '<' | '>' | '=' | '!',
            ) => count += 1,
            _ => {}
        }
    }
    count
}

/// Rewrites `value.?field` to `value[?'field']`. The engine fails on the first form if the field does not exist.
fn index_optional_field(expression: &mut IdedExpr) {
    if let Expr::Call(call) = &mut expression.expr
        && call.func_name == OPT_SELECT
    {
        OPT_INDEX.clone_into(&mut call.func_name);
    }
}
