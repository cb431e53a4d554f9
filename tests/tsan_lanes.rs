//! All that lanes do, in one program without libtest, for ThreadSanitizer (`.ci/tsan`): submitting, joining, waking, hand-offs, pollers, the end. Run without
//! it, it is one more test.

#[cfg(twolane_loom)]
fn main() {}

#[cfg(not(twolane_loom))]
fn main() {
    for round in 0..ROUNDS {
        lanes::everything(round);
    }
    println!("{ROUNDS} rounds");
}

/// Enough for each path to meet the others; a round takes milliseconds.
#[cfg(not(twolane_loom))]
const ROUNDS: usize = 40;

#[cfg(not(twolane_loom))]
mod lanes {
    use std::future::poll_fn as poll_future;
    use std::sync::Arc;
    use std::task::{Poll, Waker};
    use std::thread;
    use std::time::Duration;

    // std's mutex is slow-pathed in the precompiled std, which ThreadSanitizer does not see.
    use parking_lot::Mutex;
    use twolane::{Handle, LaneInfo, PollCx, Progress, Runtime, Where, poll_fn};

    const EACH: usize = 50;

    pub fn everything(round: usize) {
        let rt = Runtime::builder()
            .allow_unpinned(true)
            .env_overrides(false)
            .park_after(Duration::from_micros(50))
            .build()
            .expect("a runtime on any machine");
        thread::scope(|scope| {
            scope.spawn(|| submits(&rt));
            scope.spawn(|| wakes(&rt));
            scope.spawn(|| polls(&rt));
            scope.spawn(|| aborts(&rt));
        });
        // Some are left to the end.
        for _ in 0..EACH {
            drop(rt.spawn_compute(|| vec![0_u8; 100]));
            drop(rt.spawn(std::future::pending::<()>()));
        }
        let deadline = if round % 4 == 0 { Duration::ZERO } else { Duration::from_secs(20) };
        let report = rt.shutdown(deadline);
        assert!(round % 4 == 0 || report.is_ok(), "{report:?}");
    }

    /// Values move there and back, from outside and from tasks.
    fn submits(handle: &Handle) {
        for number in 0..EACH {
            let inner = handle.clone();
            let boxed = Box::new(number);
            let sum = handle.spawn_compute(move || {
                let more = inner.spawn_compute(move || Box::new(*boxed + 1));
                more.join().map(|more| *more).ok()
            });
            if let Some(sum) = sum.join().expect("no panic, no abort") {
                assert_eq!(sum, number + 1);
            }
        }
    }

    /// A future that passes values by a plain mutex and is woken from here.
    fn wakes(handle: &Handle) {
        let shared: Arc<Mutex<(usize, Option<Waker>)>> = Arc::default();
        let inside = shared.clone();
        let future = handle.spawn(poll_future(move |cx| {
            let mut it = inside.lock();
            it.1 = Some(cx.waker().clone());
            if it.0 == EACH { Poll::Ready(it.0) } else { Poll::Pending }
        }));
        for _ in 0..EACH {
            let waker = {
                let mut it = shared.lock();
                it.0 += 1;
                it.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
            thread::yield_now();
        }
        assert_eq!(handle.block_on(future).expect("outside the lanes").expect("no panic"), EACH);
    }

    /// Pollers that hand off, are rung, and come back with what they counted.
    fn polls(handle: &Handle) {
        for _ in 0..EACH / 10 {
            let mut boxed = Box::new(0);
            let counts = poll_fn(move |cx: &mut PollCx<'_>| {
                *boxed += 1;
                let value = boxed.clone();
                drop(cx.spawn_compute(move || *value));
                if *boxed < 20 { Progress::Busy(1) } else { Progress::Idle }
            });
            let rung = handle.spawn_poller(Where::Any, "ring", counts.ring().lend_while_armed(true)).expect("it runs");
            let built = handle.spawn_poller_with(Where::Any, "built", |_: &LaneInfo| {
                let here = std::rc::Rc::new(0);
                Ok::<_, std::io::Error>(
                    move |_: &mut PollCx<'_>| {
                        if *here == 0 { Progress::Idle } else { Progress::Done }
                    },
                )
            });
            thread::yield_now();
            rung.ring();
            rung.stop();
            drop(rung.join().expect("no panic"));
            let built = built.expect("it runs");
            built.stop();
            built.join().expect("no panic");
        }
    }

    fn aborts(handle: &Handle) {
        for number in 0..EACH {
            let token = Arc::new(number);
            let inside = token.clone();
            let task = handle.spawn(async move {
                std::future::pending::<()>().await;
                drop(inside);
            });
            if number % 2 == 0 {
                thread::yield_now();
            }
            task.abort();
            assert!(task.join().is_err());
            let task = handle.spawn_compute(move || *token);
            task.abort();
            drop(task.join());
        }
    }
}
