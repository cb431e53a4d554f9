//! `cpu_engine_vs_memcpy_min`, `cpu_engine_small_extra_ns`: does a copy by the CPU engine cost what `memcpy` costs?
//!
//! **Method.** One thread copies between the same two buffers again and again, for about two milliseconds a slot, or once where one copy takes
//! longer: from 4 KiB to 64 MiB by powers of two for the first figure, 64 B to 2 KiB for the second. The engine has been calibrated, as a runtime
//! does when it starts. Figures: the smallest of the sizes' ratios of speed (best slot over best slot), and the largest of the sizes' differences
//! in nanoseconds a call.
//!
//! **Reference.** `copy_from_slice`, which is the C library's `memcpy` after a comparison of lengths; the engine's side makes one, too.
//!
//! **Bound.** 0.98, and 5 ns. `memcpy` itself gets 1 and 0.
//!
//! **Beside.** The size from which the engine streams, and the ratio at the largest size: what streaming brings (or costs) there.

use std::hint::black_box;
use std::time::{Duration, Instant};

use twolane::offload::bench::CpuEngine;

use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::Machine;
use crate::common::seat::Seat;
use crate::common::slots::{Cell, SLOTS, Slots, interleave};
use crate::common::stats::best;
use crate::common::witness::Witness;

const LARGE: [usize; 15] = {
    let mut sizes = [4 << 10; 15];
    let mut at = 1;
    while at < sizes.len() {
        sizes[at] = 2 * sizes[at - 1];
        at += 1;
    }
    sizes
};
const SMALL: [usize; 6] = [64, 128, 256, 512, 1024, 2048];
/// Long beside a reading of the clock, short beside what disturbs.
const SLOT: Duration = Duration::from_millis(2);

pub fn against_memcpy(machine: &Machine) -> Result<Figure, String> {
    let bench = Bench::new(machine)?;
    let (mut value, mut aa, mut clean) = (f64::INFINITY, 1.0, usize::MAX);
    let mut at_largest = f64::NAN;
    for bytes in LARGE {
        let slots = bench.slots(bytes)?;
        let (a, again) = (best(&slots.a), best(&slots.a_again));
        at_largest = a.min(again) / best(&slots.ours);
        value = f64::min(value, at_largest);
        // The same arithmetic: the size at which A' came off worst against A.
        aa = f64::min(aa, a / again);
        clean = clean.min(slots.clean());
        eprintln!("  {} KiB: {at_largest:.3} of memcpy's speed, which is {:.1} GB/s", bytes >> 10, bytes as f64 / a);
    }
    Ok(Figure {
        name: "cpu_engine_vs_memcpy_min",
        value,
        bound: Bound::AtLeast(0.98),
        noise: Some(Noise { aa, neutral: 1.0 }),
        clean: Some(clean),
        beside: vec![
            ("streamed_from_kib", (bench.engine.streamed_from() >> 10) as f64),
            ("vs_memcpy_64_mib", at_largest),
        ],
    })
}

pub fn small_extra(machine: &Machine) -> Result<Figure, String> {
    let bench = Bench::new(machine)?;
    let (mut value, mut aa, mut clean) = (f64::NEG_INFINITY, 0.0, usize::MAX);
    for bytes in SMALL {
        let slots = bench.slots(bytes)?;
        let (a, again) = (best(&slots.a), best(&slots.a_again));
        value = f64::max(value, best(&slots.ours) - a.min(again));
        aa = if f64::abs(again - a) > f64::abs(aa) { again - a } else { aa };
        clean = clean.min(slots.clean());
        eprintln!("  {bytes} B: {:.2} ns, memcpy {a:.2} and {again:.2}", best(&slots.ours));
    }
    Ok(Figure {
        name: "cpu_engine_small_extra_ns",
        value,
        bound: Bound::AtMost(5.0),
        noise: Some(Noise { aa, neutral: 0.0 }),
        clean: Some(clean),
        beside: Vec::new(),
    })
}

struct Bench {
    engine: CpuEngine,
    seat: Seat,
    witness: Witness,
}

impl Bench {
    fn new(machine: &Machine) -> Result<Self, String> {
        let seat = Seat::on(machine.poll)?;
        let engine = seat.run(CpuEngine::calibrated)?;
        let witness = Witness::new([machine.poll], [seat.id()]);
        Ok(Self { engine, seat, witness })
    }

    /// Nanoseconds a copy.
    fn slots(&self, bytes: usize) -> Result<Slots, String> {
        // Pages under both, written once.
        let mut buffers = Some((vec![1; bytes], vec![2; bytes]));
        let engine = self.engine;
        interleave(SLOTS, &self.witness, |cell| {
            let (src, mut dst) = buffers.take().ok_or("the buffers went with a slot that failed")?;
            let (took, buffers_back) = self.seat.run(move || {
                let copy: Way = if cell == Cell::Ours { by_engine } else { by_memcpy };
                let took = time(bytes, || black_box(copy)(&engine, &src, &mut dst));
                (took, (src, dst))
            })?;
            buffers = Some(buffers_back);
            Ok(Some(took))
        })
    }
}

type Way = fn(&CpuEngine, &[u8], &mut [u8]);

/// Both ways are functions that are called by address, so that what is around the copy is the same.
#[inline(never)]
fn by_engine(engine: &CpuEngine, src: &[u8], dst: &mut [u8]) {
    engine.copy(src, dst);
}

#[inline(never)]
fn by_memcpy(_: &CpuEngine, src: &[u8], dst: &mut [u8]) {
    dst.copy_from_slice(src);
}

/// Nanoseconds a call, over about [`SLOT`].
fn time(bytes: usize, mut copy: impl FnMut()) -> f64 {
    // Once for the caches, and to know how often.
    let began = Instant::now();
    copy();
    let once = (began.elapsed().as_nanos() as usize).max(bytes / 50).max(10);
    let calls = (SLOT.as_nanos() as usize / once).max(1);
    let began = Instant::now();
    for _ in 0..calls {
        copy();
    }
    began.elapsed().as_nanos() as f64 / calls as f64
}
