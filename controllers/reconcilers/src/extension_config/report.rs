//! Status of an ExtensionConfig. Pure.

use apiserver_types::{Condition, ConditionStatus, ExtensionConfig, ExtensionHandler, Time, set_condition};

use super::decide::Outcome;
use crate::deprecated_conditions::{self, Old};
use crate::{condition_order, paused};

/// Condition about the list of handlers, in both forms.
const DISCOVERED: &str = "Discovered";

/// Writes the status. Without an answer, the handlers stay as they were discovered last.
pub(super) fn report(config: &mut ExtensionConfig, outcome: &Outcome, now: &Time) {
    report_pause(config, now);
    let generation = config.metadata.generation;
    let status = config.status.get_or_insert_default();
    let (holds, reason, message, old) = match outcome {
        Ok(handlers) => {
            status.handlers = (!handlers.is_empty()).then(|| handlers.clone());
            (ConditionStatus::True, "Discovered", "", Old::True)
        }
        Err(message) => {
            let old = Old::no("Error", "DiscoveryFailed", message.clone());
            (ConditionStatus::False, "NotDiscovered", message.as_str(), old)
        }
    };
    let condition = Condition::new(DISCOVERED, holds, reason, message, now.clone());
    let conditions = status.conditions.get_or_insert_default();
    set_condition(conditions, condition.at_generation(generation));
    condition_order::sort(conditions);
    let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(deprecated.conditions.get_or_insert_default(), DISCOVERED, old, now);
}

/// Writes the condition about the pause alone.
pub(super) fn report_pause(config: &mut ExtensionConfig, now: &Time) {
    let condition = paused::condition(config, None, now).at_generation(config.metadata.generation);
    let conditions = config.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition);
    condition_order::sort(conditions);
}

/// Returns true if the server answers again, or with another list.
pub(super) fn has_news(before: &ExtensionConfig, after: &ExtensionConfig) -> bool {
    let state = |config: &ExtensionConfig| {
        let is_discovered = config.condition(DISCOVERED).is_some_and(Condition::holds);
        (is_discovered, config.status.as_ref().and_then(|status| status.handlers.clone()))
    };
    state(before) != state(after)
}

/// Returns the words about a list of handlers.
pub(super) fn summary(handlers: &[ExtensionHandler]) -> String {
    let names: Vec<String> =
        handlers.iter().map(|it| format!("{} ({})", it.name, it.request_hook.hook)).collect();
    match names.is_empty() {
        true => "the server lists no handlers".to_owned(),
        false => format!("the server lists {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ExtensionConfigSpec, GroupVersionHook};

    use super::*;

    fn handler(name: &str) -> ExtensionHandler {
        let request_hook = GroupVersionHook { api_version: "v".to_owned(), hook: "UpdateMachine".to_owned() };
        ExtensionHandler { name: name.to_owned(), request_hook, ..ExtensionHandler::default() }
    }

    fn names(config: &ExtensionConfig) -> Vec<String> {
        let handlers = config.status.as_ref().and_then(|status| status.handlers.clone()).unwrap_or_default();
        handlers.into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn the_condition_has_both_forms_and_the_handlers_outlive_a_failure() {
        let mut config = ExtensionConfig::new("ext", ExtensionConfigSpec::default());
        config.metadata.generation = Some(3);
        let before = config.clone();
        report(&mut config, &Ok(vec![handler("up.ext")]), &Time::default());
        assert!(has_news(&before, &config));
        let condition = config.condition("Discovered").unwrap().clone();
        assert_eq!((condition.holds(), condition.reason.as_str()), (true, "Discovered"));
        assert_eq!(condition.observed_generation, Some(3));
        assert_eq!(config.condition("Paused").unwrap().reason, "NotPaused");
        let again = config.clone();
        report(&mut config, &Ok(vec![handler("up.ext")]), &Time::default());
        assert!(!has_news(&again, &config) && again == config);
        report(&mut config, &Err("refused".to_owned()), &Time::default());
        let condition = config.condition("Discovered").unwrap();
        assert_eq!((condition.holds(), condition.reason.as_str()), (false, "NotDiscovered"));
        assert_eq!(condition.message, "refused");
        assert_eq!(names(&config), ["up.ext"]);
        let old = config.status.clone().unwrap().deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
        let shown = (old[0].kind.as_str(), old[0].status.as_str(), old[0].reason.as_deref());
        assert_eq!(shown, ("Discovered", "False", Some("DiscoveryFailed")));
        assert_eq!(old[0].severity.as_deref(), Some("Error"));
        report(&mut config, &Ok(Vec::new()), &Time::default());
        assert_eq!(names(&config), Vec::<String>::new(), "the server has none any more");
    }

    #[test]
    fn the_handlers_are_summed_up_with_their_hooks() {
        assert_eq!(summary(&[]), "the server lists no handlers");
        let two = summary(&[handler("a.ext"), handler("b.ext")]);
        assert_eq!(two, "the server lists a.ext (UpdateMachine), b.ext (UpdateMachine)");
    }
}
