//! From a checked configuration to running lanes: clock, threads, signals, cpus.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::lane_runner::{self, LaneRunner};
use super::signals;
use crate::arch::Capabilities;
use crate::builder::Config;
use crate::error::Error;
use crate::placement::{LaneInfo, LanePlan, Role, Sharing};
use crate::sched::deque::Own;
use crate::sched::shared::Shared;
use crate::sync::prefetch;
use crate::topology::{PinError, pin};
use crate::wait::clock::{Clock, KERNEL_COUNTER_SOURCES};
use crate::wait::means::{Offer, OsLimit};

/// A file that tells which counter the kernel reads the time from.
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The longest TPAUSE or UMWAIT that the kernel allows, in ticks of the counter, and whether it allows C0.2. There with WAITPKG only.
const UMWAIT_MAX_TIME: &str = "/sys/devices/system/cpu/umwait_control/max_time";
const UMWAIT_C02: &str = "/sys/devices/system/cpu/umwait_control/enable_c02";

/// Lanes that run, and their threads, by lane.
pub(super) struct Started {
    pub shared: Arc<Shared>,
    pub threads: Vec<Option<JoinHandle<()>>>,
    /// Lanes that wait for a thread of the user's.
    pub runners: Vec<LaneRunner>,
}

/// Starts one thread a lane; each binds itself and says how that went, then waits for what all share. Fails if one fails, and then no thread
/// is left.
pub(super) fn start(config: &Config) -> Result<Started, Error> {
    let cpu = (config.believe)(Capabilities::detect());
    if let Some(token) = cpu.prefetchw {
        prefetch::by(token);
    }
    let clock = clock(&cpu);
    let offer = Offer::new(config.wait_with, &cpu, clock.source(), os_limit());
    let mut threads = Vec::new();
    let mut recruits = Vec::new();
    let mut infos = Vec::new();
    for plan in &config.plan.lanes {
        let own = config.own_threads.contains(&plan.lane);
        let spawned = if own { Ok((None, None)) } else { spawn(plan, &config.thread_name) };
        let (thread, recruit) = match spawned {
            Ok(spawned) => spawned,
            Err(error) => return Err(give_up(recruits, threads, error)),
        };
        threads.push(thread);
        recruits.push(recruit);
    }
    for (plan, recruit) in config.plan.lanes.iter().zip(&recruits) {
        // A thread that is gone without a word cannot be: it sends before anything that could panic.
        let pinned = recruit.as_ref().and_then(|recruit| recruit.bound.recv().ok()).unwrap_or(Ok(false));
        let pinned = match pinned {
            Ok(pinned) => pinned,
            Err(_) if config.allow_unpinned => false,
            Err(source) => {
                let error = Error::Pin { lane: plan.lane, source };
                return Err(give_up(recruits, threads, error));
            }
        };
        let sharing = config.plan.sharing.get(plan.pair).copied().unwrap_or(Sharing::Unknown);
        infos.push(LaneInfo { plan: plan.clone(), sharing, pinned });
    }
    let (queues, stealers): (Vec<Own>, Vec<_>) = infos.iter().map(|_| Own::new()).unzip();
    let shared = Arc::new(Shared::new(infos, stealers, config.lanes.clone(), clock, offer));
    let mut runners = Vec::new();
    for (lane, (recruit, queue)) in recruits.into_iter().zip(queues).enumerate() {
        match recruit {
            Some(recruit) => {
                shared.exits.begins(lane);
                // The thread waits for this and nothing else.
                let _ = recruit.enlist.send((Arc::clone(&shared), queue));
            }
            None => runners.push(LaneRunner::new(Arc::clone(&shared), lane, queue)),
        }
    }
    Ok(Started { shared, threads, runners })
}

/// Ends the threads that were started, and says why.
fn give_up(recruits: Vec<Option<Recruit>>, threads: Vec<Option<JoinHandle<()>>>, error: Error) -> Error {
    drop(recruits); // each thread waits for a word from its recruit, and ends when none can come
    threads.into_iter().flatten().for_each(|thread| drop(thread.join()));
    error
}

/// A thread that will be a lane.
struct Recruit {
    bound: Receiver<Result<bool, PinError>>,
    enlist: Sender<(Arc<Shared>, Own)>,
}

fn spawn(plan: &LanePlan, prefix: &str) -> Result<(Option<JoinHandle<()>>, Option<Recruit>), Error> {
    let (say, bound) = mpsc::channel();
    let (enlist, wait) = mpsc::channel();
    let (lane, cpu) = (plan.lane, plan.cpu);
    let body = move || {
        let pinned = cpu.map_or(Ok(false), |cpu| pin::pin_current(cpu).map(|()| true));
        let _ = say.send(pinned);
        if let Ok((shared, queue)) = wait.recv() {
            lane_runner::live(shared, lane, queue);
        }
    };
    let refused = |source: io::Error| Error::Thread { lane, source };
    // A thread inherits the signal mask, so there is no moment in which it would take a signal.
    let _blocked = signals::block().map_err(refused)?;
    let thread = thread::Builder::new().name(name(prefix, plan)).spawn(body).map_err(refused)?;
    Ok((Some(thread), Some(Recruit { bound, enlist })))
}

fn name(prefix: &str, plan: &LanePlan) -> String {
    let role = match plan.role {
        Role::Poll => 'p',
        Role::Compute => 'c',
        Role::Shared => 's',
    };
    format!("{prefix}-{role}{}", plan.lane)
}

fn clock(cpu: &Capabilities) -> Clock {
    let source = std::fs::read_to_string(CLOCKSOURCE).unwrap_or_default();
    let trusted = KERNEL_COUNTER_SOURCES.contains(&source.trim());
    Clock::best(cpu, trusted).0
}

/// What the kernel allows waits, where it says so.
fn os_limit() -> OsLimit {
    let read = |path| std::fs::read_to_string(path).ok();
    OsLimit::parse(read(UMWAIT_MAX_TIME).as_deref(), read(UMWAIT_C02).as_deref())
}
