//! What do devices move at most? One has a ceiling of its own; several share a machine's.
//!
//! Published (the study): about 30 GB/s a device, about 90 over four. The second is a limit of the machine, which the model of *one* device knows nothing of; it is put in here by
//! hand, as a rate of 90 / n where that is less than the device's own. So that line shows what was put in; the first shows what comes out.

use twolane::sim::dsa::QueueMode;
use twolane::sim::study::chart::{Chart, Line};
use twolane::sim::study::{Seat, World};

use crate::figure::{Bound, Figure};
use crate::{Asked, Failure};

/// Bytes a nanosecond, all devices of a machine together.
const MACHINE_RATE: f64 = 90.0;
const DEVICES: [usize; 3] = [1, 2, 4];
const COPIES: usize = 500;
const DEPTH: usize = 32;

/// Bytes a nanosecond of so many devices, a core for each.
fn rate(devices: usize, len: usize) -> Result<f64, Failure> {
    let mut world = World { queue: QueueMode::Dedicated, ..World::default() };
    world.timing.device_rate = world.timing.device_rate.min(MACHINE_RATE / devices as f64);
    let mut seat = Seat::new(&world)?;
    let mut outstanding = std::collections::VecDeque::new();
    for _ in 0..COPIES {
        if outstanding.len() == DEPTH {
            outstanding.pop_front().map(|ticket| seat.wait(ticket));
        }
        outstanding.push_back(seat.submit(&[len]));
    }
    for ticket in outstanding {
        let _ = seat.wait(ticket);
    }
    // All devices do the same.
    Ok((devices * COPIES * len) as f64 / seat.now_ns())
}

pub fn run(_: &Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure> {
    let mut lines = Vec::new();
    for devices in DEVICES {
        let sizes = (8..=21).step_by(2).map(|octave| 1_usize << octave);
        let points = sizes.map(|len| Ok((len as f64, rate(devices, len)?)));
        lines.push(Line { name: format!("{devices} devices"), points: points.collect::<Result<_, Failure>>()? });
    }
    let chart = Chart { title: "devices".into(), x: "bytes", y: "GB/s", y_log: false, lines };
    let figure = Figure::exact("model_device_gb_s", rate(1, 1 << 20)?, Bound::AtMost(30.0))
        .beside("four_devices", rate(4, 1 << 20)?);
    Ok((vec![chart], vec![figure]))
}
