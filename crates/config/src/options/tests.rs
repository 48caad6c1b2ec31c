use std::time::Duration;

use super::*;
use crate::option::ConfigOption;

#[test]
fn defaults_are_those_of_the_java_operator() {
    let of = |option: &ConfigOption<Duration>| option.parse("", option.default_text().unwrap());
    assert_eq!(of(&RECONCILE_INTERVAL), Ok(Duration::from_mins(1)));
    assert_eq!(of(&RESOURCE_CLEANUP_TIMEOUT), Ok(Duration::from_mins(5)));
    assert_eq!(of(&JM_DEPLOYMENT_SHUTDOWN_TTL), Ok(Duration::from_hours(24)));
    assert_eq!(of(&SAVEPOINT_HISTORY_MAX_AGE), Ok(Duration::from_hours(24)));
}
