//! Criteria of a webhook, a policy or a binding: rules in the versions of the resource, and selectors.

use apiserver_machinery::admission_control::{AdmittedWrite, Operation};
use apiserver_machinery::object;
use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::selectors::LabelSelector;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::ObjectStore;
use serde_json::Value;
use std::sync::Arc;

use super::rule::{Probe, Rule};
use crate::value::{entries, text};

/// One write with its present object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) store: &'a ObjectStore,
    pub(crate) write: AdmittedWrite<'a>,
    /// The object; absent on delete.
    pub(crate) object: Option<&'a Value>,
}

/// Version of the resource in which a write matches.
#[derive(Debug, Clone)]
pub(crate) enum Matched {
    /// The version of the request.
    Requested,
    /// Another version of the same kind.
    Other(Arc<Resource>),
}

/// Criteria for writes.
#[derive(Debug, Clone)]
pub(crate) struct Criteria {
    /// Rules of which one must match. `None` matches every write.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    /// True if other versions of the resource match, too.
    is_equivalent: bool,
    namespaces: LabelSelector,
    objects: LabelSelector,
}

impl Criteria {
    /// Reads the criteria of a webhook.
    ///
    /// # Errors
    /// The text names an invalid selector.
    pub(crate) fn of_webhook(hook: &Value) -> Result<Self, String> {
        let rules = entries(hook, "rules").iter().map(Rule::of).collect();
        Self::read(hook, Some(rules), Vec::new())
    }

    /// Reads the criteria of a policy or a binding, whose rules may be absent.
    ///
    /// # Errors
    /// The text names an invalid selector.
    pub(crate) fn of_policy(resources: &Value) -> Result<Self, String> {
        let rules: Vec<Rule> = entries(resources, "resourceRules").iter().map(Rule::of).collect();
        let excluded = entries(resources, "excludeResourceRules").iter().map(Rule::of).collect();
        Self::read(resources, (!rules.is_empty()).then_some(rules), excluded)
    }

    fn read(from: &Value, rules: Option<Vec<Rule>>, excluded: Vec<Rule>) -> Result<Self, String> {
        let selector = |field: &str| {
            LabelSelector::of_object(from.get(field)).map_err(|why| format!("invalid {field}: {why}"))
        };
        Ok(Self {
            rules,
            excluded,
            is_equivalent: text(from, "matchPolicy") != "Exact",
            namespaces: selector("namespaceSelector")?,
            objects: selector("objectSelector")?,
        })
    }

    /// Returns true if writes of this resource may match.
    pub(crate) fn may_concern(&self, group: &str, resource: &str) -> bool {
        self.rules.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.may_concern(group, resource)))
    }

    /// Returns the version in which a write matches.
    ///
    /// # Errors
    /// 404 for a namespace that does not exist; 503.
    pub(crate) async fn matches(&self, subject: Subject<'_>) -> ApiResult<Option<Matched>> {
        let registry = subject.store.registry();
        if self.find(&self.excluded, subject.write, registry).is_some() {
            return Ok(None);
        }
        let matched = match &self.rules {
            None => Matched::Requested,
            Some(rules) => match self.find(rules, subject.write, registry) {
                Some(matched) => matched,
                None => return Ok(None),
            },
        };
        let is_selected = self.selects_object(subject) && self.selects_namespace(subject).await?;
        Ok(is_selected.then_some(matched))
    }

    /// Returns the version in which one of the rules matches: the request's, or else another one.
    fn find(&self, rules: &[Rule], write: AdmittedWrite<'_>, registry: &Registry) -> Option<Matched> {
        let probe = probe(write);
        if rules.iter().any(|rule| rule.matches(probe)) {
            return Some(Matched::Requested);
        }
        if !self.is_equivalent {
            return None;
        }
        let others = || {
            registry.resources().iter().filter(|other| {
                other.group == probe.group && other.plural == probe.resource && other.version != probe.version
            })
        };
        rules.iter().find_map(|rule| {
            let found = others().find(|other| rule.matches(Probe { version: &other.version, ..probe }));
            found.map(|other| Matched::Other(Arc::clone(other)))
        })
    }

    fn selects_object(&self, subject: Subject<'_>) -> bool {
        let is_selected =
            |object: Option<&Value>| object.is_some_and(|it| self.objects.matches(object::labels(it)));
        self.objects.is_empty() || is_selected(subject.object) || is_selected(subject.write.old)
    }

    /// Cluster-scoped objects other than namespaces are in no namespace, and always selected.
    async fn selects_namespace(&self, subject: Subject<'_>) -> ApiResult<bool> {
        let write = subject.write;
        let is_namespace = is_namespace(write.resource);
        if self.namespaces.is_empty() || (write.namespace.is_empty() && !is_namespace) {
            return Ok(true);
        }
        if let Some(object) = subject
            .object
            .filter(|_| is_namespace && write.subresource.is_empty() && write.operation != Operation::Delete)
        {
            return Ok(self.namespaces.matches(object::labels(object)));
        }
        let name = if is_namespace { write.name } else { write.namespace };
        match subject.store.namespace_object(name).await? {
            Some(namespace) => Ok(self.namespaces.matches(object::labels(&namespace))),
            None => Err(missing_namespace(subject.store, name)),
        }
    }
}

fn missing_namespace(store: &ObjectStore, name: &str) -> ApiError {
    match store.kind_of("", "namespaces") {
        Some(kind) => ApiError::not_found(kind.resource, name),
        None => ApiError::internal(format!("namespace {name:?} does not exist")),
    }
}

pub(crate) fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "namespaces"
}

fn probe(write: AdmittedWrite<'_>) -> Probe<'_> {
    Probe {
        operation: write.operation.word(),
        group: &write.resource.group,
        version: &write.resource.version,
        resource: &write.resource.plural,
        subresource: write.subresource,
        is_namespaced: !write.namespace.is_empty() && !is_namespace(write.resource),
        name: write.name,
    }
}
