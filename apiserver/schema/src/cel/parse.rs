//! From a rule's text to an expression that can be run.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::Expr;
use kube_cel::cel::common::ast::operators::{OPT_INDEX, OPT_SELECT};
use kube_cel::cel::parser::Parser;

use super::macros::Macros;
use super::negation::without_pairs;
use super::parts::each;
use super::type_error;

/// Upstream's limit for the rules of a ClusterClass. Unit: bytes.
const LONGEST: usize = 4096;

/// How many operators an expression may have: the parser and the engine go one call deeper with each that stands
/// behind another, as in `1 + 1 + 1`, and nothing else ends that.
const MOST_OPERATORS: usize = 400;

/// So many need some 300 KiB of stack without optimisation, which is always left.
const FEW_OPERATORS: usize = 20;

/// Reads an expression.
///
/// # Errors
/// Points at what is not understood.
pub(super) fn parse(source: &str) -> Result<IdedExpr, String> {
    if source.len() > LONGEST {
        return Err(format!("the expression is longer than {LONGEST} bytes"));
    }
    if operators(source) > MOST_OPERATORS {
        return Err(format!("the expression has more than {MOST_OPERATORS} operators"));
    }
    // As kube-apiserver, which reads `self.?field`, too.
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

/// Whether an expression may go deeper than what is left of a stack.
pub(super) fn is_deep(source: &str) -> bool {
    operators(source) > FEW_OPERATORS
}

/// At least as many as there are, and those in texts are none.
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

/// The engine fails where `value.?field` has no such field; asked as `value[?'field']` it gives none.
fn index_optional_field(expression: &mut IdedExpr) {
    if let Expr::Call(call) = &mut expression.expr
        && call.func_name == OPT_SELECT
    {
        OPT_INDEX.clone_into(&mut call.func_name);
    }
}
