//! Paths from `self` to the parts of a value, which share memory as they do in upstream.
//!
//! If a path is one step longer than another, it uses the memory of that other path while there is room. The next step
//! from the same path overwrites the last one. In `self.a.all(x, x.b.all(y, y == x.c))`, `x.b` becomes `x.c` when `x.c`
//! is visited, and the inner iterations are counted as the letters of `c`. This occurs in ordinary rules. The costs
//! must be the same as upstream's, so that the same rules are rejected.

use std::cell::RefCell;
use std::rc::Rc;

/// One step of a path.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Field, or a variable at the start.
    Field(String),
    /// Item of a list, or value of a map.
    Entry,
    /// Key of a map.
    Key,
    /// Index of an item.
    Index,
}

/// Sequence of steps, in memory that other paths may share.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    memory: Rc<RefCell<Vec<Step>>>,
    length: usize,
    room: usize,
}

impl Path {
    /// Reports whether the path is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the path with one more step.
    pub(super) fn and(&self, step: Step) -> Self {
        if self.length < self.room {
            let mut memory = self.memory.borrow_mut();
            // The memory belongs to a path that has continued from here before.
            match memory.get_mut(self.length) {
                Some(before) => *before = step,
                None => memory.push(step),
            }
            return Self { memory: Rc::clone(&self.memory), length: self.length + 1, room: self.room };
        }
        let mut steps = self.steps();
        steps.push(step);
        // Memory grows by doubling.
        let room = self.room.saturating_mul(2).max(1);
        Self { length: steps.len(), memory: Rc::new(RefCell::new(steps)), room }
    }

    /// Returns the current steps.
    pub(super) fn steps(&self) -> Vec<Step> {
        self.memory.borrow().iter().take(self.length).cloned().collect()
    }
}
