//! How many copies must be outstanding to keep a device busy? One core, MOVDIR64B, so many outstanding and no more.
//!
//! Published (the study): a work queue of 32 reaches near peak. Little's law gives the least for each size: some 1.2 us, times what passes meanwhile.

use std::collections::VecDeque;

use twolane::sim::dsa::QueueMode;
use twolane::sim::study::chart::{Chart, Line};
use twolane::sim::study::{Seat, World};

use crate::figure::{Bound, Figure};
use crate::{Asked, Failure};

const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const COPIES: usize = 2_000;

/// Bytes a nanosecond.
fn rate(len: usize, depth: usize) -> Result<f64, Failure> {
    let mut seat = Seat::new(&World { queue: QueueMode::Dedicated, ..World::default() })?;
    let mut outstanding = VecDeque::new();
    for _ in 0..COPIES {
        if outstanding.len() == depth {
            outstanding.pop_front().map(|ticket| seat.wait(ticket));
        }
        outstanding.push_back(seat.submit(&[len]));
    }
    for ticket in outstanding {
        let _ = seat.wait(ticket);
    }
    Ok((COPIES * len) as f64 / seat.now_ns())
}

pub fn run(_: &Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure> {
    let mut lines = Vec::new();
    for len in [256_usize, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let points = DEPTHS.iter().map(|depth| Ok((*depth as f64, rate(len, *depth)?)));
        lines.push(Line { name: format!("{len} bytes"), points: points.collect::<Result<_, Failure>>()? });
    }
    let of_peak = rate(4096, 32)? / rate(4096, 64)?;
    let chart = Chart { title: "depth, one core".into(), x: "copies outstanding", y: "GB/s", y_log: false, lines };
    Ok((vec![chart], vec![Figure::exact("model_depth_32_of_peak", of_peak, Bound::AtLeast(0.95))]))
}
