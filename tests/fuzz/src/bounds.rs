//! Bounds of the memory and processor time that an input may take.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ALLOCATOR;
use crate::finding::{Finding, Verdict, demand};

/// Memory that any input may take, in bytes. It is about thirty times the largest body, because a small patch
/// may create an object of that size by copies.
const MEMORY: usize = 96 * 1024 * 1024;

/// Memory that each byte of the input may take in addition, in bytes. A byte of JSON such as `0,` becomes a
/// value of 32 bytes, of which several copies exist while an object is written.
const MEMORY_PER_BYTE: usize = 256;

/// Processor time that any input may take, in half a dozen requests: a small patch may create an object as
/// large as the largest body by copies.
const TIME: Duration = Duration::from_secs(5);

/// Processor time that each byte of the input may take in addition, in code that counts coverage.
const TIME_PER_BYTE: Duration = Duration::from_micros(16);

/// Factor for code without optimisation.
const UNOPTIMISED_FACTOR: u32 = if cfg!(feature = "engine") { 1 } else { 8 };

/// Clock ticks per second, on every Linux.
const TICKS: u64 = 100;

/// Lock for one input at a time: the peak of memory is that of the whole process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Resources that the check of an input took.
struct ResourceUse {
    /// Peak of memory beyond the memory in use before, in bytes.
    memory: usize,
    processor: Duration,
}

/// Checks an input of `size` bytes, and its use of resources. The engine itself finds inputs that wait
/// without using the processor.
pub(crate) fn check_within_bounds(size: usize, check: impl FnOnce() -> Verdict) -> Verdict {
    let (verdict, cost) = measured(check)?;
    verdict?;
    affordable(size, &cost)
}

/// Runs `check`, and returns its verdict and the resources that it took.
fn measured(check: impl FnOnce() -> Verdict) -> Result<(Verdict, ResourceUse), Finding> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    ALLOCATOR.reset_peak_usage();
    let (before, started) = (ALLOCATOR.current_usage(), used()?);
    let verdict = check();
    let processor = used()?.saturating_sub(started);
    let memory = ALLOCATOR.peak_usage().saturating_sub(before);
    Ok((verdict, ResourceUse { memory, processor }))
}

/// Checks that an input of `size` bytes may take these resources.
fn affordable(size: usize, cost: &ResourceUse) -> Verdict {
    let ResourceUse { memory, processor } = cost;
    let may = MEMORY.saturating_add(MEMORY_PER_BYTE.saturating_mul(size));
    demand(*memory <= may, || {
        format!("{size} bytes of input took {memory} bytes of memory; {may} are allowed")
    })?;
    let size_in_time = u32::try_from(size).unwrap_or(u32::MAX);
    let may =
        TIME.saturating_add(TIME_PER_BYTE.saturating_mul(size_in_time)).saturating_mul(UNOPTIMISED_FACTOR);
    demand(*processor <= may, || {
        format!("{size} bytes of input took {processor:?} of the processor; {may:?} are allowed")
    })
}

/// Returns the processor time of this process. Other processes on the machine delay an input, but do not add
/// to this time.
fn used() -> Result<Duration, Finding> {
    let path = "/proc/self/stat";
    let text = std::fs::read_to_string(path).map_err(|error| Finding(format!("{path}: {error}")))?;
    // The fields 12 and 13 after the program's name, which may contain spaces.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_and_quick_input_is_within_bounds() {
        assert_eq!(check_within_bounds(10, || Ok(())), Ok(()));
    }

    #[test]
    fn too_much_memory_is_found() {
        let much = || {
            std::hint::black_box(vec![1_u8; MEMORY + 4 * MEMORY_PER_BYTE]);
            Ok(())
        };
        let finding = check_within_bounds(1, much).unwrap_err().to_string();
        assert!(finding.contains("of memory"), "{finding}");
    }

    #[test]
    fn too_much_time_is_found() {
        let cost = ResourceUse { memory: 0, processor: (TIME + TIME_PER_BYTE * 2) * UNOPTIMISED_FACTOR };
        assert_eq!(affordable(2, &cost), Ok(()));
        let finding = affordable(1, &cost).unwrap_err().to_string();
        assert!(finding.contains("of the processor"), "{finding}");
    }

    #[test]
    fn processor_time_is_measured() {
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
