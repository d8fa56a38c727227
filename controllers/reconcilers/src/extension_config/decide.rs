//! Decision about an ExtensionConfig. Pure.

use apiserver_types::{ExtensionConfig, ExtensionHandler};

use super::observe::Authority;

/// Handlers of a server, or why they are not known. For people.
pub(super) type Outcome = Result<Vec<ExtensionHandler>, String>;

/// State of an ExtensionConfig and its server, as far as a pass knows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Observed {
    pub authority: Authority,
    /// Answer of the server; `None` before the call.
    pub discovered: Option<Outcome>,
}

/// Next step of a pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Write these CA certificates into the spec.
    Inject(String),
    /// Call the server for the list of its handlers.
    Discover,
    /// Nothing is left to do but the report.
    Report(Outcome),
}

/// Returns the next step.
pub(super) fn next_step(config: &ExtensionConfig, observed: &Observed) -> Step {
    let present = config.spec.client_config.ca_bundle.as_ref().map(|bundle| bundle.0.as_str());
    match (&observed.discovered, &observed.authority) {
        (Some(outcome), _) => Step::Report(outcome.clone()),
        (None, Authority::Unusable(why)) => Step::Report(Err(why.clone())),
        (None, Authority::Found(bundle)) if present != Some(bundle.as_str()) => Step::Inject(bundle.clone()),
        (None, Authority::Found(_) | Authority::NotNamed) => Step::Discover,
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::Bytes;

    use super::*;

    #[test]
    fn the_certificates_come_before_the_discovery_and_the_report_after_it() {
        let mut config = ExtensionConfig::default();
        let step = |config: &ExtensionConfig, authority: Authority, discovered: Option<Outcome>| {
            next_step(config, &Observed { authority, discovered })
        };
        let found = || Authority::Found("new".to_owned());
        assert_eq!(step(&config, found(), None), Step::Inject("new".to_owned()));
        config.spec.client_config.ca_bundle = Some(Bytes("old".to_owned()));
        assert_eq!(step(&config, Authority::NotNamed, None), Step::Discover);
        assert_eq!(step(&config, found(), None), Step::Inject("new".to_owned()));
        config.spec.client_config.ca_bundle = Some(Bytes("new".to_owned()));
        assert_eq!(step(&config, found(), None), Step::Discover);
        assert_eq!(step(&config, found(), Some(Ok(Vec::new()))), Step::Report(Ok(Vec::new())));
        let unusable = Authority::Unusable("no Secret".to_owned());
        assert_eq!(step(&config, unusable, None), Step::Report(Err("no Secret".to_owned())));
    }
}
