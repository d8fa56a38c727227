//! Compiled policy with its bindings.

use apiserver_machinery::object;
use apiserver_machinery::selectors::LabelSelector;
use apiserver_schema::{AdmissionExpression, Declared, Wanted};
use serde_json::Value;

use crate::matching::{Conditions, Criteria};
use crate::snapshot::Source;
use crate::value::{entries, text, texts};

/// Group, version and kind of parameters.
pub(crate) type ParamKind = (String, String, String);

/// Variables in the order of their declaration.
pub(crate) type Variables = Vec<(String, AdmissionExpression)>;

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
    pub(crate) expressions: Result<Expressions, String>,
}

/// Compiled expressions of a policy.
#[derive(Debug)]
pub(crate) struct Expressions {
    pub(crate) conditions: Conditions,
    pub(crate) variables: Variables,
    pub(crate) validations: Vec<Validation>,
    /// Keys and values of audit annotations.
    pub(crate) annotations: Vec<(String, AdmissionExpression)>,
}

/// Rule of a policy.
#[derive(Debug)]
pub(crate) struct Validation {
    pub(crate) expression: AdmissionExpression,
    pub(crate) message_expression: Option<AdmissionExpression>,
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

/// Compiles a policy with its bindings.
pub(crate) fn compile(policy: &Value, bindings: &[&Value], source: Source) -> Policy {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    Policy { base: base(policy, bindings, source), expressions: expressions(spec) }
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
        param_kind: spec.get("paramKind").map(|kind| {
            let api_version = text(kind, "apiVersion");
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            (group.to_owned(), version.to_owned(), text(kind, "kind").to_owned())
        }),
        bindings: own.map(|(name, spec)| binding(name, spec)).collect(),
    }
}

/// Compiles the variables, and declares them.
pub(super) fn variables(spec: &Value, declared: &mut Declared) -> Result<Variables, String> {
    let mut variables: Variables = Vec::new();
    for variable in entries(spec, "variables") {
        declared.variables = Some(variables.iter().map(|(name, _)| name.clone()).collect());
        let name = text(variable, "name");
        let compiled = AdmissionExpression::compile(text(variable, "expression"), declared, Wanted::Any);
        variables.push((name.to_owned(), compiled.map_err(|why| format!("variables {name:?}: {why}"))?));
    }
    if !variables.is_empty() {
        declared.variables = Some(variables.iter().map(|(name, _)| name.clone()).collect());
    }
    Ok(variables)
}

fn expressions(spec: &Value) -> Result<Expressions, String> {
    let has_params = spec.get("paramKind").is_some();
    let mut declared = Declared { params: has_params, authorizer: true, ..Declared::default() };
    let variables = variables(spec, &mut declared)?;
    let validations = entries(spec, "validations").iter().map(|it| validation(it, &declared));
    let annotations = entries(spec, "auditAnnotations").iter().map(|annotation| {
        let source = text(annotation, "valueExpression").trim();
        let compiled = AdmissionExpression::compile(source, &declared, Wanted::TextOrNull)?;
        Ok((text(annotation, "key").to_owned(), compiled))
    });
    Ok(Expressions {
        conditions: Conditions::compile(spec, has_params)?,
        validations: validations.collect::<Result<_, _>>()?,
        annotations: annotations.collect::<Result<_, String>>()?,
        variables,
    })
}

fn validation(validation: &Value, declared: &Declared) -> Result<Validation, String> {
    let of_message = text(validation, "messageExpression");
    let for_messages = Declared { authorizer: false, ..declared.clone() };
    let message_expression = (!of_message.trim().is_empty())
        .then(|| AdmissionExpression::compile(of_message, &for_messages, Wanted::Text))
        .transpose()?;
    Ok(Validation {
        expression: AdmissionExpression::compile(text(validation, "expression"), declared, Wanted::Bool)?,
        message_expression,
        message: text(validation, "message").trim().to_owned(),
        reason: text(validation, "reason").to_owned(),
    })
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
