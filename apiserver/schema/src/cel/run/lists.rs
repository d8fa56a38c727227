//! List functions of CEL. They copy as little as possible, because a low cost must mean a short time.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_cel::cel::Value as Cel;

use super::functions::type_of;
use super::operators::{self, compared, none, some};
use super::{Failure, Outcome};

/// Evaluates a list function; `None` if the function is another one.
pub(super) fn result(name: &str, items: &[Cel], others: &[Cel]) -> Option<Outcome> {
    Some(match (name, others) {
        ("first", []) => Ok(items.first().map_or_else(none, |item| some(item.clone()))),
        ("last", []) => Ok(items.last().map_or_else(none, |item| some(item.clone()))),
        ("max" | "min", []) => extreme(name, items),
        ("isSorted", []) => is_sorted(items),
        ("sum", []) if !items.is_empty() => sum(items),
        ("sort", []) => sorted(items, items),
        ("slice", [Cel::Int(from), Cel::Int(to)]) => slice(items, *from, *to),
        ("indexOf", [item]) => Ok(number(items.iter().position(|one| one == item))),
        ("lastIndexOf", [item]) => Ok(number(items.iter().rposition(|one| one == item))),
        _ => return None,
    })
}

fn number(index: Option<usize>) -> Cel {
    Cel::Int(index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1))
}

fn extreme(name: &str, items: &[Cel]) -> Outcome {
    let wanted = if name == "max" { Ordering::Greater } else { Ordering::Less };
    let Some((first, others)) = items.split_first() else {
        return Err(Failure::Error(format!("{name} called on empty list")));
    };
    let found = others.iter().try_fold(first, |found, item| {
        compared(item, found).map(|order| if order == wanted { item } else { found })
    });
    found.cloned()
}

fn is_sorted(items: &[Cel]) -> Outcome {
    for (one, next) in items.iter().zip(items.iter().skip(1)) {
        if compared(one, next)? == Ordering::Greater {
            return Ok(Cel::Bool(false));
        }
    }
    Ok(Cel::Bool(true))
}

fn sum(items: &[Cel]) -> Outcome {
    let mut items = items.iter().cloned();
    let first = items.next().ok_or_else(Failure::no_overload)?;
    items.try_fold(first, operators::sum)
}

fn slice(items: &[Cel], from: i64, to: i64) -> Outcome {
    let whole = |number| usize::try_from(number).ok();
    let part = whole(from).zip(whole(to)).and_then(|(from, to)| items.get(from..to));
    part.map(|part| Cel::List(Arc::new(part.to_vec()))).ok_or_else(|| {
        let why = if from < 0 || to < 0 {
            "negative indexes not supported".to_owned()
        } else if from > to {
            "start index must be less than or equal to end index".to_owned()
        } else {
            format!("list is length {}", items.len())
        };
        Failure::Error(format!("cannot slice({from}, {to}), {why}"))
    })
}

pub(super) fn letters(text: &str) -> Cel {
    Cel::List(Arc::new(text.chars().map(|letter| Cel::String(Arc::new(letter.to_string()))).collect()))
}

/// Returns a list in the order of keys in another list.
pub(super) fn sorted(items: &[Cel], keys: &[Cel]) -> Outcome {
    let mut failed = None;
    let mut pairs: Vec<(&Cel, &Cel)> = keys.iter().zip(items).collect();
    let is_odd = |key: &Cel| keys.first().is_some_and(|first| type_of(first) != type_of(key));
    if keys.iter().any(is_odd) {
        return Err(Failure::Error("list elements must have the same type".to_owned()));
    }
    pairs.sort_by(|(one, _), (other, _)| {
        compared(one, other).unwrap_or_else(|failure| {
            failed = Some(failure);
            Ordering::Equal
        })
    });
    match failed {
        Some(failure) => Err(failure),
        None => Ok(Cel::List(Arc::new(pairs.into_iter().map(|(_, item)| item.clone()).collect()))),
    }
}
