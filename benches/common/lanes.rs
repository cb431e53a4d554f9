//! The library's side: one pair of lanes on known cpus, whose threads the witness can watch.

use std::sync::{Arc, Mutex};

use twolane::{Builder, LaneInfo, LaneMetrics, Role, Runtime, Sharing};

use super::cpu;

/// Where everything is measured: the first pair that the library plans by itself.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The cpu of pollers, and of whatever plays their part in a reference.
    pub poll: usize,
    /// The cpu of tasks, and of whatever plays their part in a reference.
    pub compute: usize,
}

impl Machine {
    /// Asks the library for its plan.
    pub fn of_this_host() -> Result<Self, String> {
        let plan = builder().plan().map_err(|error| error.to_string())?;
        let cpu = |role| plan.lanes.iter().find(|lane| lane.role == role).and_then(|lane| lane.cpu);
        match (cpu(Role::Poll), cpu(Role::Compute)) {
            (Some(poll), Some(compute)) => Ok(Self { poll, compute }),
            _ => Err(format!("these figures need a poll lane and a compute lane on two cpus; this host gets\n{plan}")),
        }
    }

    /// Both cpus.
    pub fn cpus(&self) -> [usize; 2] {
        [self.poll, self.compute]
    }
}

/// One pair, and nothing from the environment: a variable must not steer a figure.
pub fn builder() -> Builder {
    Runtime::builder().pairs(1).env_overrides(false)
}

/// A runtime of one pair.
pub struct Lanes {
    pub runtime: Runtime,
    threads: Vec<(LaneInfo, i32)>,
}

impl Lanes {
    /// Starts what was configured.
    pub fn start(builder: Builder) -> Result<Self, String> {
        let seen: Arc<Mutex<Vec<(LaneInfo, i32)>>> = Arc::default();
        let told = Arc::clone(&seen);
        let runtime = builder
            .on_lane_start(move |info| {
                if let Ok(mut seen) = told.lock() {
                    seen.push((info.clone(), cpu::thread_id()));
                }
            })
            .build()
            .map_err(|error| error.to_string())?;
        // The hook runs first on each lane: a task and a poller on theirs have it behind them.
        let adopted =
            runtime.spawn_poller(twolane::Where::Any, "first", |_: &mut twolane::PollCx<'_>| twolane::Progress::Done);
        adopted.map_err(|error| error.to_string())?.join().map(drop).map_err(|error| error.to_string())?;
        runtime.spawn_compute(|| ()).join().map_err(|error| error.to_string())?;
        while seen.lock().map_or(0, |seen| seen.len()) < runtime.plan().lanes.len() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let threads = seen.lock().map(|seen| seen.clone()).unwrap_or_default();
        Ok(Self { runtime, threads })
    }

    /// The kernel's numbers of the lanes' threads.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.threads.iter().map(|(_, id)| *id).collect()
    }

    /// The kernel's number of the thread of the lane of this role.
    #[allow(dead_code)] // not every bench asks
    pub fn thread_of(&self, role: Role) -> Option<i32> {
        self.threads.iter().find(|(info, _)| info.plan.role == role).map(|(_, id)| *id)
    }

    /// What is known about the two lanes sharing a core.
    pub fn sharing(&self) -> Sharing {
        self.threads.first().map_or(Sharing::Unknown, |(info, _)| info.sharing)
    }

    /// What the lane of this role did so far.
    pub fn metrics(&self, role: Role) -> Result<LaneMetrics, String> {
        let lanes = self.runtime.metrics().lanes;
        lanes.into_iter().find(|lane| lane.info.plan.role == role).ok_or_else(|| format!("no lane is {role:?}"))
    }
}
