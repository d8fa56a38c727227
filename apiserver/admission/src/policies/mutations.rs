//! Mutating policies: their compiled form, and their changes to an object.

use std::collections::BTreeSet;

use apiserver_machinery::admission_control::AdmittedWrite;
use apiserver_machinery::field_validation::FieldValidation;
use apiserver_machinery::patch::{Obstacle, Patch};
use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::{AdmissionInputs, Declared, Evaluation, PolicyVariable, Wanted};
use apiserver_structured_merge::overlay;
use serde_json::{Value, json};

use super::compile::{Base, Variables, base, variables};
use super::evaluate::{decides, inputs, matches, name};
use super::params;
use crate::expressions::{Compiled, Compiler, Uncompiled};
use crate::matching::{Conditions, Matched, Subject};
use crate::one_request::OneRequest;
use crate::review;
use crate::rounds::Rounds;
use crate::snapshot::Source;
use crate::value::{entries, text};

/// Cost budget of one mutation: upstream's.
const BUDGET: u64 = 10_000_000;

/// Policy that changes objects.
#[derive(Debug)]
pub(crate) struct MutatingPolicy {
    pub(crate) base: Base,
    /// True if it is evaluated again after a later change.
    is_reinvoked: bool,
    expressions: Expressions,
}

#[derive(Debug)]
struct Expressions {
    conditions: Conditions,
    variables: Variables,
    mutations: Vec<Mutation>,
}

#[derive(Debug)]
struct Mutation {
    is_json_patch: bool,
    expression: Compiled,
}

/// Compiles a mutating policy with its bindings. Adds the expressions that cannot be compiled to `uncompiled`.
pub(crate) fn compile(
    policy: &Value,
    bindings: &[&Value],
    source: Source,
    uncompiled: &mut BTreeSet<Uncompiled>,
) -> MutatingPolicy {
    let spec = policy.get("spec").unwrap_or(&Value::Null);
    let mut compiler = Compiler::new("MutatingAdmissionPolicy", policy, source, uncompiled);
    MutatingPolicy {
        base: base(policy, bindings, source),
        is_reinvoked: text(spec, "reinvocationPolicy") == "IfNeeded",
        expressions: expressions(spec, &mut compiler),
    }
}

fn expressions(spec: &Value, compiler: &mut Compiler<'_>) -> Expressions {
    let has_params = spec.get("paramKind").is_some();
    let mut declared = Declared { params: has_params, authorizer: true, ..Declared::default() };
    let variables = variables(spec, &mut declared, compiler);
    declared.patches = true;
    let mutations = entries(spec, "mutations").iter().enumerate().map(|(index, mutation)| {
        let is_json_patch = text(mutation, "patchType") == "JSONPatch";
        let (patch, field, wanted) = if is_json_patch {
            ("jsonPatch", "jsonPatch.expression", Wanted::JsonPatch)
        } else {
            ("applyConfiguration", "applyConfiguration.expression", Wanted::ApplyConfiguration)
        };
        let source = mutation.get(patch).map_or("", |patch| text(patch, "expression")).trim();
        let expression = compiler.compile(("mutations", index, field), source, &declared, wanted);
        Mutation { is_json_patch, expression }
    });
    let mutations = mutations.collect();
    Expressions { conditions: Conditions::compile(spec, has_params, compiler), variables, mutations }
}

/// Evaluates the policies that match a write, in the order of their names.
///
/// # Errors
/// 403 for a policy that fails and does not ignore it; 404 for a namespace that does not exist; 503.
pub(crate) async fn mutate(
    admission: &OneRequest,
    policies: &[MutatingPolicy],
    write: AdmittedWrite<'_>,
    object: &mut Option<Value>,
    rounds: &mut Rounds,
) -> ApiResult<()> {
    for (index, policy) in policies.iter().enumerate() {
        let is_due = rounds.is_policy_due(index) && policy.base.source.governs(write.resource);
        if object.is_none() || !is_due {
            continue;
        }
        let before = object.clone();
        let is_called = evaluate(admission, policy, write, object).await?;
        if before != *object {
            rounds.policy_changed();
        }
        if is_called && policy.is_reinvoked {
            rounds.policy_called(index);
        }
    }
    rounds.policies_done();
    Ok(())
}

/// Evaluates one policy with all its bindings. Returns true if one of them matches.
async fn evaluate(
    admission: &OneRequest,
    policy: &MutatingPolicy,
    write: AdmittedWrite<'_>,
    object: &mut Option<Value>,
) -> ApiResult<bool> {
    let (store, base) = (admission.store(), &policy.base);
    let subject = Subject { store, write, object: object.as_ref() };
    let matched = match matches(&base.criteria, subject).await {
        Ok(Some(matched)) => matched,
        Ok(None) => return Ok(false),
        Err(why) => return misconfigured(policy, None, subject, &why).map(|()| false),
    };
    let mut is_called = false;
    for binding in &base.bindings {
        let subject = Subject { store, write, object: object.as_ref() };
        let is_bound = match &binding.criteria {
            None => Ok(true),
            Some(criteria) => matches(criteria, subject).await.map(|matched| matched.is_some()),
        };
        let params = match is_bound {
            Ok(false) => continue,
            Ok(true) if !decides(admission, base, binding).await? => continue,
            Ok(true) => params::collect(admission, base, binding, write.namespace).await,
            Err(why) => Err(why),
        };
        let params = match params {
            Ok(params) => params,
            Err(why) => {
                misconfigured(policy, Some(&binding.name), subject, &why)?;
                continue;
            }
        };
        for one in params {
            is_called = true;
            let subject = Subject { store, write, object: object.as_ref() };
            match change(admission, policy, subject, &matched, one.as_deref()).await? {
                Ok(Some(changed)) => *object = Some(changed),
                Ok(None) => {}
                Err(why) => failed(policy, Some(&binding.name), subject, &why)?,
            }
        }
    }
    Ok(is_called)
}

/// Returns the object after all mutations of a policy; `None` if the conditions are not met.
async fn change(
    admission: &OneRequest,
    policy: &MutatingPolicy,
    subject: Subject<'_>,
    matched: &Matched,
    params: Option<&Value>,
) -> ApiResult<Result<Option<Value>, String>> {
    let expressions = &policy.expressions;
    let resource = match matched {
        Matched::Requested => subject.write.resource,
        Matched::Other(other) => other.as_ref(),
    };
    let mut present = subject.object.cloned();
    for (index, mutation) in expressions.mutations.iter().enumerate() {
        let subject = Subject { object: present.as_ref(), ..subject };
        let inputs = inputs(admission, subject, matched).await?.with_params(params);
        if index == 0 {
            let met = loop {
                let met = expressions.conditions.are_met(&inputs);
                if !admission.answer_open_questions().await {
                    break met;
                }
            };
            match met {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(None)),
                Err(why) => return Ok(Err(why)),
            }
        }
        let patch = loop {
            let patch = evaluated(mutation, &expressions.variables, &inputs);
            if !admission.answer_open_questions().await {
                break patch;
            }
        };
        let objects = review::Objects::of(subject, matched)?;
        let object = objects.object.unwrap_or_default();
        let types = subject.store.merge_type(resource);
        let patched = patch.and_then(|patch| {
            if mutation.is_json_patch {
                json_patched(&object, patch)
            } else {
                applied(resource, types.as_deref(), &object, patch)
            }
        });
        match patched {
            Ok(patched) => present = Some(review::from_version(subject.write, matched, patched)?),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(present))
}

fn evaluated(
    mutation: &Mutation,
    variables: &[PolicyVariable],
    inputs: &AdmissionInputs,
) -> Result<Value, String> {
    let expression = mutation.expression.as_ref().map_err(|why| format!("compilation error: {why}"))?;
    let value = Evaluation::new(inputs, variables, BUDGET).evaluate(expression);
    let value = value.map_err(|error| error.to_string())?;
    value.to_json().ok_or_else(|| "the result of the expression cannot be expressed in JSON".to_owned())
}

/// Applies a JSON patch. If one of its tests fails, the object stays as it is.
fn json_patched(object: &Value, patch: Value) -> Result<Value, String> {
    match Patch::json(patch, &[], FieldValidation::Ignore).attempt(object) {
        Err(Obstacle::FailedTest(_)) => Ok(object.clone()),
        patched => patched.map_err(|why| format!("JSON Patch: {why}")),
    }
}

/// Merges an apply configuration into the object.
fn applied(
    resource: &Resource,
    types: Option<&apiserver_structured_merge::Type>,
    object: &Value,
    mut patch: Value,
) -> Result<Value, String> {
    let types = types.ok_or_else(|| format!("the type of {} is not known", resource.kind))?;
    patch["apiVersion"] = object.get("apiVersion").cloned().unwrap_or_default();
    patch["kind"] = object.get("kind").cloned().unwrap_or_default();
    overlay(types, object, &patch).map_err(|why| format!("error applying patch: {why}"))
}

/// Returns the refusal of a write whose policy fails, unless the policy ignores it.
fn failed(policy: &MutatingPolicy, binding: Option<&str>, subject: Subject<'_>, why: &str) -> ApiResult<()> {
    let refused = refused(policy, binding, subject, why);
    refused.map_err(|error| ApiError { reason: "Invalid".into(), ..error })
}

/// Returns the refusal of a write for which a policy or a binding cannot be evaluated, e.g. without its parameters, unless
/// the policy ignores it. As in upstream, its reason is another one than that of a mutation that fails.
fn misconfigured(
    policy: &MutatingPolicy,
    binding: Option<&str>,
    subject: Subject<'_>,
    why: &str,
) -> ApiResult<()> {
    let what = if binding.is_some() { "binding" } else { "policy" };
    refused(policy, binding, subject, &format!("failed to configure {what}: {why}"))
}

fn refused(policy: &MutatingPolicy, binding: Option<&str>, subject: Subject<'_>, why: &str) -> ApiResult<()> {
    if !policy.base.fails_closed {
        return Ok(());
    }
    let of = &policy.base.name;
    let message = match binding {
        Some(binding) => format!("policy '{of}' with binding '{binding}' denied request: {why}"),
        None => format!("policy {of:?} denied request: {why}"),
    };
    let resource = subject.write.resource;
    let mut error = ApiError::forbidden(&resource.group, &resource.plural, &name(subject), &message);
    error.details["causes"] = json!([{"message": message}]);
    Err(ApiError { message, ..error })
}
