//! How many copies should go together? What a copy costs that is waited for with its batch, over the batch's size.
//!
//! Published (the study): batches of 4 to 8 have most of what batching brings. Shown is the rate of one core that submits a batch and waits for it, and submits the next.

use twolane::sim::study::chart::{Chart, Line};
use twolane::sim::study::{Seat, World};

use crate::figure::{Bound, Figure};
use crate::{Asked, Failure};

const BATCHES: [usize; 6] = [1, 2, 4, 8, 16, 32];
const ROUNDS: usize = 50;

/// Bytes a nanosecond.
fn rate(len: usize, batch: usize) -> Result<f64, Failure> {
    let mut seat = Seat::new(&World::default())?;
    for _ in 0..ROUNDS {
        let ticket = seat.submit(&vec![len; batch]);
        let _ = seat.wait(ticket);
    }
    Ok((ROUNDS * batch * len) as f64 / seat.now_ns())
}

pub fn run(_: &Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure> {
    let mut lines = Vec::new();
    for len in [256_usize, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let points = BATCHES.iter().map(|batch| Ok((*batch as f64, rate(len, *batch)?)));
        lines.push(Line { name: format!("{len} bytes each"), points: points.collect::<Result<_, Failure>>()? });
    }
    let chart = Chart {
        title: "batches, one core that waits for each".into(),
        x: "copies of a batch",
        y: "GB/s",
        y_log: false,
        lines,
    };
    // Of what 32 bring at 4 KiB, so much is had with 8.
    let had = (rate(4096, 8)? - rate(4096, 1)?) / (rate(4096, 32)? - rate(4096, 1)?);
    let figure = Figure::exact("model_batch_of_8_share", had, Bound::AtLeast(0.5))
        .beside("of_4", (rate(4096, 4)? - rate(4096, 1)?) / (rate(4096, 32)? - rate(4096, 1)?));
    Ok((vec![chart], vec![figure]))
}
