//! Power-on: Nova's `os-start`.

use controllers_infrastructure::PowerState;

use crate::procedures::power::Power;
use crate::procedures::server_call::ServerCall;

/// Power-on of a server.
pub(crate) const POWER_ON: Power = Power {
    call: ServerCall {
        prepare: "PreparePowerOn",
        issue: "PowerOn",
        wait: "AwaitPowerOn",
        action: "start",
        noun: "power-on",
        failure: "PowerOnFailed",
    },
    state: PowerState::On,
    status: "ACTIVE",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedures::power::tests::is_asked_once_and_the_log_believed;

    #[test]
    fn nova_is_asked_for_a_power_on_once_and_its_log_believed() {
        is_asked_once_and_the_log_believed(&POWER_ON, "SHUTOFF");
    }
}
