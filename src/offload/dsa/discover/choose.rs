//! Which queues to use, in which order and in what proportion. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::super::abi::{OpCap, Opcode};
use super::{Mode, WorkQueue};

/// What is wanted of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Where the submitter runs. A preference: a queue elsewhere is better than none. `None`: all are near.
    pub node: Option<u32>,
    /// Operations that a queue must take. Default: memory moves.
    pub operations: OpCap,
    /// The mode it must have, if that matters.
    pub mode: Option<Mode>,
    /// What its administrator calls it, if only that one will do.
    pub label: Option<String>,
    /// How many descriptors it must hold at least. Default: 1.
    pub depth_min: u32,
    /// Any number that differs between processes, or between lanes: which of several equal devices comes first. Else all would begin with
    /// device 0.
    pub spread: u64,
}

impl Default for Wish {
    fn default() -> Self {
        let operations = OpCap::of(&[Opcode::MEMMOVE]);
        Self { node: None, operations, mode: None, label: None, depth_min: 1, spread: 0 }
    }
}

impl Wish {
    fn is_met_by(&self, queue: &WorkQueue) -> bool {
        queue.operations.contains_all(&self.operations)
            && self.mode.is_none_or(|mode| mode == queue.mode)
            && self.label.as_ref().is_none_or(|label| *label == queue.label)
            && queue.depth() >= self.depth_min
    }
}

/// What a queue must have, in words; the node is a preference and is left out.
impl fmt::Display for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.operations.iter().map(|opcode| opcode.to_string()).collect();
        write!(f, "{}", names.join(", "))?;
        if let Some(mode) = self.mode {
            write!(f, ", mode {mode}")?;
        }
        if let Some(label) = &self.label {
            write!(f, ", label {label:?}")?;
        }
        if self.depth_min > 1 { write!(f, ", {} entries", self.depth_min) } else { Ok(()) }
    }
}

/// A queue's part of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its index in the slice that was chosen from.
    pub queue: usize,
    /// Its part, in units of which each device of the best class has [`DEVICE`](Self::DEVICE). 0: only if those before it fail.
    pub weight: u32,
}

impl Share {
    /// What a device has, divided among its queues: devices are equally fast, however many queues they were given.
    pub const DEVICE: u32 = 1_024;
}

/// The queues that meet a wish, best first.
///
/// Near queues come before far ones, free ones before dedicated ones that somebody has open; of each class the devices take turns, so that
/// the first few of the order are on different devices. Of one device dedicated queues come first (they cost the submitter less), then deep
/// ones, then those with few clients. The best class shares the load, by weight: every device the same, its queues by their depth. Further
/// classes have weight 0.
///
/// Empty if none meets the wish.
#[must_use]
pub fn choose(queues: &[WorkQueue], wish: &Wish) -> Vec<Share> {
    // Classes, and in them devices, in the order of their names; devices without a name are one each.
    type Device<'a> = (&'a str, &'a str);
    let mut classes: BTreeMap<Class, BTreeMap<Device<'_>, Vec<usize>>> = BTreeMap::new();
    for (n, queue) in queues.iter().enumerate().filter(|(_, queue)| wish.is_met_by(queue)) {
        let device = (queue.device.as_str(), if queue.device.is_empty() { queue.name.as_str() } else { "" });
        classes.entry(Class::of(queue, wish)).or_default().entry(device).or_default().push(n);
    }
    let mut shares = Vec::new();
    for (rank, devices) in classes.into_values().enumerate() {
        let mut devices: Vec<Vec<usize>> = devices.into_values().collect();
        let first = wish.spread % devices.len() as u64;
        devices.rotate_left(first as usize);
        for device in &mut devices {
            device.sort_by_key(|n| preference(&queues[*n]));
        }
        let turns = devices.iter().map(Vec::len).max().unwrap_or(0);
        for turn in 0..turns {
            shares.extend(devices.iter().filter_map(|device| {
                let queue = *device.get(turn)?;
                Some(Share { queue, weight: if rank == 0 { weight(queues, device, queue) } else { 0 } })
            }));
        }
    }
    shares
}

/// Which queues are as good as each other, as far as the load is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    far: bool,
    taken: bool,
}

impl Class {
    fn of(queue: &WorkQueue, wish: &Wish) -> Self {
        let taken = queue.mode == Mode::Dedicated && queue.clients.is_some_and(|clients| clients > 0);
        Self { far: !queue.is_near(wish.node), taken }
    }
}

/// Smaller is better.
fn preference(queue: &WorkQueue) -> (bool, Reverse<u32>, u32) {
    (queue.mode == Mode::Shared, Reverse(queue.depth()), queue.clients.unwrap_or(0))
}

/// A queue's part of its device, never 0.
fn weight(queues: &[WorkQueue], device: &[usize], queue: usize) -> u32 {
    let depths: u64 = device.iter().map(|n| u64::from(queues[*n].depth())).sum();
    let part = u64::from(Share::DEVICE) * u64::from(queues[queue].depth()) / depths.max(1);
    u32::try_from(part).unwrap_or(Share::DEVICE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::discover::Explicit;

    fn queue(device: &str, mode: Mode, size: u32, node: Option<u32>) -> WorkQueue {
        let mut queue = Explicit::new("/dev/dsa/wq0.0", mode).size(size).queue().unwrap();
        (queue.device, queue.numa_node) = (device.into(), node);
        queue
    }

    fn chosen(queues: &[WorkQueue], wish: &Wish) -> Vec<(usize, u32)> {
        choose(queues, wish).iter().map(|share| (share.queue, share.weight)).collect()
    }

    #[test]
    fn devices_take_turns_and_share_alike() {
        let queues = [
            queue("dsa0", Mode::Shared, 64, None),
            queue("dsa0", Mode::Dedicated, 16, None),
            queue("dsa1", Mode::Shared, 32, None),
            queue("dsa0", Mode::Dedicated, 48, None),
        ];
        let wish = Wish::default();
        assert_eq!(chosen(&queues, &wish), [(3, 384), (2, 1024), (1, 128), (0, 512)]);
        let other = Wish { spread: 5, ..wish };
        assert_eq!(chosen(&queues, &other), [(2, 1024), (3, 384), (1, 128), (0, 512)]);
    }

    #[test]
    fn near_before_far_and_unknown_is_near() {
        let queues = [
            queue("dsa0", Mode::Dedicated, 16, Some(0)),
            queue("dsa1", Mode::Shared, 16, Some(1)),
            queue("dsa2", Mode::Shared, 16, None),
        ];
        let on = |node| chosen(&queues, &Wish { node, ..Wish::default() });
        assert_eq!(on(Some(1)), [(1, 1024), (2, 1024), (0, 0)]);
        assert_eq!(on(Some(9)), [(2, 1024), (0, 0), (1, 0)]);
        assert_eq!(on(None), [(0, 1024), (1, 1024), (2, 1024)]);
        // Far ones only: they share the load.
        assert_eq!(chosen(&queues[..2], &Wish { node: Some(9), ..Wish::default() }), [(0, 1024), (1, 1024)]);
    }

    #[test]
    fn a_dedicated_queue_that_somebody_has_comes_last() {
        let mut queues = [
            queue("dsa0", Mode::Dedicated, 64, None),
            queue("dsa0", Mode::Dedicated, 8, None),
            queue("dsa0", Mode::Shared, 8, None),
        ];
        queues[0].clients = Some(1);
        queues[2].clients = Some(9);
        assert_eq!(chosen(&queues, &Wish::default()), [(1, 512), (2, 512), (0, 0)]);
    }

    #[test]
    fn what_must_be_must_be() {
        let mut queues = [queue("dsa0", Mode::Dedicated, 64, None), queue("dsa1", Mode::Shared, 8, None)];
        queues[1].label = "fast".into();
        queues[1].operations = queues[1].operations.with(Opcode::CR_DELTA);
        let alone = |wish: Wish| chosen(&queues, &wish).iter().map(|(n, _)| *n).collect::<Vec<_>>();
        let wish = Wish::default();
        assert_eq!(alone(Wish { mode: Some(Mode::Shared), ..wish.clone() }), [1]);
        assert_eq!(alone(Wish { label: Some("fast".into()), ..wish.clone() }), [1]);
        assert_eq!(alone(Wish { operations: OpCap::of(&[Opcode::CR_DELTA]), ..wish.clone() }), [1]);
        assert_eq!(alone(Wish { depth_min: 9, ..wish.clone() }), [0]);
        assert_eq!(alone(Wish { label: Some("slow".into()), ..wish.clone() }), [] as [usize; 0]);
        assert_eq!(choose(&[], &wish), []);
        let all = Wish { mode: Some(Mode::Shared), label: Some("a".into()), depth_min: 9, ..wish };
        assert_eq!(all.to_string(), "MEMMOVE, mode shared, label \"a\", 9 entries");
    }

    #[test]
    fn queues_described_by_hand_are_devices_of_their_own() {
        let by_hand = |node: &str| Explicit::new(node, Mode::Shared).queue().unwrap();
        let queues = [by_hand("/dev/dsa/wq0.0"), by_hand("/dev/dsa/wq1.0")];
        assert_eq!(chosen(&queues, &Wish::default()), [(0, 1024), (1, 1024)]);
    }
}
