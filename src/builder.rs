//! Every knob of a runtime, with its default, and the check of all of them together.

mod env;
pub(crate) mod offload;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::offload::OffloadConfig;
use crate::arch::Capabilities;
use crate::error::Error;
use crate::placement::{self, LaneInfo, Placement, Plan, Request, Role, Sharing};
use crate::runtime::{self, Runtime};
use crate::sched::settings::{LaneHook, LaneSettings};
use crate::topology::Topology;
use crate::wait::policy::{Overrides, Settings as WaitSettings};
use crate::wait::{Etiquette, Park, Relief, WaitWith};

/// How long a compute lane stays awake for the next hand-off, at most: 50 us, twice what a wake costs on virtual machines.
const LINGER_MAX: Duration = Duration::from_micros(50);
/// The longest that makes sense: past 10 ms a lane that waits for work is a lane that spins.
const LINGER_LIMIT: Duration = Duration::from_millis(10);
/// How long a quiet peek may keep a lane from calling a poller: 50 us, so that housekeeping runs 20 000 times a second.
const PEEK_REFRESH: Duration = Duration::from_micros(50);
/// How long a dropped runtime waits for its lanes.
const DROP_DEADLINE: Duration = Duration::from_secs(5);
/// The kernel keeps 15 bytes of a thread's name; the lane's part of it takes up to 5.
const NAME_MAX: usize = 10;

/// Configures and builds a [`Runtime`].
///
/// Every knob has a default that suits a service in a container; start with [`placement`](Self::placement) and
/// [`etiquette`](Self::etiquette), and leave the single knobs until a metric says otherwise. Values out of range are errors of
/// [`build`](Self::build), never silently replaced.
///
/// # Environment
/// Variables `TWOLANE_*` override the knobs of the same name when the runtime is built or planned, unless
/// [`env_overrides(false)`](Self::env_overrides): `TWOLANE_PLACEMENT` (`auto`, `siblings`, `whole-cores`, `shared`, `unpinned`, or pairs such as
/// `2-3,4-5`), `TWOLANE_PAIRS`, `TWOLANE_RESERVE`, `TWOLANE_NODE`, `TWOLANE_CPUS` (`0-3,8`), `TWOLANE_COMPUTE_PER_CORE`,
/// `TWOLANE_ALLOW_UNPINNED` (`yes`, `no`), `TWOLANE_ETIQUETTE` (`latency`, `balanced`, `polite`), `TWOLANE_RELIEF` (`auto`, `always`, `off`), `TWOLANE_WAIT` (`auto`, `pause`,
/// `light`, `deep`), `TWOLANE_PARK` (`never`, `when-armed`, `within-bound`), `TWOLANE_PARK_AFTER`, `TWOLANE_MEAN_ADDED`, `TWOLANE_MAX_ADDED`,
/// `TWOLANE_PEEK_REFRESH`, `TWOLANE_LINGER_MAX` (times with units: `500ns`, `4us`), `TWOLANE_BACKLOG_MAX`,
/// `TWOLANE_BATCH_COUNT`, `TWOLANE_BATCH_BYTES`, `TWOLANE_NEIGHBOUR_CACHE` (numbers), `TWOLANE_BATCH_AGE`, `TWOLANE_COPY_TIMEOUT` (times),
/// `TWOLANE_DSA_SYSFS` and `TWOLANE_DSA_DEV` (absolute paths of directories, see [`Places`](crate::offload::dsa::discover::Places)). Those used are listed in the
/// plan's notes and in [`Metrics::overrides`](crate::Metrics::overrides); an unknown name or value is an error.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use twolane::{Etiquette, Placement, Runtime};
///
/// let rt = Runtime::builder()
///     .placement(Placement::Auto)
///     .etiquette(Etiquette::Balanced)
///     .max_added(Duration::from_micros(2))
///     .build()?;
/// println!("{}", rt.plan());
/// # Ok::<(), twolane::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    request: Request,
    etiquette: Etiquette,
    overrides: Overrides,
    wait_with: WaitWith,
    /// What the runtime believes of the cpu, given what the cpu states: the same, or something that `sim` carries out.
    believe: fn(Capabilities) -> Capabilities,
    backlog_max: usize,
    linger_max: Duration,
    peek_refresh: Duration,
    drop_deadline: Duration,
    thread_name: String,
    allow_unpinned: bool,
    own_threads: BTreeSet<usize>,
    sharing: BTreeMap<usize, Sharing>,
    env_overrides: bool,
    topology: Option<Topology>,
    offload: OffloadConfig,
    on_lane_start: Option<LaneHook>,
    on_lane_stop: Option<LaneHook>,
}

/// A builder's knobs after the environment and all checks.
pub(crate) struct Config {
    pub plan: Plan,
    pub lanes: LaneSettings,
    pub drop_deadline: Duration,
    pub thread_name: String,
    pub allow_unpinned: bool,
    pub own_threads: BTreeSet<usize>,
    pub overrides: Vec<String>,
    pub wait_with: WaitWith,
    pub believe: fn(Capabilities) -> Capabilities,
    pub offload: OffloadConfig,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            request: Request::default(),
            etiquette: Etiquette::default(),
            overrides: Overrides::default(),
            wait_with: WaitWith::default(),
            believe: |stated| stated,
            backlog_max: usize::MAX,
            linger_max: LINGER_MAX,
            peek_refresh: PEEK_REFRESH,
            drop_deadline: DROP_DEADLINE,
            thread_name: "twolane".into(),
            allow_unpinned: false,
            own_threads: BTreeSet::new(),
            sharing: BTreeMap::new(),
            env_overrides: true,
            topology: None,
            offload: OffloadConfig::default(),
            on_lane_start: None,
            on_lane_stop: None,
        }
    }

    /// Which cpus the lanes run on. Default: [`Placement::Auto`]. Effect: [`Runtime::plan`], and in the metrics the lanes' `info`.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.request.placement = placement;
        self
    }

    /// How many pairs, or shared lanes. Default: as many as fit and as the cgroup's quota carries. From 1 up to what fits. More pairs
    /// serve more pollers and tasks; each poll lane that does not park takes a cpu. Effect: the lanes' `parked` shows those too many.
    pub fn pairs(mut self, pairs: usize) -> Self {
        self.request.pairs = Some(pairs);
        self
    }

    /// How many of the allowed cpus to leave to the OS, its interrupts and other threads: the lowest, in whole cores where that is
    /// possible. Default 0; below the number of allowed cpus. Effect: `preempted` falls.
    pub fn reserve(mut self, cpus: usize) -> Self {
        self.request.reserve = cpus;
        self
    }

    /// Use only cpus of this NUMA node: the one that the NIC is attached to. Default: all nodes.
    pub fn node(mut self, node: usize) -> Self {
        self.request.node = Some(node);
        self
    }

    /// Use only these cpus; isolated ones (`isolcpus`) are used only if they are named here or in [`Placement::Pairs`]. Default: the
    /// cpus of affinity mask and cpuset.
    pub fn cpus(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.request.cpus = Some(cpus.into_iter().collect::<BTreeSet<usize>>());
        self
    }

    /// How many compute lanes one core may carry, on cores with more than two siblings (SMT4, SMT8). Default 1; from 1 to what the
    /// cores have.
    pub fn compute_per_core(mut self, lanes: usize) -> Self {
        self.request.compute_per_core = lanes;
        self
    }

    /// What is true of the lanes of a pair sharing a core, where you know better than the machine says: `Denied` withholds relief,
    /// anything else gives it while the sibling works. Default: what the topology says, `Unknown` on most virtual machines. A
    /// [`Verdict`](crate::topology::probe::Verdict) of the probe turns into it; remember that a hypervisor may move cpus after it. Takes the
    /// numbers of the plan's pairs. Effect: the plan says so in its notes, and [`LaneInfo::sharing`].
    pub fn sharing(mut self, pair: usize, sharing: impl Into<Sharing>) -> Self {
        self.sharing.insert(pair, sharing.into());
        self
    }

    /// How the lanes wait: a preset of all the knobs below. Default: [`Etiquette::Balanced`]. What it trades is latency against the
    /// sibling's throughput and power; effect: `dozing`, `parked` and [`LaneMetrics::duty`](crate::LaneMetrics::duty).
    pub fn etiquette(mut self, etiquette: Etiquette) -> Self {
        self.etiquette = etiquette;
        self
    }

    /// When to wait for the sibling's sake. Default: of the preset. Effect: `dozing`; `relief_withheld` counts the empty passes without.
    pub fn relief(mut self, relief: Relief) -> Self {
        self.overrides.relief = Some(relief);
        self
    }

    /// Whether idle lanes block in the kernel. Default: of the preset. Effect: `parked`, `parks`, and the cpu time of an idle service.
    pub fn park(mut self, park: Park) -> Self {
        self.overrides.park = Some(park);
        self
    }

    /// With what instructions lanes wait in user mode. Default: [`WaitWith::Auto`], the best that the cpu states and that passes a test
    /// on each lane. Trades nothing but trust: `Pause` is the way out where a hypervisor gets the others wrong. Effect: the lanes'
    /// `waits`, `instruction_dozes`.
    pub fn wait_with(mut self, with: WaitWith) -> Self {
        self.wait_with = with;
        self
    }

    /// Lets the lanes wait with these instructions although the cpu does not state them: the traps of [`sim::trap`](crate::sim::trap)
    /// carry them out. Default: what the cpu states.
    #[cfg(all(feature = "sim", target_arch = "x86_64"))]
    pub fn emulate_waits(mut self, _installed: crate::sim::trap::Trap, family: crate::sim::trap::Family) -> Self {
        self.believe = match family {
            crate::sim::trap::Family::Waitpkg => Capabilities::with_emulated_waitpkg,
            crate::sim::trap::Family::Mwaitx => Capabilities::with_emulated_mwaitx,
        };
        self
    }

    /// Idle time before a lane parks, at most: where events are known to be so seldom that at least twice as much idle time is to be expected, and
    /// eight times what a wake takes, it parks at once. Default: of the preset. 1 us to 60 s. Shorter saves cpu, longer spares events after short gaps the
    /// kernel's wake. Effect: `parks`, `fruitless_parks`.
    pub fn park_after(mut self, idle: Duration) -> Self {
        self.overrides.park_after = Some(idle);
        self
    }

    /// Latency that waiting may add to an event on average. Default: of the preset. From 0 to `max_added`. Effect: `dozing`.
    pub fn mean_added(mut self, mean: Duration) -> Self {
        self.overrides.mean_added = Some(mean);
        self
    }

    /// Bounds the part of a gap between two calls of a poller that the runtime chooses: a doze, or a task that the lane runs for others.
    /// Parking is not bounded by it. Default: of the preset. 0 to 10 ms. Effect: `misses`, by cause.
    pub fn max_added(mut self, max: Duration) -> Self {
        self.overrides.max_added = Some(max);
        self
    }

    /// How long a quiet [`Peek`](crate::Peek) may keep a lane from calling its poller. Default 50 us; any. Effect: `skipped` of the
    /// poller's statistics.
    pub fn peek_refresh(mut self, refresh: Duration) -> Self {
        self.peek_refresh = refresh;
        self
    }

    /// How long a compute lane stays awake for the next hand-off while they come faster than a wake. Default 50 us; 0 (off) to 10 ms.
    /// Effect: `lingers` and `dozing` of compute lanes; fewer `wakes`.
    pub fn linger_max(mut self, max: Duration) -> Self {
        self.linger_max = max;
        self
    }

    /// How many tasks may wait in one queue (a cache domain's injector, a lane's own) before more are refused. Default: no bound. From 1. The
    /// bound holds to within the number of threads that submit at the same time. Effect: `injected`, and
    /// [`RejectedBecause::Full`](crate::RejectedBecause::Full).
    pub fn backlog_max(mut self, tasks: usize) -> Self {
        self.backlog_max = tasks;
        self
    }

    /// How long dropping the runtime waits for pollers and tasks to end; see [`Runtime::shutdown`]. Default 5 s; any.
    pub fn drop_deadline(mut self, deadline: Duration) -> Self {
        self.drop_deadline = deadline;
        self
    }

    /// First part of the lanes' thread names, followed by the role and number of the lane (`twolane-p0`, `twolane-c1`). Default
    /// `twolane`; 1 to 10 bytes without NUL, since the kernel keeps 15.
    pub fn thread_name(mut self, prefix: impl Into<String>) -> Self {
        self.thread_name = prefix.into();
        self
    }

    /// Lets a lane run unbound if it cannot be bound to its cpu, instead of failing. Default `false`. Effect: `pinned` in the lanes' `info`.
    pub fn allow_unpinned(mut self, yes: bool) -> Self {
        self.allow_unpinned = yes;
        self
    }

    /// Poll lanes, by number, that run on threads of yours instead of new ones: an lcore that DPDK made, the main thread. Default: none. Take each
    /// with [`Runtime::lane_runner`] and call [`LaneRunner::run`](crate::LaneRunner::run) on that thread, whose binding and signals stay as they are.
    /// Pollers given to such a lane wait until it runs.
    pub fn own_threads(mut self, lanes: impl IntoIterator<Item = usize>) -> Self {
        self.own_threads = lanes.into_iter().collect();
        self
    }

    /// Whether `TWOLANE_*` variables override these knobs. Default `true`.
    pub fn env_overrides(mut self, yes: bool) -> Self {
        self.env_overrides = yes;
        self
    }

    /// Plans on this machine instead of reading `/sys`: one that hwloc read, or a simulated one for [`plan`](Self::plan). To build on a
    /// machine that is not this one fails when the lanes are bound.
    pub fn topology(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// Called on each lane's thread before it does anything else. A panic is contained and counted.
    pub fn on_lane_start(mut self, hook: impl Fn(&LaneInfo) + Send + Sync + 'static) -> Self {
        self.on_lane_start = Some(Arc::new(hook));
        self
    }

    /// Called on each lane's thread when it ends, after its pollers are gone. A panic is contained and counted.
    pub fn on_lane_stop(mut self, hook: impl Fn(&LaneInfo) + Send + Sync + 'static) -> Self {
        self.on_lane_stop = Some(Arc::new(hook));
        self
    }

    /// The dry run: which lane would run on which cpu, and why other cpus are left out. Prints as a table.
    ///
    /// # Errors
    /// As [`build`](Self::build), except for what only starting the lanes can show.
    pub fn plan(&self) -> Result<Plan, Error> {
        self.clone().config().map(|config| config.plan)
    }

    /// Starts the lanes. Returns when all of them run, bound to their cpus.
    ///
    /// The calling thread's affinity and signal mask are as before. The first runtime of a process measures the clock, which takes about 4 ms.
    ///
    /// # Errors
    /// [`Error`]: a knob or variable out of range, a placement that does not fit the machine, a lane that cannot be bound or started. No
    /// thread is left behind.
    pub fn build(self) -> Result<Runtime, Error> {
        runtime::start(self.config()?)
    }

    fn config(mut self) -> Result<Config, Error> {
        let overrides = match self.env_overrides {
            true => env::apply(&mut self, variables())?,
            false => Vec::new(),
        };
        self.check()?;
        let wait = WaitSettings::resolve(self.etiquette, &self.overrides)?;
        self.offload.check(wait.max_added)?;
        let topology = match self.topology {
            Some(topology) => topology,
            None => Topology::read()?,
        };
        let (quota, cpus) = (topology.quota.as_ref().map(|quota| quota.cpus), topology.allowed().len());
        let mut plan = placement::plan(&self.request, &topology)?;
        check_own_threads(&self.own_threads, &plan)?;
        overrule_sharing(&self.sharing, &mut plan)?;
        plan.notes.extend(overrides.iter().map(|variable| format!("from the environment: {variable}")));
        Ok(Config {
            plan,
            lanes: LaneSettings {
                wait,
                backlog_max: self.backlog_max,
                linger_max: self.linger_max,
                peek_refresh: self.peek_refresh,
                quota,
                cpus,
                on_lane_start: self.on_lane_start,
                on_lane_stop: self.on_lane_stop,
            },
            drop_deadline: self.drop_deadline,
            thread_name: self.thread_name,
            allow_unpinned: self.allow_unpinned,
            own_threads: self.own_threads,
            overrides,
            wait_with: self.wait_with,
            believe: self.believe,
            offload: self.offload,
        })
    }

    /// The knobs that neither the planner nor the waiting checks.
    fn check(&self) -> Result<(), Error> {
        let wrong = |knob, value: String, want| Err(Error::Knob { knob, value, want });
        if self.backlog_max == 0 {
            return wrong("backlog_max", "0".into(), "1 or more: with 0 every task would be refused");
        }
        if self.linger_max > LINGER_LIMIT {
            return wrong(
                "linger_max",
                format!("{:?}", self.linger_max),
                "0 to 10 ms: a lane that waits longer only spins",
            );
        }
        let name = &self.thread_name;
        if name.is_empty() || name.len() > NAME_MAX || name.contains('\0') {
            return wrong(
                "thread_name",
                format!("{name:?}"),
                "1 to 10 bytes without NUL: the kernel keeps 15, and the lane's part takes 5",
            );
        }
        Ok(())
    }
}

/// Whether each of `lanes` is a poll lane of `plan`: the others must be there whenever a task waits.
fn check_own_threads(lanes: &BTreeSet<usize>, plan: &Plan) -> Result<(), Error> {
    let is_poll_lane = |lane: usize| plan.lanes.get(lane).is_some_and(|plan| plan.role == Role::Poll);
    match lanes.iter().find(|&&lane| !is_poll_lane(lane)) {
        Some(lane) => {
            Err(Error::Knob { knob: "own_threads", value: lane.to_string(), want: "numbers of poll lanes; see `plan`" })
        }
        None => Ok(()),
    }
}

/// Puts what the user knows in the place of what the machine says.
fn overrule_sharing(known: &BTreeMap<usize, Sharing>, plan: &mut Plan) -> Result<(), Error> {
    for (&pair, &sharing) in known {
        let Some(stated) = plan.sharing.get_mut(pair) else {
            return Err(Error::Knob {
                knob: "sharing",
                value: format!("that of pair {pair}"),
                want: "pairs of the plan; see `plan`",
            });
        };
        if *stated != sharing {
            plan.notes.push(format!("pair {pair}: sharing {sharing} by the builder's word; the machine says {stated}"));
            *stated = sharing;
        }
    }
    Ok(())
}

/// The environment. What is no text is kept as such: a name may be one of ours with a slip in it, and a value must not become another.
fn variables() -> impl Iterator<Item = (String, Result<String, OsString>)> {
    std::env::vars_os().map(|(name, value)| (name.to_string_lossy().into_owned(), value.into_string()))
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("request", &self.request)
            .field("etiquette", &self.etiquette)
            .field("overrides", &self.overrides)
            .field("backlog_max", &self.backlog_max)
            .field("thread_name", &self.thread_name)
            .finish_non_exhaustive()
    }
}
