//! Evaluation of lists, maps and comprehensions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use kube_cel::cel::Value as Cel;
use kube_cel::cel::common::ast::{ComprehensionExpr, EntryExpr, IdedExpr, ListExpr, MapExpr, StructExpr};
use kube_cel::cel::objects::{Key, Map};

use super::operators::{self, optional};
use super::{Failure, Outcome, Run, State, Variable, is_final};
use crate::cel::estimate::{LIST, MAP};
use crate::cel::macros;
use crate::cel::value::unescaped;

/// Cost of the creation of an object: upstream's.
const STRUCT: u64 = 40;

impl<'e> Run<'e> {
    pub(super) fn list(&mut self, expression: &'e IdedExpr, list: &'e ListExpr) -> Outcome {
        if let Some(known) = self.constants.get(&expression.id) {
            return Ok(known.clone());
        }
        let is_constant = self.is_constant(expression);
        let made = self.items(list);
        if is_constant {
            self.constants.insert(expression.id, made.clone()?);
        } else if !is_final(&made) {
            self.spend(LIST)?;
        }
        made
    }

    fn items(&mut self, list: &'e ListExpr) -> Outcome {
        let mut items = Vec::with_capacity(list.elements.len());
        for (index, part) in list.elements.iter().enumerate() {
            let value = self.value(part)?;
            if list.optional_indices.contains(&index) {
                items.extend(optional(&value).ok_or_else(Failure::no_overload)?.cloned());
            } else {
                items.push(value);
            }
        }
        Ok(Cel::List(Arc::new(items)))
    }

    /// Evaluates the creation of an object, whose value is a map.
    pub(super) fn made(&mut self, made: &'e StructExpr) -> Outcome {
        let mut entries = HashMap::with_capacity(made.entries.len());
        for entry in &made.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let value = self.value(&field.value)?;
            let value = match field.optional {
                true => match optional(&value).ok_or_else(Failure::no_overload)? {
                    Some(value) => value.clone(),
                    None => continue,
                },
                false => value,
            };
            entries.insert(Key::String(Arc::new(unescaped(&field.field))), value);
        }
        self.spend(STRUCT)?;
        Ok(Cel::Map(Map { map: Arc::new(entries) }))
    }

    pub(super) fn map(&mut self, expression: &'e IdedExpr, map: &'e MapExpr) -> Outcome {
        if let Some(known) = self.constants.get(&expression.id) {
            return Ok(known.clone());
        }
        let is_constant = self.is_constant(expression);
        let made = self.entries(map);
        if is_constant {
            self.constants.insert(expression.id, made.clone()?);
        } else if !is_final(&made) {
            self.spend(MAP)?;
        }
        made
    }

    fn entries(&mut self, map: &'e MapExpr) -> Outcome {
        let mut entries = HashMap::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(Failure::no_overload()) };
            let key = operators::key(&self.value(&entry.key)?)?;
            let value = self.value(&entry.value)?;
            if !entry.optional {
                entries.insert(key, value);
            } else if let Some(value) = optional(&value).ok_or_else(Failure::no_overload)? {
                entries.insert(key, value.clone());
            }
        }
        Ok(Cel::Map(Map { map: Arc::new(entries) }))
    }

    pub(super) fn comprehension(&mut self, inner: &'e ComprehensionExpr) -> Outcome {
        let range = self.value(&inner.iter_range)?;
        let around = self.variables.len();
        self.variables.push(Variable { name: &inner.accu_var, state: State::Later(&inner.accu_init) });
        let gone_over = if macros::is_name(inner) { Ok(()) } else { self.iterate(inner, &range, around) };
        self.variables.truncate(around + 1);
        let result = gone_over.and_then(|()| self.value(&inner.result));
        self.variables.truncate(around);
        result
    }

    /// Runs all iterations. `made` is the index of the accumulator variable.
    fn iterate(&mut self, inner: &'e ComprehensionExpr, range: &Cel, made: usize) -> Result<(), Failure> {
        let (list, map);
        let rounds: &mut dyn Iterator<Item = (Cel, Cel)> = match range {
            Cel::List(items) => {
                list = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| (Cel::Int(i64::try_from(index).unwrap_or(i64::MAX)), item.clone()));
                &mut { list }
            }
            Cel::Map(entries) => {
                map = entries.map.iter().map(|(key, value)| (Cel::from(key), value.clone()));
                &mut { map }
            }
            _ => return Err(Failure::no_overload()),
        };
        for (key, value) in rounds {
            let (first, second) = match (&inner.iter_var2, range) {
                (Some(_), _) | (None, Cel::Map(_)) => (key, value),
                (None, _) => (value, Cel::Null),
            };
            self.variables.truncate(made + 1);
            self.variables.push(Variable { name: &inner.iter_var, state: State::Known(first) });
            if let Some(name) = &inner.iter_var2 {
                self.variables.push(Variable { name, state: State::Known(second) });
            }
            match self.value(&inner.loop_cond) {
                Ok(Cel::Bool(false)) => break,
                Err(failure) if failure.is_final() => return Err(failure),
                _ => {}
            }
            let step = self.value(&inner.loop_step);
            if is_final(&step) {
                return step.map(|_| ());
            }
            if Instant::now() > self.until {
                return Err(Failure::Interrupted);
            }
            // An error may not matter in the end: in `all`, a later item can decide.
            self.set(made, step);
        }
        Ok(())
    }

    /// Takes the accumulated value out of its variable, so that it grows in place.
    pub(super) fn taken(&mut self, name: &str) -> Outcome {
        let value = self.named(name)?;
        if let Some(index) = self.index_of(name) {
            self.set(index, Ok(Cel::Null));
        }
        Ok(value)
    }

    /// Returns a map with one more entry, or with the entries of another map.
    pub(super) fn inserted(map: Cel, entries: Vec<Cel>) -> Outcome {
        let Cel::Map(mut map) = map else { return Err(Failure::no_overload()) };
        let mut insert = |key: Key, value: Cel| {
            if map.get(&key).is_some() {
                return Err(Failure::Error(format!(
                    "insert failed: key {} already exists",
                    operators::shown(&key)
                )));
            }
            Arc::make_mut(&mut map.map).insert(key, value);
            Ok(())
        };
        match <[Cel; 2]>::try_from(entries) {
            Ok([key, value]) => insert(operators::key(&key)?, value)?,
            Err(entries) => match entries.as_slice() {
                [Cel::Map(more)] => {
                    for (key, value) in more.map.iter() {
                        insert(key.clone(), value.clone())?;
                    }
                }
                _ => return Err(Failure::no_overload()),
            },
        }
        Ok(Cel::Map(map))
    }
}
