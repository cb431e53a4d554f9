//! From the times of a slot's steps to its pace, and to whether the slot counts. Pure.

/// A step that takes more than so many medians was interrupted: sharing a core doubles all of a slot's steps, and moves the
/// median with them.
const STEP_MEDIANS_MAX: f64 = 2.0;

/// The part of a slot that may be lost in interrupted steps. A timer tick costs some microseconds of 300; being stopped,
/// by kernel or hypervisor, costs more than this.
const LOST_MAX: f64 = 0.1;

/// The least steps a slot of which the median says something. Twenty are usual.
const STEPS_MIN: usize = 5;

/// How a slot went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Nanoseconds that a step took, the median.
    pub step_ns: f64,
    /// Nobody stopped the thread in between, as far as its steps tell.
    pub clean: bool,
}

impl Pace {
    /// Of a slot's steps, in nanoseconds; sorts them.
    pub(super) fn of(steps_ns: &mut [u64]) -> Self {
        steps_ns.sort_unstable();
        let step_ns = steps_ns.get(steps_ns.len() / 2).map_or(f64::NAN, |&median| median as f64);
        let total: f64 = steps_ns.iter().map(|&step| step as f64).sum();
        let too_long = steps_ns.iter().map(|&step| step as f64).filter(|step| *step > STEP_MEDIANS_MAX * step_ns);
        let lost: f64 = too_long.map(|step| step - step_ns).sum();
        Self { step_ns, clean: steps_ns.len() >= STEPS_MIN && lost <= LOST_MAX * total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_counts_unless_it_was_stopped() {
        let steps = |more: &[u64]| [&[15_000; 18][..], more].concat();
        let table = [
            ("undisturbed", steps(&[]), true),
            ("a timer tick", steps(&[19_000]), true),
            ("interrupts that are worth a step", steps(&[33_000, 31_000]), false),
            ("one of them", steps(&[33_000]), true),
            ("stopped for a millisecond", steps(&[1_015_000]), false),
            ("too few steps", vec![15_000; 4], false),
            ("none", vec![], false),
        ];
        for (what, mut steps, clean) in table {
            let pace = Pace::of(&mut steps);
            assert_eq!(pace.clean, clean, "{what}: {pace:?}");
            assert!(steps.is_empty() || pace.step_ns == 15_000.0, "{what}: {pace:?}");
        }
    }

    #[test]
    fn sharing_a_core_is_no_stop() {
        assert_eq!(Pace::of(&mut [30_000; 10]), Pace { step_ns: 30_000.0, clean: true });
    }
}
