//! Opens what carries out copies: the CPU engine with its sizes, and the work queues that there are, with the reaper as an ordinary poller.

use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::arch::Capabilities;
use crate::arch::memory::largest_cache;
use crate::builder::offload::{Offload, OffloadConfig};
use crate::error::Error;
use crate::offload::cpu::calibrate::{self, CALIBRATION_LIMIT, Footprint};
use crate::offload::dsa::discover::{self, Found, NoWorkQueue, Skipped, Why, Wish, WorkQueue};
use crate::offload::dsa::open::{self, Instructions, Wants};
use crate::offload::dsa::queue::{Queue, QueueId, Queues};
use crate::offload::dsa::reopen::{self, TakenUp};
use crate::offload::flow::{Flow, Reaper, Settings};
use crate::offload::route::{Costs, Router};
use crate::offload::{AT_ONCE_MAX, Center, CpuSizes, Device, Reopening, SLICE};
use crate::poll::PollerHandle;
use crate::sched::blocking;
use crate::sched::shared::Shared;

use crate::task::{self, Scheduler};

use super::{Handle, Where};

/// Work queues that a runtime opens: two a device for four devices. More bring no throughput (a device's engines are shared by its queues), and each
/// takes a mapping and a probe.
const QUEUES_MAX: usize = 8;
/// How long a shutdown waits for devices after the lanes have ended, beside the time that was left: answers take microseconds.
const LAST_ANSWERS: Duration = Duration::from_millis(10);

/// The reaper's handle, as soon as it has a lane: its bell. The runtime's: the flow rings it and does not own it, since the handle gets the reaper back in the
/// end, and the reaper has the flow.
pub(super) type Bell = Arc<OnceLock<PollerHandle<Reaper>>>;

/// Its name in reports.
const REAPER: &str = "dsa reaper";

/// Measured once in a process: caches and memory are the machine's.
static STREAMED_FROM: OnceLock<usize> = OnceLock::new();

/// What all operations share, over queues that were opened before, and the reaper's bell if there are any.
pub(super) fn center(
    config: &OffloadConfig,
    queues: Option<Queues>,
    cpu: &Capabilities,
    shared: &Arc<Shared>,
) -> Center {
    let streamed_from = match config.calibrate {
        true => *STREAMED_FROM.get_or_init(|| {
            let cache = largest_cache();
            calibrate::streamed_from(cache, &calibrate::measure(cache, CALIBRATION_LIMIT))
        }),
        false => calibrate::streamed_from(largest_cache(), &[]),
    };
    let footprint = Footprint::new(config.neighbour_cache, largest_cache());
    let sizes =
        CpuSizes { at_once_max: AT_ONCE_MAX, slice: SLICE, streamed_from: footprint.streamed_from(streamed_from) };
    let defaults = Settings::default();
    let timeout = config.timeout.unwrap_or(defaults.timeout);
    let batching = config.batching(shared.settings.wait.max_added);
    let settings = Settings { lanes: shared.lanes().len(), batching, timeout, streamed_from };
    // Without memory for records there is no device; the CPU needs none.
    let flow = queues.and_then(|queues| Flow::new(queues, settings).ok());
    let dedicated = |flow: &Flow| flow.queues().iter().all(|(_, queue)| queue.direct().is_some());
    let router =
        |flow: &Flow| Router::new(if dedicated(flow) { Costs::DEDICATED } else { Costs::STARTING }, streamed_from);
    let reopening = || Reopening::new(opener(config, config.instructions(cpu)));
    let plans = shared.lanes().iter().map(|lane| &lane.info.plan);
    let node = common_node(plans.map(|plan| plan.cpu.map(|_| plan.node)));
    let device = flow.map(|flow| Device { router: router(&flow), flow, reopening: reopening(), node, footprint });
    Center { may_wait: blocking::may_be_kept, ..Center::new(shared.clone(), sizes, device) }
}

/// The NUMA node that all lanes are bound to; `None`: to several, or to none. `lanes`: each one's node, if it is bound.
fn common_node(mut lanes: impl Iterator<Item = Option<usize>>) -> Option<u32> {
    let first = lanes.next()??;
    if lanes.all(|node| node == Some(first)) { u32::try_from(first).ok() } else { None }
}

/// The queues, opened and tried. `None`: there are none, and none is demanded.
pub(super) fn queues(config: &OffloadConfig, cpu: &Capabilities) -> Result<Option<Queues>, Error> {
    if config.offload == Offload::Off {
        return Ok(None);
    }
    let queues = Queues::new();
    let mut opened = 0;
    #[cfg(feature = "sim")]
    for (at, device) in config.models.iter().enumerate() {
        for queue in device.queues(at).map_err(|error| model_failed(&error))? {
            opened += usize::from(queues.add(queue).is_ok());
        }
    }
    #[cfg(feature = "sim")]
    for null in &config.null {
        opened += usize::from(queues.add(null.queue().map_err(|error| model_failed(&error))?).is_ok());
    }
    if opened > 0 {
        return Ok(Some(queues));
    }
    let mut found = discover::find(&config.places);
    found.queues.extend(config.explicit.iter().cloned());
    let shares = discover::choose(&found.queues, &Wish::default());
    let mut skipped = found.skipped;
    let instructions = config.instructions(cpu);
    for share in shares.iter().take(QUEUES_MAX) {
        let described: &WorkQueue = &found.queues[share.queue];
        match open::open(described, instructions, Wants { batch_anyway: config.batch_anyway }) {
            Ok(queue) => opened += usize::from(add(&queues, queue)),
            Err(error) => skipped.push(Skipped {
                path: described.node.clone(),
                why: Why::NotOpened { error: error.to_string() },
                remedy: Vec::new(),
            }),
        }
    }
    match (opened, config.offload) {
        (0, Offload::Demand) => {
            // Those that were found are among the skipped now, with what opening them came to.
            let found = Found { skipped, ..Found::default() };
            Err(NoWorkQueue::after(config.places.clone(), found, None).into())
        }
        (0, _) => Ok(None),
        _ => Ok(Some(queues)),
    }
}

/// How a queue that died is opened anew. One that was described by hand is not: without its state, nobody knows whether it is back.
fn opener(config: &OffloadConfig, cpu: Instructions) -> impl Fn(&Queues, QueueId) -> TakenUp + Send + Sync + 'static {
    let (places, wants) = (config.places.clone(), Wants { batch_anyway: config.batch_anyway });
    #[cfg(feature = "sim")]
    let models = config.models.clone();
    move |queues, dead| {
        #[cfg(feature = "sim")]
        for (at, model) in models.iter().enumerate() {
            match model.take_up(at, queues, dead) {
                TakenUp::NotBack => {}
                other => return other,
            }
        }
        reopen::take_up(queues, dead, &discover::find(&places).queues, cpu, wants)
    }
}

/// Sends whoever has to wait for a queue that is opened anew to a compute lane.
pub(super) fn spawn_reopening(handle: &Handle, center: &Arc<Center>) {
    let Some(device) = &center.device else { return };
    // Weak: the device has the errand.
    let (center, shared) = (Arc::downgrade(center), Arc::downgrade(handle.shared()));
    device.reopening.send_by(move || {
        let Some(shared) = shared.upgrade() else { return false };
        let center = Weak::clone(&center);
        let errand = async move {
            if let Some(device) = center.upgrade().as_ref().and_then(|center| center.device.as_ref()) {
                device.reopen();
            }
        };
        let scheduler: Scheduler = shared;
        let Ok((runnable, handle)) = task::future(errand, Arc::clone(&scheduler)) else { return false };
        drop(handle);
        scheduler.schedule(runnable);
        true
    });
}

fn add(queues: &Queues, queue: Queue) -> bool {
    queues.add(queue).is_ok()
}

#[cfg(feature = "sim")]
fn model_failed(error: &std::io::Error) -> Error {
    Error::Knob {
        knob: "model_device",
        value: error.to_string(),
        want: "a device model whose queues are enabled and not open elsewhere",
    }
}

/// Gives the reaper to a lane. Its bell rings as long as what is returned is kept.
pub(super) fn spawn_reaper(handle: &Handle, center: &Center) -> Result<Bell, Error> {
    let bell = Bell::default();
    let Some(device) = &center.device else { return Ok(bell) };
    let rung = Arc::downgrade(&bell);
    let ring = move || {
        // Before it has a lane, it looks around anyway when it gets there.
        if let Some(reaper) = rung.upgrade().as_ref().and_then(|bell| bell.get()) {
            reaper.ring();
        }
    };
    if let Some(reaper) = device.flow.reaper(ring) {
        let _ = bell.set(handle.spawn_poller(Where::Any, REAPER, reaper)?);
    }
    Ok(bell)
}

/// After the lanes: what is outstanding is waited for, and then given up.
pub(super) fn shutdown(center: &Center, deadline: Instant) {
    if let Some(device) = &center.device {
        let _ = device.flow.shutdown(deadline.max(Instant::now() + LAST_ANSWERS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_a_node_in_common_if_all_are_bound_to_it() {
        for (lanes, node) in [
            (&[Some(1), Some(1)][..], Some(1)),
            (&[Some(0)], Some(0)),
            (&[Some(0), Some(1)], None),
            (&[Some(1), None], None),
            (&[None, None], None),
            (&[], None),
        ] {
            assert_eq!(common_node(lanes.iter().copied()), node, "{lanes:?}");
        }
    }
}
