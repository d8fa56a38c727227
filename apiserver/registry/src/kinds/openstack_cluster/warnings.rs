//! Warnings about settings of an OpenStackCluster that the cloud accepts, and that do not work as a user expects.

use apiserver_machinery::object;
use serde_json::{Value, json};

/// Monitor's interval that applies without one in the spec. Unit: seconds.
const DELAY: i64 = 10;

/// Monitor's timeout that applies without one in the spec. Unit: seconds.
const TIMEOUT: i64 = 5;

/// Returns the warnings about a spec, unless it is that of the stored object.
pub(super) fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old.get("spec") == new.get("spec")) {
        return Vec::new();
    }
    let Some(balancer) = object::at(new, "spec.apiServer.managedLoadBalancer") else { return Vec::new() };
    if balancer.get("enabled") == Some(&json!(false)) {
        return Vec::new();
    }
    monitor(balancer).into_iter().chain(port_security(new)).collect()
}

fn monitor(balancer: &Value) -> Option<String> {
    let number = |name: &str, default: i64| {
        let number = object::at(balancer, &format!("monitor.{name}")).and_then(Value::as_i64);
        number.filter(|number| *number != 0).unwrap_or(default)
    };
    let (delay, timeout) = (number("delay", DELAY), number("timeout", TIMEOUT));
    (timeout > delay).then(|| {
        format!(
            "spec.apiServer.managedLoadBalancer.monitor: timeout ({timeout}) is larger than delay ({delay}), so checks \
             overlap. Set delay to at least timeout"
        )
    })
}

fn port_security(new: &Value) -> Option<String> {
    (object::at(new, "spec.managedNetwork.enablePortSecurity") == Some(&json!(false))).then(|| {
        "spec.managedNetwork.enablePortSecurity: false does not work with a load balancer of Octavia's provider amphora, \
         which allows its address on the port by port security"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_13_r8_7_settings_of_a_load_balancer_that_do_not_work_are_warned_of_once() {
        let spec = |monitor: Value, secure: bool| {
            json!({"spec": {
                "apiServer": {"managedLoadBalancer": {"monitor": monitor}},
                "managedNetwork": {"enablePortSecurity": secure}}})
        };
        let table = [
            (spec(json!({}), true), 0),
            (spec(json!({"delay": 0, "timeout": 10}), true), 0),
            (spec(json!({"delay": 4}), true), 1),
            (spec(json!({"timeout": 11}), true), 1),
            (spec(json!({"timeout": 11}), false), 2),
        ];
        for (object, count) in &table {
            assert_eq!(warnings(object, None).len(), *count, "{object}");
            assert_eq!(warnings(object, Some(object)), Vec::<String>::new());
        }
        let (object, _) = &table[3];
        assert!(warnings(object, None)[0].contains("timeout (11) is larger than delay (10)"));
        let mut disabled = object.clone();
        disabled["spec"]["apiServer"]["managedLoadBalancer"]["enabled"] = json!(false);
        assert_eq!(warnings(&disabled, None), Vec::<String>::new());
        assert_eq!(warnings(&json!({"spec": {}}), None), Vec::<String>::new());
    }
}
