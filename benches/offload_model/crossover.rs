//! From which size on does a device pay? When its answer is waited for, and when there is other work meanwhile.
//!
//! Published (the study): about 4 KiB waited for, about 256 B overlapped. The model's cpu costs were fitted to that, so the figures say that the model and its laboratory fit
//! together, and nothing more.

use twolane::sim::dsa::QueueMode;
use twolane::sim::study::chart::{Chart, Line};
use twolane::sim::study::{Fixed, Sizes, Waits, Workload, World, run as play};

use crate::figure::{Bound, Figure};
use crate::{Asked, Failure};

const COPIES: usize = 320;

fn cost(world: &World, fixed: &Fixed, len: usize, waits: Waits) -> Result<f64, Failure> {
    let workload = Workload { sizes: Sizes::Only(len), waits };
    Ok(play(world, &workload, &mut fixed.clone(), 64, COPIES, 1)?.cost_ns)
}

/// The size from which on the device costs less, to a sixteenth of an octave.
fn crossover(world: &World, waits: Waits) -> Result<usize, Failure> {
    let (mut low, mut high) = (16_usize, 1 << 20);
    while high - low > (low / 16).max(1) {
        let middle = low.midpoint(high);
        if cost(world, &Fixed::DEVICE, middle, waits)? < world.cpu_ns(middle) { high = middle } else { low = middle }
    }
    Ok(high)
}

pub fn run(_: &Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure> {
    let shared = World::default();
    let dedicated = World { queue: QueueMode::Dedicated, ..shared };
    let mut lines = Vec::new();
    for (name, world, fixed, waits) in [
        ("cpu", shared, Fixed::CPU, Waits::Each),
        ("ENQCMD, waited", shared, Fixed::DEVICE, Waits::Each),
        ("MOVDIR64B, waited", dedicated, Fixed::DEVICE, Waits::Each),
        ("ENQCMD, overlapped", shared, Fixed::DEVICE, Waits::Window),
        ("MOVDIR64B, overlap", dedicated, Fixed::DEVICE, Waits::Window),
    ] {
        let sizes = (6..=20).map(|octave| 1_usize << octave);
        let points = sizes.map(|len| Ok((len as f64, cost(&world, &fixed, len, waits)?)));
        lines.push(Line { name: name.into(), points: points.collect::<Result<_, Failure>>()? });
    }
    let chart =
        Chart { title: "crossover".into(), x: "bytes", y: "ns taken from the service by a copy", y_log: true, lines };
    // Twice the published sizes: the study reads its own off curves.
    let waited = crossover(&shared, Waits::Each)? as f64;
    let overlapped = crossover(&dedicated, Waits::Window)? as f64;
    let figures = vec![
        Figure::exact("model_crossover_waited_bytes", waited, Bound::AtMost(8192.0)),
        Figure::exact("model_crossover_overlapped_bytes", overlapped, Bound::AtMost(512.0))
            .beside("with_enqcmd", crossover(&shared, Waits::Window)? as f64),
    ];
    Ok((vec![chart], figures))
}
