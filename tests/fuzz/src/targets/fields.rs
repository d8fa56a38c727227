//! Target for `fieldsV1`: a written set is read as the same set, and always written in the same way.

use apiserver_structured_merge::{read, text, write};
use serde_json::Value;

use crate::finding::{Verdict, demand};

pub(super) fn check(input: &[u8]) -> Verdict {
    let Ok(value) = serde_json::from_slice::<Value>(input) else { return Ok(()) };
    let set = match read(&value) {
        Ok(set) => set,
        Err(refusal) => {
            return demand(!refusal.to_string().is_empty(), || {
                format!("{value} is refused without a message")
            });
        }
    };
    let written = write(&set);
    let again = read(&written);
    demand(again.as_ref() == Ok(&set), || {
        format!("{value} is {set:?}, written {written}, and read as {again:?}")
    })?;
    let twice = again.map(|set| write(&set)).unwrap_or_default();
    let (first, second) = (written.to_string(), twice.to_string());
    demand(first == second, || format!("{value} is written as {first}, and then as {second}"))?;
    let as_text = text(&set);
    demand(first == as_text, || format!("{value} is written as {first}, and as text {as_text}"))?;
    check_algebra(&set)
}

/// Checks the laws of sets on which merging depends.
fn check_algebra(set: &apiserver_structured_merge::Set) -> Verdict {
    let (mut both, mut none) = (set.clone(), set.clone());
    both.add(set.clone());
    none.subtract(set);
    demand(both == *set && none.is_empty(), || {
        format!("{set:?} with itself is {both:?}, without itself {none:?}")
    })?;
    let paths = set.paths();
    demand(paths.iter().all(|path| set.has(&path.0)), || format!("{set:?} lacks one of its own paths"))?;
    demand(apiserver_structured_merge::Set::of(paths) == *set, || {
        format!("{set:?} is not the set of its paths")
    })
}
