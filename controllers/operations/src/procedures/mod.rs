//! Procedures: one file or folder per action, or per method of carrying one out.
//!
//! To add one, write its file and its line in [`procedure`].

pub(crate) mod cordon;
pub(crate) mod drain;
pub(crate) mod image;
pub(crate) mod power;
pub(crate) mod power_off;
pub(crate) mod power_on;
pub(crate) mod reboot;
pub(crate) mod retire;
pub(crate) mod server_call;
pub(crate) mod uncordon;
pub(crate) mod upgrade;
pub(crate) mod upgrade_rebuild;
pub(crate) mod upgrade_replace;

use apiserver_types::MachineAction;

use crate::core::procedure::ActionProcedure;

/// Returns the procedure of an action.
pub(crate) fn procedure(action: MachineAction) -> &'static dyn ActionProcedure {
    match action {
        MachineAction::Reboot => &reboot::Reboot,
        MachineAction::Upgrade => &upgrade::Upgrade,
        MachineAction::PowerOff => &power_off::POWER_OFF,
        MachineAction::PowerOn => &power_on::POWER_ON,
        MachineAction::Retire => &retire::Retire,
        MachineAction::Cordon => &cordon::Cordon,
        MachineAction::Uncordon => &uncordon::Uncordon,
        MachineAction::Drain => &drain::Drain,
    }
}
