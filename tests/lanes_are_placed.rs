//! Each lane runs on the cpu of the plan, under its name, with asynchronous signals blocked; the caller's own mask and signals stay as they were.

mod common;
use common::{LIMIT, SOON, child, is_child, os, pairs, within};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use twolane::{Placement, Runtime};

#[test]
fn lanes_run_on_the_cpus_of_the_plan() {
    if !is_child() {
        return child("lanes_run_on_the_cpus_of_the_plan", &[]);
    }
    within(LIMIT, || {
        let rt = Runtime::builder().build().unwrap();
        let threads = os::lanes();
        assert_eq!(threads.len(), rt.plan().lanes.len());
        for (lane, metrics) in rt.plan().lanes.iter().zip(rt.metrics().lanes) {
            let thread = threads.iter().find(|it| it.name.ends_with(&lane.lane.to_string())).unwrap();
            assert_eq!(thread.allowed, lane.cpu.unwrap().to_string(), "{}\n{thread:?}", rt.plan());
            assert!(metrics.info.pinned && metrics.info.cpu() == lane.cpu);
        }
        rt.shutdown(SOON).unwrap();
    });
}

#[test]
fn every_placement_of_this_machine_holds() {
    if !is_child() {
        return child("every_placement_of_this_machine_holds", &[]);
    }
    within(LIMIT, || {
        for placement in [Placement::Auto, Placement::Siblings, Placement::WholeCores, Placement::Shared] {
            // What this machine has no room for is an error, and other tests are about those.
            let Ok(rt) = Runtime::builder().placement(placement.clone()).build() else { continue };
            let planned: Vec<String> = rt.plan().lanes.iter().map(|lane| lane.cpu.unwrap().to_string()).collect();
            let found: Vec<String> = os::lanes().into_iter().map(|thread| thread.allowed).collect();
            let sorted = |mut cpus: Vec<String>| {
                cpus.sort();
                cpus
            };
            assert_eq!(sorted(found), sorted(planned), "{placement:?}");
            rt.shutdown(SOON).unwrap();
            common::until("they are gone", || os::lanes().is_empty());
        }
    });
}

#[test]
fn the_caller_keeps_its_mask_and_its_signals() {
    within(LIMIT, || {
        let before = os::this();
        for allow in [false, true] {
            let rt = Runtime::builder().env_overrides(false).allow_unpinned(allow).build().unwrap();
            let after = os::this();
            assert_eq!((&after.allowed, after.blocked), (&before.allowed, before.blocked));
            // A thread that it spawns afterwards is as free as it is.
            let spawned = std::thread::spawn(os::this).join().unwrap();
            assert_eq!((&spawned.allowed, spawned.blocked), (&before.allowed, before.blocked));
            drop(rt);
        }
        let _ = Runtime::builder().env_overrides(false).pairs(100_000).build().unwrap_err();
        assert_eq!(os::this().blocked, before.blocked);
    });
}

#[test]
fn threads_carry_prefix_role_and_number() {
    within(LIMIT, || {
        let rt = pairs(2).thread_name("gateway").build().unwrap();
        let names: Vec<String> = os::named("gateway-").into_iter().map(|thread| thread.name).collect();
        assert_eq!(names, ["gateway-c1", "gateway-c3", "gateway-p0", "gateway-p2"]);
        let inside = rt.spawn_compute(|| std::thread::current().name().map(str::to_owned)).join().unwrap();
        assert!(inside.is_some_and(|name| names.contains(&name)), "std knows it, too");
        let rt = common::shared(1).thread_name("tenletters").build().unwrap();
        assert_eq!(os::named("tenletters")[0].name, "tenletters-s0");
        drop(rt);
    });
}

#[test]
fn lanes_take_no_asynchronous_signals() {
    if !is_child() {
        return child("lanes_take_no_asynchronous_signals", &[]);
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let bit = |signal: i32| 1_u64 << (signal - 1);
        for thread in os::lanes() {
            for signal in [libc::SIGUSR1, libc::SIGTERM, libc::SIGINT, libc::SIGALRM, libc::SIGCHLD, libc::SIGRTMIN()] {
                assert!(thread.blocked & bit(signal) != 0, "signal {signal} comes to {thread:?}");
            }
            // A lane that raises one of these by what it executes must die of it, not run on.
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGABRT] {
                assert!(thread.blocked & bit(signal) == 0, "signal {signal} is blocked on {thread:?}");
            }
        }
        // The handler writes to the pipe on whichever thread takes the signal: with all lanes blocked, another one.
        let taken = Arc::new(AtomicUsize::new(0));
        let (read, write) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(write.as_raw_fd() > 0);
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGUSR1, write).unwrap();
        for _ in 0..20 {
            nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::SIGUSR1).unwrap();
            std::io::Read::read_exact(&mut &read, &mut [0]).unwrap();
            taken.fetch_add(1, SeqCst);
        }
        assert_eq!(taken.load(SeqCst), 20);
        assert_eq!(rt.spawn_compute(|| 1).join().unwrap(), 1);
    });
}
