use std::sync::Mutex;

use apiserver_machinery::action::Caller;
use apiserver_machinery::admission::{GrantedRule, Uncovered};
use apiserver_machinery::status::ApiError;
use async_trait::async_trait;
use serde_json::json;

use super::*;

/// Planner with one answer for the changed object, and one for the stored one. It records the limits of its reads.
#[derive(Debug)]
struct Plans {
    after: Result<Value, PlanFailure>,
    before: Result<Value, PlanFailure>,
    calls: Mutex<Vec<PlanLimits>>,
}

#[async_trait]
impl Planner for Plans {
    async fn plan(
        &self,
        _: &str,
        changed: Value,
        stored: Value,
        limits: PlanLimits,
    ) -> Result<Value, PlanFailure> {
        self.calls.lock().unwrap().push(limits);
        if changed == stored { self.before.clone() } else { self.after.clone() }
    }
}

/// Permissions for these paths, with the verb `create`. With [`UNCHECKED`], the authorizer does not answer.
#[derive(Debug)]
struct Only(&'static [&'static str]);

#[async_trait]
impl Permissions for Only {
    async fn require(&self, action: Action<'_>) -> ApiResult<()> {
        let Action { verb, resource, subresource, namespace, name, .. } = action;
        assert_eq!((verb, namespace), ("create", "team"));
        let path = format!("{resource}/{name}/{subresource}");
        let code = if self.0 == UNCHECKED { 503 } else { 403 };
        if self.0.contains(&path.as_str()) { Ok(()) } else { Err(ApiError::untyped(code, path)) }
    }

    fn may_send(&self, method: &str, path: &str) -> bool {
        let is_plan = path.contains("cluster.x-k8s.io/v1beta2/namespaces/team/") && path.ends_with("/plan");
        assert!(method == "POST" && is_plan && !path.contains("//"), "{method} {path}");
        !self.0.contains(&LIMITED)
    }

    fn caller(&self) -> Caller {
        Caller::default()
    }

    fn requested_name(&self) -> &str {
        ""
    }

    async fn uncovered(&self, _: &str, _: &[GrantedRule]) -> Uncovered {
        Uncovered::default()
    }
}

fn plan(effect: &str) -> Value {
    json!({"machines": [{"name": "m", "effect": effect, "reasons": []}], "steps": []})
}

/// Returns the warnings of a change of an object, and the limits of the plans.
async fn warned(
    kind: &str,
    planner: Plans,
    permitted: &'static [&'static str],
) -> (Vec<String>, Vec<PlanLimits>) {
    let object = |version: &str| {
        let annotations = json!({"capstan.dev/template-revision": version});
        json!({"metadata": {"name": "x", "namespace": "team", "annotations": annotations}})
    };
    let planner = Arc::new(planner);
    let shared: Arc<dyn Planner> = planner.clone();
    let slot = PlannerSlot::default();
    slot.set(shared).unwrap();
    let permissions = Arc::new(Only(permitted));
    let change = PreviewedChange { old: object("1"), new: object("2"), permissions };
    let warnings = of(kind, &slot).unwrap().warnings(change).await;
    let calls = planner.calls.lock().unwrap().clone();
    (warnings, calls)
}

fn plans(after: Result<Value, PlanFailure>, before: Result<Value, PlanFailure>) -> Plans {
    Plans { after, before, calls: Mutex::default() }
}

/// Stands for a token that is for other requests.
const LIMITED: &str = "limited";

const NONE: &[&str] = &[];
const OF_LIMITED: &[&str] = &["machinedeployments/x/plan", LIMITED];
const UNCHECKED: &[&str] = &["unchecked"];
const OF_DEPLOYMENT: &[&str] = &["machinedeployments/x/plan"];
const OF_OTHERS: &[&str] = &["machinedeployments/y/plan", "clusters/x/plan"];

#[tokio::test]
async fn a_change_has_the_warnings_of_its_plan_and_the_place_of_the_whole() {
    let (warnings, calls) =
        warned("MachineDeployment", plans(Ok(plan("Replace")), Ok(plan("Keep"))), OF_DEPLOYMENT).await;
    let more = "The whole plan, with all steps: capstan plan machinedeployment x -n team -f FILE, or POST to \
                machinedeployments/x/plan";
    assert_eq!(warnings, ["MachineDeployment x: 1 Machine is replaced", more]);
    let with_cloud = PlanLimits { clouds: CLOUDS, workloads: Duration::ZERO };
    let expected = [with_cloud, PlanLimits::default()];
    assert_eq!(calls, expected, "the stored object is compared without its cloud, and no drain is checked");
}

#[tokio::test]
async fn a_client_without_the_permission_for_the_verb_learns_nothing() {
    for permitted in [NONE, OF_OTHERS, OF_LIMITED] {
        let planner = plans(Ok(plan("Replace")), Ok(plan("Keep")));
        let (warnings, calls) = warned("MachineDeployment", planner, permitted).await;
        assert_eq!((warnings.len(), calls.len()), (0, 0), "{permitted:?}");
    }
}

#[tokio::test]
async fn a_permission_that_cannot_be_checked_is_a_warning_without_a_plan() {
    let planner = plans(Ok(plan("Replace")), Ok(plan("Keep")));
    let (warnings, calls) = warned("Cluster", planner, UNCHECKED).await;
    assert_eq!(warnings, ["Cluster x: the effects on Machines are not known: clusters/x/plan"]);
    assert_eq!(calls.len(), 0);
}

#[tokio::test]
async fn a_change_without_effects_of_its_own_has_no_warnings() {
    let nothing = plans(Ok(plan("Keep")), Ok(plan("Replace")));
    let (warnings, calls) = warned("MachineDeployment", nothing, OF_DEPLOYMENT).await;
    assert_eq!((warnings.len(), calls.len()), (0, 1));
    let goes_on = plans(Ok(plan("Replace")), Ok(plan("Replace")));
    let (warnings, calls) = warned("MachineDeployment", goes_on, OF_DEPLOYMENT).await;
    assert_eq!((warnings.len(), calls.len()), (0, 2), "the rollout is in flight without the change, too");
    let unknown = plans(Ok(plan("Replace")), Err(PlanFailure::Unavailable("away".to_owned())));
    assert_eq!(warned("MachineDeployment", unknown, OF_DEPLOYMENT).await.0.len(), 2);
}

#[tokio::test]
async fn a_planner_that_fails_is_a_warning() {
    for (failure, expected) in [
        (PlanFailure::Unavailable("away".to_owned()), "the effects on Machines are not known: away"),
        (
            PlanFailure::Invalid("spec.topology".to_owned(), "patch \"a\"".to_owned()),
            "the controllers cannot make this change: spec.topology: patch \"a\"",
        ),
    ] {
        let planner = plans(Err(failure), Ok(plan("Keep")));
        let (warnings, _) = warned("Cluster", planner, &["clusters/x/plan"]).await;
        assert_eq!(warnings, [format!("Cluster x: {expected}")]);
    }
    let change = PreviewedChange {
        old: json!({"metadata": {"name": "x", "namespace": "team"}}),
        new: json!({"metadata": {"name": "x", "namespace": "team"}, "spec": {}}),
        permissions: Arc::new(Only(OF_DEPLOYMENT)),
    };
    let preview = of("MachineDeployment", &PlannerSlot::default()).unwrap();
    let expected = "MachineDeployment x: the effects on Machines are not known: this server is starting";
    assert_eq!(preview.warnings(change).await, [expected]);
}

#[tokio::test]
async fn a_template_has_the_rollouts_that_the_client_may_plan() {
    let rollout = |kind: &str| {
        let mut rollout = plan("Replace");
        rollout["kind"] = json!(kind);
        rollout["name"] = json!("r");
        rollout
    };
    let all = json!({"rollouts": [rollout("KubeadmControlPlane"), rollout("MachineDeployment")]});
    let of_all = || plans(Ok(all.clone()), Ok(json!({"rollouts": []})));
    let template = "OpenStackMachineTemplate";
    let (some, _) = warned(template, of_all(), &["machinedeployments//plan"]).await;
    assert_eq!(some, ["MachineDeployment r: 1 Machine is replaced"]);
    let both = &["machinedeployments//plan", "kubeadmcontrolplanes//plan"];
    let (whole, _) = warned(template, of_all(), both).await;
    assert_eq!(whole.len(), 3);
    assert_eq!(whole[0], "OpenStackMachineTemplate x: in all, 2 Machines are replaced");
    let (none, calls) = warned(template, of_all(), &["machinedeployments/r/plan"]).await;
    assert_eq!((none.len(), calls.len()), (0, 0), "a permission for one object is none for all");
    // The same revision.
    let same = json!({"metadata": {"name": "x", "namespace": "team"}});
    let permissions = Arc::new(Only(&["machinedeployments//plan"]));
    let change = PreviewedChange { old: same.clone(), new: same, permissions };
    let preview = of("KubeadmConfigTemplate", &PlannerSlot::default()).unwrap();
    assert_eq!(preview.warnings(change).await, [""; 0]);
    assert!(of("MachineSet", &PlannerSlot::default()).is_none());
}
