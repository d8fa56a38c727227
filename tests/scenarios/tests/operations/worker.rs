//! One worker, of which something is asked again and again.

use apiserver_types::{MachineOperation, OperationPhase, StepState};
use serde_json::{Value, json};

use crate::testbed::{Calls, Place};

/// Images of two versions by turns: an upgrade has somewhere to go, however many came before it.
const IMAGES: [&str; 2] = ["ubuntu-2204-kube-v1.30.0", "ubuntu-2204-kube-v1.31.0"];

/// What is asked for again and again of one worker.
pub(crate) struct Worker {
    pub(crate) place: Place,
    version: String,
    image: String,
    asked: usize,
}

/// What a test does to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    /// A reboot's body; an upgrade's strategy.
    pub(crate) body: &'static str,
    /// What the cloud is asked to do.
    pub(crate) calls: &'static [&'static str],
}

impl Worker {
    pub(crate) fn new(place: Place) -> Self {
        let (version, image) = ("v1.29.0".to_owned(), "ubuntu-2204-kube-v1.29.0".to_owned());
        Self { place, version, image, asked: 0 }
    }

    /// Asks for it. Says where the worker is to be afterwards.
    pub(crate) async fn ask(&mut self, plan: &Plan) -> (String, (String, String)) {
        self.place.world.cloud.clear_log();
        self.asked += 1;
        let (verb, body, goal) = self.wish(plan);
        (self.place.ask(verb, body).await.unwrap(), goal)
    }

    fn wish(&self, plan: &Plan) -> (&'static str, Value, (String, String)) {
        if plan.body.starts_with('{') {
            let body = serde_json::from_str(plan.body).unwrap();
            return ("reboot", body, (self.version.clone(), self.image.clone()));
        }
        // The first goes to the next version's image, which is found by its name.
        let (version, image) = match self.asked {
            1 => ("v1.30.0".to_owned(), IMAGES[0]),
            n => (format!("v1.30.{n}"), IMAGES[n % 2]),
        };
        let mut body = json!({"version": version, "strategy": plan.body});
        if self.asked > 1 {
            body["image"] = json!({"filter": {"name": image}});
        }
        ("upgrade", body, (version, image.to_owned()))
    }

    /// The operation did what was asked, once.
    pub(crate) async fn check(&mut self, plan: &Plan, name: &str, goal: (String, String), case: &str) {
        assert_eq!(self.place.calls(), expected(plan), "{case}");
        self.is_done(name, goal, case).await;
    }

    /// The operation says that it did what was asked, and the worker says the same.
    pub(crate) async fn is_done(&mut self, name: &str, goal: (String, String), case: &str) {
        let operation = self.place.operation(name).await;
        let status = operation.status.clone().unwrap();
        assert_eq!(status.phase, Some(OperationPhase::Complete), "{case}: {status:#?}");
        let is_ended = |state| !matches!(state, StepState::Pending | StepState::Running);
        assert!(status.steps.iter().flatten().all(|step| is_ended(step.state)), "{case}: {status:#?}");
        let server = self.arrived(goal, case).await;
        let result = status.result.unwrap_or_default();
        assert!(result.server_id.is_none_or(|id| id == server), "{case}: the result names another server");
    }

    /// The operation did nothing.
    pub(crate) async fn untouched(&self, operation: &MachineOperation, case: &str) {
        let phase = operation.status.as_ref().and_then(|status| status.phase);
        assert_eq!(phase, Some(OperationPhase::Cancelled), "{case}: {:#?}", operation.status);
        assert_eq!(self.place.calls(), Calls::new(), "{case}: {:#?}", operation.status);
        self.stayed(case).await;
    }

    /// The worker is where it was to be. Returns its server's id.
    pub(crate) async fn arrived(&mut self, goal: (String, String), case: &str) -> String {
        (self.version, self.image) = goal;
        self.stayed(case).await
    }

    /// The worker is where it was. Returns its server's id.
    pub(crate) async fn stayed(&self, case: &str) -> String {
        self.place.consistent(&self.version, &self.image, case).await
    }

    /// Makes another in the place of one that was deleted.
    pub(crate) async fn again(&mut self) {
        self.place.furnish().await;
        (self.version, self.image) = ("v1.29.0".to_owned(), "ubuntu-2204-kube-v1.29.0".to_owned());
    }
}

/// What the cloud is to be asked for.
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
