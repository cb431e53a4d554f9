//! How much of an operation should the cpu do while the device does the rest?
//!
//! As much as both have done at the same time: then whoever waits for it waits least.

use super::curve::Curve;

/// From here on what is waited for may be shared: below, a second piece saves less than it costs to make.
pub(super) const SHARED_FROM: usize = 1 << 10;
/// Of the share at which both would be over together: the cpu should be over first, or nobody sees how long the device took.
pub(super) const MARGIN: f32 = 0.97;
/// Newton's steps. Costs are straight lines between powers of two, so that a step into the right octave ends the search.
const STEPS: usize = 5;

/// The part of `len` bytes that the cpu does, from 0 to 1; `guess` is where the search begins.
pub(super) fn part(cpu: &Curve, device: &Curve, len: usize, guess: f32) -> f32 {
    let whole = len as f32;
    let mut share = guess.clamp(0.0, 1.0) * whole;
    for _ in 0..STEPS {
        let (ours, theirs) = (cpu.at(share as usize), device.at((whole - share) as usize));
        // Both rise with size; where samples say otherwise, as little as tells the direction.
        let rise = ours.byte_ns.max(1e-4) + theirs.byte_ns.max(1e-4);
        share = (share - (ours.ns - theirs.ns) / rise).clamp(0.0, whole);
    }
    MARGIN * share / whole
}

/// What is waited for, once it is submitted: for the slower of the two.
pub(super) fn waited_ns(cpu: &Curve, device: &Curve, len: usize, part: f32) -> f32 {
    let share = (len as f32 * part) as usize;
    let alone = device.ns(len);
    if share == 0 { alone } else { device.ns(len - share).max(cpu.ns(share)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Straight lines: so much before the first byte, so much for each.
    fn line(fixed: f32, byte: f32) -> Curve {
        Curve::new(move |len| fixed + len as f32 * byte)
    }

    #[test]
    fn both_are_over_at_the_same_time() {
        // Cpu and device, fixed and a byte; the length.
        for (cpu, device, len, want) in [
            ((10.0, 0.1), (1_000.0, 0.1), 10_010, 9_955.0 + 45.0),
            ((10.0, 0.1), (1_000.0, 0.025), 100_000, 27_920.0),
            ((10.0, 0.3), (1_000.0, 0.03), 16_384, 4_490.0),
            ((10.0, 0.1), (5_000.0, 0.1), 10_000, 10_000.0),
            ((2_000.0, 0.1), (100.0, 0.001), 10_000, 0.0),
        ] {
            let (cpu, device) = (line(cpu.0, cpu.1), line(device.0, device.1));
            for guess in [0.0, 0.25, 1.0] {
                let share = part(&cpu, &device, len, guess) * len as f32;
                assert!((share - MARGIN * want).abs() < 0.01 * len as f32, "{len} from {guess}: {share}, not {want}");
            }
        }
    }

    #[test]
    fn a_knee_is_found_from_either_side() {
        // The cpu's prefetchers catch up at 16 KiB.
        let cpu = Curve::new(|len| 25.0 + len.min(16 << 10) as f32 / 3.0 + len.saturating_sub(16 << 10) as f32 / 10.0);
        let device = line(1_100.0, 0.033);
        for octave in 10..24 {
            let len = (1 << octave) + 777;
            for guess in [0.0, 0.5, 1.0] {
                let share = part(&cpu, &device, len, guess) / MARGIN * len as f32;
                let (ours, theirs) = (cpu.ns(share as usize), device.ns(len - share as usize));
                let either = share > 0.99 * len as f32 || (ours / theirs - 1.0).abs() < 0.02;
                assert!(either, "{len} from {guess}: {share} bytes take {ours}, the rest {theirs}");
                assert!(waited_ns(&cpu, &device, len, share / len as f32) < device.ns(len), "{len}");
            }
        }
    }
}
