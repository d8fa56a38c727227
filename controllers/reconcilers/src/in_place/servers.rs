//! The server that updates Machines in place: the only one that serves a hook.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use controllers_extensions::{AnswerCache, ExtensionError, Extensions, Hook};
use controllers_runtime::Backoff;
use serde_json::Value;

/// Answer of a server, or a text for people that says why there is none. The outer error is the API's own.
pub(crate) type Answered<T> = Result<Result<T, String>, kube::Error>;

/// Failures of calls, by uid of the object. Until the next call is due, they stay: each pass would make one.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    texts: AnswerCache<String>,
    backoff: Backoff,
}

impl Failures {
    /// Returns the failure of an object, and the time until the next call.
    pub(crate) fn get(&self, uid: &str) -> Option<(String, Duration)> {
        self.texts.get(uid)
    }

    /// Notes a failure. Returns it with the time until the next call: 1, 2, 4 … 60 seconds.
    pub(crate) fn note(&self, uid: &str, text: String) -> (String, Duration) {
        let wait = self.backoff.failed(uid, Duration::ZERO);
        self.texts.keep(uid.to_owned(), text.clone(), wait);
        (text, wait)
    }

    /// Forgets the failures of an object.
    pub(crate) fn forget(&self, uid: &str) {
        self.texts.forget(uid);
        self.backoff.reset(uid);
    }
}

/// Tells the API's own failure from that of a call.
pub(crate) fn answered<T>(result: Result<T, ExtensionError>) -> Answered<T> {
    match result {
        Ok(answer) => Ok(Ok(answer)),
        Err(ExtensionError::Api(error)) => Err(error),
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Returns the name of the only handler of a hook for objects in a namespace; `None` without one. Several are an error: their
/// updates could undo each other.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn only_handler(
    extensions: &Extensions,
    hook: Hook,
    namespace: &str,
) -> Answered<Option<String>> {
    let handlers = match answered(extensions.handlers(hook, namespace).await)? {
        Ok(handlers) => handlers,
        Err(text) => return Ok(Err(text)),
    };
    Ok(match handlers.as_slice() {
        [] => Ok(None),
        [handler] => Ok(Some(handler.name().to_owned())),
        several => {
            let names: Vec<&str> = several.iter().map(|handler| handler.name()).collect();
            let names = names.join(", ");
            Err(format!(
                "several handlers serve the hook {hook} in namespace {namespace}: {names}. Only one may. Delete an \
                 ExtensionConfig, or change its spec.namespaceSelector"
            ))
        }
    })
}

/// Returns a text that another text stands for in the key of a cache.
pub(crate) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a Value>) -> String {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        part.to_string().hash(&mut hasher);
    }
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failure_stays_until_the_next_call_which_is_later_each_time() {
        let failures = Failures::default();
        assert_eq!(failures.get("u"), None);
        let seconds: Vec<u64> = (0..3).map(|_| failures.note("u", "no".to_owned()).1.as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4]);
        assert_eq!(failures.get("u").map(|(text, _)| text).as_deref(), Some("no"));
        failures.forget("u");
        assert_eq!(failures.get("u"), None);
        assert_eq!(failures.note("u", "no".to_owned()).1.as_secs(), 1);
    }

    #[test]
    fn a_fingerprint_changes_with_each_part() {
        let (a, b) = (json!({"a": 1}), json!({"a": 2}));
        assert_eq!(fingerprint([&a, &b]), fingerprint([&a, &b]));
        assert_ne!(fingerprint([&a, &b]), fingerprint([&b, &a]));
        assert_ne!(fingerprint([&a]), fingerprint([&a, &b]));
    }
}
