//! Rounds of mutations: policies and webhooks run a second time at most, if the object was changed after them.
//!
//! The rules are those of kube-apiserver: a change repeats the webhooks that were called before it. If the policies change
//! the object, all of them that can run again do so, also the last one.

/// Policies and webhooks that have run, and those of them that must run again. Each is an index in its list.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    is_second: bool,
    /// True if a policy has changed the object in this round.
    is_changed_by_policy: bool,
    policies: Called,
    hooks: Called,
}

#[derive(Debug, Default)]
struct Called {
    /// Those that can run again, and have run since the last change.
    before: Vec<usize>,
    /// Those that must run in the second round.
    again: Vec<usize>,
}

impl Called {
    /// Records that those that have run did not see the newest object.
    fn repeat(&mut self) {
        self.again.append(&mut self.before);
    }
}

impl Rounds {
    /// Starts the second round. Returns false if nothing must run in it.
    pub(crate) fn start_second(&mut self) -> bool {
        self.is_second = true;
        !self.policies.again.is_empty() || !self.hooks.again.is_empty()
    }

    /// Returns the number of the round.
    pub(crate) fn number(&self) -> usize {
        usize::from(self.is_second)
    }

    pub(crate) fn is_policy_due(&self, index: usize) -> bool {
        !self.is_second || self.policies.again.contains(&index)
    }

    pub(crate) fn is_hook_due(&self, index: usize) -> bool {
        !self.is_second || self.hooks.again.contains(&index)
    }

    /// Records that a policy has run that can run again.
    pub(crate) fn policy_called(&mut self, index: usize) {
        self.policies.before.push(index);
    }

    /// Records that a webhook was called that can be called again.
    pub(crate) fn hook_called(&mut self, index: usize) {
        self.hooks.before.push(index);
    }

    /// Records a change by a policy. Webhooks run after policies, so only in the second round has one of them run before.
    pub(crate) fn policy_changed(&mut self) {
        self.is_changed_by_policy = true;
        self.hooks.repeat();
    }

    /// Records that all policies of the round have run.
    pub(crate) fn policies_done(&mut self) {
        if std::mem::take(&mut self.is_changed_by_policy) {
            self.policies.repeat();
        }
    }

    /// Records a change by a webhook. In the second round, it can make later webhooks due.
    pub(crate) fn hook_changed(&mut self) {
        self.policies.repeat();
        self.hooks.repeat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_before_a_change_run_again_and_only_once() {
        let mut rounds = Rounds::default();
        rounds.policy_called(0);
        rounds.policies_done();
        rounds.hook_called(0);
        rounds.hook_changed();
        rounds.hook_called(1);
        assert!(rounds.is_hook_due(5) && rounds.start_second() && rounds.number() == 1);
        assert!(rounds.is_policy_due(0), "a webhook has changed what the policy saw");
        assert!(rounds.is_hook_due(0) && !rounds.is_hook_due(1));
        rounds.policy_changed();
        assert!(rounds.is_hook_due(1), "a policy of the second round changes what all webhooks saw");
        assert!(!Rounds::default().start_second());
    }

    #[test]
    fn a_policy_that_changes_the_object_runs_again_itself() {
        let mut rounds = Rounds::default();
        rounds.policy_called(0);
        rounds.policies_done();
        assert!(!rounds.start_second(), "nothing was changed");
        let mut rounds = Rounds::default();
        rounds.policy_changed();
        rounds.policy_called(2);
        rounds.policies_done();
        assert!(rounds.start_second() && rounds.is_policy_due(2) && !rounds.is_policy_due(1));
    }

    #[test]
    fn a_change_in_the_second_round_reaches_later_webhooks() {
        let mut rounds = Rounds::default();
        for index in [0, 1] {
            rounds.hook_changed();
            rounds.hook_called(index);
        }
        assert!(rounds.start_second() && rounds.is_hook_due(0) && !rounds.is_hook_due(1));
        rounds.hook_changed();
        rounds.hook_called(0);
        assert!(rounds.is_hook_due(1), "it was called before the change of the second round");
    }
}
