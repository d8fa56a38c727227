//! Answers of the direct endpoint by the state of the host: a table that a test walks, request by request, through the
//! whole server. The page `docs/host-outage.md` has the table.

mod calls;
mod host;
mod kinds;
mod scene;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::health::HostState;
use calls::{Call, calls};
use scene::Scene;

/// Number of columns.
const WIDTH: usize = 12;

/// Time before and after a bound at which the answers are observed.
const SECOND: u64 = 1;

const HOUR: u64 = 3600;
const DAY: u64 = 86_400;

/// State of the host in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Situation {
    /// The host answers.
    Answers(HostState),
    /// The host is up, and a request gets no answer.
    Silent,
    /// The host was down for this time. Unit: seconds.
    Down(u64),
    /// The host is down, and no process has ever reached it.
    NeverSeen,
    /// The host has returned, and its negative answers are wrong.
    Returned,
    /// Another host answers.
    Other,
}

/// Columns with their titles.
const COLUMNS: [(&str, Situation); WIDTH] = [
    ("up", Situation::Answers(HostState::Up)),
    ("slow", Situation::Answers(HostState::Slow)),
    ("silent", Situation::Silent),
    ("down 4 h − 1 s", Situation::Down(4 * HOUR - SECOND)),
    ("4 h + 1 s", Situation::Down(4 * HOUR + SECOND)),
    ("24 h − 1 s", Situation::Down(DAY - SECOND)),
    ("24 h + 1 s", Situation::Down(DAY + SECOND)),
    ("7 d − 1 s", Situation::Down(7 * DAY - SECOND)),
    ("7 d + 1 s", Situation::Down(7 * DAY + SECOND)),
    ("never seen", Situation::NeverSeen),
    ("probation", Situation::Returned),
    ("other", Situation::Other),
];

/// Longest time of a walk through a column: all its answers must be of the same second.
const PRECISION: Duration = Duration::from_millis(900);

/// Number of walks through a column on a busy machine.
const WALKS: usize = 20;

/// Longest time of a request to a silent host: the wait for its issuer, for a token and for a permission.
const LONGEST: Duration = Duration::from_secs(12);

/// Returns the answers in one situation, in the order of the calls.
async fn column(situation: Situation) -> Vec<u16> {
    for _ in 0..WALKS {
        let scene = Scene::start(situation).await;
        let all = calls(&scene);
        let before = scene.host.requests().len();
        let begun = Instant::now();
        if situation == Situation::Silent {
            let codes = futures::future::join_all(all.iter().map(|call| scene.answer(call))).await;
            assert!(begun.elapsed() < LONGEST, "a request waits for the host: {:?}", begun.elapsed());
            return codes;
        }
        let mut codes = Vec::new();
        for call in &all {
            codes.push(scene.answer(call).await);
        }
        let is_cut_off = matches!(situation, Situation::Down(_) | Situation::NeverSeen | Situation::Other);
        let sent = scene.host.requests().split_off(before);
        assert!(!is_cut_off || sent.is_empty(), "{situation:?}: no request waits for the host: {sent:?}");
        if begun.elapsed() < PRECISION || !matches!(situation, Situation::Down(_)) {
            return codes;
        }
    }
    panic!("this machine cannot walk through a column within {PRECISION:?}");
}

/// Returns the table in Markdown.
fn table(calls: &[Call], columns: &[Vec<u16>]) -> String {
    let titles = COLUMNS.map(|(title, _)| title).join(" | ");
    let mut text = format!("| identity and call | {titles} |\n|---|{}\n", "---|".repeat(WIDTH));
    for (index, call) in calls.iter().enumerate() {
        let codes = columns.iter().filter_map(|column| column.get(index));
        let codes: Vec<String> = codes.map(|code| format!("{code:03}")).collect();
        let _ = writeln!(text, "| {} | {} |", call.title, codes.join(" | "));
    }
    text
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/host-outage.md")
}

/// Returns the table of the page, or replaces it.
fn of_page(new: Option<&str>) -> String {
    let (begin, end) = ("<!-- answers -->\n\n", "\n<!-- end -->");
    let text = std::fs::read_to_string(page()).unwrap();
    let (head, rest) = text.split_once(begin).unwrap();
    let (old, tail) = rest.split_once(end).unwrap();
    if let Some(new) = new {
        std::fs::write(page(), format!("{head}{begin}{new}{end}{tail}")).unwrap();
    }
    new.unwrap_or(old).to_owned()
}

/// With `CAPSTAN_WRITE_GOLDENS=1` the test writes the table of the page.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_has_its_answer_in_each_state_of_the_host() {
    let (silent, others) = tokio::join!(column(Situation::Silent), async {
        let mut others = Vec::new();
        for (_, situation) in COLUMNS.into_iter().filter(|(_, situation)| *situation != Situation::Silent) {
            others.push(column(situation).await);
        }
        others
    });
    let mut columns = others;
    columns.insert(2, silent);
    let scene = Scene::start(Situation::NeverSeen).await;
    let calls = calls(&scene);
    let found = table(&calls, &columns);
    eprintln!("{found}");
    let mut wrong = String::new();
    for (index, call) in calls.iter().enumerate() {
        for ((title, _), (column, expected)) in COLUMNS.iter().zip(columns.iter().zip(call.expected)) {
            let code = column.get(index).copied().unwrap_or_default();
            if code != expected {
                let _ = writeln!(wrong, "{}, {title}: {code} instead of {expected}", call.title);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    let is_new = std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some();
    assert_eq!(of_page(is_new.then_some(found.as_str())), found, "docs/host-outage.md has another table");
}
