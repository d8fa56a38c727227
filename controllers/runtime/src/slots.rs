//! Slots of one loop: the number of passes at the same time.

/// Number of slots taken in turns for each spare one.
const PER_SPARE: u16 = 4;

/// Slots of one loop. A pass holds one from its beginning to its end, or to a long wait for a server outside of this process.
///
/// Most slots are taken in turns. A cluster whose cloud does not answer keeps each slot of its turns for long, and in the
/// end it holds almost all of them. So there are spare ones, for clusters and namespaces with few passes in progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slots {
    in_turn: usize,
    spare: usize,
}

/// Slot that the next pass may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// For the object whose turn it is.
    InTurn,
    /// For an object of a namespace or of a cluster with few passes.
    Spare(Spare),
}

/// Limits of a spare slot. A namespace, or a cluster, with fewer passes in progress may take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spare {
    /// Limit of a namespace, at least one.
    pub(crate) namespace: usize,
    /// Limit of a cluster.
    pub(crate) cluster: usize,
}

impl Slots {
    /// Creates slots for as many passes in turns, and spare ones for a quarter as many.
    pub(crate) fn new(concurrency: u16) -> Self {
        Self { in_turn: usize::from(concurrency), spare: usize::from(concurrency / PER_SPARE) }
    }

    /// Returns the slot for the next pass, while this many are taken; `None` if there is no more.
    ///
    /// The limits of a spare slot shrink with the number of free ones. So the first clusters leave slots for others. The
    /// clusters of one namespace leave the last half to other namespaces.
    pub(crate) fn next(self, in_turn: usize, spare: usize) -> Option<Slot> {
        if in_turn < self.in_turn {
            return Some(Slot::InTurn);
        }
        let namespace = self.spare.saturating_sub(spare);
        let cluster = (self.spare / 2).saturating_sub(spare);
        (namespace > 0).then_some(Slot::Spare(Spare { namespace, cluster }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_in_turns_first_and_the_limits_of_spare_ones_shrink() {
        let slots = Slots::new(16);
        assert_eq!(slots.next(0, 0), Some(Slot::InTurn));
        assert_eq!(slots.next(15, 4), Some(Slot::InTurn), "spare passes take no turn");
        let limits = [(4, 2), (3, 1), (2, 0), (1, 0)];
        for (taken, (namespace, cluster)) in limits.into_iter().enumerate() {
            assert_eq!(slots.next(16, taken), Some(Slot::Spare(Spare { namespace, cluster })));
        }
        assert_eq!(slots.next(16, 4), None);
    }

    #[test]
    fn a_loop_of_one_pass_never_makes_two() {
        let slots = Slots::new(1);
        assert_eq!((slots.next(0, 0), slots.next(1, 0)), (Some(Slot::InTurn), None));
    }

    #[test]
    fn a_cluster_that_holds_all_slots_may_take_no_spare_one() {
        for concurrency in 1..=1000 {
            let Some(Slot::Spare(spare)) = Slots::new(concurrency).next(usize::from(concurrency), 0) else {
                continue;
            };
            let most = usize::from(concurrency);
            assert!(spare.namespace < most && spare.cluster < most, "{concurrency}: {spare:?}");
        }
    }
}
