//! Observer of the Lease of the controllers.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::call::{Answer, Caller};
use crate::record::{Realm, Recorder};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/capstan-system/leases/capstan-controllers";

/// Interval between two looks. It bounds the error of a measured failover.
const INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn start(
    kubeconfig: &Path,
    recorder: &Recorder,
    stop: &CancellationToken,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let mut caller = Caller::new("observer", Realm::Own, kubeconfig, recorder).await?;
    let (recorder, stop) = (recorder.clone(), stop.clone());
    tasks.spawn(async move {
        let mut last = String::new();
        while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
            let (Answer::Object(lease), _) = caller.call("GET", LEASE, &Value::Null).await? else { continue };
            let holder = lease.pointer("/spec/holderIdentity").and_then(Value::as_str).unwrap_or_default();
            if !holder.is_empty() && holder != last {
                last = holder.to_owned();
                let now = recorder.now();
                recorder.lock().holders.push((now, last.clone()));
            }
        }
        Ok(())
    });
    Ok(())
}
