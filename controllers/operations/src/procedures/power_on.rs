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
    use crate::procedures::power::tests::check_one_call_and_its_log;

    #[test]
    fn a_power_on_is_one_call_and_the_action_log_decides_its_result() {
        check_one_call_and_its_log(&POWER_ON, "SHUTOFF");
    }
}
