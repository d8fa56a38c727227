//! Expressions of admission: conditions of webhooks, and the expressions of policies.
//!
//! They read `object`, `oldObject` and `params`, whose types are dynamic, `request` and `namespaceObject`, whose types
//! are declared, and `variables`, which are expressions themselves.

mod evaluation;
mod inputs;

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use kube_cel::cel::common::ast::operators::{INDEX, OPT_INDEX};
use kube_cel::cel::common::ast::{Expr, IdedExpr, LiteralValue};
use serde_json::json;

pub use evaluation::{Evaluated, Evaluation, EvaluationError};
pub use inputs::AdmissionInputs;

use super::check::{Checked, JSON_PATCH, OBJECT, PATCHES, Scope};
use super::declarations::AUTHORIZER;
use super::parse::{is_deep, parse};
use super::parts::each;
use super::stack;
use super::type_error::{self, TypeError, TypeErrors};
use super::types::Type;
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
    /// Names of the variables that were declared before the expression. `None` if there are no variables.
    pub variables: Option<Vec<String>>,
}

/// Compiled expression of admission.
#[derive(Debug)]
pub struct AdmissionExpression {
    source: String,
    program: IdedExpr,
    /// Calls whose overload is known only at run time.
    unresolved: HashSet<u64>,
    /// Names of the variables that it reads.
    variables: BTreeSet<String>,
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
        each(&mut program, &mut escape_namespace);
        let mut variables = BTreeSet::new();
        let mut undeclared = TypeErrors::default();
        if let Some(known) = &declared.variables {
            each(&mut program, &mut |part| {
                let Some(name) = selected(part) else { return };
                if known.contains(&name) {
                    variables.insert(name);
                } else {
                    undeclared.push(TypeError { id: part.id, text: format!("undefined field '{name}'") });
                }
            });
        }
        let mut found = Checked::default();
        let of = scope(declared).type_of(&program, &mut found);
        if let Some(errors) = found.errors() {
            return Err(failed(type_error::shown(source, errors)));
        }
        if !undeclared.is_empty() {
            return Err(failed(type_error::shown(source, &undeclared)));
        }
        if let Some(refusal) = wanted.refusal(&of).filter(|_| !reads_variables(&of, &variables)) {
            return Err(refusal);
        }
        let unresolved = found.unresolved();
        Ok(Self { source: source.to_owned(), program, unresolved, variables, is_deep: is_deep(source) })
    }

    /// Returns the text of the expression.
    pub fn source(&self) -> &str {
        &self.source
    }
}

/// Spells the field `namespace` of the declared variables as fields of schemas are spelled. Upstream declares these
/// types by hand, and escapes no names.
fn escape_namespace(part: &mut IdedExpr) {
    if let Expr::Select(select) = &mut part.expr
        && select.field == "namespace"
        && matches!(root(&select.operand), Some("request" | "namespaceObject"))
    {
        "__namespace__".clone_into(&mut select.field);
    }
}

/// Returns the variable that a path begins with.
fn root(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Ident(name) => Some(name),
        Expr::Select(select) => root(&select.operand),
        _ => None,
    }
}

/// Reports whether the type of a result may be that of a variable, whose type is not tracked.
fn reads_variables(of: &Type<'_>, variables: &BTreeSet<String>) -> bool {
    matches!(of, Type::Dyn) && !variables.is_empty()
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
    if declared.variables.is_some() {
        variables.push((VARIABLES, Type::Map(Box::new(Type::Text), Box::new(Type::Dyn))));
    }
    Scope::of_all(variables)
}

/// Returns the variable that a part reads, as in `variables.name`.
fn selected(part: &IdedExpr) -> Option<String> {
    let is_variables = |on: &IdedExpr| matches!(&on.expr, Expr::Ident(name) if name == VARIABLES);
    match &part.expr {
        Expr::Select(select) if is_variables(&select.operand) => Some(select.field.clone()),
        Expr::Call(call) if matches!(call.func_name.as_str(), INDEX | OPT_INDEX) => {
            match call.args.as_slice() {
                [on, at] if is_variables(on) => match &at.expr {
                    Expr::Literal(LiteralValue::String(text)) => Some(text.inner().to_owned()),
                    _ => None,
                },
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
