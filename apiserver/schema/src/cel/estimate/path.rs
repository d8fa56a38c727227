//! Paths from `self` to what an expression looks at, which upstream lets share memory.
//!
//! A path that is one step longer than another lies in the memory of that other while there is room, and the next
//! step from the same place overwrites the last: in `self.a.all(x, x.b.all(y, y == x.c))`, `x.b` becomes `x.c` when
//! that is looked at, and the inner rounds are counted as the letters of `c`. That is seen in ordinary rules, and
//! costs are to be the same, so that the same rules are refused.

use std::cell::RefCell;
use std::rc::Rc;

/// One step of a path.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// A field, or a variable at the start.
    Field(String),
    /// An item of a list, or a value of a map.
    Entry,
    /// A key of a map.
    Key,
    /// The number of an item.
    Index,
}

/// Some steps, of memory that others may share.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    memory: Rc<RefCell<Vec<Step>>>,
    length: usize,
    room: usize,
}

impl Path {
    /// Whether it leads nowhere.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The path one step further.
    pub(super) fn and(&self, step: Step) -> Self {
        if self.length < self.room {
            let mut memory = self.memory.borrow_mut();
            // What lies there belongs to a path that has gone on from here before.
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

    /// What it is now.
    pub(super) fn steps(&self) -> Vec<Step> {
        self.memory.borrow().iter().take(self.length).cloned().collect()
    }
}
