//! Every kind of call to a workload API fails in every way while a cluster comes, grows, shrinks and goes. A condition
//! or an Event tells it, and the change succeeds when the failure ends.
//!
//! Three calls fail during one change, each in another way, and several clusters live side by side. A few short lives
//! are selected by a seed that is printed: `CAPSTAN_SEED` selects the same again, `CAPSTAN_FAULTS=all` runs all lives, and
//! `CAPSTAN_LIFE` one of them by its number. `CAPSTAN_CONCURRENT` is the number of lives at the same time.

mod calls;
mod failures;
mod life;
mod said;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tests_hollow_cluster::WorkloadCall;
use tokio::task::JoinSet;

use calls::calls;
use failures::{OF_CALLS, OF_ENDPOINTS};
use life::{Case, Life, Outcome, Phase};

/// Number of concurrent lives: a case mostly waits for limits of calls.
const CONCURRENT: u64 = 4;

/// Number of selected lives, besides one whose calls all fail.
const SELECTED: usize = 3;

/// Number of calls that fail during one change. The messages of their failures differ.
const TOGETHER: usize = 3;

/// Calls and their failures during each change of a life.
type Plan = Vec<(Phase, Vec<Case>)>;

/// Returns every life. Together they contain every kind of call of every change with every failure.
fn plans() -> Vec<Plan> {
    let groups = |phase: Phase| calls(phase).len().div_ceil(TOGETHER);
    let most = Phase::ALL.into_iter().map(groups).max().unwrap_or_default();
    let mut plans = Vec::new();
    for shift in 0..OF_CALLS.len() {
        plans.extend(
            (0..most).map(|group| Phase::ALL.map(|phase| (phase, cases(phase, group, shift))).to_vec()),
        );
    }
    for failure in OF_ENDPOINTS {
        let case = Case { call: WorkloadCall { verb: "get", resource: "/".to_owned() }, failure };
        plans.push(Phase::ALL.map(|phase| (phase, vec![case.clone()])).to_vec());
    }
    plans
}

/// Returns one group of the calls of a change. The failures are shifted by a number of calls.
fn cases(phase: Phase, group: usize, shift: usize) -> Vec<Case> {
    let calls = calls(phase);
    let first = group % calls.len().div_ceil(TOGETHER) * TOGETHER;
    let case = |(place, call): (usize, WorkloadCall)| {
        let failure = OF_CALLS[(place + shift) % OF_CALLS.len()].clone();
        Case { call, failure }
    };
    calls.into_iter().enumerate().skip(first).take(TOGETHER).map(case).collect()
}

/// Lives one life. Returns the failures that no message named, and the calls that the table lacks.
async fn live(number: usize, plan: Plan) -> Vec<String> {
    let mut life = Life::start().await;
    let mut wrong = Vec::new();
    for (phase, cases) in plan {
        let begun = Instant::now();
        let outcomes = Box::pin(life.fail(phase, &cases)).await;
        let seconds = begun.elapsed().as_secs_f64();
        for (case, outcome) in outcomes {
            let about = format!("life {number}, {phase:?}, {}, {}", case.call, case.failure.name);
            match outcome {
                Outcome::Named(named) => eprintln!("{about}:\n    {}", named.join("\n    ")),
                Outcome::Unnamed(new) => {
                    wrong.push(format!("{about}: no message names it, but\n    {}", new.join("\n    ")));
                }
                Outcome::NotCalled => eprintln!("{about}: the change took no such call"),
            }
        }
        eprintln!("life {number}, {phase:?}: {seconds:.1} s");
        wrong.extend(unknown(phase, life.calls()).map(|call| format!("the table of {phase:?} lacks {call}")));
    }
    wrong.iter().for_each(|wrong| eprintln!("WRONG {wrong}"));
    wrong
}

/// Returns the calls that the table lacks.
fn unknown(phase: Phase, made: Vec<WorkloadCall>) -> impl Iterator<Item = WorkloadCall> {
    let known = calls(phase);
    made.into_iter().filter(move |call| !known.contains(call) && !calls::may_be_taken(call))
}

/// Leaves out the workers, or the growth of the control plane: by turns.
fn shortened(number: usize, plan: Plan) -> Plan {
    let left_out = match number % 2 {
        0 => [Phase::WorkerComes, Phase::WorkerGoes],
        _ => [Phase::ControlPlaneGrows, Phase::ControlPlaneShrinks],
    };
    plan.into_iter().filter(|(phase, _)| !left_out.contains(phase)).collect()
}

/// Returns true if every life is lived.
fn is_whole() -> bool {
    std::env::var("CAPSTAN_FAULTS").is_ok_and(|which| which == "all")
}

/// Returns the numbers of the lives of this run.
fn selected(lives: usize) -> Vec<usize> {
    let number = |variable: &str| std::env::var(variable).ok().and_then(|text| text.parse().ok());
    if is_whole() {
        return (0..lives).collect();
    }
    if let Some(life) = number("CAPSTAN_LIFE") {
        return vec![life];
    }
    let seed =
        number("CAPSTAN_SEED").unwrap_or_else(|| usize::try_from(std::process::id()).unwrap_or_default());
    eprintln!("CAPSTAN_SEED={seed}");
    // Lives that are far apart, so that they differ in the calls and in the failures; and one failure of endpoints.
    let of_calls = lives - OF_ENDPOINTS.len();
    let mut selected: BTreeSet<usize> =
        (0..SELECTED).map(|place| (seed + place * (of_calls / SELECTED + 1)) % of_calls).collect();
    selected.insert(of_calls + seed % OF_ENDPOINTS.len());
    selected.into_iter().collect()
}

async fn work(queue: Arc<Mutex<VecDeque<(usize, Plan)>>>) -> Vec<String> {
    let next = || queue.lock().unwrap().pop_front();
    let mut wrong = Vec::new();
    while let Some((number, plan)) = next() {
        // A task of its own, so that the lives after one that ends in a panic are lived, too.
        let mut life = JoinSet::new();
        life.spawn(live(number, plan));
        match life.join_next().await {
            Some(Ok(found)) => wrong.extend(found),
            _ => wrong.push(format!("life {number} ended in a panic, see above")),
        }
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_changes_despite_any_failure_of_its_workload_api_and_tells_it() {
    let begun = Instant::now();
    let plans = plans();
    let selected = selected(plans.len());
    let is_short = !is_whole() && selected.len() > 1;
    let chosen = plans.into_iter().enumerate().filter(|(number, _)| selected.contains(number));
    let queue = chosen.map(|(number, plan)| (number, if is_short { shortened(number, plan) } else { plan }));
    let queue = queue.collect();
    let queue = Arc::new(Mutex::new(queue));
    let mut workers = JoinSet::new();
    for _ in 0..super::number("CAPSTAN_CONCURRENT", CONCURRENT) {
        workers.spawn(work(Arc::clone(&queue)));
    }
    let wrong = workers.join_all().await.concat();
    eprintln!("{} lives: {:.0} s", selected.len(), begun.elapsed().as_secs_f64());
    assert!(wrong.is_empty(), "{} errors:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_calls_contains_no_call_that_a_change_does_not_take() {
    let mut life = Life::start().await;
    let mut wrong = Vec::new();
    for phase in Phase::ALL {
        let made = Box::pin(life.calls_of(phase)).await;
        let text: Vec<String> = made.iter().map(ToString::to_string).collect();
        eprintln!("{phase:?}: {}", text.join(", "));
        let missing = calls(phase).into_iter().filter(|call| !made.contains(call));
        wrong.extend(missing.map(|call| format!("{phase:?} does not take {call}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
