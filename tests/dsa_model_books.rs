//! The model's own books agree with what software sees, whatever goes wrong.
#![cfg(feature = "sim")]

mod dsa_model;

use std::collections::BTreeMap;

use dsa_model::{Dice, Memory, PAGE, Rig};
use twolane::offload::dsa::abi::Descriptor;
use twolane::sim::dsa::{AddressSpace, DeviceConfig, End, Enqcmd, Faults, ModelPortal, Profile, QueueConfig};

#[allow(unsafe_code)]
fn submit(portal: &ModelPortal, descriptor: &Descriptor) -> bool {
    // SAFETY: memory and records outlive the device.
    unsafe { portal.enqcmd(0, descriptor) == Ok(Enqcmd::Accepted) }
}

/// Random work with everything going wrong, and queues that die and are opened anew: every descriptor that was taken ends once, or is lost once,
/// and as many operations are without a record as the device says.
#[test]
fn everything_that_was_taken_ends_once_or_is_lost_once() {
    let mut lost = 0;
    for seed in 0..100 {
        let config = DeviceConfig::v2().queue(QueueConfig::shared(16).block_on_fault(true));
        let rig = Rig::with(config, Profile::strict(seed).faults(Faults::everything()).trace(1 << 16));
        let memory = Memory::new(64);
        let mut dice = Dice::new(seed);
        let mut portals = vec![rig.device.open(0, &AddressSpace::new().unwrap()).unwrap()];
        // Slots of what was taken: each is used once, so that a record tells of one operation.
        let mut free: Vec<usize> = (0..dsa_model::SLOTS).collect();
        let mut taken: Vec<Vec<usize>> = Vec::new();
        for round in 0.. {
            if free.len() < 9 {
                break;
            }
            let copy = |dice: &mut Dice| {
                let (from, to) = (memory.at(dice.below(16 * PAGE)), memory.at(32 * PAGE + dice.below(16 * PAGE)));
                Descriptor::memmove(from, to, 1 + dice.below(3 * PAGE) as u32)
            };
            let slots: Vec<usize> = if dice.below(3) == 0 {
                let children = free.split_off(free.len() - 1 - (2 + dice.below(6)));
                for (n, slot) in children[1..].iter().enumerate() {
                    let child = copy(&mut dice);
                    memory.put(52 * PAGE + round * 512 + 64 * n, &rig.asked(*slot, child).to_bytes());
                }
                children
            } else {
                vec![free.pop().unwrap()]
            };
            let descriptor = match slots.len() {
                1 => copy(&mut dice),
                count => Descriptor::batch(memory.at(52 * PAGE + round * 512), count as u32 - 1),
            };
            let descriptor = rig.asked(slots[0], descriptor);
            while !submit(portals.last().unwrap(), &descriptor) {
                rig.device.step();
            }
            taken.push(slots);
            (0..dice.below(40)).for_each(|_| {
                rig.device.step();
            });
            if dice.below(12) == 0 {
                match dice.below(3) {
                    0 => rig.device.halt(),
                    1 => rig.device.reset(),
                    _ => rig.device.disable_queue(0),
                }
                rig.device.enable();
                rig.device.enable_queue(0);
                portals.push(rig.device.open(0, &AddressSpace::new().unwrap()).unwrap());
            }
        }
        rig.device.run_until_idle();
        let (counters, trace) = (rig.device.counters(), rig.device.trace());
        assert_eq!(counters.accepted, taken.len() as u64);
        let mut ends = BTreeMap::new();
        for entry in trace.iter().filter(|entry| entry.child.is_none()) {
            *ends.entry(entry.id).or_insert(0) += 1;
        }
        assert_eq!(ends.len() as u64, counters.accepted, "seed {seed}");
        assert!(ends.values().all(|count| *count == 1), "seed {seed}");
        let reported = trace.iter().filter(|entry| matches!(entry.end, End::Reported(_))).count();
        let records = (0..dsa_model::SLOTS).filter(|slot| rig.slot(*slot).record().is_some()).count();
        assert_eq!((reported, records), (counters.records as usize, counters.records as usize), "seed {seed}");
        let ended: u64 = counters.ended.values().sum();
        let lost_after_the_end =
            trace.iter().filter(|entry| matches!(entry.end, End::Lost(twolane::sim::dsa::Loss::Record))).count();
        assert_eq!(ended, counters.records + lost_after_the_end as u64, "each was asked to report; seed {seed}");
        assert_eq!(counters.lost, taken.iter().map(|slots| unheard(&rig, slots)).sum::<u64>(), "seed {seed}");
        lost += counters.lost;
        rig.no_violations();
    }
    assert!(lost > 50, "{lost}");
}

/// Operations of a descriptor that software has not heard of: by its record, or by that of its batch, which tells how far the list was read.
fn unheard(rig: &Rig, slots: &[usize]) -> u64 {
    let silent = |slot: &&usize| rig.slot(**slot).record().is_none();
    let [own, children @ ..] = slots else { return 0 };
    let heard = match rig.slot(*own).record() {
        _ if children.is_empty() => return u64::from(silent(&own)),
        Some(record) => &children[..record.completed as usize],
        None => children,
    };
    heard.iter().filter(silent).count() as u64
}

#[test]
fn bytes_are_those_that_were_moved() {
    let rig = Rig::new(Profile::compat());
    let memory = Memory::new(8);
    rig.succeed(Descriptor::memmove(memory.at(0), memory.at(4 * PAGE), 5000));
    rig.succeed(Descriptor::fill(1, memory.at(0), 300));
    rig.succeed(Descriptor::compare(memory.at(0), memory.at(0), 700, 0));
    let counters = rig.device.counters();
    assert_eq!((counters.bytes_written, counters.bytes_read), (5300, 5000 + 1400));
}
