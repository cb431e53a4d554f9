//! Handles that are dropped, aborted and joined at random, from outside and from tasks: every closure and every future is dropped exactly once.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use stress_common::{Random, Watchdog, builder, scaled};
use twolane::{Handle, JoinHandle};

const THREADS: usize = 2;

/// Yields once, so that there is a moment in which it merely waits.
async fn yields(token: Arc<()>) {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
    drop(token);
}

fn one(handle: &Handle, random: &mut Random, token: Arc<()>) -> JoinHandle<()> {
    match random.below(4) {
        0 => handle.spawn_compute(move || drop(token)),
        1 => handle.spawn(yields(token)),
        2 => {
            let waits = handle.spawn(async move {
                std::future::pending::<()>().await;
                drop(token);
            });
            waits.abort();
            waits
        }
        _ => {
            let inner = handle.clone();
            // Joined on a lane: claimed, waited for, or given back.
            handle.spawn_compute(move || drop(inner.spawn_compute(move || drop(token)).join()))
        }
    }
}

#[test]
fn nothing_is_leaked_or_dropped_twice() {
    let rt = builder().build().unwrap();
    let watchdog = Watchdog::new(rt.handle());
    let token = Arc::new(());
    thread::scope(|scope| {
        for me in 0..THREADS {
            let (rt, watchdog, token) = (&rt, &watchdog, &token);
            scope.spawn(move || {
                let mut random = Random::new(me);
                for _ in 0..scaled(40_000) {
                    let handle = one(rt, &mut random, token.clone());
                    match random.below(4) {
                        0 => drop(handle),
                        1 => handle.abort(),
                        2 => drop(watchdog.watch(me, || handle.join())),
                        _ => {
                            random.gap();
                            handle.abort();
                            drop(watchdog.watch(me, || handle.join()));
                        }
                    }
                }
            });
        }
    });
    watchdog.until(0, || rt.metrics().live_futures == 0);
    rt.shutdown(Duration::from_secs(5)).unwrap();
    assert_eq!(Arc::strong_count(&token), 1);
}
