//! Expressions of admission: conditions of webhooks, and the expressions of policies.
//!
//! They read `object`, `oldObject` and `params`, whose types are dynamic, `request` and `namespaceObject`, whose types
//! are declared, and `variables`, which are expressions themselves. Only a [type check](TypeCheck) assumes types of the
//! objects.

mod evaluation;
mod inputs;
mod type_check;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock};

use kube_cel::cel::common::ast::operators::OPT_INDEX;
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use serde_json::json;

pub use evaluation::{Evaluated, Evaluation, EvaluationError, PolicyVariable};
pub use inputs::AdmissionInputs;
pub use type_check::{CheckedParams, TypeCheck};

use super::check::{Checked, JSON_PATCH, OBJECT, PATCHES, Scope};
use super::declarations::AUTHORIZER;
use super::parse::{is_deep, parse};
use super::parts::each;
use super::stack;
use super::type_error;
use super::types::Type;
use super::value::{RESERVED_WORDS, escaped};
use crate::Schema;

/// Variable with the values of named expressions.
const VARIABLES: &str = "variables";

/// Schema of `request`. `options` has a dynamic type.
static REQUEST: LazyLock<Schema> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let object = |fields: serde_json::Value| json!({"type": "object", "properties": fields});
    let kind = || object(json!({"group": text(), "version": text(), "kind": text()}));
    let resource = || object(json!({"group": text(), "version": text(), "resource": text()}));
    let extra = json!({"type": "object", "additionalProperties": texts()});
    let user = object(json!({"username": text(), "uid": text(), "groups": texts(), "extra": extra}));
    schema(&object(
        json!({"kind": kind(), "resource": resource(), "subResource": text(), "requestKind": kind(),
        "requestResource": resource(), "requestSubResource": text(), "name": text(), "namespace": text(),
        "operation": text(), "userInfo": user, "dryRun": {"type": "boolean"},
        "options": {"type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true}}),
    ))
});

/// Schema of `namespaceObject`.
static NAMESPACE: LazyLock<Schema> = LazyLock::new(|| {
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "date-time"});
    let whole = || json!({"type": "integer"});
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let labels = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let object = |fields: serde_json::Value| json!({"type": "object", "properties": fields});
    let metadata =
        object(json!({"name": text(), "generateName": text(), "namespace": text(), "labels": labels(),
        "annotations": labels(), "UID": text(), "creationTimestamp": time(), "deletionTimestamp": time(),
        "deletionGracePeriodSeconds": whole(), "generation": whole(), "resourceVersion": text(),
        "finalizers": texts()}));
    let condition =
        object(json!({"status": text(), "type": text(), "lastTransitionTime": time(), "message": text(),
        "reason": text()}));
    let status = object(json!({"conditions": {"type": "array", "items": condition}, "phase": text()}));
    schema(&object(
        json!({"metadata": metadata, "spec": object(json!({"finalizers": texts()})), "status": status}),
    ))
});

// The schemas are constants, and the tests compile both.
fn schema(source: &serde_json::Value) -> Schema {
    Schema::compile(source).unwrap_or_default()
}

/// Result that an expression must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// True or false.
    Bool,
    /// A text.
    Text,
    /// A text or null.
    TextOrNull,
    /// Any value.
    Any,
    /// An apply configuration, as in `Object{…}`.
    ApplyConfiguration,
    /// A list of operations, as in `[JSONPatch{…}]`.
    JsonPatch,
}

impl Wanted {
    /// Returns the error of an expression with a result of another type.
    fn refusal(self, found: &Type<'_>) -> Option<String> {
        let (fits, words) = match self {
            Self::Any => return None,
            Self::Bool => (matches!(found, Type::Bool), "bool"),
            Self::Text => (matches!(found, Type::Text), "string"),
            Self::ApplyConfiguration => (is_named(found, OBJECT), OBJECT),
            Self::JsonPatch => {
                let is_list = matches!(found, Type::List(item) if is_named(item, JSON_PATCH) || matches!(**item, Type::Free));
                (is_list, "list(JSONPatch)")
            }
            Self::TextOrNull => (matches!(found, Type::Text | Type::Null), "one of [string null_type]"),
        };
        let found = if matches!(found, Type::Null) { "null_type".to_owned() } else { found.to_string() };
        (!fits).then(|| format!("must evaluate to {words} but got {found}"))
    }
}

fn is_named(found: &Type<'_>, name: &str) -> bool {
    matches!(found, Type::Named(found) if found == name)
}

/// Variables that an expression can read, beside those that every expression of admission can.
#[derive(Debug, Clone, Default)]
pub struct Declared {
    /// True if `params` is one of them.
    pub params: bool,
    /// True if the expression can create objects and operations of patches.
    pub patches: bool,
    /// True if `authorizer` is one of them.
    pub authorizer: bool,
    /// Variables that were declared before the expression. `None` if there are no variables.
    pub variables: Option<DeclaredVariables>,
}

/// Variables of a policy, with the types of their values.
#[derive(Debug, Clone, Default)]
pub struct DeclaredVariables(Arc<BTreeMap<String, Type<'static>>>);

impl DeclaredVariables {
    /// Declares a variable with its expression. Without one that compiles, the type is dynamic.
    pub fn declare(&mut self, name: &str, expression: Option<&AdmissionExpression>) {
        let of = expression.map_or(Type::Dyn, |expression| expression.of.clone());
        Arc::make_mut(&mut self.0).insert(name.to_owned(), of);
    }
}

/// Compiled expression of admission.
#[derive(Debug)]
pub struct AdmissionExpression {
    source: String,
    program: IdedExpr,
    /// Type of a variable with this value.
    of: Type<'static>,
    /// Calls whose overload is known only at run time.
    unresolved: HashSet<u64>,
    is_deep: bool,
}

impl AdmissionExpression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// The text of the error, as kube-apiserver words it.
    pub fn compile(source: &str, declared: &Declared, wanted: Wanted) -> Result<Self, String> {
        stack::deep(|| Self::read(source, declared, wanted))
    }

    fn read(source: &str, declared: &Declared, wanted: Wanted) -> Result<Self, String> {
        let failed = |problem| format!("compilation failed: {problem}");
        let mut program = parse(source).map_err(failed)?;
        each(&mut program, &mut |part| {
            if is_namespace(part) {
                escape_reserved(part);
            }
        });
        let mut found = Checked::default();
        let of = scope(declared).type_of(&program, &mut found);
        if let Some(errors) = found.errors() {
            return Err(failed(unescaped_words(type_error::shown(source, errors))));
        }
        if let Some(refusal) = wanted.refusal(&of) {
            return Err(refusal);
        }
        let (of, unresolved) = (of.of_variable(), found.unresolved());
        Ok(Self { source: source.to_owned(), program, of, unresolved, is_deep: is_deep(source) })
    }

    /// Returns the text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// Reports whether a part is a field `namespace` of a variable with a declared type. Upstream declares these types by
/// hand, and escapes no names in them.
fn is_namespace(part: &IdedExpr) -> bool {
    let path = path(part);
    matches!(path.as_deref(), Some(["request", "namespace"] | ["namespaceObject", "metadata", "namespace"]))
}

/// Returns the names of a path, such as `a.b` or `a.?b`; `None` for any other expression.
fn path(expression: &IdedExpr) -> Option<Vec<&str>> {
    let (operand, name) = match &expression.expr {
        Expr::Ident(name) => return Some(vec![name]),
        Expr::Select(select) => (select.operand.as_ref(), select.field.as_str()),
        Expr::Call(call) if call.func_name == OPT_INDEX => match call.args.as_slice() {
            [operand, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }] => {
                (operand, name.inner())
            }
            _ => return None,
        },
        _ => return None,
    };
    let mut names = path(operand)?;
    names.push(name);
    Some(names)
}

/// Spells a selected field whose name is a reserved word, such as `namespace`, as fields of schemas are spelled.
fn escape_reserved(part: &mut IdedExpr) {
    match &mut part.expr {
        Expr::Select(select) if RESERVED_WORDS.contains(&select.field.as_str()) => {
            select.field = escaped(&select.field);
        }
        Expr::Call(call) if call.func_name == OPT_INDEX => {
            if let Some(Expr::Literal(LiteralValue::String(name))) =
                call.args.get_mut(1).map(|part| &mut part.expr)
                && RESERVED_WORDS.contains(&name.inner())
            {
                *name = escaped(name.inner()).into();
            }
        }
        _ => {}
    }
}

/// Spells reserved words in errors as the expression does.
fn unescaped_words(mut errors: String) -> String {
    for word in RESERVED_WORDS {
        let spelled = format!("undefined field '__{word}__'");
        if errors.contains(&spelled) {
            errors = errors.replace(&spelled, &format!("undefined field '{word}'"));
        }
    }
    errors
}

fn scope(declared: &Declared) -> Scope<'static, 'static> {
    let mut variables = vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("request", Type::of(&REQUEST)),
        ("namespaceObject", Type::of(&NAMESPACE)),
    ];
    if declared.params {
        variables.push(("params", Type::Dyn));
    }
    if declared.patches {
        variables.push((PATCHES, Type::Dyn));
    }
    if declared.authorizer {
        variables.push(("authorizer", Type::Named(AUTHORIZER.to_owned())));
    }
    if let Some(DeclaredVariables(known)) = &declared.variables {
        variables.push((VARIABLES, Type::Variables(Arc::clone(known))));
    }
    Scope::of_all(variables)
}

#[cfg(test)]
mod tests;
