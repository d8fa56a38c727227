//! Handlers of all extension servers, as one pass of a controller sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apiserver_types::ExtensionConfig;
use controllers_runtime::{ControllerContext, PolicyRule, SecretSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use kube::Api;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt as _};

use crate::call::{Sending, merged};
use crate::error::{Called, Cause, ExtensionError};
use crate::{AnswerCache, ExtensionServers, Handler, Hook, HookRequest, JoinedResponse};

/// Permission of a controller that reads the handlers of extension servers.
pub const READ_HANDLERS: PolicyRule =
    PolicyRule { groups: &["runtime.cluster.x-k8s.io"], resources: &["extensionconfigs"], verbs: &["list"] };

/// Permission of a controller that calls handlers: the labels of Namespaces decide which are called.
pub const READ_NAMESPACES: PolicyRule =
    PolicyRule { groups: &[""], resources: &["namespaces"], verbs: &["get"] };

/// Settings of a call without settings of its own.
pub static NO_SETTINGS: BTreeMap<String, String> = BTreeMap::new();

/// Call of one handler.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Full name of the handler: `<handler>.<ExtensionConfig>`.
    pub handler: &'a str,
    /// Namespace of the object that the call is about. The ExtensionConfig must select it.
    pub namespace: &'a str,
    /// Settings of the call. They win over those of the ExtensionConfig.
    pub settings: &'a BTreeMap<String, String>,
}

/// Cache of a call.
#[derive(Debug)]
pub struct Caching<'a, V> {
    /// Answers of earlier calls.
    pub cache: &'a AnswerCache<V>,
    /// Values on which the answer depends, besides hook, handler, ExtensionConfig and settings, which are added.
    pub key: &'a str,
    /// Time for which an answer is kept.
    pub time: Duration,
}

/// Handlers of all extension servers.
#[derive(Clone)]
pub struct Extensions {
    /// In the order of their names, first by that of the ExtensionConfig.
    handlers: Vec<Handler>,
    namespaces: Arc<dyn SecretSource>,
    servers: ExtensionServers,
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("handlers", &self.handlers).finish_non_exhaustive()
    }
}

impl Extensions {
    /// Reads the handlers that all ExtensionConfigs list. A handler stays listed while its server does not answer.
    ///
    /// # Errors
    /// The API's own failure.
    pub async fn read(context: &ControllerContext, servers: &ExtensionServers) -> Result<Self, kube::Error> {
        let api: Api<ExtensionConfig> = Api::all(context.client.clone());
        let configs = api.list(&ListParams::default()).await?.items;
        Ok(Self::of(configs, Arc::clone(&context.secrets), servers))
    }

    /// Returns the handlers of these ExtensionConfigs. `namespaces` is the source of Namespaces, in a host cluster or here.
    pub fn of(
        mut configs: Vec<ExtensionConfig>,
        namespaces: Arc<dyn SecretSource>,
        servers: &ExtensionServers,
    ) -> Self {
        configs.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let mut handlers = Vec::new();
        for config in configs {
            let mut own = Handler::of(config);
            own.sort_by(|a, b| a.name().cmp(b.name()));
            handlers.extend(own);
        }
        Self { handlers, namespaces, servers: servers.clone() }
    }

    /// Returns true if a handler is registered for a hook, in whatever namespaces.
    pub fn has(&self, hook: Hook) -> bool {
        self.handlers.iter().any(|handler| handler.hook() == hook)
    }

    /// Returns the handlers of a hook for objects in a namespace, in the order in which they are called: by the names of their
    /// ExtensionConfigs, then by their own.
    ///
    /// # Errors
    /// A selector cannot be used, or the Namespace cannot be read.
    pub async fn handlers(&self, hook: Hook, namespace: &str) -> Result<Vec<&Handler>, ExtensionError> {
        let mut found = Vec::new();
        let mut labels = None;
        for handler in self.handlers.iter().filter(|handler| handler.hook() == hook) {
            if self.selects(handler, namespace, &mut labels).await? {
                found.push(handler);
            }
        }
        Ok(found)
    }

    /// Calls all handlers of a hook for an object in a namespace, one after the other, and joins their answers. Without a
    /// handler, the answer is that of servers that agree.
    ///
    /// # Errors
    /// The first failure or refusal. The handlers after it are not called.
    pub async fn call_all<R>(&self, namespace: &str, request: &R) -> Result<R::Response, ExtensionError>
    where
        R: HookRequest,
        R::Response: JoinedResponse,
    {
        let mut responses = Vec::new();
        for handler in self.handlers(R::HOOK, namespace).await? {
            let answer = self.answer(handler, &NO_SETTINGS, request).await?;
            responses.push(answer.unwrap_or_default());
        }
        Ok(R::Response::join(responses))
    }

    /// Calls one handler.
    ///
    /// # Errors
    /// The handler is not registered for the hook of the request, its ExtensionConfig does not select the namespace, or the
    /// call failed or was refused.
    pub async fn call<R: HookRequest>(
        &self,
        call: &Call<'_>,
        request: &R,
    ) -> Result<R::Response, ExtensionError> {
        let handler = self.called_for::<R>(call).await?;
        Ok(self.answer(handler, call.settings, request).await?.unwrap_or_default())
    }

    /// Calls one handler as [`call`](Self::call) does, unless an earlier answer is kept. The answer that a failure policy puts
    /// in place of a missing one is not kept.
    ///
    /// # Errors
    /// As of `call`.
    pub async fn call_cached<R: HookRequest>(
        &self,
        caching: &Caching<'_, R::Response>,
        call: &Call<'_>,
        request: &R,
    ) -> Result<R::Response, ExtensionError> {
        let handler = self.called_for::<R>(call).await?;
        let settings = merged(handler.config().spec.settings.as_ref(), call.settings);
        let (hook, name, version) = (R::HOOK, handler.name(), handler.version());
        let key = format!("{hook}/{name}/{version}/{settings:?}/{}", caching.key);
        if let Some((kept, _)) = caching.cache.get(&key) {
            return Ok(kept);
        }
        let answer = self.answer(handler, call.settings, request).await?;
        if let Some(answer) = &answer {
            caching.cache.keep(key, answer.clone(), caching.time);
        }
        Ok(answer.unwrap_or_default())
    }

    /// Returns the handler of a call.
    async fn called_for<R: HookRequest>(&self, call: &Call<'_>) -> Result<&Handler, ExtensionError> {
        let found = self.handlers.iter().find(|handler| handler.name() == call.handler);
        let Some(handler) = found.filter(|handler| handler.hook() == R::HOOK) else {
            // Names of handlers have no dots, and those of ExtensionConfigs neither.
            let config = call.handler.split_once('.').map_or(call.handler, |(_, config)| config);
            let called = Called { config, handler: Some(call.handler), hook: R::HOOK };
            let why = match found {
                Some(other) => format!("the handler serves the hook {}", other.hook()),
                None => "the handler is not registered".to_owned(),
            };
            return Err(called.failed(Cause::NotRegistered, why));
        };
        if self.selects(handler, call.namespace, &mut None).await? {
            return Ok(handler);
        }
        let why = format!("the ExtensionConfig does not select the namespace {}", call.namespace);
        Err(handler.called().failed(Cause::NotSelected, why))
    }

    /// Calls a handler; `None` if it does not answer and its failure policy ignores that.
    async fn answer<R: HookRequest>(
        &self,
        handler: &Handler,
        settings: &BTreeMap<String, String>,
        request: &R,
    ) -> Result<Option<R::Response>, ExtensionError> {
        let spec = &handler.config().spec;
        let settings = merged(spec.settings.as_ref(), settings);
        let sending = Sending {
            servers: &self.servers,
            called: handler.called(),
            config: &spec.client_config,
            handler: Some(handler.short_name()),
            timeout: handler.timeout(),
            settings: &settings,
        };
        match sending.send(request).await {
            Err(error) if error.cause() == Some(Cause::NoAnswer) && handler.ignores_failures() => {
                let handler = handler.name();
                tracing::warn!(handler, %error, "call of an extension failed; its failurePolicy ignores it");
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// Returns true if the ExtensionConfig of a handler selects a namespace. `labels` are those of the namespace, once they are
    /// read.
    async fn selects(
        &self,
        handler: &Handler,
        namespace: &str,
        labels: &mut Option<BTreeMap<String, String>>,
    ) -> Result<bool, ExtensionError> {
        let selector = selector(handler)?;
        if selector.selects_all() {
            return Ok(true);
        }
        if labels.is_none() {
            let Some(found) = self.namespaces.namespace(namespace).await? else {
                let why = format!("the namespace {namespace} does not exist, so its labels are not known");
                return Err(handler.called().failed(Cause::NotSelected, why));
            };
            *labels = Some(found.metadata.labels.unwrap_or_default());
        }
        Ok(labels.as_ref().is_some_and(|labels| selector.matches(labels)))
    }
}

/// Returns the selector of namespaces of a handler. Without one, all are selected.
fn selector(handler: &Handler) -> Result<Selector, ExtensionError> {
    let given = handler.config().spec.namespace_selector.clone().unwrap_or_default();
    let terms = given.match_expressions.map(|terms| {
        let term = |it: apiserver_types::LabelSelectorRequirement| LabelSelectorRequirement {
            key: it.key,
            operator: it.operator,
            values: it.values,
        };
        terms.into_iter().map(term).collect()
    });
    let selector = LabelSelector { match_expressions: terms, match_labels: given.match_labels };
    Selector::try_from(selector).map_err(|error| {
        handler.called().failed(Cause::Misconfigured, format!("spec.namespaceSelector: {error}"))
    })
}

#[cfg(test)]
#[path = "extensions_tests.rs"]
mod tests;
