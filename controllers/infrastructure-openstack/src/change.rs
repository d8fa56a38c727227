//! Call that changes a cloud, from its permit to its end, with the global request id that OpenStack logs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use controllers_infrastructure::{CallPermit, CallScope, OpenCall};
use uuid::{Builder, Uuid};

/// Header with the global request id. Each service logs it beside its own request id, and passes it on to the services
/// that it calls.
pub(crate) const REQUEST_ID: &str = "X-OpenStack-Request-ID";

/// Namespace of the ids, a random UUID.
const NAMESPACE: Uuid = Uuid::from_u128(0x7c1d_4e0a_93b5_4f6e_8a27_51d0_c3fe_6b94);

/// Number of calls of this process that change a cloud. A term of a leader is in one process, so its calls have different
/// numbers.
static ATTEMPTS: AtomicU64 = AtomicU64::new(0);

/// Call that changes a cloud. If it is dropped before its end, the cloud may still work on it.
#[derive(Debug)]
pub(crate) struct Change {
    permit: Arc<dyn CallPermit>,
    _in_flight: Option<OpenCall>,
    id: Option<String>,
    has_ended: bool,
}

impl Change {
    /// Waits for the permit of a call, and begins it. `step` names the call, such as `POST /servers`.
    ///
    /// If the pass or the process begins no more calls, the future does not complete.
    pub(crate) async fn begin(permit: &Arc<dyn CallPermit>, step: &str) -> Self {
        permit.granted().await;
        let scope = CallScope::current();
        let in_flight = match scope.as_ref().map(CallScope::begin) {
            None => None,
            Some(Some(call)) => Some(call),
            Some(None) => std::future::pending().await,
        };
        if !permit.begin() {
            drop(in_flight);
            return std::future::pending().await;
        }
        let id = scope.map(|scope| global_request_id(scope.object(), step, permit.epoch()));
        Self { permit: Arc::clone(permit), _in_flight: in_flight, id, has_ended: false }
    }

    /// Returns the global request id; `None` for a call outside of a pass.
    pub(crate) fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns the permit of the call.
    pub(crate) const fn permit(&self) -> &Arc<dyn CallPermit> {
        &self.permit
    }

    /// Records that the call has ended: there was a response, or its timeout has passed.
    pub(crate) fn ended(&mut self) {
        self.has_ended = true;
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.permit.end(self.has_ended);
    }
}

/// Returns the id of the next call, and logs its parts.
fn global_request_id(object: &str, step: &str, epoch: Option<u64>) -> String {
    let attempt = ATTEMPTS.fetch_add(1, Ordering::Relaxed);
    let id = request_id(object, step, epoch, attempt);
    tracing::debug!(
        request.global_id = id,
        object.uid = object,
        step,
        epoch,
        attempt,
        "sending a cloud call"
    );
    id
}

/// Returns `req-` and the UUID of version 5 of a call. OpenStack ignores an id in another format.
fn request_id(object: &str, step: &str, epoch: Option<u64>, attempt: u64) -> String {
    let epoch = epoch.unwrap_or_default();
    let name = format!("{object} {step} {epoch} {attempt}");
    let named = [NAMESPACE.as_bytes().as_slice(), name.as_bytes()].concat();
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &named);
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.as_ref()).for_each(|(byte, hashed)| *byte = *hashed);
    format!("req-{}", Builder::from_sha1_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Permit that records the ends of calls.
    #[derive(Debug, Default)]
    struct Ends(Mutex<Vec<bool>>);

    #[async_trait::async_trait]
    impl CallPermit for Ends {
        async fn granted(&self) {}

        fn end(&self, has_ended: bool) {
            self.0.lock().unwrap().push(has_ended);
        }
    }

    #[test]
    fn hv_02_each_call_has_a_request_id_of_its_own_in_the_format_of_openstack() {
        let one = request_id("u1", "POST /servers", Some(7), 1);
        assert_eq!(one, request_id("u1", "POST /servers", Some(7), 1));
        let others = [
            request_id("u2", "POST /servers", Some(7), 1),
            request_id("u1", "POST /ports", Some(7), 1),
            request_id("u1", "POST /servers", Some(8), 1),
            request_id("u1", "POST /servers", Some(7), 2),
        ];
        assert!(!others.contains(&one), "{one} {others:?}");
        let uuid: Uuid = one.strip_prefix("req-").unwrap().parse().unwrap();
        assert_eq!(uuid.get_version_num(), 5);
        assert_eq!(one.len(), "req-".len() + 36);
    }

    #[tokio::test]
    async fn hv_05_a_call_that_is_given_up_is_reported_and_a_closed_scope_sends_none() {
        let ends = Arc::new(Ends::default());
        let permit: Arc<dyn CallPermit> = ends.clone();
        let scope = CallScope::new("u1");
        let mut change = scope.around(Change::begin(&permit, "POST /servers")).await;
        assert!(change.id().is_some() && scope.has_open_calls());
        change.ended();
        drop(change);
        let outside = Change::begin(&permit, "POST /servers").await;
        assert_eq!(outside.id(), None);
        drop(outside);
        assert_eq!(*ends.0.lock().unwrap(), [true, false]);
        scope.close();
        let refused = scope.around(Change::begin(&permit, "POST /servers"));
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), refused).await.is_err());
        assert!(!scope.has_open_calls());
        assert_eq!(ends.0.lock().unwrap().len(), 2, "it was not counted");
    }
}
