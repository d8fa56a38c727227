//! How much an input may cost.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ALLOCATOR;
use crate::finding::{Finding, Verdict, demand};

/// What any input may take, whatever its size: some thirty times the largest body, which a patch may copy
/// together from nothing. Unit: bytes.
const MEMORY: usize = 96 * 1024 * 1024;

/// What each byte of it may take beyond that: a byte of JSON such as `0,` is a value of 32 bytes, of
/// which a handful of copies are alive while an object is written.
const MEMORY_PER_BYTE: usize = 256;

/// What any input may take of the processor, in half a dozen requests: a patch may copy as much together
/// as the largest body holds.
const TIME: Duration = Duration::from_secs(5);

/// What each byte of it may take beyond that, in code that counts where it goes.
const TIME_PER_BYTE: Duration = Duration::from_micros(16);

/// Code without optimisation takes longer.
const SLOWER: u32 = if cfg!(feature = "engine") { 1 } else { 8 };

/// How the kernel counts time, on every Linux. Unit: a second's part.
const TICKS: u64 = 100;

/// One input at a time: the peak of memory is the whole process's.
static TURN: Mutex<()> = Mutex::new(());

/// What judging an input took.
struct Cost {
    /// At most at a time, beyond what was in use before. Unit: bytes.
    memory: usize,
    processor: Duration,
}

/// Judges an input of `size` bytes, and what it costs. Who waits and uses nothing is the engine's to find.
pub(crate) fn within(size: usize, judge: impl FnOnce() -> Verdict) -> Verdict {
    let (verdict, cost) = measured(judge)?;
    verdict?;
    affordable(size, &cost)
}

/// What `judge` said, and what it took.
fn measured(judge: impl FnOnce() -> Verdict) -> Result<(Verdict, Cost), Finding> {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    ALLOCATOR.reset_peak_usage();
    let (before, started) = (ALLOCATOR.current_usage(), used()?);
    let verdict = judge();
    let processor = used()?.saturating_sub(started);
    let memory = ALLOCATOR.peak_usage().saturating_sub(before);
    Ok((verdict, Cost { memory, processor }))
}

/// Whether an input of `size` bytes may cost that much.
fn affordable(size: usize, cost: &Cost) -> Verdict {
    let Cost { memory, processor } = cost;
    let may = MEMORY.saturating_add(MEMORY_PER_BYTE.saturating_mul(size));
    demand(*memory <= may, || {
        format!("{size} bytes of input took {memory} bytes of memory; {may} are allowed")
    })?;
    let size_in_time = u32::try_from(size).unwrap_or(u32::MAX);
    let may = TIME.saturating_add(TIME_PER_BYTE.saturating_mul(size_in_time)).saturating_mul(SLOWER);
    demand(*processor <= may, || {
        format!("{size} bytes of input took {processor:?} of the processor; {may:?} are allowed")
    })
}

/// The time of processors that this process has used: a machine that does something else, too, makes an
/// input wait and not cost more.
fn used() -> Result<Duration, Finding> {
    let path = "/proc/self/stat";
    let text = std::fs::read_to_string(path).map_err(|error| Finding(format!("{path}: {error}")))?;
    // After the program's name, which may have spaces, the twelfth and thirteenth field.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_small_and_quick_is_within_bounds() {
        assert_eq!(within(10, || Ok(())), Ok(()));
    }

    #[test]
    fn too_much_memory_is_found() {
        let much = || {
            std::hint::black_box(vec![1_u8; MEMORY + 4 * MEMORY_PER_BYTE]);
            Ok(())
        };
        let finding = within(1, much).unwrap_err().to_string();
        assert!(finding.contains("of memory"), "{finding}");
    }

    #[test]
    fn too_much_time_is_found() {
        let cost = Cost { memory: 0, processor: (TIME + TIME_PER_BYTE * 2) * SLOWER };
        assert_eq!(affordable(2, &cost), Ok(()));
        let finding = affordable(1, &cost).unwrap_err().to_string();
        assert!(finding.contains("of the processor"), "{finding}");
    }

    #[test]
    fn time_of_the_processor_counts() {
        let busy = Duration::from_millis(100);
        let slow = || {
            let started = used()?;
            while used()? < started + busy {}
            Ok(())
        };
        let (verdict, cost) = measured(slow).unwrap();
        assert_eq!(verdict, Ok(()));
        assert!(cost.processor >= busy, "{:?}", cost.processor);
    }
}
