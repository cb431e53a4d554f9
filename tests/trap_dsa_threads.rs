//! Eight threads submit by trapping instructions to one queue each of every kind, and each byte arrives.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // instructions

mod trap_dsa;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use trap_dsa::{Trapped, portals};
use twolane::offload::dsa::abi::{CompletionSlot, Descriptor, Flags, Opcode, Status};
use twolane::sim::dsa::{Faults, Profile};

const THREADS: usize = 8;
const MOST: usize = 8_192;

/// Copies by one thread, `in_flight` of them at a time.
fn copies(trapped: &Trapped, thread: usize, rounds: usize, in_flight: usize) {
    let until = Instant::now() + Duration::from_secs(600);
    let source: Vec<u8> = (0..MOST).map(|at| (at * 37 + thread) as u8).collect();
    let mut targets = vec![vec![0_u8; MOST]; in_flight];
    let slots: Vec<_> = (0..in_flight).map(|_| CompletionSlot::new()).collect();
    for round in 0..rounds {
        for (n, (target, slot)) in targets.iter_mut().zip(&slots).enumerate() {
            target.fill(0);
            let size = 1 + (round * 911 + n * 131 + thread * 17) % MOST;
            slot.clear_all();
            let (from, to) = (source.as_ptr().addr() as u64, target.as_mut_ptr().addr() as u64);
            let copy = Descriptor::memmove(from, to, size as u32).report_to(slot.address()).with_flags(Flags::RCR);
            // SAFETY: buffers and record live until the record is there, which is waited for below.
            while !unsafe { trapped.submit(round + n, &copy) } {
                assert!(Instant::now() < until, "full for minutes");
                std::thread::yield_now();
            }
        }
        for (n, (target, slot)) in targets.iter().zip(&slots).enumerate() {
            let size = 1 + (round * 911 + n * 131 + thread * 17) % MOST;
            let record = loop {
                if let Some(record) = slot.record() {
                    break record;
                }
                assert!(Instant::now() < until, "no record within minutes");
                std::thread::yield_now();
            };
            assert_eq!(record.status(), Status::SUCCESS);
            assert!(target[..size] == source[..size] && target[size..].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn eight_threads_share_a_queue_and_lose_nothing() {
    const ROUNDS: usize = 25;
    let mut faults = Faults::none();
    (faults.retry, faults.late_dispatch) = (0.1, 0.2);
    for trapped in portals(&Profile::strict(11).faults(faults).residency(false)) {
        let trapped = trapped.spawn();
        // Two each: what a dedicated queue of 16 entries has room for.
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let trapped = &trapped;
                scope.spawn(move || copies(trapped, thread, ROUNDS, 2));
            }
        });
        let counters = trapped.device.counters();
        assert_eq!(counters.with_opcode(Opcode::MEMMOVE), (THREADS * ROUNDS * 2) as u64, "{}", trapped.name);
        assert_eq!((counters.dropped, counters.lost), (0, 0), "{}", trapped.name);
        assert_eq!(trapped.device.violations(), [], "{}", trapped.name);
    }
}

/// A signal handler of the program's that submits, while the thread that it interrupts submits.
#[test]
fn a_handler_may_submit_in_the_middle_of_a_submission() {
    use std::sync::atomic::AtomicPtr;
    static AT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
    static SENT: AtomicU32 = AtomicU32::new(0);
    extern "C" fn on_signal(_: libc::c_int) {
        // SAFETY: a portal, for as long as the test sends signals; no memory is named.
        if !unsafe { trap_dsa::enqcmd(AT.load(Relaxed), [0_u8; 64].as_ptr()) } {
            SENT.fetch_add(1, Relaxed);
        }
    }
    let [trapped, ..] = portals(&Profile::strict(1));
    let trapped = trapped.spawn();
    AT.store(trapped.at, Relaxed);
    // SAFETY: a handler of one argument, which only does what handlers may.
    unsafe { libc::signal(libc::SIGUSR1, on_signal as *const () as libc::sighandler_t) };
    let mut own = 0;
    std::thread::scope(|scope| {
        // SAFETY: the thread's own number.
        let me = unsafe { libc::pthread_self() };
        let sender = scope.spawn(move || {
            for _ in 0..2_000 {
                // SAFETY: that thread outlives this one.
                unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
                std::thread::yield_now();
            }
        });
        // Both have submitted by then, in whatever order they were given a cpu.
        while !sender.is_finished() || own == 0 || SENT.load(Relaxed) == 0 {
            // SAFETY: no memory is named.
            own += u64::from(unsafe { trapped.submit(0, &Descriptor::noop()) });
            if sender.is_finished() {
                // SAFETY: this thread's own, with the handler of above.
                unsafe { libc::raise(libc::SIGUSR1) };
            }
        }
    });
    // SAFETY: back to what it was.
    unsafe { libc::signal(libc::SIGUSR1, libc::SIG_DFL) };
    let until = Instant::now() + Duration::from_secs(60);
    let sent = own + u64::from(SENT.load(Relaxed));
    while trapped.device.counters().with_opcode(Opcode::NOOP) < sent {
        assert!(Instant::now() < until, "{:?}", trapped.device);
        std::thread::yield_now();
    }
    assert_eq!(trapped.device.counters().accepted, sent);
}

#[test]
fn errno_is_kept_where_a_trap_makes_system_calls() {
    let [page, node, ..] = portals(&Profile::strict(1));
    for trapped in [&page, &node] {
        // SAFETY: the thread's own word; a portal, and no memory that is named.
        unsafe {
            *libc::__errno_location() = 77;
            assert!(trapped.submit(0, &Descriptor::noop()));
            assert_eq!(*libc::__errno_location(), 77, "{}", trapped.name);
        }
    }
}
