//! `inline_copy_extra_ns`: what does a copy cost beyond `memcpy` where it is too small for anything else?
//!
//! **Method.** `copies.copy(src, dst)` and its future polled to its end, with `Vec`s that go round; loops of 10^4 a slot. The most of 64, 256 and 1024 bytes.
//!
//! **Reference.** `copy_from_slice` between the same `Vec`s, which go round by value in the same way.
//!
//! **Bound.** 15 ns. A version that copies nothing is found out: the last byte is another each time, and is looked at.

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use twolane::offload::Copies;
use twolane::{Placement, Runtime};

use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::Machine;
use crate::common::seat::Seat;
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::median;
use crate::common::ticks;
use crate::common::witness::Witness;

const SIZES: [usize; 3] = [64, 256, 1024];
const COPIES: u32 = 100_000;

pub fn extra(machine: &Machine) -> Result<Figure, String> {
    let runtime = Runtime::builder().placement(Placement::Unpinned).pairs(1).env_overrides(false);
    let runtime = runtime.build().map_err(|error| error.to_string())?;
    let seat = Seat::on(machine.poll)?;
    let witness = Witness::new([machine.poll], [seat.id()]);
    let mut worst: Option<Figure> = None;
    let mut beside = Vec::new();
    for size in SIZES {
        let copies = runtime.copies();
        let slots = interleave(SLOTS, &witness, |cell| {
            let copies = copies.clone();
            let ns = match cell {
                Cell::Ours => seat.run(move || each_ns(|pair| by_future(&copies, pair), size))?,
                Cell::A | Cell::AAgain => seat.run(move || each_ns(by_hand, size))?,
            };
            Ok(Some(ns))
        })?;
        let (ours, reference) = (median(&slots.ours), median(&slots.references()));
        beside.push((["copy_64_extra_ns", "copy_256_extra_ns", "copy_1024_extra_ns"][beside.len()], ours - reference));
        let figure = Figure {
            name: "inline_copy_extra_ns",
            value: ours - reference,
            bound: Bound::AtMost(15.0),
            noise: Some(Noise { aa: median(&slots.a_again) - median(&slots.a), neutral: 0.0 }),
            clean: Some(slots.clean()),
            beside: Vec::new(),
        };
        if worst.as_ref().is_none_or(|worst| figure.value > worst.value) {
            worst = Some(figure);
        }
    }
    let mut figure = worst.ok_or("no size was measured")?;
    figure.beside = beside;
    Ok(figure)
}

type Pair = (Vec<u8>, Vec<u8>);

/// Nanoseconds a copy.
fn each_ns(copy: impl Fn(Pair) -> Pair, size: usize) -> f64 {
    let mut pair = (vec![1; size], vec![0; size]);
    let began = ticks::now();
    for turn in 0..COPIES {
        pair.0[size - 1] = turn as u8;
        pair = copy(black_box(pair));
        assert_eq!(pair.1[size - 1], turn as u8, "it was not copied");
    }
    (ticks::now() - began) as f64 * ticks::ns_per_tick() / f64::from(COPIES)
}

#[inline(never)]
fn by_hand((src, mut dst): Pair) -> Pair {
    dst[..src.len()].copy_from_slice(&src);
    (src, dst)
}

#[inline(never)]
fn by_future(copies: &Copies, (src, dst): Pair) -> Pair {
    let mut copying = copies.copy(src, dst);
    match Pin::new(&mut copying).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done.expect("there is room"),
        Poll::Pending => unreachable!("a small copy is born ready"),
    }
}
