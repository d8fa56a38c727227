//! Tests of calls within passes: permits, request ids, and passes that end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controllers_infrastructure::{CallPermit, CallScope, CloudConnector, ErrorClass, RebootKind};
use controllers_infrastructure_openstack::{AllowedEndpoints, CloudMetrics, OpenStackConnector};

use crate::stub::{ReceivedCall, Stub};
use crate::{SERVERS, connected, response};

/// Permit that counts the calls that wait for it, and grants the first `limit` of them.
#[derive(Debug, Default)]
struct Permits {
    granted: AtomicUsize,
    limit: usize,
}

#[async_trait::async_trait]
impl CallPermit for Permits {
    async fn granted(&self) {
        if self.granted.fetch_add(1, Ordering::SeqCst) >= self.limit {
            std::future::pending().await
        }
    }
}

#[tokio::test]
async fn a_call_that_changes_something_waits_for_the_permit_and_a_read_does_not() {
    let stub = Stub::start().await;
    let permits = Arc::new(Permits { limit: 1, ..Permits::default() });
    let permit: Arc<dyn CallPermit> = permits.clone();
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = CloudMetrics::registered(&mut registry);
    let connector =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).with_permit(permit).with_metrics(metrics);
    let cloud = connector.connect(&stub.credentials()).await.unwrap();
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    assert_eq!(permits.granted.load(Ordering::SeqCst), 0);
    stub.enqueue("POST /compute/v2.1/servers/s/action", response(202, ""));
    let reboot = || cloud.reboot_server("s", RebootKind::Hard);
    reboot().await.unwrap();
    // The process is no longer the leader: the call is not sent, and there is no error to report.
    assert!(tokio::time::timeout(Duration::from_millis(200), reboot()).await.is_err());
    assert_eq!(permits.granted.load(Ordering::SeqCst), 2);
    assert_eq!(stub.received("POST /compute/v2.1/servers/s/action").len(), 1);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for recorded in [
        r#"capstan_cloud_requests_total{service="Nova",method="POST",code="202"} 1"#,
        r#"capstan_cloud_permits_total{result="granted"} 1"#,
        r#"capstan_cloud_permits_total{result="refused"} 1"#,
        r#"capstan_cloud_gate_limit{service="Nova"} 16"#,
    ] {
        assert!(text.contains(recorded), "{recorded}: {text}");
    }
}

#[tokio::test]
async fn hv_02_a_call_of_a_pass_that_changes_something_has_a_global_request_id() {
    const ACTION: &str = "POST /compute/v2.1/servers/s/action";
    const HEADER: &str = "x-openstack-request-id: req-";
    let (stub, cloud) = connected().await;
    (0..3).for_each(|_| stub.enqueue(ACTION, response(202, "")));
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    let scope = CallScope::new("u1");
    let pass = async {
        cloud.servers().await.unwrap();
        cloud.reboot_server("s", RebootKind::Hard).await.unwrap();
        cloud.reboot_server("s", RebootKind::Hard).await.unwrap();
    };
    scope.around(pass).await;
    assert!(!scope.has_open_calls());
    assert!(!stub.received(SERVERS).remove(0).headers.contains(HEADER), "a read");
    let id = |call: &ReceivedCall| {
        let line = call.headers.lines().find_map(|line| line.strip_prefix(HEADER));
        line.map(str::to_owned)
    };
    let ids: Vec<String> = stub.received(ACTION).iter().filter_map(id).collect();
    let [first, second] = &ids[..] else { panic!("{ids:?}") };
    assert!(first.len() == 36 && first != second, "{ids:?}");
    cloud.reboot_server("s", RebootKind::Hard).await.unwrap();
    assert_eq!(id(&stub.received(ACTION)[2]), None, "outside of a pass");
}

#[tokio::test]
async fn hv_05_a_pass_that_ends_sends_no_further_call_that_changes_something() {
    const ACTION: &str = "POST /compute/v2.1/servers/s/action";
    let (stub, cloud) = connected().await;
    let scope = CallScope::new("u1");
    scope.close();
    let reboot = scope.around(cloud.reboot_server("s", RebootKind::Hard));
    assert!(tokio::time::timeout(Duration::from_millis(200), reboot).await.is_err());
    assert!(stub.received(ACTION).is_empty() && !scope.has_open_calls());
}

/// Permit that is too old for some of the requests that could be written.
#[derive(Debug, Default)]
struct LatePermits {
    granted: AtomicUsize,
    late: AtomicUsize,
}

#[async_trait::async_trait]
impl CallPermit for LatePermits {
    async fn granted(&self) {
        self.granted.fetch_add(1, Ordering::SeqCst);
    }

    fn is_fresh(&self) -> bool {
        self.late.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |late| late.checked_sub(1)).is_err()
    }
}

#[tokio::test]
async fn hv_03_a_request_that_could_be_written_too_late_is_not_sent_without_another_permit() {
    const ACTION: &str = "POST /compute/v2.1/servers/s/action";
    const DELETION: &str = "DELETE /compute/v2.1/servers/s";
    let (stub, permits) = (Stub::start().await, Arc::new(LatePermits::default()));
    let permit: Arc<dyn CallPermit> = permits.clone();
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback()).with_permit(permit);
    let cloud = connector.connect(&stub.credentials()).await.unwrap();
    let received = |call: &str| stub.received(call).len();
    let reboot = || cloud.reboot_server("s", RebootKind::Hard);

    permits.late.store(2, Ordering::SeqCst);
    stub.enqueue(ACTION, response(202, ""));
    reboot().await.unwrap();
    assert!(received(ACTION) == 1 && permits.granted.load(Ordering::SeqCst) > 1);
    assert_eq!(stub.received(ACTION)[0].body, r#"{"reboot":{"type":"HARD"}}"#);
    // A request without a body, too.
    permits.late.store(2, Ordering::SeqCst);
    permits.granted.store(0, Ordering::SeqCst);
    stub.enqueue(DELETION, response(204, ""));
    cloud.delete_server("s").await.unwrap();
    assert!(received(DELETION) == 1 && permits.granted.load(Ordering::SeqCst) > 1);

    permits.late.store(usize::MAX, Ordering::SeqCst);
    let error = reboot().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unreachable, "it is known that nothing happened: {error}");
    assert!(error.message.contains("not sent") && received(ACTION) == 1, "{error}");
}
