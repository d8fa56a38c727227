//! Snapshot: all configurations in force, compiled.

use std::collections::BTreeSet;
use std::sync::Arc;

use apiserver_machinery::object;
use apiserver_machinery::resource::Resource;
use serde_json::Value;

use crate::expressions::Uncompiled;
use crate::host::HostCluster;
use crate::policies::{self, MutatingPolicy, Policy};
use crate::value::text;
use crate::webhooks::{self, Clients, Hook};

/// Source of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Objects in the store.
    Objects,
    /// Files of this server.
    Files,
    /// Objects of the host cluster.
    Host,
}

impl Source {
    /// Returns true if configurations of this source apply to a kind. Those of the host mean the kinds that the host
    /// serves through Capstan: its ConfigMaps are not those of the direct endpoint.
    pub(crate) const fn governs(self, resource: &Resource) -> bool {
        match self {
            Self::Objects | Self::Files => true,
            Self::Host => resource.hosted,
        }
    }

    /// Returns its name in the log and in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Files => "files",
            Self::Host => "host",
        }
    }
}

/// Host cluster with its configurations.
#[derive(Debug, Clone, Copy)]
pub struct HostPart<'a> {
    /// State of the host, and the way to its webhooks.
    pub cluster: &'a Arc<dyn HostCluster>,
    /// Configurations that apply; `None` if they have never been read.
    pub applied: Option<&'a [Value]>,
}

/// Configurations of all sources. Equal names in two sources are different configurations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Joined<'a> {
    /// Those of files, which come first.
    pub files: &'a [Value],
    /// Those of the store.
    pub objects: &'a [Value],
    /// Those of the host cluster, which come last; `None` if they do not apply here.
    pub host: Option<HostPart<'a>>,
}

/// All configurations in force.
#[derive(Debug, Default)]
pub struct Configurations {
    /// Mutating webhooks in the order of their calls.
    pub(crate) mutating: Vec<Hook>,
    pub(crate) validating: Vec<Hook>,
    pub(crate) policies: Vec<Policy>,
    pub(crate) mutating_policies: Vec<MutatingPolicy>,
    /// Host cluster whose configurations apply.
    pub(crate) host: Option<Arc<dyn HostCluster>>,
    /// True if configurations of the host must apply and have never been read.
    pub(crate) is_host_unread: bool,
    uncompiled: BTreeSet<Uncompiled>,
}

impl Configurations {
    /// Compiles configurations of any kind. Within a kind, the sources keep their order. A binding puts only policies of
    /// its own source into force. A part that cannot be compiled fails the writes that it is for, as its failure policy
    /// says.
    pub fn join(joined: Joined<'_>, clients: &Clients) -> Self {
        let Joined { files, objects, host } = joined;
        let mut all = Self {
            host: host.map(|host| Arc::clone(host.cluster)),
            is_host_unread: host.is_some_and(|host| host.applied.is_none()),
            ..Self::default()
        };
        let host = host.and_then(|host| host.applied).unwrap_or_default();
        for (source, found) in [(Source::Files, files), (Source::Objects, objects), (Source::Host, host)] {
            let of_kind = |kind: &str| {
                let mut found: Vec<&Value> = found.iter().filter(|it| text(it, "kind") == kind).collect();
                found.sort_by_key(|it| object::name(it));
                found
            };
            for (kind, hooks) in [
                ("MutatingWebhookConfiguration", &mut all.mutating),
                ("ValidatingWebhookConfiguration", &mut all.validating),
            ] {
                for configuration in of_kind(kind) {
                    let uncompiled = &mut all.uncompiled;
                    hooks.extend(webhooks::compile(kind, configuration, source, clients, uncompiled));
                }
            }
            let bindings = of_kind("ValidatingAdmissionPolicyBinding");
            let policies = of_kind("ValidatingAdmissionPolicy").into_iter();
            let uncompiled = &mut all.uncompiled;
            let compiled = policies.map(|policy| policies::compile(policy, &bindings, source, uncompiled));
            all.policies.extend(compiled);
            let bindings = of_kind("MutatingAdmissionPolicyBinding");
            let policies = of_kind("MutatingAdmissionPolicy").into_iter();
            let uncompiled = &mut all.uncompiled;
            let compiled =
                policies.map(|policy| policies::compile_mutating(policy, &bindings, source, uncompiled));
            all.mutating_policies.extend(compiled);
        }
        clients.keep(all.mutating.iter().chain(&all.validating).map(|hook| &hook.target.key));
        all
    }

    /// Returns the number of expressions that cannot be compiled, by the source of their configurations: `files`,
    /// `objects` or `host`.
    pub fn uncompiled(&self) -> [(&'static str, usize); 3] {
        [Source::Files, Source::Objects, Source::Host].map(|source| {
            let of_source = self.uncompiled.iter().filter(|one| one.source == source);
            (source.name(), of_source.count())
        })
    }

    /// Logs the expressions that cannot be compiled, except for those that could not be before. So each is logged once
    /// for each generation of its configuration.
    pub(crate) fn log_uncompiled(&self, before: Option<&Self>) {
        self.newly_uncompiled(before).for_each(Uncompiled::log);
    }

    fn newly_uncompiled<'a>(&'a self, before: Option<&'a Self>) -> impl Iterator<Item = &'a Uncompiled> {
        let known = before.map(|before| &before.uncompiled);
        let is_new = move |one: &&'a Uncompiled| known.is_none_or(|known| !known.contains(*one));
        self.uncompiled.iter().filter(is_new)
    }

    /// Returns true if no configuration can apply to writes of this resource.
    pub(crate) fn spares(&self, group: &str, resource: &str) -> bool {
        if self.is_host_in_doubt() {
            return false;
        }
        let hooks = self.mutating.iter().chain(&self.validating);
        !hooks.into_iter().any(|hook| hook.may_concern(group, resource))
            && !self.bases().any(|base| base.may_concern(group, resource))
    }

    /// Returns true if there are no configurations.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_host_in_doubt()
            && self.mutating.is_empty()
            && self.validating.is_empty()
            && self.bases().next().is_none()
    }

    /// Returns true if the host may have configurations or quotas that cannot decide. The audit event of a client that
    /// passes them must say so.
    fn is_host_in_doubt(&self) -> bool {
        self.is_host_unread || self.host.as_ref().is_some_and(|host| !host.can_quotas_decide())
    }

    /// Returns the common parts of all policies.
    fn bases(&self) -> impl Iterator<Item = &policies::Base> {
        let validating = self.policies.iter().map(|policy| &policy.base);
        validating.chain(self.mutating_policies.iter().map(|policy| &policy.base))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::SocketAddr;

    use apiserver_machinery::metadata;
    use apiserver_machinery::strategy::Plain;
    use apiserver_schema::KindSchema;
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;
    use crate::host::{HostContact, HostParameters, HostService};

    /// Host that is up, and has no Services. The value is true if its quotas can decide.
    #[derive(Debug)]
    struct Bare(bool);

    #[async_trait]
    impl HostCluster for Bare {
        fn contact(&self) -> HostContact {
            HostContact::Up
        }

        fn can_quotas_decide(&self) -> bool {
            self.0
        }

        async fn addresses(&self, service: &HostService) -> Result<Vec<SocketAddr>, String> {
            Err(format!("{service} is missing"))
        }

        async fn parameters(&self, wanted: &HostParameters, _: &str) -> Result<Vec<Arc<Value>>, String> {
            Err(format!("{wanted} is missing"))
        }
    }

    fn join(own: &[Value], host: Option<&[Value]>) -> Configurations {
        join_with(Bare(true), own, host)
    }

    fn join_with(cluster: Bare, own: &[Value], host: Option<&[Value]>) -> Configurations {
        let cluster: Arc<dyn HostCluster> = Arc::new(cluster);
        let host = HostPart { cluster: &cluster, applied: host };
        let joined = Joined { objects: own, host: Some(host), ..Joined::default() };
        Configurations::join(joined, &Clients::default())
    }

    /// Returns a kind of the host cluster, or of the direct endpoint alone.
    pub(crate) fn kind(hosted: bool) -> Resource {
        Resource {
            group: "toys.example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Gadget".to_owned(),
            plural: "gadgets".to_owned(),
            singular: "gadget".to_owned(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            status_subresource: false,
            scale: None,
            deprecation: None,
            conversion: None,
            generation: true,
            hosted,
            columns: Vec::new(),
            selectable: Vec::new(),
            schema: KindSchema::new(metadata::RULES, || json!({"type": "object"})),
            strategy: Arc::new(Plain),
            verbs: Vec::new(),
            preview: None,
        }
    }

    fn webhooks(url: &str) -> Value {
        json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "same"},
            "webhooks": [{"name": "a.example.com", "clientConfig": {"url": url}}]})
    }

    fn policy(binding: Option<&str>) -> Vec<Value> {
        let policy = json!({"kind": "ValidatingAdmissionPolicy", "metadata": {"name": "same"},
            "spec": {"validations": [{"expression": "true"}]}});
        let binding = binding.map(|name| {
            json!({"kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
                "spec": {"policyName": "same", "validationActions": ["Deny"]}})
        });
        std::iter::once(policy).chain(binding).collect()
    }

    #[test]
    fn equal_names_of_sources_do_not_clash() {
        let all = join(&[webhooks("https://own")], Some(&[webhooks("https://host")]));
        let found: Vec<_> =
            all.validating.iter().map(|hook| (hook.source, hook.target.url.as_str())).collect();
        assert_eq!(found, [(Source::Objects, "https://own"), (Source::Host, "https://host")]);
    }

    #[test]
    fn a_binding_of_the_host_leaves_own_policies_alone() {
        let all = join(&policy(None), Some(&policy(Some("of-host"))));
        let bound: Vec<_> = all.policies.iter().map(|it| (it.base.source, it.base.bindings.len())).collect();
        assert_eq!(bound, [(Source::Objects, 0), (Source::Host, 1)]);
    }

    #[test]
    fn an_expression_that_cannot_be_compiled_is_logged_once_for_each_generation() {
        let of = |generation: u64| {
            let mut policies = policy(Some("b"));
            policies[0]["metadata"]["generation"] = json!(generation);
            policies[0]["spec"]["validations"][0]["expression"] = json!("object.");
            join(&policies, Some(&policies))
        };
        let (first, same, next) = (of(1), of(1), of(2));
        assert_eq!(first.uncompiled(), [("files", 0), ("objects", 1), ("host", 1)]);
        let shown = format!("{:?}", first.uncompiled);
        assert!(shown.contains("spec.validations[0].expression"), "{shown}");
        let count =
            |now: &Configurations, before: Option<&Configurations>| now.newly_uncompiled(before).count();
        assert_eq!(count(&first, None), 2);
        assert_eq!(count(&same, Some(&first)), 0);
        assert_eq!(count(&next, Some(&same)), 2);
    }

    #[test]
    fn the_host_governs_only_what_it_serves() {
        for source in [Source::Files, Source::Objects] {
            assert!(source.governs(&kind(true)) && source.governs(&kind(false)));
        }
        assert!(Source::Host.governs(&kind(true)) && !Source::Host.governs(&kind(false)));
    }

    #[test]
    fn without_the_configurations_and_quotas_of_the_host_no_write_is_spared() {
        for unread in [join(&[], None), join_with(Bare(false), &[], Some(&[]))] {
            assert!(!unread.is_empty() && !unread.spares("toys.example.com", "gadgets"));
        }
        let read = join(&[], Some(&[]));
        assert!(read.is_empty() && read.spares("toys.example.com", "gadgets"));
    }
}
