//! Location of a walk in a value: a field path that is built only for errors.

use std::fmt;

use crate::field_errors::FieldPath;

/// Path of a field in linked parts. It becomes text only if the field has an error, and most walks find none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    above: Option<&'a Self>,
    step: Step<'a>,
}

/// Last part of a path.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// Start of the walk.
    Start(&'a FieldPath),
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Location<'a> {
    /// Creates the location of the start of a walk.
    pub(crate) fn at(path: &'a FieldPath) -> Self {
        Self { above: None, step: Step::Start(path) }
    }

    /// Returns the location of a field of this object.
    pub(crate) fn child(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: Step::Field(name) }
    }

    /// Returns the location of an element of this list.
    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Index(index) }
    }

    /// Returns the location of a value of this map.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { above: Some(self), step: Step::Key(key) }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> FieldPath {
        let above = || self.above.map(Location::path).unwrap_or_default();
        match self.step {
            Step::Start(path) => path.clone(),
            Step::Field(name) => above().child(name),
            Step::Index(index) => above().index(index),
            Step::Key(key) => above().key(key),
        }
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}
