//! Fake cloud in memory, during whose calls a process can crash.

mod compute;
mod identity;
mod image;
mod load_balancer;
mod network;
mod storage;

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use controllers_infrastructure::*;

use crate::crash_point::{CrashPoint, Fate};
use crate::nova::{Nova, error};

/// Delay of a late call: less than any timeout of a call. Unit: seconds.
const LATE: i64 = 30;

/// Cloud in memory.
#[derive(Clone, Default)]
pub(crate) struct FakeCloud {
    pub(crate) nova: Arc<Mutex<Nova>>,
    crash_point: Arc<CrashPoint>,
}

impl std::fmt::Debug for FakeCloud {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FakeCloud")
    }
}

impl FakeCloud {
    pub(crate) fn new(crash_point: Arc<CrashPoint>) -> Self {
        Self { nova: Arc::default(), crash_point }
    }

    fn look<T>(&self, read: impl FnOnce(&mut Nova) -> CloudResult<T>) -> CloudResult<T> {
        if self.crash_point.has_crashed() {
            return Err(error(ErrorClass::Unreachable, "look"));
        }
        read(&mut self.nova.lock().unwrap())
    }

    fn effect<T>(&self, change: impl FnOnce(&mut Nova) -> CloudResult<T> + Send + 'static) -> CloudResult<T> {
        let fate = self.crash_point.effect();
        let mut nova = self.nova.lock().unwrap();
        match fate {
            Fate::Answered => return change(&mut nova),
            Fate::Unanswered => {
                let _lost = change(&mut nova);
            }
            Fate::Delayed => {
                let due = nova.now + LATE;
                let late = move |nova: &mut Nova| {
                    let _lost = change(nova);
                };
                nova.late.push((due, Box::new(late)));
            }
            Fate::Unsent => {}
        }
        Err(error(ErrorClass::Unknown, "call"))
    }
}

#[async_trait]
impl CloudConnector for FakeCloud {
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        assert_eq!((credentials.clouds_yaml.as_str(), credentials.cloud_name.as_str()), ("clouds: {}", "c"));
        self.nova.lock().unwrap().take_error("connect")?;
        Ok(Arc::new(self.clone()))
    }
}

/// Response of a call that no operation makes.
fn unused<T>(call: &str) -> CloudResult<T> {
    Err(error(ErrorClass::Invalid, call))
}

#[async_trait]
impl Cloud for FakeCloud {
    fn region(&self) -> &str {
        "r"
    }

    fn project(&self) -> &str {
        "p"
    }

    fn user(&self) -> &str {
        "u"
    }

    async fn quotas(&self, _: QuotaService) -> CloudResult<Vec<Quota>> {
        unused("quotas")
    }

    async fn set_tags(&self, _: TaggedKind, _: &str, _: &[String]) -> CloudResult<()> {
        unused("set_tags")
    }

    async fn change_tags(&self, _: TaggedKind, _: &str, _: &[String], _: &[String]) -> CloudResult<()> {
        unused("change_tags")
    }
}
