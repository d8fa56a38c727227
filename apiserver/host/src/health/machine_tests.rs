//! Tests of the state machine of the host.

use super::*;

const FULL: Option<Listed> = Some(Listed { known: 100, missing: 0 });
const EMPTY: Option<Listed> = Some(Listed { known: 100, missing: 100 });

/// Machine with a clock.
struct World {
    machine: Machine,
    now: Instant,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self { machine: Machine::new(now), now }
    }

    fn up() -> Self {
        let mut world = Self::new();
        assert_eq!(world.probe(Probe::Ready(FULL)), HostState::Up);
        world
    }

    fn after(&mut self, seconds: u64) -> &mut Self {
        self.now += Duration::from_secs(seconds);
        self
    }

    fn probe(&mut self, probe: Probe) -> HostState {
        self.machine.probe(self.now, probe);
        self.machine.state()
    }

    fn request(&mut self, outcome: Outcome) -> HostState {
        self.machine.request(self.now, outcome);
        self.machine.state()
    }

    fn answer(&mut self, milliseconds: u64) -> HostState {
        self.request(Outcome::Answer(Duration::from_millis(milliseconds)))
    }

    /// Makes the host fail.
    fn down(&mut self) -> &mut Self {
        for _ in 0..FAILURES {
            self.request(Outcome::Failure);
        }
        assert_eq!(self.machine.state(), HostState::Down);
        self
    }

    /// Probes each second. Returns after how many seconds the host is up, or `None` after `longest`.
    fn recovers(&mut self, list: Option<Listed>, longest: u64) -> Option<u64> {
        (0..=longest).find(|_| {
            let list = self.machine.wants_list(self.now).then_some(list).flatten();
            let is_up = self.probe(Probe::Ready(list)) == HostState::Up;
            self.after(u64::from(!is_up));
            is_up
        })
    }
}

#[test]
fn a_host_that_answers_from_the_start_is_up_at_once() {
    let mut world = World::new();
    assert_eq!(world.machine.state(), HostState::Probation);
    assert!(world.machine.wants_list(world.now));
    assert_eq!(world.probe(Probe::Ready(FULL)), HostState::Up);
    let mut restored = World::new();
    assert_eq!(restored.probe(Probe::Ready(EMPTY)), HostState::Probation, "it lost its namespaces");
    let mut down = World::new();
    assert_eq!(down.down().recovers(FULL, 60), Some(10), "it was down at the start");
}

#[test]
fn three_failures_in_a_row_or_five_seconds_of_silence_are_down() {
    let mut world = World::up();
    for _ in 0..2 {
        assert_eq!(world.request(Outcome::Failure), HostState::Up);
    }
    world.answer(5);
    assert_eq!(world.request(Outcome::Failure), HostState::Up, "an answer was between them");
    world.down();
    let mut silent = World::up();
    silent.answer(5);
    assert_eq!(silent.after(2).request(Outcome::TimedOut), HostState::Up);
    assert_eq!(silent.after(3).request(Outcome::TimedOut), HostState::Down);
}

#[test]
fn three_slow_answers_of_the_last_ten_are_slow() {
    let mut world = World::up();
    assert_eq!([world.answer(1500), world.answer(5), world.answer(1500)], [HostState::Up; 3]);
    assert_eq!(world.answer(1500), HostState::Slow);
    assert!(world.machine.state().believes_reviews() && !world.machine.state().believes_absence());
    for _ in 0..7 {
        world.answer(5);
    }
    assert_eq!(world.machine.state(), HostState::Up);
}

#[test]
fn a_host_that_is_back_proves_for_ten_seconds_that_it_is_whole() {
    let mut world = World::up();
    assert_eq!(world.down().recovers(FULL, 60), Some(10));
    assert_eq!(world.down().probe(Probe::Unready), HostState::Down, "it may be another host");
    assert_eq!(world.probe(Probe::Ready(None)), HostState::Probation, "it answers");
    for _ in 0..20 {
        assert_eq!(world.after(1).probe(Probe::Refused), HostState::Probation, "our credential is refused");
    }
    assert_eq!(world.recovers(FULL, 60), Some(10));
    world.down().probe(Probe::Ready(FULL));
    world.after(5).probe(Probe::Silent);
    assert_eq!(world.recovers(FULL, 60), Some(10), "a silence begins the time anew");
}

#[test]
fn a_host_without_its_namespaces_is_believed_after_an_hour() {
    let mut world = World::up();
    assert_eq!(world.down().recovers(EMPTY, 3599), None);
    assert_eq!(world.recovers(EMPTY, 60), Some(0));
    let table = [(100, 10, true), (100, 11, false), (3, 3, true), (20, 5, true), (20, 6, false)];
    for (known, missing, expected) in table {
        assert_eq!(Listed { known, missing }.is_plausible(), expected, "{missing} of {known}");
    }
}

#[test]
fn a_host_that_stays_unready_is_not_believed() {
    let mut world = World::up();
    assert_eq!(world.probe(Probe::Unready), HostState::Up);
    assert_eq!(world.probe(Probe::Unready), HostState::Up);
    assert_eq!(world.probe(Probe::Unready), HostState::Probation);
    assert!(!world.machine.state().believes_reviews() && !world.machine.state().is_cut_off());
}

#[test]
fn another_host_is_cut_off_until_the_known_one_is_back() {
    let mut world = World::up();
    assert_eq!(world.probe(Probe::Stranger), HostState::Other);
    assert!(world.machine.state().is_cut_off());
    assert_eq!(world.request(Outcome::Failure), HostState::Other);
    assert_eq!(world.answer(5), HostState::Other);
    assert_eq!(world.probe(Probe::Unready), HostState::Other);
    assert_eq!(world.recovers(FULL, 60), Some(10));
}
