//! The two ends of an adopted poller: what its lane holds, and what the user holds.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::call_times::{CallTimes, Sample};
use super::{Bounds, Doorbell, Peek, PollCx, Poller, Progress, WakeBy};
use crate::placement::LaneInfo;
use crate::task::{Contained, contain};

/// How the user's end of a poller reaches the runtime. Implemented by the scheduler.
pub(crate) trait Bell: Send + Sync {
    /// What wakes `lane`.
    fn doorbell(&self, lane: usize) -> Doorbell;
    /// Runs `wait`, which blocks until a poller of `lane` has ended; or returns `false` at once, where blocking could not end.
    fn may_block(&self, lane: usize, wait: &mut dyn FnMut()) -> bool;
    /// Whether this is a child made by fork(2): no lane runs in it.
    fn is_forked(&self) -> bool;
    /// One poller less on `lane`.
    fn poller_ended(&self, lane: usize);
}

/// A poller that was given to a lane. Dropping the handle leaves the poller running.
///
/// `R` is what the poller leaves behind: itself, if it can be sent between threads, else `()`.
pub struct PollerHandle<R> {
    shared: Arc<Shared<R>>,
}

struct Shared<R> {
    name: Box<str>,
    lane: usize,
    bell: Arc<dyn Bell>,
    doorbell: Doorbell,
    stop: AtomicBool,
    stats: StatsCells,
    outcome: Mutex<Outcome<R>>,
    ended: Condvar,
}

enum Outcome<R> {
    Alive,
    Ended(Result<R, PollerError<R>>),
    Taken,
}

/// What a poller did so far. Counters are written by the lane without synchronisation and may lag by a pass.
///
/// `calls`, `busy_calls`, `events` and `skipped` are exact. How long calls take is known from a sample of about a thousand a second, the first call in each
/// millisecond of the lane and the one after a park, whatever it finds: to look at the clock around every call would cost more than most calls. A call
/// that lasts longer than the lane's `max_added` delays its fellows; the lane counts that in [`Misses::slow_poller`](crate::Misses::slow_poller), and
/// `p99_call` and `longest_call` tell which poller it is.
///
/// What the lane does between calls (dozes, parks, misses by cause, budget, the sibling's state) is the same for all its pollers, and in
/// [`LaneMetrics`](crate::LaneMetrics). A poller panics once at most: [`PollerHandle::join`] hands out the payload.
///
/// ```
/// use twolane::{Placement, PollCx, Progress, Runtime, Where};
///
/// let rt = Runtime::builder().placement(Placement::Unpinned).build()?;
/// let poller = rt.spawn_poller(Where::Any, "quiet", |_: &mut PollCx<'_>| Progress::Idle)?;
/// let stats = poller.stats();
/// println!("{} of {} calls found nothing; one takes {:?}", stats.idle_calls(), stats.calls, stats.mean_call);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PollerStats {
    /// Calls of [`Poller::poll`].
    pub calls: u64,
    /// Calls that returned `Busy(n)` with n > 0.
    pub busy_calls: u64,
    /// Sum of those n.
    pub events: u64,
    /// Passes in which a quiet [`Peek`] saved the call, or in which the poller was dormant.
    pub skipped: u64,
    /// Calls that were timed: what the following figures rest on. They are zero while it is.
    pub timed_calls: u64,
    /// What a call takes on average; a look at the clock (10 to 40 ns) is included.
    pub mean_call: Duration,
    /// What 99 of 100 calls do not exceed, rounded up by a quarter at most.
    pub p99_call: Duration,
    /// The longest call that was timed; there may have been longer ones.
    pub longest_call: Duration,
}

impl PollerStats {
    /// Calls that found nothing, housekeeping included.
    #[must_use]
    pub fn idle_calls(&self) -> u64 {
        self.calls.saturating_sub(self.busy_calls)
    }

    /// What all calls together took, by estimate: `mean_call`, so many times. Saturates.
    #[must_use]
    pub fn time_in_calls(&self) -> Duration {
        let ns = self.mean_call.as_nanos().saturating_mul(self.calls.into());
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Default)]
struct StatsCells {
    calls: AtomicU64,
    busy_calls: AtomicU64,
    events: AtomicU64,
    skipped: AtomicU64,
    times: CallTimes,
}

/// Why a poller left nothing behind.
#[non_exhaustive]
pub enum PollerError<R> {
    /// It panicked; this is the payload.
    Panicked(Box<dyn Any + Send>),
    /// The closure given to `spawn_poller_with` returned this error, so there never was a poller.
    Init(Box<dyn Error + Send + Sync>),
    /// Its descriptor cannot be waited for: the kernel refused to have it watched. Regular files cannot be polled; sockets, eventfds and pipes can. Or a limit is
    /// reached; the message says which.
    Unwakeable(io::Error),
    /// The runtime ended first, and dropped it on its lane. Or this is a child made by fork(2) before the poller ended: no lane runs here.
    Shutdown,
    /// `join` was called where waiting could not end: inside a poller or hook, in a task on the poller's own lane, or on the last compute
    /// lane that is not already waiting. The handle is given back.
    WouldDeadlock(PollerHandle<R>),
}

impl<R> PollerHandle<R> {
    /// Asks the poller to end. It is called with [`PollCx::stopping`] true until it returns `Done`, or `Idle`: nothing left to finish.
    ///
    /// Returns at once; safe from any thread, and from the poller itself.
    pub fn stop(&self) {
        // Release: partner is the Acquire load in `Shared::stop_requested`; what the caller did before is seen by the poller's last calls.
        self.shared.stop.store(true, Release);
        self.shared.doorbell.ring();
    }

    /// [`Doorbell::ring`] of the poller's lane.
    pub fn ring(&self) {
        self.shared.doorbell.ring();
    }

    /// What wakes the poller's lane, to give to its producers.
    #[must_use]
    pub fn doorbell(&self) -> Doorbell {
        self.shared.doorbell.clone()
    }

    /// Waits until the poller has ended and returns what it left behind. Does not ask it to end; see [`stop`](Self::stop).
    ///
    /// # Errors
    /// [`PollerError`]: it panicked, could not be built, or was dropped by the shutdown; or waiting here could never end.
    pub fn join(self) -> Result<R, PollerError<R>> {
        let shared = &self.shared;
        if shared.bell.is_forked() {
            return match shared.outcome.try_lock().map(|mut outcome| std::mem::replace(&mut *outcome, Outcome::Taken)) {
                Some(Outcome::Ended(result)) => result,
                _ => Err(PollerError::Shutdown),
            };
        }
        let waited = shared.bell.may_block(shared.lane, &mut || {
            let mut outcome = shared.outcome.lock();
            while matches!(*outcome, Outcome::Alive) {
                shared.ended.wait(&mut outcome);
            }
        });
        if !waited && !self.is_finished() {
            return Err(PollerError::WouldDeadlock(self));
        }
        match std::mem::replace(&mut *shared.outcome.lock(), Outcome::Taken) {
            Outcome::Ended(result) => result,
            // Neither can be: the handle is not `Clone`, so nobody else took it, and we saw it ended.
            Outcome::Alive | Outcome::Taken => Err(PollerError::Shutdown),
        }
    }

    /// Whether the poller has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        if self.shared.bell.is_forked() {
            // Who had the lock at the fork has it for ever.
            return self.shared.outcome.try_lock().is_some_and(|outcome| !matches!(*outcome, Outcome::Alive));
        }
        !matches!(*self.shared.outcome.lock(), Outcome::Alive)
    }

    /// What it did so far.
    #[must_use]
    pub fn stats(&self) -> PollerStats {
        self.shared.stats.read()
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// The lane it lives on.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.shared.lane
    }
}

/// A poller on its way to a lane: built there, by the lane's own thread.
pub(crate) struct Adoption {
    name: Box<str>,
    make: Box<Make>,
}

type Make = dyn FnOnce(&LaneInfo) -> Result<Box<dyn AnyPoller>, Unbuilt> + Send;

/// An adoption left no poller; its handle knows why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unbuilt {
    Failed,
    Panicked,
}

impl Adoption {
    /// The name that the poller was given.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Builds the poller on the calling lane.
    pub(crate) fn build(self, info: &LaneInfo) -> Result<Box<dyn AnyPoller>, Unbuilt> {
        let mut built = Err(Unbuilt::Panicked);
        // The maker's own panic is caught where its handle is known; this one is for what it leaves to be dropped.
        let _ = contain(|| built = (self.make)(info));
        built
    }
}

/// Both ends of a poller. Dropping the adoption, or later the poller, in any way resolves the handle.
pub(crate) fn adoption<P, E, R>(
    name: &str,
    lane: usize,
    bell: Arc<dyn Bell>,
    make: impl FnOnce(&LaneInfo) -> Result<P, E> + Send + 'static,
    leave: fn(P) -> R,
) -> (Adoption, PollerHandle<R>)
where
    P: Poller + 'static,
    E: Into<Box<dyn Error + Send + Sync>>,
    R: Send + 'static,
{
    let shared = Arc::new(Shared {
        name: name.into(),
        lane,
        doorbell: bell.doorbell(lane),
        bell,
        stop: AtomicBool::new(false),
        stats: StatsCells::default(),
        outcome: Mutex::new(Outcome::Alive),
        ended: Condvar::new(),
    });
    let resolver = Resolver(Arc::clone(&shared));
    let make = move |info: &LaneInfo| match catch_unwind(AssertUnwindSafe(|| make(info))) {
        Ok(Ok(poller)) => Ok(Box::new(Adopted { poller, leave, resolver }) as Box<dyn AnyPoller>),
        Ok(Err(error)) => {
            resolver.resolve(Err(PollerError::Init(error.into())));
            Err(Unbuilt::Failed)
        }
        Err(payload) => {
            resolver.resolve(Err(PollerError::Panicked(payload)));
            Err(Unbuilt::Panicked)
        }
    };
    (Adoption { name: name.into(), make: Box::new(make) }, PollerHandle { shared })
}

/// The obligation to tell the handle how it ended. Dropped unused, it says: by shutdown.
struct Resolver<R>(Arc<Shared<R>>);

impl<R> Resolver<R> {
    fn resolve(&self, result: Result<R, PollerError<R>>) {
        let mut outcome = self.0.outcome.lock();
        if matches!(*outcome, Outcome::Alive) {
            // Counted before the handle hears of it: whoever has joined it finds it gone.
            self.0.bell.poller_ended(self.0.lane);
            *outcome = Outcome::Ended(result);
            self.0.ended.notify_all();
        }
    }
}

impl<R> Drop for Resolver<R> {
    fn drop(&mut self) {
        self.resolve(Err(PollerError::Shutdown));
    }
}

/// How the life of a poller on its lane ends.
pub(crate) enum End {
    /// It returned `Done`, or `Idle` after it was asked to stop.
    Done,
    Panicked(Box<dyn Any + Send>),
    /// The lane cannot wait for its descriptor.
    Unwakeable(io::Error),
    /// The runtime ends.
    Dropped,
}

/// A poller of any type, with its end of the handle.
pub(crate) trait AnyPoller {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress;
    fn wake_by(&self) -> WakeBy<'_>;
    fn peek(&self) -> Option<Peek<'_>>;
    fn bounds(&self) -> Option<Bounds>;
    fn arm(&mut self) -> bool;
    fn disarm(&mut self);
    fn before_wait(&mut self);
    fn lend_while_armed(&self) -> bool;
    fn name(&self) -> &str;
    fn stop_requested(&self) -> bool;
    fn skipped(&self);
    /// The last call took so long.
    fn took(&self, ns: u64);
    /// Ends it, on its lane. Returns whether anything in it panicked.
    fn end(self: Box<Self>, how: End) -> bool;
}

struct Adopted<P, R> {
    poller: P,
    leave: fn(P) -> R,
    resolver: Resolver<R>,
}

impl<P: Poller, R> AnyPoller for Adopted<P, R> {
    #[inline]
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        let progress = self.poller.poll(cx);
        self.resolver.0.stats.count(progress);
        progress
    }
    fn wake_by(&self) -> WakeBy<'_> {
        self.poller.wake_by()
    }
    fn peek(&self) -> Option<Peek<'_>> {
        self.poller.peek()
    }
    fn bounds(&self) -> Option<Bounds> {
        self.poller.bounds()
    }
    fn arm(&mut self) -> bool {
        self.poller.arm()
    }
    fn disarm(&mut self) {
        self.poller.disarm();
    }
    fn before_wait(&mut self) {
        self.poller.before_wait();
    }
    fn lend_while_armed(&self) -> bool {
        self.poller.lend_while_armed()
    }
    fn name(&self) -> &str {
        &self.resolver.0.name
    }
    fn stop_requested(&self) -> bool {
        // Acquire: partner is the Release store in `PollerHandle::stop`.
        self.resolver.0.stop.load(Acquire)
    }
    fn skipped(&self) {
        bump(&self.resolver.0.stats.skipped, 1);
    }
    fn took(&self, ns: u64) {
        self.resolver.0.stats.times.record(ns);
    }

    fn end(self: Box<Self>, how: End) -> bool {
        let Self { poller, leave, resolver } = *self;
        let done = matches!(how, End::Done);
        // Dropping the poller is user code.
        let left = catch_unwind(AssertUnwindSafe(|| {
            if done {
                Some(leave(poller))
            } else {
                drop(poller);
                None
            }
        }));
        let panicked = left.is_err() || matches!(how, End::Panicked(_));
        // So is dropping the second payload of two, and what nobody waits for: the handle may be gone.
        let told = contain(move || {
            resolver.resolve(match (how, left) {
                (End::Panicked(payload), _) | (_, Err(payload)) => Err(PollerError::Panicked(payload)),
                (End::Done, Ok(Some(left))) => Ok(left),
                (End::Unwakeable(error), _) => Err(PollerError::Unwakeable(error)),
                (End::Done | End::Dropped, Ok(_)) => Err(PollerError::Shutdown),
            });
        });
        panicked || told == Contained::Panicked
    }
}

impl StatsCells {
    #[inline]
    fn count(&self, progress: Progress) {
        bump(&self.calls, 1);
        if let Progress::Busy(n @ 1..) = progress {
            bump(&self.busy_calls, 1);
            bump(&self.events, u64::from(n));
        }
    }

    fn read(&self) -> PollerStats {
        let Sample { calls: timed_calls, mean, p99, longest } = self.times.read();
        // Relaxed: statistics.
        PollerStats {
            timed_calls,
            mean_call: mean,
            p99_call: p99,
            longest_call: longest,
            calls: self.calls.load(Relaxed),
            busy_calls: self.busy_calls.load(Relaxed),
            events: self.events.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
        }
    }
}

/// Adds to a counter that only the calling thread writes: no locked instruction.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    // Relaxed: a statistic with one writer.
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

impl<R> fmt::Debug for PollerHandle<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollerHandle")
            .field("name", &self.name())
            .field("lane", &self.lane())
            .field("finished", &self.is_finished())
            .finish()
    }
}

impl<R> fmt::Debug for PollerError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<R> fmt::Display for PollerError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(payload) => match crate::task::panic_message(&**payload) {
                Some(message) => write!(f, "the poller panicked: {message}"),
                None => f.write_str("the poller panicked"),
            },
            Self::Init(error) => write!(f, "the poller could not be built on its lane: {error}"),
            Self::Unwakeable(error) => {
                write!(f, "the poller's descriptor cannot be waited for ({error}): {}", remedy(error))
            }
            Self::Shutdown => f.write_str("the runtime ended before the poller did, and dropped it; or it is of the process that this one was forked from"),
            Self::WouldDeadlock(handle) => {
                write!(f, "waiting for poller `{}` here could never end: join it from outside the lanes", handle.name())
            }
        }
    }
}

impl<R> Error for PollerError<R> {}

/// What helps where the kernel refuses to have a descriptor watched. A lane duplicates it, and epoll takes the copy.
fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            "the process has as many descriptors as it may: close some, or raise RLIMIT_NOFILE (`ulimit -n`); a poller takes one more"
        }
        Some(libc::ENFILE) => "the machine has as many open files as it may: close some, or raise fs.file-max",
        Some(libc::ENOSPC) => "the user watches as many descriptors as it may: raise fs.epoll.max_user_watches",
        Some(libc::ENOMEM) => "the kernel has no memory left for it",
        Some(libc::EBADF) => "it is closed: keep it open as long as the poller lives",
        _ => "give one that can be polled, such as a socket, pipe or eventfd, or `WakeBy::Never`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NoBell;
    impl super::super::Rung for NoBell {
        fn ring(&self) {}
        fn ring_if_parked(&self) {}
    }
    impl Bell for NoBell {
        fn doorbell(&self, lane: usize) -> Doorbell {
            Doorbell::new(lane, Arc::new(NoBell))
        }
        fn may_block(&self, _lane: usize, wait: &mut dyn FnMut()) -> bool {
            wait();
            true
        }
        fn is_forked(&self) -> bool {
            false
        }
        fn poller_ended(&self, _lane: usize) {}
    }

    fn adopt<P: Poller + Send + 'static>(poller: P) -> (Result<Box<dyn AnyPoller>, Unbuilt>, PollerHandle<P>) {
        let (adoption, handle) =
            adoption("p", 0, Arc::new(NoBell), move |_| Ok::<_, std::convert::Infallible>(poller), |poller| poller);
        (adoption.build(&LaneInfo::for_tests(0)), handle)
    }

    struct Bomb;
    impl Poller for Bomb {
        fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
            Progress::Idle
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("bomb");
            }
        }
    }

    #[test]
    fn a_panic_while_it_is_dropped_reaches_the_handle() {
        let (poller, handle) = adopt(Bomb);
        assert!(poller.unwrap().end(End::Dropped), "the panic is reported");
        assert!(matches!(handle.join(), Err(PollerError::Panicked(_))));
    }

    #[test]
    fn a_poller_that_was_never_built_resolves_its_handle() {
        let (adoption, handle) = adoption(
            "p",
            0,
            Arc::new(NoBell),
            |_| Err::<fn(&mut PollCx<'_>) -> Progress, _>("no such queue"),
            |poller| poller,
        );
        assert!(matches!(adoption.build(&LaneInfo::for_tests(0)), Err(Unbuilt::Failed)));
        assert!(matches!(handle.join(), Err(PollerError::Init(error)) if error.to_string() == "no such queue"));
    }

    #[test]
    fn what_helps_depends_on_what_the_kernel_refused() {
        for (errno, remedy) in [
            (libc::EPERM, "a socket, pipe or eventfd"),
            (libc::EMFILE, "RLIMIT_NOFILE"),
            (libc::ENFILE, "fs.file-max"),
            (libc::ENOSPC, "max_user_watches"),
            (libc::EBADF, "is closed"),
        ] {
            let message = PollerError::<()>::Unwakeable(io::Error::from_raw_os_error(errno)).to_string();
            assert!(message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn an_adoption_that_no_lane_took_is_a_shutdown() {
        let (adoption, handle) = adoption::<_, std::convert::Infallible, _>(
            "p",
            0,
            Arc::new(NoBell),
            |_| Ok(|_: &mut PollCx<'_>| Progress::Idle),
            |_| (),
        );
        drop(adoption);
        assert!(matches!(handle.join(), Err(PollerError::Shutdown)));
    }
}
