//! Rounds of mutations: policies and webhooks run a second time at most, if the object was changed after them.

/// Policies and webhooks that have run, and those of them that must run again. Each is an index in its list.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    is_second: bool,
    policies: Called,
    hooks: Called,
}

#[derive(Debug, Default)]
struct Called {
    /// Those that can run again.
    before: Vec<usize>,
    /// Those that must run in the second round.
    again: Vec<usize>,
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
        if !self.is_second {
            self.policies.before.push(index);
        }
    }

    /// Records that a webhook was called that can be called again.
    pub(crate) fn hook_called(&mut self, index: usize) {
        if !self.is_second {
            self.hooks.before.push(index);
        }
    }

    /// Records a change by a policy. Webhooks run after policies, so in the second round they see it.
    pub(crate) fn policy_changed(&mut self) {
        if self.is_second {
            self.hooks.again.clone_from(&self.hooks.before);
        } else {
            self.policies.again.clone_from(&self.policies.before);
        }
    }

    /// Records a change by a webhook.
    pub(crate) fn hook_changed(&mut self) {
        if !self.is_second {
            self.policies.again.clone_from(&self.policies.before);
            self.hooks.again.clone_from(&self.hooks.before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_before_a_change_run_again_and_only_once() {
        let mut rounds = Rounds::default();
        rounds.policy_called(0);
        rounds.policy_changed();
        rounds.policy_called(1);
        rounds.hook_called(0);
        rounds.hook_changed();
        rounds.hook_called(1);
        assert!(rounds.is_hook_due(5) && rounds.start_second() && rounds.number() == 1);
        assert!(rounds.is_policy_due(0) && rounds.is_policy_due(1));
        assert!(rounds.is_hook_due(0) && !rounds.is_hook_due(1));
        rounds.policy_changed();
        assert!(rounds.is_hook_due(1), "a policy of the second round changes what all webhooks saw");
        assert!(!Rounds::default().start_second());
    }
}
