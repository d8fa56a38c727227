//! Handlers that ExtensionConfigs list.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{ExtensionConfig, ExtensionHandler, FailurePolicy};
use kube::ResourceExt;

use crate::Hook;
use crate::error::Called;

/// Timeout of a call of a handler that states none. Upstream's.
pub(crate) const DEFAULT_TIMEOUT_SECONDS: i32 = 10;

/// Longest timeout of a call. A pass waits for it, so it is short. Upstream's.
pub(crate) const LONGEST_TIMEOUT_SECONDS: i32 = 30;

/// Handler of an extension server.
#[derive(Debug, Clone)]
pub struct Handler {
    name: String,
    hook: Hook,
    timeout: Duration,
    ignores_failures: bool,
    config: Arc<ExtensionConfig>,
}

impl Handler {
    /// Returns the handlers of an ExtensionConfig. One that is being deleted has none. Hooks that are not known are left out.
    pub(crate) fn of(config: ExtensionConfig) -> Vec<Self> {
        if config.metadata.deletion_timestamp.is_some() {
            return Vec::new();
        }
        let config = Arc::new(config);
        let listed = config.status.iter().flat_map(|status| status.handlers.iter().flatten());
        listed.filter_map(|listed| Self::read(listed, &config)).collect()
    }

    fn read(listed: &ExtensionHandler, config: &Arc<ExtensionConfig>) -> Option<Self> {
        let hook = Hook::of(&listed.request_hook.api_version, &listed.request_hook.hook)?;
        Some(Self {
            name: listed.name.clone(),
            hook,
            timeout: timeout(listed.timeout_seconds),
            ignores_failures: listed.failure_policy == Some(FailurePolicy::Ignore),
            config: Arc::clone(config),
        })
    }

    /// Returns the full name: that of the server's discovery, a dot, and the name of the ExtensionConfig.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the hook.
    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// Returns a text that changes with each change of the ExtensionConfig, for keys of caches.
    pub fn version(&self) -> String {
        let of = |part: Option<String>| part.unwrap_or_default();
        format!("{}/{}", of(self.config.uid()), of(self.config.resource_version()))
    }

    /// Returns the name in the server's discovery.
    pub(crate) fn short_name(&self) -> &str {
        let suffix = self.config.metadata.name.as_deref().unwrap_or_default();
        let short = self.name.strip_suffix(suffix).and_then(|name| name.strip_suffix('.'));
        short.unwrap_or(&self.name)
    }

    /// Returns the timeout of a call.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns true if a server that does not answer counts as one that agrees.
    pub(crate) fn ignores_failures(&self) -> bool {
        self.ignores_failures
    }

    /// Returns the ExtensionConfig.
    pub(crate) fn config(&self) -> &ExtensionConfig {
        &self.config
    }

    /// Returns the handler, for the texts of errors.
    pub(crate) fn called(&self) -> Called<'_> {
        let config = self.config.metadata.name.as_deref().unwrap_or_default();
        Called { config, handler: Some(&self.name), hook: self.hook }
    }
}

/// Returns the timeout of a listed handler. The status may have been written by another program.
fn timeout(seconds: Option<i32>) -> Duration {
    let seconds = seconds.filter(|seconds| *seconds > 0).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    Duration::from_secs(seconds.min(LONGEST_TIMEOUT_SECONDS).unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
    fn config(handlers: serde_json::Value) -> ExtensionConfig {
        serde_json::from_value(json!({
            "metadata": {"name": "ext", "uid": "u", "resourceVersion": "7"},
            "spec": {"clientConfig": {"url": "https://a.example"}}, "status": {"handlers": handlers},
        }))
        .unwrap()
    }

    fn listed(name: &str, hook: &str) -> serde_json::Value {
        json!({"name": name, "requestHook": {"apiVersion": crate::API_VERSION, "hook": hook}})
    }

    #[test]
    fn a_handler_is_as_its_config_lists_it_and_unknown_hooks_are_left_out() {
        let mut first = listed("gate.ext", "BeforeClusterCreate");
        first["timeoutSeconds"] = json!(3);
        first["failurePolicy"] = json!("Ignore");
        let (unknown, other) = (listed("x.ext", "AfterLunch"), listed("y.ext", "UpdateMachine"));
        let found = Handler::of(config(json!([first, unknown, other])));
        let shown = |it: &Handler| (it.name().to_owned(), it.short_name().to_owned(), it.timeout().as_secs());
        let shown: Vec<_> = found.iter().map(shown).collect();
        let expected = [("gate.ext", "gate", 3), ("y.ext", "y", 10)];
        let owned = |(name, short, seconds): (&str, &str, u64)| (name.to_owned(), short.to_owned(), seconds);
        assert_eq!(shown, expected.map(owned));
        assert_eq!(found.iter().map(Handler::ignores_failures).collect::<Vec<_>>(), [true, false]);
        assert_eq!((found[0].hook(), found[0].version().as_str()), (Hook::BeforeClusterCreate, "u/7"));
    }

    #[test]
    fn a_config_that_is_being_deleted_has_no_handlers() {
        let mut config = config(json!([listed("gate.ext", "BeforeClusterCreate")]));
        assert_eq!(Handler::of(config.clone()).len(), 1);
        config.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-21T06:00:00Z")).unwrap();
        assert!(Handler::of(config).is_empty());
    }

    #[test]
    fn a_timeout_is_between_1_and_30_seconds() {
        let seconds = |listed: Option<i32>| timeout(listed).as_secs();
        let listed = [None, Some(0), Some(-1), Some(1), Some(30), Some(99)];
        assert_eq!(listed.map(seconds), [10, 10, 10, 1, 30, 30]);
    }
}
