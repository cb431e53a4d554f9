//! The loop that people write instead of a runtime: every poller in turn, for ever.

use twolane::Progress;

/// A poller without a runtime.
pub trait Look {
    /// Looks for work once.
    fn look(&mut self) -> Progress;
}

/// Calls all of them in turn until one is done. Returns the arrivals.
pub fn run(pollers: &mut [Box<dyn Look + Send>]) -> u64 {
    let mut events = 0;
    loop {
        for poller in pollers.iter_mut() {
            match poller.look() {
                Progress::Idle | Progress::Dormant => {}
                Progress::Busy(n) => events += u64::from(n),
                Progress::Done => return events,
            }
        }
    }
}
