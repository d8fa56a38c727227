//! Compiled policy with its bindings.

use std::collections::BTreeSet;

use apiserver_machinery::object;
use apiserver_machinery::selectors::LabelSelector;
use apiserver_schema::{Declared, DeclaredVariables, PolicyVariable, Wanted};
use serde_json::Value;

use crate::expressions::{Compiled, Compiler, Uncompiled};
use crate::matching::{Conditions, Criteria};
use crate::snapshot::Source;
use crate::value::{entries, text, texts};

/// Group, version and kind of parameters.
pub(crate) type ParamKind = (String, String, String);

/// Variables in the order of their declaration.
pub(crate) type Variables = Vec<PolicyVariable>;

/// Parts that policies of both kinds have.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) name: String,
    pub(crate) source: Source,
    /// True if a request fails for which an expression fails.
    pub(crate) fails_closed: bool,
    pub(crate) criteria: Result<Criteria, String>,
    pub(crate) param_kind: Option<ParamKind>,
    /// Bindings that put the policy into force.
    pub(crate) bindings: Vec<Binding>,
}

/// Policy that accepts or rejects.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) base: Base,
    pub(crate) expressions: Expressions,
}

/// Compiled expressions of a policy.
#[derive(Debug)]
pub(crate) struct Expressions {
    pub(crate) conditions: Conditions,
    pub(crate) variables: Variables,
    pub(crate) validations: Vec<Validation>,
    /// Keys and values of audit annotations.
    pub(crate) annotations: Vec<(String, Compiled)>,
}

/// Rule of a policy.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) expression: Compiled,
    pub(crate) message_expression: Option<Compiled>,
    pub(crate) message: String,
    pub(crate) reason: String,
}

/// Binding of a policy.
#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: String,
    /// Criteria; `None` for all requests that match the policy.
    pub(crate) criteria: Option<Result<Criteria, String>>,
    pub(crate) params: Option<ParamRef>,
    /// `Deny`, `Warn` and `Audit`.
    pub(crate) actions: Vec<String>,
}

/// Reference to parameters.
#[derive(Debug)]
pub(crate) struct ParamRef {
    /// Name; empty if the selector selects.
    pub(crate) name: String,
    /// Namespace; empty for that of the request.
    pub(crate) namespace: String,
    pub(crate) selector: Result<LabelSelector, String>,
    /// True if the request fails without parameters.
    pub(crate) must_exist: bool,
}

impl Base {
    /// Returns true if writes of this resource may match.
    pub(crate) fn may_concern(&self, group: &str, resource: &str) -> bool {
        let criteria = self.criteria.as_ref();
        !self.bindings.is_empty() && criteria.map_or(true, |criteria| criteria.may_concern(group, resource))
    }
}

/// Compiles a policy with its bindings. Adds the expressions that cannot be compiled to `uncompiled`.
pub(crate) fn compile(
    policy: &Value,
    bindings: &[&Value],
    source: Source,
    uncompiled: &mut BTreeSet<Uncompiled>,
) -> Policy {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let mut compiler = Compiler::new("ValidatingAdmissionPolicy", policy, source, uncompiled);
    Policy { base: base(policy, bindings, source), expressions: expressions(spec, &mut compiler) }
}

/// Reads the parts that policies of both kinds have.
pub(super) fn base(policy: &Value, bindings: &[&Value], source: Source) -> Base {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let name = object::name(policy);
    let own = bindings.iter().filter_map(|it| Some((object::name(it), it.get("spec")?)));
    let own = own.filter(|(_, spec)| text(spec, "policyName") == name);
    Base {
        name: name.to_owned(),
        source,
        fails_closed: text(spec, "failurePolicy") != "Ignore",
        criteria: Criteria::of_policy(spec.get("matchConstraints").unwrap_or(&Value::Null)),
        param_kind: param_kind(spec),
        bindings: own.map(|(name, spec)| binding(name, spec)).collect(),
    }
}

/// Returns the kind of the parameters, if the policy has any.
pub(super) fn param_kind(spec: &Value) -> Option<ParamKind> {
    let kind = spec.get("paramKind")?;
    let api_version = text(kind, "apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Some((group.to_owned(), version.to_owned(), text(kind, "kind").to_owned()))
}

/// Compiles the variables, and declares them.
pub(super) fn variables(spec: &Value, declared: &mut Declared, compiler: &mut Compiler<'_>) -> Variables {
    let (all, mut variables) = (entries(spec, "variables"), Variables::new());
    if !all.is_empty() {
        declared.variables = Some(DeclaredVariables::default());
    }
    for (index, variable) in all.iter().enumerate() {
        let (name, source) = (text(variable, "name"), text(variable, "expression"));
        let compiled = compiler.compile(("variables", index, "expression"), source, declared, Wanted::Any);
        if let Some(known) = &mut declared.variables {
            known.declare(name, compiled.as_ref().ok());
        }
        variables.push((name.to_owned(), compiled));
    }
    variables
}

fn expressions(spec: &Value, compiler: &mut Compiler<'_>) -> Expressions {
    let has_params = spec.get("paramKind").is_some();
    let mut declared = Declared { params: has_params, authorizer: true, ..Declared::default() };
    let variables = variables(spec, &mut declared, compiler);
    let validations = entries(spec, "validations").iter().enumerate();
    let validations = validations.map(|(index, it)| validation(index, it, &declared, compiler)).collect();
    let annotations = entries(spec, "auditAnnotations").iter().enumerate().map(|(index, annotation)| {
        let source = text(annotation, "valueExpression").trim();
        let at = ("auditAnnotations", index, "valueExpression");
        let compiled = compiler.compile(at, source, &declared, Wanted::TextOrNull);
        (text(annotation, "key").to_owned(), compiled)
    });
    let annotations = annotations.collect();
    let conditions = Conditions::compile(spec, has_params, compiler);
    Expressions { conditions, variables, validations, annotations }
}

fn validation(
    index: usize,
    validation: &Value,
    declared: &Declared,
    compiler: &mut Compiler<'_>,
) -> Validation {
    let mut compile = |field: &str, declared: &Declared, wanted: Wanted| {
        compiler.compile(("validations", index, field), text(validation, field), declared, wanted)
    };
    let for_messages = Declared { authorizer: false, ..declared.clone() };
    let has_message = !text(validation, "messageExpression").trim().is_empty();
    Validation {
        expression: compile("expression", declared, Wanted::Bool),
        message_expression: has_message.then(|| compile("messageExpression", &for_messages, Wanted::Text)),
        message: text(validation, "message").trim().to_owned(),
        reason: text(validation, "reason").to_owned(),
    }
}

fn binding(name: &str, spec: &Value) -> Binding {
    Binding {
        name: name.to_owned(),
        criteria: spec.get("matchResources").map(Criteria::of_policy),
        params: spec.get("paramRef").map(|reference| ParamRef {
            name: text(reference, "name").to_owned(),
            namespace: text(reference, "namespace").to_owned(),
            selector: LabelSelector::of_object(reference.get("selector")),
            must_exist: text(reference, "parameterNotFoundAction") == "Deny",
        }),
        actions: texts(spec, "validationActions"),
    }
}
