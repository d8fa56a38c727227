//! Where a walk over a value is.

use std::fmt;

use crate::field_errors::FieldPath;

/// A field's path that is written out only when something is to be said of the field: most walks find nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location<'a> {
    above: Option<&'a Self>,
    step: Step<'a>,
}

/// The last part of a path.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    /// Where the walk began.
    Start(&'a FieldPath),
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Location<'a> {
    /// Where a walk begins.
    pub(crate) fn at(path: &'a FieldPath) -> Self {
        Self { above: None, step: Step::Start(path) }
    }

    /// A field of the object here.
    pub(crate) fn child(&'a self, name: &'a str) -> Self {
        Self { above: Some(self), step: Step::Field(name) }
    }

    /// An element of the list here.
    pub(crate) fn index(&'a self, index: usize) -> Self {
        Self { above: Some(self), step: Step::Index(index) }
    }

    /// A value of the map here.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { above: Some(self), step: Step::Key(key) }
    }

    /// The path.
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
