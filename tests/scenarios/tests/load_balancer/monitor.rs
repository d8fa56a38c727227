//! Numbers of the health monitors, which follow the spec of a live cluster.

use controllers_infrastructure::MonitorTimes;

use super::*;

impl Scene {
    /// Returns the numbers of all health monitors.
    async fn monitors(&self) -> Vec<MonitorTimes> {
        let mut times = Vec::new();
        for balancer in self.balancers().await {
            for pool in self.cloud.pools(&balancer.id).await.unwrap() {
                let id = pool.health_monitor_id.unwrap();
                times.push(self.cloud.health_monitor(&id).await.unwrap().times);
            }
        }
        times
    }

    /// Changes the monitor of the spec, and runs the controllers until all monitors have these numbers.
    async fn monitor(&self, monitor: serde_json::Value, expected: &MonitorTimes) {
        let balancer = json!({"managedLoadBalancer": {"enabled": true, "monitor": monitor}});
        let change = Patch::Merge(json!({"spec": {"apiServer": balancer}}));
        self.clusters().patch("c", &PatchParams::default(), &change).await.unwrap();
        let mut rounds = 0;
        loop {
            let found = self.monitors().await;
            if !found.is_empty() && found.iter().all(|it| it == expected) {
                return;
            }
            assert!(rounds < 20, "{found:?}, not {expected:?}");
            rounds += 1;
            self.controllers.round().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_monitor_that_leaves_the_spec_of_a_live_cluster_gets_the_defaults_again() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let defaults = MonitorTimes { delay: 10, timeout: 5, max_retries: 5, max_retries_down: 3 };
    assert!(scene.monitors().await.iter().all(|it| *it == defaults), "{:?}", scene.monitors().await);
    let slower = MonitorTimes { delay: 15, timeout: 10, max_retries: 2, max_retries_down: 2 };
    let spec = json!({"delay": 15, "timeout": 10, "maxRetries": 2, "maxRetriesDown": 2});
    scene.monitor(spec, &slower).await;
    scene.monitor(serde_json::Value::Null, &defaults).await;
}
