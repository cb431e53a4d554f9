//! In a child made by fork(2) the parent's operations are not the child's: nothing hangs, nothing is written, and errors say what to do.
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // fork

mod common;
mod offload_common;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use common::LIMIT;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use offload_common::{Backend, Rig};
use twolane::offload::{Engine, Failure};
use twolane::sim::dsa::{Device, DeviceConfig, Profile, QueueConfig};

fn now<F: std::future::Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("in a child nothing is waited for"),
    }
}

#[test]
fn a_child_has_none_of_its_parents_operations() {
    for (backend, queue) in [
        (Backend::Shared, QueueConfig::shared(16)),
        (Backend::Dedicated, QueueConfig::dedicated(16)),
        #[cfg(target_arch = "x86_64")]
        (Backend::Enqcmd, QueueConfig::shared(16)),
        #[cfg(target_arch = "x86_64")]
        (Backend::Movdir64b, QueueConfig::dedicated(16)),
    ] {
        let device = Device::new(DeviceConfig::v1().queue(queue), Profile::strict(1)).unwrap();
        let Rig { rt, model, .. } = Rig::stopped(backend, device);
        let model = model.unwrap();
        let device = &model.device;
        let copies = rt.copies().on(Engine::Device);
        // A queue behind a node was tried when it was opened.
        let before = device.counters().accepted;
        // With a device that does nothing yet.
        let mut flying: Vec<_> = (0..4).map(|n| copies.copy(vec![n; 5000], vec![0; 5000])).collect();
        // SAFETY: the process is single-purpose: its other threads are lanes at rest and a test harness that waits, and hold no lock that the child needs
        // (the allocator of glibc sees to itself).
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    // One is asked, one dropped, one forgotten.
                    let failed = now(flying.pop().unwrap()).unwrap_err();
                    assert!(failed.failure.to_string().contains("submit it again here"), "{failed}");
                    assert_eq!(failed.buffers.map(|(src, _)| src), Some(vec![3; 5000]));
                    drop(flying.pop());
                    std::mem::forget(flying.pop());
                    // New ones: what the calling thread can do is done, by the CPU.
                    let (src, dst) = now(rt.copies().copy(vec![1; 60_000], vec![0; 60_000])).unwrap();
                    assert_eq!(src, dst);
                    let mut dst = [0; 100_000];
                    rt.copies().copy_blocking(&[5; 100_000], &mut dst).unwrap();
                    assert_eq!(dst, [5; 100_000]);
                    // What a lane would do is done by whoever polls.
                    let mut large = pin!(rt.copies().on(Engine::Cpu).copy(vec![1; 1 << 20], vec![0; 1 << 20]));
                    let mut polls = 0..100;
                    let (src, dst) = loop {
                        let polled = large.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                        if let Poll::Ready(done) = polled {
                            break done.unwrap();
                        }
                        polls.next().expect("in a child nothing is waited for");
                    };
                    assert!(src == dst);
                    // What only the device may do is an error.
                    let failed = now(copies.copy(vec![1; 100], vec![0; 100])).unwrap_err();
                    assert!(matches!(failed.failure, Failure::Refused { .. }), "{failed}");
                    assert!(copies.copy_blocking(&[1; 100], &mut [0; 100]).is_err());
                    let mut many = Vec::new();
                    rt.copies().copy_many((0..9).map(|_| (vec![1; 9000], vec![0; 9000])), &mut many);
                    for one in many {
                        assert!(now(one).is_ok());
                    }
                    rt.copies().flush_gathered();
                    let _ = rt.shutdown(Duration::from_secs(1));
                }));
                // No destructors of the harness in the child.
                // SAFETY: ends the process, and nothing else.
                unsafe { libc::_exit(if outcome.is_ok() { 0 } else { 1 }) };
            }
            ForkResult::Parent { child } => {
                let deadline = Instant::now() + LIMIT;
                loop {
                    match waitpid(child, Some(WaitPidFlag::WNOHANG)).unwrap() {
                        WaitStatus::StillAlive if Instant::now() < deadline => {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        WaitStatus::StillAlive => {
                            nix::sys::signal::kill(child, nix::sys::signal::SIGKILL).unwrap();
                            panic!("the child hangs");
                        }
                        status => break assert_eq!(status, WaitStatus::Exited(child, 0)),
                    }
                }
                assert_eq!(device.counters().accepted, before + 4, "the child submitted nothing");
                let _driven = device.spawn().unwrap();
                for copying in flying {
                    let (src, dst) = rt.block_on(copying).unwrap().unwrap();
                    assert!(src == dst, "the parent's go on");
                }
                assert_eq!(device.violations(), []);
                // Before the nodes, which drop with the model.
                drop(rt);
            }
        }
    }
}
