//! Test worker on which operations are repeated.

use apiserver_types::{MachineOperation, OperationPhase, StepState};
use serde_json::{Value, json};

use crate::testbed::{Calls, Testbed};

/// Images of two versions in turn, so that every upgrade has a goal.
const IMAGES: [&str; 2] = ["ubuntu-2204-kube-v1.30.0", "ubuntu-2204-kube-v1.31.0"];

/// Worker with its present state.
pub(crate) struct Worker {
    pub(crate) testbed: Testbed,
    version: String,
    image: String,
    requested: usize,
}

/// Operation that a test repeats.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    /// Body of a reboot, or strategy of an upgrade.
    pub(crate) body: &'static str,
    /// Calls to the cloud.
    pub(crate) calls: &'static [&'static str],
}

impl Worker {
    pub(crate) fn new(testbed: Testbed) -> Self {
        let (version, image) = ("v1.29.0".to_owned(), "ubuntu-2204-kube-v1.29.0".to_owned());
        Self { testbed, version, image, requested: 0 }
    }

    /// Requests the operation. Returns the expected state of the worker.
    pub(crate) async fn request(&mut self, plan: &Plan) -> (String, (String, String)) {
        self.testbed.world.cloud.clear_log();
        self.requested += 1;
        let (action, body, goal) = self.plan(plan);
        (self.testbed.request(action, body).await.unwrap(), goal)
    }

    fn plan(&self, plan: &Plan) -> (&'static str, Value, (String, String)) {
        if plan.body.starts_with('{') {
            let body = serde_json::from_str(plan.body).unwrap();
            return ("reboot", body, (self.version.clone(), self.image.clone()));
        }
        // The first upgrade goes to the next version's image, which is found by its name.
        let (version, image) = match self.requested {
            1 => ("v1.30.0".to_owned(), IMAGES[0]),
            n => (format!("v1.30.{n}"), IMAGES[n % 2]),
        };
        let mut body = json!({"version": version, "strategy": plan.body});
        if self.requested > 1 {
            body["image"] = json!({"filter": {"name": image}});
        }
        ("upgrade", body, (version, image.to_owned()))
    }

    /// Checks that the operation was done, once.
    pub(crate) async fn check(&mut self, plan: &Plan, name: &str, goal: (String, String), case: &str) {
        assert_eq!(self.testbed.calls(), expected(plan), "{case}");
        self.is_done(name, goal, case).await;
    }

    /// Checks that operation and worker report the goal.
    pub(crate) async fn is_done(&mut self, name: &str, goal: (String, String), case: &str) {
        let operation = self.testbed.operation(name).await;
        let status = operation.status.clone().unwrap();
        assert_eq!(status.phase, Some(OperationPhase::Complete), "{case}: {status:#?}");
        let is_ended = |state| !matches!(state, StepState::Pending | StepState::Running);
        assert!(status.steps.iter().flatten().all(|step| is_ended(step.state)), "{case}: {status:#?}");
        let server = self.check_goal(goal, case).await;
        let result = status.result.unwrap_or_default();
        assert!(result.server_id.is_none_or(|id| id == server), "{case}: the result names another server");
    }

    /// Checks that the operation did nothing.
    pub(crate) async fn check_no_effect(&self, operation: &MachineOperation, case: &str) {
        let phase = operation.status.as_ref().and_then(|status| status.phase);
        assert_eq!(phase, Some(OperationPhase::Cancelled), "{case}: {:#?}", operation.status);
        assert_eq!(self.testbed.calls(), Calls::new(), "{case}: {:#?}", operation.status);
        self.check_unchanged(case).await;
    }

    /// Checks that the worker has reached its goal. Returns its server's id.
    pub(crate) async fn check_goal(&mut self, goal: (String, String), case: &str) -> String {
        (self.version, self.image) = goal;
        self.check_unchanged(case).await
    }

    /// Checks that the worker is unchanged. Returns its server's id.
    pub(crate) async fn check_unchanged(&self, case: &str) -> String {
        self.testbed.consistent(&self.version, &self.image, case).await
    }

    /// Creates another worker after a deletion.
    pub(crate) async fn recreate(&mut self) {
        self.testbed.create_worker().await;
        (self.version, self.image) = ("v1.29.0".to_owned(), "ubuntu-2204-kube-v1.29.0".to_owned());
    }
}

/// Returns the expected calls.
pub(crate) fn expected(plan: &Plan) -> Calls {
    let mut calls = Calls::new();
    for call in plan.calls {
        *calls.entry((*call).to_owned()).or_default() += 1;
    }
    calls
}

pub(crate) const HARD: Plan = Plan { name: "hard reboot", body: r#"{"type": "Hard"}"#, calls: &["reboot"] };
pub(crate) const SOFT: Plan = Plan { name: "soft reboot", body: "{}", calls: &["reboot"] };
pub(crate) const REBUILD: Plan = Plan { name: "rebuild", body: "Rebuild", calls: &["rebuild"] };
pub(crate) const REPLACE: Plan =
    Plan { name: "replacement", body: "Replace", calls: &["DELETE servers", "POST servers"] };
pub(crate) const AUTO: Plan =
    Plan { name: "upgrade of an image's server", body: "Auto", calls: &["rebuild"] };
pub(crate) const AUTO_VOLUME: Plan = Plan {
    name: "upgrade of a volume's server",
    body: "Auto",
    calls: &["DELETE servers", "POST volumes", "POST servers"],
};
