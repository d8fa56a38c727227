//! Compiler of the expressions of a configuration. It remembers those that cannot be compiled.

use std::collections::BTreeSet;

use apiserver_machinery::object;
use apiserver_schema::{AdmissionExpression, Declared, Wanted};
use serde_json::Value;

use crate::snapshot::Source;

/// Expression, or the reason why it cannot be compiled.
pub(crate) type Compiled = Result<AdmissionExpression, String>;

/// Expression that cannot be compiled. The API refuses such expressions. One of a host cluster can have functions that are
/// not known here, and a stored one can come from another version of Capstan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Uncompiled {
    pub(crate) source: Source,
    /// Kind and name of the configuration.
    configuration: (&'static str, String),
    generation: i64,
    /// Path of the field with the expression.
    field: String,
    why: String,
}

impl Uncompiled {
    /// Logs the expression, whose failure policy decides about each write that matches.
    pub(crate) fn log(&self) {
        let (kind, name) = &self.configuration;
        tracing::warn!(
            kind,
            name,
            source = self.source.name(),
            generation = self.generation,
            field = self.field,
            why = self.why,
            "an expression of an admission configuration cannot be compiled; its failurePolicy decides"
        );
    }
}

/// Compiler of the expressions of one configuration.
#[derive(Debug)]
pub(crate) struct Compiler<'a> {
    source: Source,
    kind: &'static str,
    configuration: &'a Value,
    /// Path of the fields with expressions.
    path: String,
    uncompiled: &'a mut BTreeSet<Uncompiled>,
}

impl<'a> Compiler<'a> {
    /// Creates a compiler for the `spec` of a configuration.
    pub(crate) fn new(
        kind: &'static str,
        configuration: &'a Value,
        source: Source,
        uncompiled: &'a mut BTreeSet<Uncompiled>,
    ) -> Self {
        Self { source, kind, configuration, path: "spec".to_owned(), uncompiled }
    }

    /// Continues with the fields of a webhook.
    pub(crate) fn enter_webhook(&mut self, index: usize) {
        self.path = format!("webhooks[{index}]");
    }

    /// Compiles the expression in a field of a list.
    pub(crate) fn compile(
        &mut self,
        (list, index, field): (&str, usize, &str),
        source: &str,
        declared: &Declared,
        wanted: Wanted,
    ) -> Compiled {
        let compiled = AdmissionExpression::compile(source, declared, wanted);
        if let Err(why) = &compiled {
            let generation = object::metadata_field(self.configuration, "generation").and_then(Value::as_i64);
            self.uncompiled.insert(Uncompiled {
                source: self.source,
                configuration: (self.kind, object::name(self.configuration).to_owned()),
                generation: generation.unwrap_or_default(),
                field: format!("{}.{list}[{index}].{field}", self.path),
                why: why.clone(),
            });
        }
        compiled
    }
}
