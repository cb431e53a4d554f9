//! How much later may the lane's waiting make the events of one poller? Tighter or looser than the runtime's own bounds.

use std::time::Duration;

use crate::wait::SettingsError;
use crate::wait::policy;

/// Latency that the lane's waiting may add to events of one poller: on average, and at most.
///
/// Use it where one poller is more urgent, or less, than what the runtime was built for. A lane waits for all of its pollers at once, so in force are
/// the tightest bounds among them; a poller that states none has the runtime's. Looser ones therefore take effect on lanes where all
/// pollers are as patient: place them together with [`Where::Lane`](crate::Where::Lane).
///
/// Effect: `mean_added` and `max_added` of the lane's metrics, which are the bounds in force.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use twolane::{Bounds, Progress, Where, poll_fn};
///
/// let rt = twolane::Runtime::builder().build()?;
/// let urgent = Bounds::new(Duration::from_nanos(100), Duration::from_micros(1))?;
/// let orders = rt.spawn_poller(Where::Any, "orders", poll_fn(|_| Progress::Idle).bounds(urgent))?;
/// orders.stop();
/// orders.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    mean_added: Duration,
    max_added: Duration,
}

impl Bounds {
    /// Bounds of a poller: `mean_added` from 0 (one PAUSE after each empty pass) to `max_added`, and that from 0 (no wait) to 10 ms.
    ///
    /// # Errors
    /// [`SettingsError`] for one that is out of its range.
    pub fn new(mean_added: Duration, max_added: Duration) -> Result<Self, SettingsError> {
        policy::check_bounds(mean_added, max_added)?;
        Ok(Self { mean_added, max_added })
    }

    /// What waiting may add on average.
    #[must_use]
    pub fn mean_added(self) -> Duration {
        self.mean_added
    }

    /// What one wait may add at most.
    #[must_use]
    pub fn max_added(self) -> Duration {
        self.max_added
    }

    /// The runtime's own, which were checked when it was built.
    pub(crate) fn of_runtime(settings: &policy::Settings) -> Self {
        Self { mean_added: settings.mean_added, max_added: settings.max_added }
    }

    /// What holds for a lane whose pollers state these; those that state none have `default`.
    pub(crate) fn tightest(stated: impl Iterator<Item = Option<Bounds>>, default: Bounds) -> Bounds {
        stated.map(|bounds| bounds.unwrap_or(default)).reduce(Self::tighter).unwrap_or(default)
    }

    fn tighter(self, other: Self) -> Self {
        let max_added = self.max_added.min(other.max_added);
        Self { mean_added: self.mean_added.min(other.mean_added).min(max_added), max_added }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(mean: u64, max: u64) -> Bounds {
        Bounds::new(Duration::from_nanos(mean), Duration::from_nanos(max)).unwrap()
    }

    #[test]
    fn the_tightest_of_a_lane_hold() {
        let default = bounds(500, 4_000);
        for (stated, wanted, why) in [
            (vec![], default, "no poller"),
            (vec![None, None], default, "none states any"),
            (vec![Some(bounds(100, 1_000)), None], bounds(100, 1_000), "a tighter one"),
            (vec![Some(bounds(5_000, 25_000)), None], default, "a looser one beside one of the runtime's"),
            (vec![Some(bounds(5_000, 25_000))], bounds(5_000, 25_000), "a looser one alone"),
            (vec![Some(bounds(5_000, 25_000)), Some(bounds(0, 30_000))], bounds(0, 25_000), "each for itself"),
            (vec![Some(bounds(400, 400)), Some(bounds(500, 9_000))], bounds(400, 400), "the mean within the maximum"),
        ] {
            assert_eq!(Bounds::tightest(stated.into_iter(), default), wanted, "{why}");
        }
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let us = Duration::from_micros;
        assert_eq!(Bounds::new(us(5), us(4)).unwrap_err().knob(), "mean_added");
        assert_eq!(Bounds::new(us(5), us(10_001)).unwrap_err().knob(), "max_added");
    }
}
