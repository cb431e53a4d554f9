//! The reaper as a poller of a real lane, a device in a thread of its own, and submitters everywhere: nothing is lost, everything is right.

use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use super::*;
use crate::{Placement, Runtime, Where};

/// Xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A device in a thread: it takes what comes, in any order and after any time, and faults now and then.
fn device(device: Double, stop: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    /// Without a device all others wait for ever, and what it found would not be seen.
    struct Found;
    impl Drop for Found {
        fn drop(&mut self) {
            if thread::panicking() {
                std::process::abort();
            }
        }
    }
    thread::spawn(move || {
        let _found = Found;
        let mut random = Random(0x1234_5678_9abc_def1);
        while !stop.load(Acquire) {
            if device.waiting().is_empty() {
                device.set_full(false);
                thread::yield_now();
                continue;
            }
            match random.below(16) {
                0 => thread::sleep(Duration::from_micros(random.below(300))),
                1 => device.set_full(true),
                2..4 => device.run(),
                4 if device.waiting()[0].opcode() == crate::offload::dsa::abi::Opcode::BATCH => {
                    device.step(Do::Children(random.below(2) as u32));
                }
                4 => device.step(Do::Part(random.below(3) as u32)),
                _ => device.step(Do::All),
            }
            if random.below(4) == 0 {
                device.set_full(false);
            }
        }
    })
}

/// Polls it to its end, as a future does, and finishes on the CPU what is left.
async fn finish(mut copy: Copying) {
    let settled = poll_fn(|cx| {
        copy.waker = cx.waker().clone();
        copy.poll()
    })
    .await;
    match settled {
        Settled::Done(Verdict::Done) => {}
        Settled::OnCpu { rest, .. } => {
            let Operation::Copy { src, dst, len } = rest.operation else { panic!("{rest:?}") };
            // SAFETY: what is left of the operation, of which the device is done.
            unsafe { std::ptr::copy(src, dst, len) };
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(copy.src, copy.dst);
}

/// Submits a few operations in some way, and drops some of them.
async fn some(scene: &Scene, random: &mut Random) {
    let len = 3 + random.below(300) as usize;
    let mut copies = Vec::new();
    match random.below(3) {
        0 => copies = scene.try_many(1 + random.below(12) as usize, len),
        way => {
            for _ in 0..=random.below(5) {
                match scene.try_copy(len, way == 1) {
                    Ok(copy) => copies.push(copy),
                    Err(Refused::NoSlot) => scene.flow.room().await,
                    Err(other) => panic!("{other:?}"),
                }
            }
        }
    }
    for copy in copies {
        match random.below(8) {
            0 => drop(copy),
            _ => finish(copy).await,
        }
    }
}

#[test]
fn nothing_is_lost_between_lanes_threads_and_a_device() {
    let runtime = Runtime::builder().env_overrides(false).placement(Placement::Unpinned).build().unwrap();
    let scene = Arc::new(Scene::with_timeout(8, 16, Duration::from_secs(600)));
    let bell: Arc<std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
    let reaper = {
        let bell = Arc::clone(&bell);
        scene.flow.reaper(move || bell.get().into_iter().for_each(|ring| ring())).expect("the only one")
    };
    let poller = Arc::new(runtime.spawn_poller(Where::Any, "reaper", reaper).unwrap());
    let ringer = Arc::clone(&poller);
    let _ = bell.set(Box::new(move || ringer.ring()));
    let stop = Arc::new(AtomicBool::new(false));
    let device = device(scene.device.clone(), Arc::clone(&stop));

    let rounds = if cfg!(debug_assertions) { 300 } else { 3000 };
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let scene = Arc::clone(&scene);
            runtime.spawn(async move {
                let mut random = Random(n * 77 + 1);
                for _ in 0..rounds {
                    some(&scene, &mut random).await;
                }
            })
        })
        .collect();
    let foreign: Vec<_> = (0..2)
        .map(|n| {
            let (scene, handle) = (Arc::clone(&scene), runtime.handle());
            thread::spawn(move || {
                let mut random = Random(n * 99 + 5);
                for _ in 0..rounds {
                    assert!(handle.block_on(some(&scene, &mut random)).is_ok(), "a thread of its own may block");
                }
            })
        })
        .collect();
    foreign.into_iter().for_each(|thread| thread.join().unwrap());
    tasks.into_iter().for_each(|task| task.join().unwrap());
    // What was dropped comes back by itself.
    let end = Instant::now() + Duration::from_secs(30);
    while scene.taken() > 0 {
        assert!(Instant::now() < end, "{:#?} {:?}", scene.totals(), scene.core().all_pages());
        thread::sleep(Duration::from_millis(1));
    }
    scene.assert_clean();
    let totals = scene.totals();
    assert!(totals.batches > 0 && totals.resumes > 0 && totals.retries > 0 && totals.full > 0, "{totals:#?}");
    assert!(totals.abandoned > 0 && totals.quarantined == 0, "{totals:#?}");
    let report = scene.flow.shutdown(Instant::now() + Duration::from_secs(5));
    assert_eq!((report.quarantined, report.unsettled, report.unasked), (0, 0, 0));
    stop.store(true, Release);
    device.join().unwrap();
    poller.stop();
    assert!(runtime.shutdown(Duration::from_secs(10)).is_ok());
}
