//! Every operation of the model, against a plain reference, with the freedoms that the specification leaves.
#![cfg(feature = "sim")]

mod dsa_model;

use dsa_model::{Dice, Memory, PAGE, Rig, resumed};
use twolane::offload::dsa::abi::dif::{BlockSize, DestinationFlags, DifFlags, DifStatus, SourceFlags, Tags};
use twolane::offload::dsa::abi::{CompletionRecord, Descriptor, Flags, Opcode, Status};
use twolane::sim::dsa::{Faults, Profile};

fn both() -> [Profile; 2] {
    [Profile::strict(11), Profile::compat()]
}

#[test]
fn no_op_completes() {
    for profile in both() {
        let rig = Rig::new(profile);
        rig.succeed(Descriptor::noop());
        assert_eq!(rig.device.counters().with_opcode(Opcode::NOOP), 1);
        rig.no_violations();
    }
}

#[test]
fn moves_are_memmove_whichever_way_the_ranges_lie() {
    let mut dice = Dice::new(1);
    for profile in both() {
        let rig = Rig::new(profile);
        let memory = Memory::new(16);
        for round in 0..300 {
            let content = dice.bytes(16 * PAGE);
            memory.put(0, &content);
            let len = 1 + dice.below(if round % 2 == 0 { 300 } else { 4 * PAGE });
            let from = dice.below(8 * PAGE);
            // Near, far, the same: overlaps both ways.
            let to = match round % 4 {
                0 => dice.below(8 * PAGE),
                1 => from + dice.below(len),
                2 => from.saturating_sub(dice.below(len)),
                _ => from,
            };
            let mut want = content.clone();
            want.copy_within(from..from + len, to);
            rig.succeed(Descriptor::memmove(memory.at(from), memory.at(to), len as u32));
            assert_eq!(memory.bytes(0, 16 * PAGE), want, "{len} bytes from {from} to {to}");
        }
        rig.no_violations();
    }
}

#[test]
fn fills_count_their_phase_from_the_destination() {
    let mut dice = Dice::new(2);
    for profile in both() {
        let rig = Rig::new(profile);
        let memory = Memory::new(4);
        for round in 0..200 {
            memory.put(0, &vec![0; 4 * PAGE]);
            let (to, len) = (dice.below(PAGE), 1 + dice.below(2 * PAGE));
            let pattern = u128::from(dice.next()) << 64 | u128::from(dice.next());
            let (descriptor, period) = if round % 2 == 0 {
                (Descriptor::fill(pattern as u64, memory.at(to), len as u32), 8)
            } else {
                (Descriptor::fill_16(pattern, memory.at(to), len as u32), 16)
            };
            rig.succeed(descriptor);
            let bytes = pattern.to_le_bytes();
            let mut want = vec![0; 4 * PAGE];
            (0..len).for_each(|n| want[to + n] = bytes[n % period]);
            assert_eq!(memory.bytes(0, 4 * PAGE), want);
        }
        rig.no_violations();
    }
}

#[test]
fn dualcasts_write_both() {
    let mut dice = Dice::new(3);
    let rig = Rig::new(Profile::strict(3));
    let memory = Memory::new(12);
    for _ in 0..100 {
        let (len, low) = (1 + dice.below(2 * PAGE), dice.below(PAGE));
        let source = dice.bytes(len);
        memory.put(0, &source);
        let (one, two) = (4 * PAGE + low, 8 * PAGE + low);
        rig.succeed(Descriptor::dualcast(memory.at(0), memory.at(one), memory.at(two), len as u32));
        assert_eq!((memory.bytes(one, len), memory.bytes(two, len)), (source.clone(), source));
    }
    rig.no_violations();
}

#[test]
fn comparisons_find_the_first_difference_exactly() {
    let mut dice = Dice::new(4);
    for profile in both() {
        let rig = Rig::new(profile);
        let memory = Memory::new(8);
        for round in 0..200 {
            let (len, one, two) = (1 + dice.below(2 * PAGE), dice.below(PAGE), 4 * PAGE + dice.below(PAGE));
            let content = dice.bytes(len);
            memory.put(one, &content);
            memory.put(two, &content);
            let compare = Descriptor::compare(memory.at(one), memory.at(two), len as u32, 0);
            if round % 2 == 0 {
                let record = rig.succeed(compare.with_flags(Flags::CR));
                assert_eq!((record.result, record.completed), (0, 0));
                continue;
            }
            let at = dice.below(len);
            memory.put(two + at, &[!content[at]]);
            let record = rig.succeed(compare);
            assert_eq!((record.result, record.completed as usize), (1, at));
            // Checked against "equal", a difference is a result that was not expected; against "different" it is.
            assert_eq!(rig.run(compare.with_flags(Flags::CR)).status(), Status::SUCCESS_PRED);
            let expected = Descriptor::compare(memory.at(one), memory.at(two), len as u32, 0xff);
            rig.succeed(expected.with_flags(Flags::CR));
        }
        rig.no_violations();
    }
}

#[test]
fn pattern_comparisons_give_a_lower_bound_and_compat_the_offset() {
    let mut dice = Dice::new(5);
    for (strict, profile) in [(true, Profile::strict(9)), (false, Profile::compat())] {
        let rig = Rig::new(profile);
        let memory = Memory::new(4);
        let mut below = 0;
        for _ in 0..200 {
            let (len, at, pattern) = (64 + dice.below(PAGE), dice.below(PAGE), dice.next());
            let content: Vec<u8> = (0..len).map(|n| pattern.to_le_bytes()[n % 8]).collect();
            memory.put(at, &content);
            let compare = Descriptor::compare_pattern(memory.at(at), pattern, len as u32, 0);
            assert_eq!(rig.succeed(compare).result, CompletionRecord::EQUAL);
            let difference = dice.below(len);
            memory.put(at + difference, &[!content[difference]]);
            let record = rig.succeed(compare);
            assert_eq!(record.result, CompletionRecord::DIFFERENT);
            assert!(record.completed as usize <= difference);
            assert!(strict || record.completed as usize == difference);
            below += usize::from((record.completed as usize) < difference);
        }
        assert_eq!(below > 50, strict, "{below} of 200 below the exact offset");
        rig.no_violations();
    }
}

/// One bit at a time, as the appendix has it: nothing in common with the model's tables.
fn crc32c(data: &[u8], seed: u32) -> u32 {
    let mut register = !seed;
    for byte in data {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = if register & 1 == 1 { register >> 1 ^ 0x82F6_3B78 } else { register >> 1 };
        }
    }
    !register
}

#[test]
fn crcs_have_their_known_values_and_chain() {
    for profile in both() {
        let rig = Rig::new(profile);
        let memory = Memory::new(8);
        memory.put(5, b"123456789");
        let at = memory.at(5);
        assert_eq!(rig.succeed(Descriptor::crc(at, 9, 0)).crc(), 0xE306_9283);
        assert_eq!(rig.succeed(Descriptor::crc(at, 9, 0).with_flags(Flags::CRC_64)).crc(), 0xAE8B_1486_0A79_9888);
        let first = rig.succeed(Descriptor::crc(at, 4, 0)).crc();
        assert_eq!(rig.succeed(Descriptor::crc(at + 4, 5, first as u32)).crc(), 0xE306_9283);
        // The seed out of memory, where a record could have it.
        memory.put(PAGE, &(first as u32).to_le_bytes());
        assert_eq!(rig.succeed(Descriptor::crc(at + 4, 5, 0).with_seed_from(memory.at(PAGE))).crc(), 0xE306_9283);
        let copied = rig.succeed(Descriptor::copy_crc(at, memory.at(2 * PAGE), 9, 0));
        assert_eq!((copied.crc(), memory.bytes(2 * PAGE, 9)), (0xE306_9283, b"123456789".to_vec()));
        // The raw register: neither inverted nor reflected; and with that undone by hand the same value.
        let raw = rig.succeed(Descriptor::crc(at, 9, u32::MAX).with_flags(Flags::BYPASS_CRC_INV_REF)).crc();
        assert_eq!(!(raw as u32).reverse_bits(), 0xE306_9283);
        let mut dice = Dice::new(6);
        for _ in 0..50 {
            let (len, seed) = (1 + dice.below(3 * PAGE), dice.next() as u32);
            let data = dice.bytes(len);
            memory.put(0, &data);
            let record = rig.succeed(Descriptor::copy_crc(memory.at(0), memory.at(4 * PAGE), len as u32, seed));
            assert_eq!(record.crc(), u64::from(crc32c(&data, seed)));
            assert_eq!(memory.bytes(4 * PAGE, len), data);
        }
        rig.no_violations();
    }
}

/// What a delta record of these would be.
fn delta(one: &[u8], two: &[u8]) -> Vec<u8> {
    let units = one.chunks(8).zip(two.chunks(8)).enumerate().filter(|(_, (one, two))| one != two);
    units.flat_map(|(n, (_, two))| [&(n as u16).to_le_bytes(), two].concat()).collect()
}

#[test]
fn deltas_are_created_and_applied() {
    let mut dice = Dice::new(7);
    for profile in both() {
        let rig = Rig::new(profile);
        let memory = Memory::new(32);
        let (one, two, record) = (0, 8 * PAGE, 16 * PAGE + 3);
        for round in 0..60 {
            let len = 8 * (1 + dice.below(PAGE));
            let original = dice.bytes(len);
            let mut modified = original.clone();
            (0..round % 7).for_each(|_| modified[dice.below(len)] ^= 0x55);
            memory.put(one, &original);
            memory.put(two, &modified);
            let want = delta(&original, &modified);
            let create = |max, expected| {
                let (one, two, record) = (memory.at(one), memory.at(two), memory.at(record));
                Descriptor::create_delta(one, two, len as u32, record, max, expected)
            };
            let got = rig.succeed(create(4096, 0));
            assert_eq!(got.result, u8::from(!want.is_empty()));
            assert_eq!(memory.bytes(record, got.delta_record_size() as usize), want);
            // Bit X of the mask set: result X is expected. None set: nothing is.
            let mask = 1 << got.result;
            rig.succeed(create(4096, mask).with_flags(Flags::CR));
            assert_eq!(rig.run(create(4096, !mask).with_flags(Flags::CR)).status(), Status::SUCCESS_PRED);
            if want.is_empty() {
                continue;
            }
            let apply = Descriptor::apply_delta(memory.at(record), want.len() as u32, memory.at(one), len as u32);
            rig.succeed(apply);
            assert_eq!(memory.bytes(one, len), modified);
        }
        rig.no_violations();
    }
}

#[test]
fn a_delta_that_does_not_fit_stops_at_the_last_entry_that_does() {
    let rig = Rig::new(Profile::strict(8));
    let memory = Memory::new(8);
    memory.put(0, &[0; 2048]);
    memory.put(PAGE, &[1; 2048]);
    memory.put(2 * PAGE, &[9; 120]);
    let record = rig.succeed(Descriptor::create_delta(memory.at(0), memory.at(PAGE), 2048, memory.at(2 * PAGE), 85, 0));
    assert_eq!(
        (record.result, record.delta_record_size(), record.completed),
        (CompletionRecord::DELTA_OVERFLOW, 80, 64)
    );
    assert_eq!(memory.bytes(2 * PAGE + 80, 40), [9; 40]);
}

#[test]
fn delta_records_that_make_no_sense_stop_where_they_do_not() {
    let rig = Rig::new(Profile::strict(8));
    let memory = Memory::new(4);
    let entry = |unit: u16| [&unit.to_le_bytes()[..], &[7; 8]].concat();
    for (units, status, applied) in [
        ([3, 5, 5], Status::DR_OFFSET_NOINC, 20),
        ([3, 2, 5], Status::DR_OFFSET_NOINC, 10),
        ([3, 16, 17], Status::DR_OFFSET_ERANGE, 10),
        ([16, 17, 18], Status::DR_OFFSET_ERANGE, 0),
    ] {
        memory.put(0, &[0; 256]);
        memory.put(PAGE, &units.map(entry).concat());
        let record = rig.run(Descriptor::apply_delta(memory.at(PAGE), 30, memory.at(0), 128));
        assert_eq!((record.status(), record.completed), (status, applied), "{units:?}");
        let written = memory.bytes(0, 256).iter().filter(|byte| **byte == 7).count();
        assert_eq!(written as u32, applied / 10 * 8);
    }
}

const TAGS: Tags = Tags { reference: 0xA1B2_C3D4, application_mask: 0, application: 0x1122 };

#[test]
fn protection_information_is_inserted_checked_stripped_and_updated() {
    let mut dice = Dice::new(9);
    let rig = Rig::new(Profile::strict(9));
    let memory = Memory::new(48);
    let (plain, protected, other) = (0, 16 * PAGE + 8, 32 * PAGE);
    for size in BlockSize::ALL {
        let (block, whole) = (size.bytes() as usize, size.protected_bytes() as usize);
        let dif = DifFlags::of(size);
        let blocks = 1 + dice.below(8);
        let data = dice.bytes(blocks * block);
        memory.put(plain, &data);
        let (bytes, with_tuples) = ((blocks * block) as u32, (blocks * whole) as u32);
        let insert =
            Descriptor::dif_insert(memory.at(plain), memory.at(protected), bytes, dif, DestinationFlags(0), TAGS);
        let record = rig.succeed(insert);
        assert_eq!(record.dif_destination_tags().reference, TAGS.reference + blocks as u32);
        for n in 0..blocks {
            let at = protected + n * whole;
            assert_eq!(memory.bytes(at, block), data[n * block..][..block]);
            let tuple = memory.bytes(at + block, 8);
            assert_eq!(tuple[2..4], [0x11, 0x22], "the application tag, big-endian");
            assert_eq!(tuple[4..], (TAGS.reference + n as u32).to_be_bytes());
        }
        let check = Descriptor::dif_check(memory.at(protected), with_tuples, dif, SourceFlags(0), TAGS);
        assert_eq!(rig.succeed(check).dif_status(), DifStatus(0));
        memory.put(other, &vec![0; 8 * whole]);
        let strip =
            Descriptor::dif_strip(memory.at(protected), memory.at(other), with_tuples, dif, SourceFlags(0), TAGS);
        rig.succeed(strip);
        assert_eq!(memory.bytes(other, blocks * block), data);

        let to = Tags { reference: 7, application_mask: 0xff, application: 0x3344 };
        let flags = DestinationFlags::FIXED_REFERENCE | DestinationFlags::PASS_GUARD;
        let update = |from, to| {
            Descriptor::dif_update(memory.at(protected), memory.at(other), with_tuples, dif, (SourceFlags(0), from), to)
        };
        rig.succeed(update(TAGS, (flags, to)));
        let last = memory.bytes(other + blocks * whole - 8, 8);
        assert_eq!(last[..2], memory.bytes(protected + blocks * whole - 8, 2), "the guard was passed on");
        assert_eq!(last[2..], [0x33, 0, 0, 0, 0, 7]);

        // Each kind of mismatch, in the last block; the blocks before it count as done.
        let tuple = protected + blocks * whole - 8;
        for (offset, wrong) in [(0, DifStatus::GUARD), (2, DifStatus::APPLICATION), (4, DifStatus::REFERENCE)] {
            let good = memory.bytes(tuple + offset, 1);
            memory.put(tuple + offset, &[!good[0]]);
            let record = rig.run(check);
            assert_eq!((record.status(), record.dif_status()), (Status::DIF_ERR, wrong));
            assert_eq!(record.completed as usize, (blocks - 1) * whole);
            memory.put(tuple + offset, &good);
        }
    }
    rig.no_violations();
}

/// The guard by a register of bits, as the appendix draws it.
fn guard_by_bits(data: &[u8], seed: u16) -> u16 {
    data.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).fold(seed, |register, bit| {
        let out = register >> 15 ^ u16::from(bit);
        if out == 1 { register << 1 ^ 0x8BB7 } else { register << 1 }
    })
}

#[test]
fn guards_are_t10s_with_both_inversions() {
    let rig = Rig::new(Profile::strict(10));
    let memory = Memory::new(4);
    let data = Dice::new(10).bytes(512);
    memory.put(0, &data);
    for (flags, want) in [
        (DifFlags(0), guard_by_bits(&data, 0)),
        (DifFlags::INVERT_CRC_SEED, guard_by_bits(&data, u16::MAX)),
        (DifFlags::INVERT_CRC_RESULT, !guard_by_bits(&data, 0)),
    ] {
        rig.succeed(Descriptor::dif_insert(memory.at(0), memory.at(PAGE), 512, flags, DestinationFlags(0), TAGS));
        assert_eq!(memory.bytes(PAGE + 512, 2), want.to_be_bytes(), "{flags:?}");
        // DIX: the tuple alone.
        rig.succeed(Descriptor::dix_generate(memory.at(0), memory.at(2 * PAGE), 512, flags, DestinationFlags(0), TAGS));
        assert_eq!(memory.bytes(2 * PAGE, 8), memory.bytes(PAGE + 512, 8));
    }
    memory.put(0, b"123456789");
    assert_eq!(guard_by_bits(b"123456789", 0), 0xD0DB, "the catalogue's check value");
}

/// Blocks that the source flags take out of the check, or make an error of.
#[test]
fn blocks_of_all_ones_are_what_the_flags_make_of_them() {
    let rig = Rig::new(Profile::strict(12));
    let memory = Memory::new(2);
    memory.put(0, &[0; 512]);
    let ones = Tags { reference: 1, application_mask: 0, application: 1 };
    for (tuple, flags, status) in [
        ([0xff; 8], SourceFlags(0), 7),
        ([0xff; 8], SourceFlags::ALL_F, 0),
        ([0xff; 8], SourceFlags::ALL_F_ERROR, 8),
        ([0xff; 8], SourceFlags::ALL_F | SourceFlags::ALL_F_ERROR, 8),
        ([0, 1, 0xff, 0xff, 0, 0, 0, 0], SourceFlags::APPLICATION_F, 0),
        ([0, 1, 0xff, 0xff, 0, 0, 0, 0], SourceFlags::APPLICATION_AND_REFERENCE_F, 7),
        ([0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], SourceFlags::APPLICATION_AND_REFERENCE_F, 0),
        ([0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], SourceFlags::ALL_F, 7),
        ([0, 1, 0, 1, 0, 0, 0, 1], SourceFlags::NO_GUARD_CHECK, 0),
        ([0, 0, 0, 1, 0, 0, 0, 9], SourceFlags::NO_REFERENCE_CHECK, 0),
        ([0, 0, 0, 2, 0, 0, 0, 1], SourceFlags::NO_REFERENCE_CHECK, 2),
    ] {
        memory.put(512, &tuple);
        let record = rig.run(Descriptor::dif_check(memory.at(0), 520, DifFlags(0), flags, ones));
        assert_eq!(record.dif_status().0, status, "{tuple:02x?} {flags:?}");
    }
    // A masked tag: one bits are ignored, all ones is no check.
    for (mask, status) in [(0x0f00, 2), (0x00ff, 2), (0x0ff0, 0), (0xffff, 0)] {
        memory.put(512, &[0, 0, 0x15, 0x51, 0, 0, 0, 1]);
        let tags = Tags { reference: 1, application_mask: mask, application: 0x1aa1 };
        let record = rig.run(Descriptor::dif_check(memory.at(0), 520, DifFlags(0), SourceFlags(0), tags));
        assert_eq!(record.dif_status().0, status, "{mask:#06x}");
    }
}

#[test]
fn flush_and_translation_fetch_complete() {
    let rig = Rig::new(Profile::strict(13));
    let memory = Memory::new(4);
    rig.succeed(Descriptor::cache_flush(memory.at(7), 3 * PAGE as u32));
    rig.succeed(Descriptor::translation_fetch(memory.at(7), 3 * PAGE as u32));
    rig.no_violations();
}

/// A random operation, interrupted by faults wherever they strike and resumed by the specification's rules, does what it does undisturbed.
#[test]
fn resumed_operations_come_to_the_same() {
    let mut dice = Dice::new(14);
    let storm = Faults::storm();
    let mut resumes = 0;
    for round in 0..400 {
        let rig = Rig::new(Profile::strict(round).faults(storm));
        let memory = Memory::new(24);
        let (from, to, two) = (dice.below(PAGE), 8 * PAGE + dice.below(PAGE), 16 * PAGE);
        let len = 1 + dice.below(5 * PAGE);
        let source = dice.bytes(len);
        memory.put(from, &source);
        let (s, d) = (memory.at(from), memory.at(to));
        let size = len as u32;
        let mut want = memory.bytes(0, 24 * PAGE);
        let first = match round % 6 {
            0 => {
                want.copy_within(from..from + len, to);
                Descriptor::memmove(s, d, size)
            }
            1 => {
                // Overlapping, either way.
                let to = from + dice.below(2 * len) - dice.below(len).min(from);
                want.copy_within(from..from + len, to);
                Descriptor::memmove(s, memory.at(to), size)
            }
            2 => {
                (0..len).for_each(|n| want[to + n] = 0x0102_0304_0506_0708_u64.to_le_bytes()[n % 8]);
                Descriptor::fill(0x0102_0304_0506_0708, d, size)
            }
            3 => {
                let second = two + to % PAGE;
                want.copy_within(from..from + len, to);
                want.copy_within(from..from + len, second);
                Descriptor::dualcast(s, d, memory.at(second), size)
            }
            4 => {
                want.copy_within(from..from + len, to);
                Descriptor::copy_crc(s, d, size, 77)
            }
            _ => Descriptor::crc(s, size, 77),
        };
        let mut descriptor = first;
        let mut record = rig.run(descriptor);
        for _ in 0..5_000 {
            let Some(rest) = resumed(&descriptor, &record) else { break };
            resumes += 1;
            descriptor = rest;
            record = rig.run(descriptor);
        }
        assert_eq!(record.status(), Status::SUCCESS, "{first:?}");
        assert_eq!(memory.bytes(0, 24 * PAGE), want, "{first:?}");
        if matches!(first.opcode(), Opcode::CRCGEN | Opcode::COPY_CRC) {
            assert_eq!(record.crc(), u64::from(crc32c(&source, 77)));
        }
        rig.no_violations();
    }
    assert!(resumes > 400, "{resumes}");
}
