//! Queues that died and may be back: when is it worth a look, and who looks?
//!
//! Whoever decides where an operation goes notices dead queues in passing ([`Reopening::notice`], a comparison while there is nothing new). If the last look is long
//! enough ago, one of them sends an errand, which blocks (a look at sysfs, the closing of the old opening, the answer to a no-op) and therefore is none of the noticer's.
//!
//! A queue that merely does not answer ([`Death::Silent`]) is left alone until sysfs has said once that it is down, or until nothing of ours is in it: to open it anew
//! means to close it, and closing a queue whose device hangs takes for ever. One that was disabled and enabled again within a timeout, and took operations along, is
//! therefore not taken up.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::dsa::portal::Death;
use super::dsa::queue::{Condition, QueueId, Queues};
use super::dsa::reopen::TakenUp;

/// The pause after a first look in vain; it doubles with each that follows. An administrator's reset takes as long.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause: a look at sysfs each 10 s costs nothing, and who enables a queue again waits no longer for it.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// In the place of a time: a look is under way.
const UNDER_WAY: u64 = u64::MAX;

type Open = Box<dyn Fn(&Queues, QueueId) -> TakenUp + Send + Sync>;
type Errand = Box<dyn Fn() -> bool + Send + Sync>;

/// See the module's documentation.
pub(crate) struct Reopening {
    /// Opens a dead queue anew, if it is back. Blocks.
    open: Open,
    /// Has [`look`](Self::look) called where that may block; `false`: nobody will.
    errand: OnceLock<Errand>,
    /// Dead openings that nobody has to look for any more: others follow them, or never will.
    settled: AtomicUsize,
    /// When the next look may be, in nanoseconds since `began`.
    next: AtomicU64,
    began: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    settled: Vec<QueueId>,
    /// Silent ones that sysfs said to be down, once.
    down: Vec<QueueId>,
    /// Looks in vain, one after the other.
    vain: u32,
}

impl Reopening {
    pub(crate) fn new(open: impl Fn(&Queues, QueueId) -> TakenUp + Send + Sync + 'static) -> Self {
        Self {
            open: Box::new(open),
            errand: OnceLock::new(),
            settled: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            began: Instant::now(),
            seen: Mutex::default(),
        }
    }

    /// Says how an errand is sent: once.
    pub(crate) fn send_by(&self, errand: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.errand.set(Box::new(errand));
    }

    /// So many openings are not up.
    #[inline]
    pub(crate) fn notice(&self, down: usize) {
        // Relaxed: an opening that was settled meanwhile is seen next time.
        if down > self.settled.load(Relaxed) {
            self.consider();
        }
    }

    #[cold]
    fn consider(&self) {
        let next = self.next.load(Relaxed); // Relaxed: the exchange decides.
        if self.now() < next {
            return;
        }
        let Some(errand) = self.errand.get() else { return };
        // Relaxed: one goes; what it looks at is behind a lock.
        if self.next.compare_exchange(next, UNDER_WAY, Relaxed, Relaxed).is_ok() && !errand() {
            self.look_again_after(PAUSE_MAX);
        }
    }

    /// Looks at all dead queues, and opens those that are back. **Blocks.**
    pub(crate) fn look(&self, queues: &Queues) {
        // Dropped after the lock; should opening panic, there is another look all the same.
        let _again = Again(self);
        let mut seen = self.seen.lock();
        let mut back = false;
        let dead: Vec<QueueId> = queues.iter().map(|(id, _)| id).filter(|id| !seen.settled.contains(id)).collect();
        for id in dead {
            let Some(queue) = queues.find(id) else { continue };
            let Condition::Dead(death) = queue.health().condition() else { continue };
            if death == Death::Silent && queue.credits().taken() > 0 && !seen.down.contains(&id) {
                if queue.is_down() {
                    seen.down.push(id);
                }
                continue;
            }
            match (self.open)(queues, id) {
                TakenUp::Opened(_) => {
                    back = true;
                    seen.settled.push(id);
                }
                TakenUp::TooMany => seen.settled.push(id),
                TakenUp::Alive | TakenUp::NotBack | TakenUp::Refused(_) => {}
            }
        }
        seen.vain = if back { 0 } else { seen.vain.saturating_add(1) };
        self.settled.store(seen.settled.len(), Relaxed); // Relaxed: see `notice`.
    }

    fn look_again_after(&self, pause: Duration) {
        let pause = u64::try_from(pause.as_nanos()).unwrap_or(UNDER_WAY / 2);
        // Relaxed: a time, and nothing behind it.
        self.next.store(self.now().saturating_add(pause).min(UNDER_WAY - 1), Relaxed);
    }

    fn now(&self) -> u64 {
        // 584 years.
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(UNDER_WAY - 1)
    }
}

struct Again<'a>(&'a Reopening);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        let vain = self.0.seen.try_lock().map_or(u32::MAX, |seen| seen.vain);
        self.0.look_again_after(pause_after(vain));
    }
}

/// How long nobody looks after so many looks in vain.
fn pause_after(vain: u32) -> Duration {
    PAUSE_FIRST.saturating_mul(1 << vain.min(16)).min(PAUSE_MAX)
}

impl std::fmt::Debug for Reopening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reopening").field("seen", &self.seen).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        for (vain, ms) in [(0, 100), (1, 200), (6, 6_400), (7, 10_000), (u32::MAX, 10_000)] {
            assert_eq!(pause_after(vain), Duration::from_millis(ms), "{vain}");
        }
    }

    #[test]
    fn one_errand_at_a_time_and_none_before_its_time() {
        use std::sync::Arc;
        let sent = Arc::new(AtomicUsize::new(0));
        let reopening = Reopening::new(|_, _| TakenUp::NotBack);
        reopening.notice(1);
        let counts = Arc::clone(&sent);
        reopening.send_by(move || {
            counts.fetch_add(1, SeqCst);
            true
        });
        reopening.notice(0);
        assert_eq!(sent.load(SeqCst), 0, "nothing is down");
        reopening.notice(1);
        reopening.notice(1);
        assert_eq!(sent.load(SeqCst), 1, "one is under way");
        reopening.look(&Queues::new());
        reopening.notice(1);
        assert_eq!(sent.load(SeqCst), 1, "it was in vain just now");
    }
}
