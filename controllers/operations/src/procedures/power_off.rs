//! Power-off: Nova's `os-stop`, which requests a shutdown of the guest and cuts the power if the guest does not react.

use controllers_infrastructure::PowerState;

use crate::procedures::power::Power;
use crate::procedures::server_call::ServerCall;

/// Power-off of a server.
pub(crate) const POWER_OFF: Power = Power {
    call: ServerCall {
        prepare: "PreparePowerOff",
        issue: "PowerOff",
        wait: "AwaitPowerOff",
        action: "stop",
        noun: "power-off",
        failure: "PowerOffFailed",
    },
    state: PowerState::Off,
    status: "SHUTOFF",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procedures::power::tests::check_one_call_and_its_log;

    #[test]
    fn a_power_off_is_one_call_and_the_action_log_decides_its_result() {
        check_one_call_and_its_log(&POWER_OFF, "ACTIVE");
    }
}
