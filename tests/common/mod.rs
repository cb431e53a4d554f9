//! What the integration tests share: runtimes that need nothing of the machine, watchdogs instead of hangs, and gates instead of sleeps.
#![allow(dead_code)] // every test file takes what it needs

use std::future::Future;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use twolane::topology::{Smt, Topology};
use twolane::{Builder, Handle, Placement, Poller, PollerHandle, Progress, Runtime, Where, poll_fn};

pub mod os;

/// Longer than anything here takes on a machine that does other things, too: past it, something hangs.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Far below any closure that these tests call long, far above what a loaded machine takes to start a task.
pub const PROMPT: Duration = Duration::from_secs(5);
/// What a shutdown gets that is expected to succeed.
pub const SOON: Duration = Duration::from_secs(10);

/// Runs `test` and fails loudly if it takes longer than `limit`, instead of hanging for ever.
pub fn within<R: Send + 'static>(limit: Duration, test: impl FnOnce() -> R + Send + 'static) -> R {
    // One test at a time: lanes that poll would take the cpus from each other's tests.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (done, wait) = mpsc::channel();
    let thread = thread::spawn(move || {
        let result = test();
        let _ = done.send(());
        result
    });
    match wait.recv_timeout(limit) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("this hangs: it did not end within {limit:?}"),
        // Done, or it panicked.
        _ => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}

/// Waits until `holds`, looking again and again, and fails loudly if that takes too long.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_micros(200)); // paces the looks, orders nothing
    }
}

/// Tries again if the machine was too busy to say: `test` returns `None` where a lane did not get a cpu in time.
pub fn undisturbed<R>(mut test: impl FnMut() -> Option<R>) -> R {
    (0..10).find_map(|_| test()).expect("ten times in a row, a lane did not get a cpu for milliseconds")
}

/// Closed until it is opened, once; whoever waits in vain fails loudly.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        *self.0.0.lock().unwrap()
    }

    pub fn wait(&self) {
        assert!(self.opens_within(LIMIT), "nobody opened the gate");
    }

    pub fn opens_within(&self, limit: Duration) -> bool {
        let closed = self.0.1.wait_timeout_while(self.0.0.lock().unwrap(), limit, |open| !*open).unwrap();
        *closed.0
    }
}

/// A future that is ready once it was set, from anywhere.
#[derive(Clone, Default)]
pub struct Signal(Arc<Mutex<(bool, Vec<Waker>)>>);

impl Signal {
    pub fn set(&self) {
        let wakers = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Makes it ready and tells nobody.
    pub fn set_silently(&self) {
        self.0.lock().unwrap().0 = true;
    }

    /// The wakers that wait now.
    pub fn wakers(&self) -> Vec<Waker> {
        self.0.lock().unwrap().1.clone()
    }
}

impl Future for Signal {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1.push(cx.waker().clone());
        Poll::Pending
    }
}

/// A builder of `pairs` pairs (lane 2n polls, lane 2n + 1 computes) that the OS places, whatever machine this is.
pub fn pairs(pairs: usize) -> Builder {
    Runtime::builder().env_overrides(false).placement(Placement::Unpinned).pairs(pairs).topology(made_up(2 * pairs))
}

/// A builder of shared lanes, pinned only as far as this machine has cpus for them.
pub fn shared(lanes: usize) -> Builder {
    pairs(lanes).placement(Placement::Shared).topology(made_up(lanes)).allow_unpinned(true)
}

/// A guest machine of `cpus` cpus in one cache domain, that does not show its siblings.
pub fn made_up(cpus: usize) -> Topology {
    let mut topology = Topology::read().unwrap();
    let mut one = topology.cpus.iter().find(|cpu| cpu.allowed).unwrap().clone();
    (one.isolated, one.llc, one.node, one.package) = (false, 0, 0, 0);
    topology.cpus = (0..cpus)
        .map(|id| {
            let mut cpu = one.clone();
            (cpu.id, cpu.core) = (id, id);
            cpu
        })
        .collect();
    (topology.smt, topology.hypervisor, topology.quota) = (Smt::Unknown, true, None);
    topology.notes.clear();
    topology
}

/// A poller that never has anything, and lets its lane park.
pub fn quiet() -> impl Poller + Send + 'static {
    poll_fn(|cx| if cx.stopping() { Progress::Done } else { Progress::Idle }).ring()
}

/// One pair whose poll lane has a poller that wants no task beside it: every task runs on lane 1.
pub fn one_compute_lane() -> Runtime {
    let rt = pairs(1).build().unwrap();
    keep_for_polling(&rt, 0);
    rt
}

/// Gives a poll lane a poller, so that it is no compute lane; returns when the lane has it.
pub fn keep_for_polling(rt: &Handle, lane: usize) -> PollerHandle<impl Poller + Send + 'static> {
    let poller = rt.spawn_poller(Where::Lane(lane), "quiet", quiet()).unwrap();
    until("the poller is adopted", || poller.stats().calls > 0);
    poller
}

/// Occupies a lane that takes tasks until the gate is opened; returns when it does.
pub fn occupy(rt: &Handle) -> Gate {
    let (begun, end) = (Gate::default(), Gate::default());
    let (tell, wait) = (begun.clone(), end.clone());
    drop(rt.spawn_compute(move || {
        tell.open();
        wait.wait();
    }));
    begun.wait();
    end
}

/// Waits until lane `lane` blocks in the kernel and stays there.
pub fn parked(rt: &Handle, lane: usize) {
    let look = || {
        let lane = &rt.metrics().lanes[lane];
        ((lane.parks, lane.passes, lane.park_refusals), lane.parked)
    };
    let mut last = look();
    until("the lane parks", || {
        let now = look();
        let before = std::mem::replace(&mut last, now);
        // The time of a park grows while it lasts, and nothing else happened in between.
        now.0 == before.0 && now.1 > before.1
    });
}

/// Text of a panic.
pub fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("")
}

const CHILD: &str = "TEST_IN_CHILD";

/// Whether this process was made by [`child`].
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs the one test `name` of this file in a process of its own, in which [`is_child`] holds, and fails if that fails or hangs.
pub fn child(name: &str, variables: &[(&str, &str)]) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "yes")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + 2 * LIMIT;
    while child.try_wait().unwrap().is_none() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(2));
    }
    // Does nothing to one that has ended.
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.success(), "the child process of `{name}`: {status} (killed: it hung)");
}
