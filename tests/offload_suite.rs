//! One set of tests over everything that can carry an operation out: every operation, at every size at which something changes, gives the same data and
//! the same answer, whoever does it and whatever the weather.
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // mappings of the tests' own

#[cfg(all(feature = "cli", target_arch = "x86_64"))]
mod box_run;
mod offload_common;
use offload_common::backend::TRANSFER_MAX;
use offload_common::memory::{PAGE, Pages};
use offload_common::{Backend, Rig, bytes, end_of, ends, reference};
use twolane::offload::{
    Copies, DeltaOutcome, Dif, DifBlock, DifEscape, DifTags, DifWrite, Failure, Intent, PartMut, PartRef,
};

/// Nothing, one byte, the ends of a line and of a page, the largest transfer, one more, and several transfers.
const SIZES: [usize; 9] = [0, 1, 63, 64, 4095, 4096, TRANSFER_MAX, TRANSFER_MAX + 1, 2 * TRANSFER_MAX + 777];

/// Makes one test a backend of a function of a rig.
macro_rules! on_every_backend {
    ($($name:ident: $test:ident),+ $(,)?) => { $(
        mod $name {
            use super::*;
            on_every_backend! { @ $test
                cpu Cpu, cpu_here CpuHere, shared Shared, dedicated Dedicated, shared_in_weather SharedInWeather,
                dedicated_in_weather DedicatedInWeather, storm Storm, no_batch NoBatch, three_queues ThreeQueues,
                version_2 Version2, enqcmd Enqcmd, movdir64b Movdir64b, enqcmd_in_weather EnqcmdInWeather,
                movdir64b_in_weather Movdir64bInWeather, three_nodes ThreeNodes, hardware Hardware
            }
        }
    )+ };
    (@ $test:ident $($name:ident $backend:ident),+) => { $(
        #[test]
        fn $name() {
            let Some(rig) = Backend::$backend.rig(Backend::$backend as u64 + 1) else { return };
            $test(&rig);
            rig.nothing_was_violated();
            let counts = rig.rt.copies().counts();
            assert_eq!(counts.quarantined, 0, "{counts:?}");
        }
    )+ };
}

on_every_backend! {
    copies_of_every_size: copies,
    fills: fills,
    comparisons: comparisons,
    checksums: checksums,
    two_destinations: dualcasts,
    deltas: deltas,
    protection: protection,
    unaligned_and_across_pages: unaligned,
    intents: intents,
    many_at_once: many,
    all_at_once: all,
    some_of_all_fail: some_of_all,
    gathered: gathered,
    dropped: dropped_and_forgotten,
    eight_threads_at_once: eight_threads,
}

fn done<R: twolane::offload::Request>(rig: &Rig, what: &str, asked: twolane::offload::Offloading<R>) -> R::Output {
    match end_of(&rig.rt, what, asked) {
        Ok(output) => output,
        Err(failed) => panic!("{what} by {:?}: {failed}", rig.backend),
    }
}

fn copies(rig: &Rig) {
    for len in SIZES {
        let src = bytes(len, len as u64);
        let (same, dst) = done(rig, "a copy", rig.copies().copy(src.clone(), vec![0xee; len + 64]));
        assert!(same == src && dst[..len] == src && dst[len..] == [0xee; 64], "{len}");
        let (same, dst, crc) =
            done(rig, "a copy with checksum", rig.copies().copy_crc32c(src.clone(), vec![0xee; len + 64], 0x1234_5678));
        assert!(same == src && dst[..len] == src && dst[len..] == [0xee; 64], "{len}");
        assert_eq!(crc, reference::crc32c(&src, 0x1234_5678), "{len}");
    }
    let counts = rig.rt.copies().counts();
    let by_device: u64 = counts.device.iter().sum();
    match rig.backend {
        // What faults again and again is left to the CPU in the end.
        Backend::Storm => assert!(counts.resumes > 0 && counts.finished_by_cpu.iter().sum::<u64>() > 0, "{counts:?}"),
        _ if rig.model.is_some() => {
            assert!(by_device >= 2 * (SIZES.len() as u64 - 1), "the device did them: {counts:?}")
        }
        Backend::Hardware => {}
        _ => assert_eq!(by_device, 0, "{counts:?}"),
    }
}

fn fills(rig: &Rig) {
    let eight = *b"ABCDEFGH";
    let sixteen = *b"0123456789abcdef";
    for len in SIZES {
        let dst = done(rig, "a fill", rig.copies().fill(vec![0; len], eight));
        assert!(dst == reference::filled(&eight, len), "{len}");
        let dst = done(rig, "a fill with 16 bytes", rig.copies_as_it_can().fill16(vec![0; len], sixteen));
        assert!(dst == reference::filled(&sixteen, len), "{len}");
        if rig.backend == Backend::Version2 {
            let dst = done(rig, "a fill with 16 bytes", rig.copies().fill16(vec![0; len], sixteen));
            assert!(dst == reference::filled(&sixteen, len), "{len}");
        }
        let dst = done(rig, "a flush", rig.copies().flush(dst));
        assert!(dst == reference::filled(&sixteen, len), "a flush changes nothing");
    }
    // A device that has no such fill says so where it was asked for by name, and gives the buffer back.
    if rig.backend == Backend::Shared {
        let failed = end_of(&rig.rt, "a refusal", rig.copies().fill16(vec![7; 100], sixteen)).unwrap_err();
        assert!(matches!(failed.failure, Failure::Refused { .. }), "{failed}");
        assert_eq!(failed.buffers, Some((vec![7; 100],)));
    }
}

fn comparisons(rig: &Rig) {
    let pattern = *b"12345678";
    for len in SIZES {
        let left = bytes(len, 5);
        let (_, _, at) = done(rig, "a comparison", rig.copies().compare(left.clone(), left.clone()));
        assert_eq!(at, None, "{len}");
        let (_, at) = done(
            rig,
            "a comparison with a pattern",
            rig.copies().compare_pattern(reference::filled(&pattern, len), pattern),
        );
        assert_eq!(at, None, "{len}");
        for differs in [0, len / 2, len.saturating_sub(1)].into_iter().filter(|at| *at < len) {
            let mut right = left.clone();
            right[differs] ^= 0x40;
            let (_, _, at) = done(rig, "a comparison", rig.copies().compare(left.clone(), right));
            assert_eq!(at, Some(differs), "{len}");
            let mut filled = reference::filled(&pattern, len);
            filled[differs] ^= 1;
            let (_, at) = done(rig, "a comparison with a pattern", rig.copies().compare_pattern(filled, pattern));
            assert_eq!(at, Some(differs), "{len}: exact, though a device may tell a lower bound");
        }
    }
}

fn checksums(rig: &Rig) {
    for (vector, crc) in [
        (b"123456789".to_vec(), 0xe306_9283),
        (vec![0; 32], 0x8a91_36aa),
        (vec![0xff; 32], 0x62a8_ab43),
        ((0..32).collect(), 0x46dd_794e),
    ] {
        assert_eq!(done(rig, "a checksum", rig.copies().crc32c(vector, 0)).1, crc);
    }
    for len in SIZES {
        let src = bytes(len, 9);
        let whole = reference::crc32c(&src, 0);
        let (src, crc) = done(rig, "a checksum", rig.copies().crc32c(src, 0));
        assert_eq!(crc, whole, "{len}");
        // Chained, at an odd place and with an empty part before.
        let (front, back) = src.split_at(len / 3);
        let (_, none) = done(rig, "a checksum of nothing", rig.copies().crc32c(Vec::new(), 0));
        let (_, first) = done(rig, "a checksum", rig.copies().crc32c(front.to_vec(), none));
        let (_, second) = done(rig, "a checksum", rig.copies().crc32c(back.to_vec(), first));
        assert_eq!(second, whole, "{len}, in parts");
    }
}

fn dualcasts(rig: &Rig) {
    for len in SIZES {
        let src = bytes(len, 3);
        // At one place within their pages, as a device wants them; the CPU does not mind.
        let pages = len.div_ceil(PAGE) + 2;
        let (one, two) = (Pages::new(pages).buffer(100, len), Pages::new(pages).buffer(100, len));
        let (_, one, two) = done(rig, "a dualcast", rig.copies().dualcast(src.clone(), one, two));
        let (one, two) = (one.into_inner(), two.into_inner());
        assert!(one.read(100, len) == src && two.read(100, len) == src, "{len}");
        assert_eq!((one.read(99, 1), two.read(100 + len, 1)), (vec![0], vec![0]), "not a byte beside");
        // At different places: whoever can.
        let (one, two) = (vec![0; len], vec![0; len + 1]);
        let two = two.part_mut(1..).unwrap();
        let (_, one, two) = done(rig, "a dualcast", rig.copies_as_it_can().dualcast(src.clone(), one, two));
        assert!(one == src && two.into_inner()[1..] == src, "{len}");
    }
}

fn deltas(rig: &Rig) {
    for len in [0, 8, 64, 4096, TRANSFER_MAX, TRANSFER_MAX + 8, 3 * TRANSFER_MAX + 800] {
        let original = bytes(len, 1);
        let mut modified = original.clone();
        for at in (0..len).step_by(1000) {
            modified[at] ^= 0xff;
        }
        let right = reference::delta(&original, &modified);
        let room = vec![0; (right.len() + 20).max(80)];
        // A delta's offsets count from its beginning, so it is not cut: what a queue does not take whole is the CPU's.
        let copies = if len > TRANSFER_MAX { rig.copies_as_it_can() } else { rig.copies() };
        let asked = copies.create_delta(original.clone(), modified.clone(), room);
        let (_, _, record, outcome) = done(rig, "a delta", asked);
        let DeltaOutcome::Record { len: record_len } = outcome else { panic!("it has room: {len}") };
        assert!(record[..record_len] == right, "{len}: {record_len} bytes instead of {}", right.len());
        let record = record.part(..record_len).unwrap();
        let (_, dst, outcome) = done(rig, "a delta applied", copies.apply_delta(record, original.clone()));
        assert_eq!(outcome, Ok(()));
        assert!(dst == modified, "{len}");
    }
    // Too much differs for the record.
    let (original, modified) = (vec![0; 4096], vec![1; 4096]);
    let (.., outcome) = done(rig, "a delta", rig.copies().create_delta(original, modified, vec![0; 80]));
    assert_eq!(outcome, DeltaOutcome::Overflow);
    // Offsets that go back: what stands before is applied.
    let entry = |unit: u16, byte: u8| [&unit.to_le_bytes()[..], &[byte; 8]].concat();
    let record = [entry(1, 1), entry(3, 3), entry(2, 2)].concat();
    let (_, dst, outcome) = done(rig, "a bad delta", rig.copies().apply_delta(record, vec![0; 64]));
    assert_eq!(outcome.map_err(|malformed| malformed.applied), Err(20));
    assert_eq!((dst[8], dst[16], dst[24]), (1, 0, 3));
}

fn dif(block: DifBlock) -> Dif {
    Dif {
        block,
        tags: DifTags {
            reference: 100,
            reference_fixed: false,
            application: 0xbeef,
            application_mask: 0,
            application_increments: false,
        },
        invert_seed: false,
        invert_result: false,
        check_guard: true,
        check_reference: true,
        escape: DifEscape::Never,
    }
}

fn protection(rig: &Rig) {
    for (block, size) in
        [(DifBlock::B512, 512), (DifBlock::B520, 520), (DifBlock::B4096, 4096), (DifBlock::B4104, 4104)]
    {
        // None, one, several, and more than a transfer.
        for count in [0, 1, 7, TRANSFER_MAX / size + 3] {
            let data = bytes(count * size, size as u64);
            let right = reference::protected(&data, size, 0xbeef, 100);
            let room = vec![0; right.len()];
            let (_, inserted) = done(rig, "an insertion", rig.copies().dif_insert(data.clone(), room, dif(block)));
            assert!(inserted == right, "{size} x {count}");
            let (inserted, verdict) = done(rig, "a check", rig.copies().dif_check(inserted, dif(block)));
            assert_eq!(verdict, Ok(()), "{size} x {count}");
            // A destination that ends right before its source is not for a device (`Unsuited::Strip`), and an allocator may place it there: so it has
            // room for as much as the source.
            let mut room = Vec::with_capacity(inserted.len() + 1);
            room.resize(data.len(), 0);
            let stripped = rig.copies().dif_strip(inserted, room, dif(block));
            let (inserted, stripped, verdict) = done(rig, "a strip", stripped);
            assert!(stripped == data && verdict == Ok(()), "{size} x {count}");
            let tags = DifTags { reference: 7, application: 1, ..dif(block).tags };
            let write = DifWrite { tags, keep_guard: false, keep_application: false, keep_reference: false };
            let room = vec![0; inserted.len()];
            let updated = rig.copies().dif_update(inserted, room, dif(block), write);
            let (mut inserted, updated, verdict) = done(rig, "an update", updated);
            assert!(updated == reference::protected(&data, size, 1, 7) && verdict == Ok(()), "{size} x {count}");
            // A bit that fell in the last block.
            if count > 0 {
                let last = (count - 1) * (size + 8);
                inserted[last + 3] ^= 1;
                let (mut inserted, verdict) = done(rig, "a check", rig.copies().dif_check(inserted, dif(block)));
                let mismatch = verdict.unwrap_err();
                assert_eq!((mismatch.block, mismatch.fault.guard), (count - 1, true), "{size} x {count}");
                assert!(!mismatch.fault.reference && !mismatch.fault.application);
                inserted[last + 3] ^= 1;
                inserted[last + size + 7] ^= 1;
                let (_, verdict) = done(rig, "a check", rig.copies().dif_check(inserted, dif(block)));
                let mismatch = verdict.unwrap_err();
                assert_eq!((mismatch.block, mismatch.fault.reference), (count - 1, true), "{size} x {count}");
                assert!(!mismatch.fault.guard);
            }
        }
    }
    let failed = end_of(&rig.rt, "a refusal", rig.copies().dif_check(vec![0; 521], dif(DifBlock::B512))).unwrap_err();
    assert!(failed.failure.to_string().contains("521"), "{failed}");
    assert!(failed.buffers.is_some());
}

fn unaligned(rig: &Rig) {
    for (from, to) in [(0, 1), (1, 0), (63, 65), (PAGE - 1, PAGE - 1), (PAGE - 1, 1), (7, PAGE - 7)] {
        for len in [1, 2, 64, 65, PAGE, PAGE + 1, 3 * PAGE + 17] {
            let contents = bytes(len, (from + to) as u64);
            let src = Pages::with(6, from, &contents).buffer(from, len);
            // Nobody has touched the destination's pages: for a device that makes no page requests they are absent.
            let dst = Pages::new(6).buffer(to, len);
            let (src, dst) = done(rig, "a copy", rig.copies().copy(src, dst));
            let (src, dst) = (src.into_inner(), dst.into_inner());
            assert!(src.read(from, len) == contents && dst.read(to, len) == contents, "{from} {to} {len}");
            let around = [dst.read(to - to.min(8), to.min(8)), dst.read(to + len, 8)].concat();
            assert!(around.iter().all(|byte| *byte == 0), "not a byte beside: {from} {to} {len}");
        }
    }
    let parts = bytes(100, 2).part(10..20).unwrap();
    let (src, dst) = done(rig, "a copy of parts", rig.copies().copy(parts, vec![0; 64].part_mut(54..).unwrap()));
    assert_eq!(src.into_inner()[10..20], dst.into_inner()[54..]);
}

fn intents(rig: &Rig) {
    for intent in [Intent::Soon, Intent::Cold, Intent::Durable] {
        for len in [1, 4096, TRANSFER_MAX + 1] {
            let src = bytes(len, 8);
            let (_, dst) =
                done(rig, "a copy with an intent", rig.copies().intent(intent).copy(src.clone(), vec![0; len]));
            assert!(dst == src, "{intent:?} {len}");
        }
    }
}

fn many(rig: &Rig) {
    // 2, a batch, one more than a batch, and sizes that do not go in one.
    for count in [0, 1, 2, 8, 9, 30] {
        let pairs: Vec<_> = (0..count).map(|n| (bytes(SIZES[n % SIZES.len()], n as u64), vec![0; 140_000])).collect();
        let mut copying = Vec::new();
        rig.copies().copy_many(pairs.clone(), &mut copying);
        assert_eq!(copying.len(), count);
        for ((src, _), copying) in pairs.into_iter().zip(copying) {
            let (same, dst) = done(rig, "one of many copies", copying);
            assert!(same == src && dst[..src.len()] == src && dst[src.len()..].iter().all(|byte| *byte == 0));
        }
    }
    let counts = rig.rt.copies().counts();
    match rig.backend {
        Backend::NoBatch => assert_eq!(counts.batches, 0, "{counts:?}"),
        _ if rig.model.is_some() => assert!(counts.batches > 0, "{counts:?}"),
        _ => {}
    }
}

fn all(rig: &Rig) {
    // None, one, two, a batch, one more, several batches, and more than a page of slots has room for.
    for count in [0, 1, 2, 7, 8, 9, 16, 30, 100] {
        for sizes in [&[3000][..], &SIZES[1..6], &SIZES] {
            let pairs: Vec<_> = (0..count)
                .map(|n| (bytes(sizes[n % sizes.len()], n as u64), vec![0xee; sizes[n % sizes.len()] + 9]))
                .collect();
            let copied = end_of(&rig.rt, "all copies", rig.copies().copy_all(pairs.clone()));
            let copied = copied.unwrap_or_else(|failed| panic!("{count} by {:?}: {failed}", rig.backend));
            assert_eq!(copied.len(), count);
            for ((src, _), (same, dst)) in pairs.iter().zip(copied) {
                assert!(same == *src && dst[..src.len()] == *src && dst[src.len()..] == [0xee; 9], "{count} {sizes:?}");
            }
        }
    }
}

/// Those that cannot be say so, and keep nobody from being copied.
fn some_of_all(rig: &Rig) {
    for wrong in [0, 3, 7, 8, 11] {
        let pairs: Vec<_> = (0..12).map(|n| (bytes(2000, n), vec![0; if n == wrong { 1999 } else { 2001 }])).collect();
        let failed = end_of(&rig.rt, "all copies", rig.copies().copy_all(pairs)).unwrap_err();
        let (says, numbers) = (failed.to_string(), failed.failures().map(|(number, _)| number).collect::<Vec<_>>());
        assert!(
            says.starts_with(&format!("1 of 12 copies failed; number {wrong}: the destination has 1999")),
            "{says}"
        );
        assert_eq!(numbers, [wrong as usize]);
        for (number, one) in failed.each.into_iter().enumerate() {
            let right = number as u64 != wrong;
            let (src, dst) = match one {
                Ok(pair) if right => pair,
                Err(failed) if !right => failed.buffers.expect("no device has them"),
                other => panic!("{number}: {:?}", other.map(|_| "copied")),
            };
            assert!(src == bytes(2000, number as u64), "each one's own");
            assert!(if right { dst[..2000] == src } else { dst == [0; 1999] }, "{number}");
        }
    }
}

fn gathered(rig: &Rig) {
    let copies = rig.copies().gathered(true);
    let copying: Vec<_> = (0..20).map(|n| copies.copy(bytes(2000 + n, n as u64), vec![0; 3000])).collect();
    copies.flush_gathered();
    for copying in copying {
        let (src, dst) = done(rig, "a gathered copy", copying);
        assert!(dst[..src.len()] == src);
    }
}

fn dropped_and_forgotten(rig: &Rig) {
    let copies = rig.copies();
    let poll_once = |copying: &mut twolane::offload::Offloading<_>| {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::future::Future::poll(std::pin::Pin::new(copying), &mut cx);
    };
    for round in 0..30 {
        let len = [100, 5000, TRANSFER_MAX + 1][round % 3];
        let ask = |copies: &Copies| copies.copy(bytes(len, 1), vec![0; len]);
        drop(ask(&copies));
        let mut polled = ask(&copies);
        poll_once(&mut polled);
        // It may have answered; then it is taken, and dropping it drops nothing.
        drop(polled);
        std::mem::forget(ask(&copies));
        drop(ask(&copies.clone().gathered(true)));
        let ask = |count: u64| copies.copy_all((0..count).map(|n| (bytes(len, n), vec![0; len])).collect());
        drop(ask(8));
        let mut polled = ask(11);
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let _ = std::future::Future::poll(std::pin::Pin::new(&mut polled), &mut cx);
        drop(polled);
        if round % 10 == 0 {
            std::mem::forget(ask(2));
        }
    }
    let (src, dst) = done(rig, "a copy after those", copies.copy(bytes(5000, 1), vec![0; 5000]));
    assert!(src == dst);
}

/// Each thread with operations of its own, two of them in flight and one that it waits for itself.
fn eight_threads(rig: &Rig) {
    const THREADS: usize = 8;
    const ROUNDS: usize = 8;
    ends("eight threads", || {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (rt, copies) = (&rig.rt, rig.copies());
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let len = 1 + (thread * 7_919 + round * 104_729) % (TRANSFER_MAX + 4096);
                        let src = bytes(len, (thread * ROUNDS + round) as u64);
                        let copied = copies.copy(src.clone(), vec![0xee; len + 1]);
                        let checked = copies.crc32c(src.clone(), 0);
                        let mut filled = vec![0; len];
                        copies.fill_blocking(&mut filled, *b"12345678").unwrap();
                        assert!(filled == reference::filled(b"12345678", len), "{len} bytes of thread {thread}");
                        let (same, dst) = rt.block_on(copied).expect("a foreign thread may wait").unwrap();
                        assert!(same == src && dst[..len] == src && dst[len] == 0xee, "{len} bytes of thread {thread}");
                        let (_, crc) = rt.block_on(checked).expect("a foreign thread may wait").unwrap();
                        assert_eq!(crc, reference::crc32c(&src, 0), "{len} bytes of thread {thread}");
                    }
                });
            }
        });
    });
    if let Some(model) = &rig.model {
        let counters = model.device.counters();
        assert_eq!((counters.dropped, counters.lost), (0, 0), "{counters:?}");
    }
}

/// This program's own tests of hardware, in a box whose devices are modelled: discovery by variables, an interposed `write(2)`, the kernel's rules for it. Here no cpu
/// states MOVDIR64B or ENQCMD, and where it does nobody may map.
#[cfg(all(feature = "cli", target_arch = "x86_64"))]
#[test]
fn in_the_box_it_goes_by_write() {
    use twolane::offload::dsa::abi::{Opcode, Status};
    const WEATHER: &str = "page_absent=0.05,late_dispatch=0.25";
    // A dedicated queue has one user at a time; and a runtime that ends with operations outstanding leaves it open, so that the test of that is not for it.
    for (queue, arguments, faults) in [
        ("shared:16", &["--test-threads=8"][..], ""),
        ("dedicated:16", &["--test-threads=1", "--skip=dropped"], ""),
        ("shared:16", &["--test-threads=8"], WEATHER),
        ("dedicated:16", &["--test-threads=1", "--skip=dropped"], WEATHER),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let summary = dir.path().join("summary.json");
        let transfer = TRANSFER_MAX.to_string();
        let options = ["--unprivileged", "--strict", "--max-transfer", &transfer, "--queue", queue, "--faults", faults];
        let mut command = box_run::dsa_box(&options);
        command.arg("--library").arg(box_run::library()).arg("--summary").arg(&summary).arg("--");
        command.arg(std::env::current_exe().unwrap()).args(["hardware", "--nocapture"]).args(arguments);
        let said = box_run::run(&mut command);
        assert_eq!(said.code, Some(0), "{queue} {faults}: {}\n{}", said.out, said.err);
        assert!(!said.out.contains("not tried on hardware"), "{queue} {faults}: {}", said.out);
        let summary: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(summary).unwrap()).unwrap();
        use Opcode as Op;
        for opcode in [Op::MEMMOVE, Op::MEMFILL, Op::CRCGEN, Op::COMPARE, Op::DUALCAST, Op::CR_DELTA, Op::DIF_INS] {
            assert!(box_run::ended(&summary, opcode.0, Status::SUCCESS.code()) > 0, "{queue} {opcode:?}: {summary:#}");
        }
        let all = &summary["all"];
        assert_eq!(
            (&all["batches"], &all["violations"], &all["lost"]),
            (&0.into(), &0.into(), &0.into()),
            "{summary:#}"
        );
    }
}
