//! Expression over one variable that belongs to no schema, such as a mapping of the claims of a token.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use kube_cel::cel::common::ast::operators::OPT_INDEX;
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use serde_json::Value;

use super::check::{Checked, Scope};
use super::parse::{is_deep, parse};
use super::parts::each;
use super::run::{Failure, Run};
use super::types::Type;
use super::value::{plain, to_json};
use super::{COST_EXCEEDED, FUNCTIONS, MOST_OF_A_RULE, stack, type_error};
use crate::Schema;

/// Time limit of an evaluation, for functions with a low cost that take long.
const LONGEST: Duration = Duration::from_secs(5);

/// Compiled expression over one variable.
#[derive(Debug)]
pub struct Expression {
    variable: &'static str,
    source: String,
    program: IdedExpr,
    /// Calls whose overload is known only at run time.
    unresolved: HashSet<u64>,
    /// Fields that the expression selects from the variable.
    fields: BTreeSet<String>,
    is_condition: bool,
}

impl Expression {
    /// Compiles an expression with any result. `schema` is that of the variable.
    ///
    /// # Errors
    /// The text of the error, as kube-apiserver words it.
    pub fn value(source: &str, variable: &'static str, schema: &Schema) -> Result<Self, String> {
        stack::deep(|| Self::compile(source, variable, schema, false))
    }

    /// Compiles an expression that is true or false.
    ///
    /// # Errors
    /// The text of the error, as kube-apiserver words it.
    pub fn condition(source: &str, variable: &'static str, schema: &Schema) -> Result<Self, String> {
        stack::deep(|| Self::compile(source, variable, schema, true))
    }

    fn compile(
        source: &str,
        variable: &'static str,
        schema: &Schema,
        is_condition: bool,
    ) -> Result<Self, String> {
        let failed = |problem| format!("compilation failed: {problem}");
        let mut program = parse(source).map_err(failed)?;
        let mut found = Checked::default();
        let of = Scope::of([(variable, Type::of(schema))]).type_of(&program, &mut found);
        if let Some(errors) = found.errors() {
            return Err(failed(type_error::shown(source, errors)));
        }
        if is_condition && !matches!(of, Type::Bool) {
            return Err("must evaluate to bool".to_owned());
        }
        let unresolved = found.unresolved();
        let mut fields = BTreeSet::new();
        each(&mut program, &mut |part| fields.extend(selected(part, variable)));
        Ok(Self { variable, source: source.to_owned(), program, unresolved, fields, is_condition })
    }

    /// Returns the text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns true if the expression selects this field from the variable, as in `claims.email`.
    pub fn selects(&self, field: &str) -> bool {
        self.fields.contains(field)
    }

    /// Evaluates the expression. A result that JSON cannot express is an error.
    ///
    /// # Errors
    /// The text of the error, in CEL's words.
    pub fn evaluate(&self, value: &Value) -> Result<Value, String> {
        let outcome = FUNCTIONS.with(|functions| {
            let until = Instant::now() + LONGEST;
            let run = Run::new(functions, Some(&self.unresolved), MOST_OF_A_RULE, until);
            let mut run = run.with(self.variable, plain(value));
            if is_deep(&self.source) {
                stack::deep(|| run.value(&self.program))
            } else {
                run.value(&self.program)
            }
        });
        let found = outcome.map_err(|failure| match failure {
            Failure::CostExceeded => COST_EXCEEDED.to_owned(),
            Failure::Interrupted => "operation interrupted".to_owned(),
            Failure::Error(text) => text,
        })?;
        let found = to_json(&found).ok_or("the result is not text, a number, true, false, null or a list")?;
        if self.is_condition && !found.is_boolean() {
            return Err("the result is neither true nor false".to_owned());
        }
        Ok(found)
    }
}

/// Returns the field that a part selects from the variable.
fn selected(part: &IdedExpr, variable: &str) -> Option<String> {
    let is_variable = |on: &IdedExpr| matches!(&on.expr, Expr::Ident(name) if name == variable);
    match &part.expr {
        Expr::Select(select) if is_variable(&select.operand) => Some(select.field.clone()),
        Expr::Call(call) if call.func_name == OPT_INDEX => match call.args.as_slice() {
            [on, at] if is_variable(on) => match &at.expr {
                Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims() -> Schema {
        let any = json!({"x-kubernetes-preserve-unknown-fields": true});
        Schema::compile(&json!({"type": "object", "additionalProperties": any})).unwrap()
    }

    fn run(source: &str) -> Result<Value, String> {
        let token = json!({"sub": "alice", "roles": ["a", "b"], "n": 7, "ok": true, "none": null,
            "deep": {"a.b": "c", "a-b": {"in": "d"}}});
        Expression::value(source, "claims", &claims())?.evaluate(&token)
    }

    #[test]
    fn an_expression_reads_claims_by_their_own_names() {
        let table = [
            ("claims.sub", json!("alice")),
            ("'p:' + claims.sub", json!("p:alice")),
            ("claims.roles", json!(["a", "b"])),
            ("claims.roles.map(r, 'x:' + r)", json!(["x:a", "x:b"])),
            ("claims.deep['a.b']", json!("c")),
            ("claims.deep['a-b']['in']", json!("d")),
            ("claims.?missing.orValue('none')", json!("none")),
            ("has(claims.missing) ? claims.missing : ''", json!("")),
            ("claims.n == 7 && claims.ok", json!(true)),
            ("claims.none", json!(null)),
            ("claims.sub.split('i')", json!(["al", "ce"])),
        ];
        for (source, expected) in table {
            assert_eq!(run(source), Ok(expected), "{source}");
        }
        assert_eq!(run("claims.missing"), Err("no such key: missing".to_owned()));
        assert!(run("claims").is_err(), "a map is no name");
    }

    #[test]
    fn an_expression_is_checked_before_it_runs() {
        let refused = |source: &str| Expression::condition(source, "claims", &claims()).unwrap_err();
        assert!(refused("foo").starts_with(
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')"
        ));
        assert!(refused("claims.").starts_with("compilation failed: ERROR: <input>:1:8: Syntax error:"));
        assert_eq!(refused("claims.sub"), "must evaluate to bool");
        assert_eq!(refused("'a'"), "must evaluate to bool");
        assert!(Expression::condition("claims.sub == 'a'", "claims", &claims()).is_ok());
        let all = "[0,1,2,3,4,5,6,7,8,9]";
        let dear = (0..7).fold("true".to_owned(), |inner, n| format!("{all}.all(x{n}, {inner})"));
        assert_eq!(run(&dear), Err(COST_EXCEEDED.to_owned()));
    }

    #[test]
    fn an_expression_knows_the_fields_that_it_selects() {
        let selects = |source: &str| Expression::value(source, "claims", &claims()).unwrap().selects("email");
        for yes in [
            "claims.email",
            "has(claims.email)",
            "[1].map(x, claims.email + 'x')",
            "claims.?email.orValue('')",
        ] {
            assert!(selects(yes), "{yes}");
        }
        for no in ["claims.sub", "claims.a.email", "'claims.email'", "[{'email': 1}].map(c, c.email)"] {
            assert!(!selects(no), "{no}");
        }
    }
}
