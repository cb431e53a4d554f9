//! No wait instruction is executed that the cpu does not state, whatever the environment.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // one instruction, and CPUID

mod children;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use twolane::sim::trap::{Behaviour, Trap};
use twolane::{Placement, Progress, Relief, Runtime, WaitWith, Where, WhyNot};

const CHILD: &str = "TRAP_GATE_CHILD";

fn cpu_states_waitpkg() -> bool {
    std::arch::x86_64::__cpuid_count(7, 0).ecx >> 5 & 1 == 1
}

#[test]
fn without_the_gate_the_process_would_die() {
    if let Ok(instruction) = std::env::var(CHILD) {
        // A core in the test's directory is of no use to anybody.
        let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
        let word = 0_u64;
        match instruction.as_str() {
            // SAFETY: dies, or waits until an instant long past.
            "tpause" => unsafe { std::arch::asm!("tpause ecx", in("ecx") 0, in("eax") 0, in("edx") 0) },
            // SAFETY: dies, or watches a word of this frame until the next wait.
            "umonitor" => unsafe { std::arch::asm!("umonitor {}", in(reg) &raw const word) },
            // SAFETY: as tpause.
            _ => unsafe { std::arch::asm!("umwait ecx", in("ecx") 0, in("eax") 0, in("edx") 0) },
        }
        std::process::exit(0);
    }
    // MONITORX and MWAITX are not tried: some cpus carry them out although the hypervisor hides them, and then nobody ends the wait.
    for instruction in ["tpause", "umonitor", "umwait"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "without_the_gate_the_process_would_die"]).env(CHILD, instruction);
        let child = children::output(&mut command);
        if cpu_states_waitpkg() {
            assert!(child.status.success(), "{instruction}: {child:?}");
        } else {
            assert_eq!(child.status.signal(), Some(libc::SIGILL), "what CPUID hides, traps: {instruction}");
        }
    }
}

/// A lane that waits after every pass, with any of the knobs, when it has.
fn a_lane_at_rest(with: WaitWith) -> twolane::LaneMetrics {
    let rt = Runtime::builder()
        .placement(Placement::Unpinned)
        .relief(Relief::Always)
        .wait_with(with)
        .env_overrides(false)
        .build()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    let poller = rt
        .spawn_poller(
            Where::Lane(0),
            "rest",
            move |_: &mut twolane::PollCx<'_>| {
                if seen.load(SeqCst) { Progress::Done } else { Progress::Idle }
            },
        )
        .unwrap();
    let until = Instant::now() + children::LIMIT;
    let lane = loop {
        let lane = rt.metrics().lanes.swap_remove(0);
        if lane.dozes > 0 && lane.waits.is_some() {
            break lane;
        }
        assert!(Instant::now() < until, "it never waits: {lane:?}");
        std::thread::sleep(Duration::from_millis(1)); // paces the looks, orders nothing
    };
    over.store(true, SeqCst);
    let _ = poller.join().unwrap();
    rt.shutdown(children::LIMIT).unwrap();
    lane
}

#[test]
fn lanes_execute_only_what_the_cpu_states() {
    // The traps would carry anything out, and count it.
    let scene = Trap::install().unwrap().scene(Behaviour::by_the_manual());
    for with in [WaitWith::Auto, WaitWith::Light, WaitWith::Deep, WaitWith::Pause] {
        let lane = a_lane_at_rest(with);
        let waits = lane.waits.expect("the lane has started");
        assert!(!waits.to_string().is_empty());
        if waits.why_pause == Some(WhyNot::NotStated) {
            assert_eq!(lane.instruction_dozes, 0);
        }
    }
    let counts = scene.counts();
    assert_eq!(
        (counts.tpause, counts.umonitor, counts.umwait, counts.monitorx, counts.mwaitx, counts.passed_on),
        (0, 0, 0, 0, 0, 0),
        "a trap means that an instruction was executed which this cpu does not have"
    );
}
