//! A poll lane that takes a task and finds it too long puts it back, and somebody runs it: also if the compute lane fell asleep meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use twolane::{Handle, PollCx, Progress, Relief, Runtime, Where};

/// Far more than the chain takes, far less than for ever: a task that was lost stays lost as long as the poller lives.
const DEADLINE: Duration = Duration::from_secs(10);
const ROUNDS: usize = 30;
/// Each link is submitted by the one before, as its last act: the compute lane looks for it at once, and the poll lane is asked for help.
const LINKS: u32 = 100;
/// Longer than any lane would lend itself for.
const LINK: Duration = Duration::from_micros(50);

fn chain(handle: &Handle, left: u32, done: Sender<()>) {
    let next = handle.clone();
    drop(handle.spawn_compute(move || {
        let began = Instant::now();
        while began.elapsed() < LINK {
            std::hint::spin_loop();
        }
        if left == 0 {
            let _ = done.send(()); // the test waits, or has failed
        } else {
            chain(&next, left - 1, done);
        }
    }));
}

#[test]
fn no_task_is_left_behind() {
    let rt = Runtime::builder().relief(Relief::Off).build().expect("the defaults fit every machine");
    let over = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&over);
    let poller = rt
        .spawn_poller(Where::Any, "busy", move |_: &mut PollCx<'_>| match told.load(Relaxed) {
            true => Progress::Done,
            false => Progress::Idle,
        })
        .expect("the runtime runs");
    for round in 0..ROUNDS {
        let (done, hear) = channel();
        chain(&rt.handle(), LINKS, done);
        assert!(hear.recv_timeout(DEADLINE).is_ok(), "round {round}: a link was queued, and no lane ran it");
    }
    over.store(true, Relaxed);
    assert!(poller.join().is_ok());
}
