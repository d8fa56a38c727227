//! Snapshot: all configurations in force, compiled.

use apiserver_machinery::object;
use serde_json::Value;

use crate::policies::{self, MutatingPolicy, Policy};
use crate::value::{entries, text};
use crate::webhooks::{self, Clients, Hook};

/// Source of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Objects in the store.
    Objects,
    /// Files of this server.
    Files,
}

/// All configurations in force.
#[derive(Debug, Default)]
pub struct Configurations {
    /// Mutating webhooks in the order of their calls.
    pub(crate) mutating: Vec<Hook>,
    pub(crate) validating: Vec<Hook>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) mutating_policies: Vec<MutatingPolicy>,
}

impl Configurations {
    /// Compiles configurations of any kind. Those of files come first. A part that cannot be compiled fails the writes
    /// that it is for, as its failure policy says.
    pub fn compile(files: &[Value], objects: &[Value], clients: &Clients) -> Self {
        let mut all = Self::default();
        for (source, found) in [(Source::Files, files), (Source::Objects, objects)] {
            let of_kind = |kind: &str| {
                let mut found: Vec<&Value> = found.iter().filter(|it| text(it, "kind") == kind).collect();
                found.sort_by_key(|it| object::name(it));
                found
            };
            for (kind, hooks) in [
                ("MutatingWebhookConfiguration", &mut all.mutating),
                ("ValidatingWebhookConfiguration", &mut all.validating),
            ] {
                let compiled =
                    of_kind(kind).into_iter().flat_map(|it| webhooks::compile(kind, it, source, clients));
                hooks.extend(compiled);
            }
            let bindings = of_kind("ValidatingAdmissionPolicyBinding");
            let policies = of_kind("ValidatingAdmissionPolicy").into_iter();
            all.policies.extend(policies.map(|policy| policies::compile(policy, &bindings)));
            let bindings = of_kind("MutatingAdmissionPolicyBinding");
            let policies = of_kind("MutatingAdmissionPolicy").into_iter();
            let compiled = policies.map(|policy| policies::compile_mutating(policy, &bindings));
            all.mutating_policies.extend(compiled);
        }
        let configurations = files.iter().chain(objects);
        let bundles: Vec<&str> = configurations
            .flat_map(|it| entries(it, "webhooks"))
            .map(|hook| hook.get("clientConfig").map_or("", |client| text(client, "caBundle")))
            .collect();
        clients.keep(&bundles);
        all
    }

    /// Returns true if no configuration can apply to writes of this resource.
    pub(crate) fn spares(&self, group: &str, resource: &str) -> bool {
        let hooks = self.mutating.iter().chain(&self.validating);
        !hooks.into_iter().any(|hook| hook.may_concern(group, resource))
            && !self.bases().any(|base| base.may_concern(group, resource))
    }

    /// Returns true if there are no configurations.
    pub(crate) fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.bases().next().is_none()
    }

    /// Returns the common parts of all policies.
    fn bases(&self) -> impl Iterator<Item = &policies::Base> {
        let validating = self.policies.iter().map(|policy| &policy.base);
        validating.chain(self.mutating_policies.iter().map(|policy| &policy.base))
    }
}
