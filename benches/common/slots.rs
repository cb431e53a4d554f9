//! A, ours, A', again and again, until enough slots were left alone.

use std::time::{Duration, Instant};

use super::witness::Witness;

/// Undisturbed slots that a figure rests on, at least.
pub const SLOTS: usize = 20;
/// After so long the machine counts as too busy to say anything. An undisturbed figure takes some seconds.
const PATIENCE: Duration = Duration::from_secs(15);

/// What is measured in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The reference.
    A,
    /// The library.
    Ours,
    /// The reference once more.
    AAgain,
}

/// The undisturbed slots of a figure.
#[derive(Clone, Debug, Default)]
pub struct Slots {
    pub a: Vec<f64>,
    pub ours: Vec<f64>,
    pub a_again: Vec<f64>,
    /// Slots that were dropped.
    pub dropped: usize,
}

impl Slots {
    /// Slots in the cell that has fewest.
    pub fn clean(&self) -> usize {
        self.a.len().min(self.ours.len()).min(self.a_again.len())
    }

    /// Both runs of the reference.
    pub fn references(&self) -> Vec<f64> {
        [&self.a[..], &self.a_again[..]].concat()
    }

    fn of(&mut self, cell: Cell) -> &mut Vec<f64> {
        match cell {
            Cell::A => &mut self.a,
            Cell::Ours => &mut self.ours,
            Cell::AAgain => &mut self.a_again,
        }
    }
}

/// Takes turns until each cell has `wanted` undisturbed slots, or patience ends. `slot` gives one number a slot, or `None` if it
/// knows itself that it was disturbed, or an error that ends the figure.
pub fn interleave(
    wanted: usize,
    witness: &Witness,
    slot: impl FnMut(Cell) -> Result<Option<f64>, String>,
) -> Result<Slots, String> {
    interleave_within(PATIENCE, wanted, witness, slot)
}

/// As [`interleave`], for a figure that takes longer.
pub fn interleave_within(
    patience: Duration,
    wanted: usize,
    witness: &Witness,
    mut slot: impl FnMut(Cell) -> Result<Option<f64>, String>,
) -> Result<Slots, String> {
    let mut slots = Slots::default();
    let began = Instant::now();
    while slots.clean() < wanted && began.elapsed() < patience {
        for cell in [Cell::A, Cell::Ours, Cell::AAgain] {
            let (measured, clean) = witness.watch(|| slot(cell));
            match measured? {
                Some(measured) if clean => slots.of(cell).push(measured),
                _ => slots.dropped += 1,
            }
        }
    }
    Ok(slots)
}
