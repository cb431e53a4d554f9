//! The device as its users hold it: made, opened, driven, disturbed, looked at.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::offload::dsa::abi::SwError;

use super::bell::Bell;
use super::config::{ConfigError, DeviceConfig, QueueMode};
use super::counters::Counters;
use super::front::Front;
use super::page::Pages;
use super::portal::ModelPortal;
use super::profile::Profile;
use super::queue::QueueState;
use super::space::AddressSpace;
use super::state::{Client, DeviceState, State};
use super::trace::TraceEntry;
use super::violations::Violation;

/// A DSA device. Cloning gives another handle to the same one. See the [module](super) for an example.
///
/// Nothing happens by itself: drive it by hand ([`step`](Self::step), [`run_until_idle`](Self::run_until_idle)), in virtual time
/// ([`advance_to`](Self::advance_to)) or by threads ([`spawn`](Self::spawn)).
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Rung when something was submitted, or the threads are to stop.
    work: Bell,
    pages: Pages,
}

/// Steps after which a thread lets others at the device, if they wait for it.
const STEPS_PER_TURN: u32 = 16;
/// How long a thread sleeps between two looks at pages that descriptors are stored to: nobody wakes it for those.
const PAGE_LOOK: Duration = Duration::from_micros(20);
/// Fruitless looks before it sleeps at all.
const LOOKS_BEFORE_SLEEP: u32 = 200;
/// How long a thread sleeps when there is nothing to do and nothing to look at; being woken ends it.
const IDLE: Duration = Duration::from_millis(50);

impl Device {
    /// Makes a device.
    ///
    /// # Errors
    /// The configuration is none that a device can have; the message names the value.
    pub fn new(config: DeviceConfig, profile: Profile) -> Result<Self, ConfigError> {
        config.check()?;
        let state = Mutex::new(State::new(config, profile));
        Ok(Self(Arc::new(Inner { state, work: Bell::new(), pages: Pages::default() })))
    }

    /// Opens a work queue, by number, for an address space.
    ///
    /// # Errors
    /// As the kernel's `open`: EBUSY for a dedicated queue that somebody has open, ENXIO for one that is not enabled, ENOENT for one that there is not.
    pub fn open(&self, queue: usize, space: &AddressSpace) -> io::Result<ModelPortal> {
        let mut state = self.lock();
        let errno = |errno| Err(io::Error::from_raw_os_error(errno));
        let Some(config) = state.config.queues.get(queue) else { return errno(libc::ENOENT) };
        let mode = config.mode;
        if state.life != DeviceState::Enabled || state.queues[queue].state != QueueState::Enabled {
            return errno(libc::ENXIO);
        }
        if mode == QueueMode::Dedicated && state.queues[queue].holder.is_some() {
            return errno(libc::EBUSY);
        }
        let client = state.clients.len();
        let generation = state.queues[queue].generation;
        state.clients.push(Client { space: space.clone(), queue, generation, is_open: true });
        state.queues[queue].holder = (mode == QueueMode::Dedicated).then_some(client);
        let checks_mm = state.config.kernel.checks_mm;
        drop(state);
        Ok(ModelPortal::new(self.clone(), client, queue, mode, checks_mm))
    }

    /// Does one thing: takes a descriptor out of a queue, moves an operation on by a piece, or writes a record. `false`: there is nothing to do now.
    pub fn step(&self) -> bool {
        self.0.pages.look(self) | self.lock().step()
    }

    /// Does all there is to do; with a [`Timing`](super::Timing), moves the device's time to the last event. Descriptors that other threads
    /// submit meanwhile are done as well.
    pub fn run_until_idle(&self) {
        loop {
            while self.step() {}
            let mut state = self.lock();
            match state.next_due() {
                Some(due) => state.now = state.now.max(due),
                None => return,
            }
        }
    }

    /// Does all there is to do up to a moment in the device's time, in nanoseconds, and sets the time to it. A moment in the past changes nothing.
    pub fn advance_to(&self, ns: u64) {
        let until = ns as f64;
        self.0.pages.look(self);
        let mut state = self.lock();
        loop {
            while state.step() {}
            match state.next_due() {
                Some(due) if due <= until => state.now = state.now.max(due),
                _ => break,
            }
        }
        state.now = state.now.max(until);
    }

    /// The device's time, in nanoseconds. Stands still without a [`Timing`](super::Timing), and goes with the clock while [`spawn`](Self::spawn)ed threads drive it.
    pub fn now_ns(&self) -> u64 {
        self.lock().now as u64
    }

    /// When there is something to do next, in the device's time. `None`: not until somebody submits.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.lock().next_due().map(|due| due.ceil() as u64)
    }

    /// Starts a thread that drives the device until the returned value drops. With a [`Timing`](super::Timing) the device's time goes with the clock
    /// from then on.
    ///
    /// # Errors
    /// The kernel gives no thread.
    pub fn spawn(&self) -> io::Result<Driven> {
        let stop = Arc::new(AtomicBool::new(false));
        let (device, until) = (self.clone(), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("dsa-model".into()).spawn(move || device.drive(&until))?;
        Ok(Driven { device: self.clone(), stop, thread: Some(thread) })
    }

    fn drive(&self, stop: &AtomicBool) {
        let started = Instant::now();
        let base = self.lock().now;
        let mut fruitless = 0;
        // Relaxed: whoever sets it wakes this thread through the lock.
        while !stop.load(Ordering::Relaxed) {
            // Before anything is looked at: what comes later rings.
            let heard = self.0.work.count();
            let looked = self.0.pages.look(self);
            let mut state = self.lock();
            let looked = looked | state.took_in;
            if state.pipeline.is_some() {
                state.now = state.now.max(base + started.elapsed().as_nanos() as f64);
            }
            let mut steps = 0;
            while steps < STEPS_PER_TURN && state.step() {
                steps += 1;
            }
            if looked || steps > 0 {
                fruitless = 0;
                state.let_others();
                continue;
            }
            fruitless += 1;
            self.rest(state, fruitless, heard);
        }
    }

    /// Waits for work, as long as nothing can be missed.
    fn rest(&self, mut state: Held<'_>, fruitless: u32, heard: u32) {
        let due = state.next_due().map(|due| Duration::from_nanos((due - state.now).max(0.0) as u64));
        let looks = !self.0.pages.is_empty();
        let soon = looks || due.is_some() || state.has_fronts();
        drop(state);
        if soon && fruitless < LOOKS_BEFORE_SLEEP {
            std::thread::yield_now();
            return;
        }
        let most = if looks { PAGE_LOOK } else { IDLE };
        self.0.work.wait(heard, due.map_or(most, |due| due.min(most)));
    }

    /// Disables a queue at once: what it has queued or under way vanishes, half done and without a record. Portals to it are dead from then on, even
    /// if it is enabled again.
    ///
    /// # Panics
    /// There is no such queue; so for the other verbs that take one.
    pub fn disable_queue(&self, queue: usize) {
        self.lock().disable_queue(queue);
    }

    /// Disables a queue when it has finished what it has. It takes nothing more meanwhile.
    pub fn drain_queue(&self, queue: usize) {
        self.lock().drain_queue(queue);
    }

    /// Enables a queue that is disabled, for those who open it from now on.
    pub fn enable_queue(&self, queue: usize) {
        self.lock().enable_queue(queue);
    }

    /// A fatal error: everything in flight vanishes, ENQCMD says retry, MOVDIR64B is dropped.
    pub fn halt(&self) {
        self.lock().stop(DeviceState::Halted);
    }

    /// As [`halt`](Self::halt), by command: the device is disabled afterwards.
    pub fn reset(&self) {
        self.lock().stop(DeviceState::Disabled);
    }

    /// Enables the device and all its queues again, for those who open them from now on.
    pub fn enable(&self) {
        self.lock().start();
    }

    /// As if a child of the program had all queues open as well, as it has after a fork: while that is so, closing one drains nothing, since the kernel waits for the last that has it
    /// open. The driver of this crate then knows that it was not drained.
    pub fn keep_open(&self, kept: bool) {
        self.lock().kept_open = kept;
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&self, faults: super::Faults) {
        self.lock().weather.faults = faults;
    }

    /// What it can do.
    pub fn config(&self) -> DeviceConfig {
        self.lock().config.clone()
    }

    /// As sysfs's `state` of the device.
    pub fn state(&self) -> DeviceState {
        self.lock().life
    }

    /// As sysfs's `state` of a queue.
    pub fn queue_state(&self, queue: usize) -> QueueState {
        self.lock().queues[queue].state
    }

    /// Descriptors that wait in a queue: as sysfs's `occupancy`.
    pub fn occupancy(&self, queue: usize) -> usize {
        self.lock().queues[queue].waiting.len()
    }

    /// Descriptors that were dispatched and have not ended, batches and their children each.
    pub fn in_flight(&self) -> usize {
        self.lock().running.len()
    }

    /// Counts so far.
    pub fn counters(&self) -> Counters {
        let state = self.lock();
        Counters { violations: state.watch.count, ..state.counters.clone() }
    }

    /// Duties of software that were broken so far, the first 256 of them. A test of a driver asserts that there are none.
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().watch.violations().to_vec()
    }

    /// The last descriptors and what became of them, as many as [`Profile::trace`] keeps; they are taken out.
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.lock().trace.take()
    }

    /// The error register, as sysfs's `errors`: errors that no record tells.
    pub fn error(&self) -> SwError {
        self.lock().error
    }

    /// Clears the error register, so that the next error is seen.
    pub fn clear_error(&self) {
        self.lock().error = SwError::default();
    }

    pub(crate) fn lock(&self) -> Held<'_> {
        let mut state = self.0.state.lock();
        let took_in = state.take_in();
        Held { state, took_in }
    }

    pub(crate) fn wake(&self) {
        self.0.work.ring();
    }

    /// Puts a front before a client's queue, for submissions that may take no lock.
    ///
    /// # Safety
    /// This device, or a clone of it, lives until no call of the front's verbs is under way that began before the [`detach`](Self::detach).
    pub(crate) unsafe fn attach(&self, front: &'static Front, client: usize) {
        // SAFETY: the bell is this device's; the rest is the caller's promise.
        unsafe { self.lock().attach(front, client, &self.0.work) };
    }

    /// Takes a front away. Nobody submits to it any more.
    pub(crate) fn detach(&self, front: &'static Front) {
        self.lock().detach(front);
    }

    pub(crate) fn pages(&self) -> &Pages {
        &self.0.pages
    }
}

/// The device's state, while nobody else has it. What fronts hold was taken in, and they are told what has changed when this drops.
pub(crate) struct Held<'a> {
    state: MutexGuard<'a, State>,
    /// Fronts held something.
    pub(crate) took_in: bool,
}

impl Held<'_> {
    /// Gives the state back, to who waits for it if there is somebody.
    fn let_others(mut self) {
        self.state.publish();
        MutexGuard::bump(&mut self.state);
    }
}

impl Deref for Held<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.state.publish();
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        let queues: Vec<_> = state.queues.iter().map(|queue| (queue.state, queue.waiting.len())).collect();
        f.debug_struct("Device")
            .field("version", &state.config.version)
            .field("state", &state.life)
            .field("queues", &queues)
            .field("running", &state.running.len())
            .finish_non_exhaustive()
    }
}

/// A thread that drives a [`Device`]. Dropping it stops the thread, at once, and waits for it; what is in flight stays where it is.
#[must_use = "the device stands still again when this drops"]
pub struct Driven {
    device: Device,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Driven {
    fn drop(&mut self) {
        {
            let _state = self.device.lock();
            // Relaxed: the lock orders it before the thread's next look.
            self.stop.store(true, Ordering::Relaxed);
        }
        self.device.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the model's is a defect that the test has to see; but not one panic in another.
            let outcome = thread.join();
            if !std::thread::panicking() {
                outcome.expect("the device model's thread panicked");
            }
        }
    }
}

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Driven").field(&self.device).finish()
    }
}
