//! A clock that tells microseconds.

use std::io;
use std::time::Duration;

#[cfg(target_os = "linux")]
use {
    rustix::io::read,
    rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
    std::os::fd::OwnedFd,
    tokio::io::Interest,
    tokio::io::unix::AsyncFd,
};

/// Wakes its task after microseconds. The runtime's own clock tells milliseconds, and a thread that sleeps has to be
/// woken, and to wake another, every time.
#[derive(Debug)]
pub(crate) struct Clock {
    #[cfg(target_os = "linux")]
    timer: AsyncFd<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Clock {
    /// # Errors
    /// When there is no file descriptor left.
    #[expect(
        deprecated,
        reason = "the new constructor is unsafe, for descriptors that may be closed or become another; an owned one does neither"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: AsyncFd::with_interest(timer, Interest::READABLE)? })
    }

    /// Waits for `time`; none is a moment.
    ///
    /// # Errors
    /// What the kernel says; there is no reason known for it to say anything.
    pub(crate) async fn wait(&self, time: Duration) -> io::Result<()> {
        let it_value = Timespec::try_from(time.max(Duration::from_nanos(1))).map_err(io::Error::other)?;
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(self.timer.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.timer.readable().await?;
            let mut expired = [0; size_of::<u64>()];
            if let Ok(done) = ready.try_io(|timer| Ok(read(timer, &mut expired)?)) {
                return done.map(drop);
            }
        }
    }
}

/// Others have no such clock.
#[cfg(not(target_os = "linux"))]
impl Clock {
    pub(crate) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) async fn wait(&self, _: Duration) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn time_passes_again_and_again() {
        const TIME: Duration = Duration::from_micros(300);
        let clock = Clock::new().unwrap();
        for _ in 0..20 {
            let began = Instant::now();
            clock.wait(TIME).await.unwrap();
            assert!(began.elapsed() >= TIME);
        }
    }

    /// Who gives up in the middle leaves nothing behind that would cut the next wait short.
    #[tokio::test]
    async fn a_wait_that_was_given_up_does_not_count_for_the_next() {
        let clock = Clock::new().unwrap();
        let given_up = tokio::time::timeout(Duration::ZERO, clock.wait(Duration::from_millis(10)));
        assert!(given_up.await.is_err());
        tokio::time::sleep(Duration::from_millis(20)).await;
        let began = Instant::now();
        clock.wait(Duration::from_millis(40)).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(40));
    }
}
