//! A runtime that ends while threads submit, wake, adopt and join: everybody gets an answer, and no thread stays.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::future::poll_fn as poll_future;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use stress_common::{Random, Watchdog, builder, scaled};
use twolane::{Progress, Where, poll_fn};

#[test]
fn everybody_gets_an_answer() {
    for round in 0..scaled(150) {
        let rt = builder().build().unwrap();
        let watchdog = Watchdog::new(rt.handle());
        let began = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..4)
            .map(|me| {
                let (handle, watchdog, began) = (rt.handle(), watchdog.clone(), began.clone());
                thread::spawn(move || {
                    let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
                    loop {
                        began.fetch_add(1, Relaxed);
                        let result = match me {
                            0 => watchdog.watch(me, || handle.spawn_compute(|| {}).join()),
                            1 => {
                                let kept = wakers.clone();
                                let mut polls = 0;
                                let future = handle.spawn(poll_future(move |cx| {
                                    polls += 1;
                                    kept.lock().unwrap().push(cx.waker().clone());
                                    if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
                                }));
                                watchdog.watch(me, || {
                                    while !future.is_finished() {
                                        let wakers = std::mem::take(&mut *wakers.lock().unwrap());
                                        wakers.into_iter().for_each(Waker::wake);
                                        thread::yield_now();
                                    }
                                    future.join()
                                })
                            }
                            2 => match handle.spawn_poller(Where::Any, "p", poll_fn(|_| Progress::Idle).ring()) {
                                Ok(poller) => {
                                    poller.stop();
                                    // Dropped by the shutdown or stopped by us.
                                    drop(watchdog.watch(me, || poller.join()));
                                    continue;
                                }
                                Err(_) => return,
                            },
                            _ => {
                                // A future that never ends by itself.
                                let future = handle.spawn(std::future::pending::<()>());
                                future.abort();
                                drop(watchdog.watch(me, || future.join()));
                                match handle.try_spawn_compute(|| {}) {
                                    Ok(_) => continue,
                                    Err(_) => return,
                                }
                            }
                        };
                        match result {
                            Ok(()) => {}
                            Err(error) => return assert!(error.is_cancelled(), "{error}"),
                        }
                    }
                })
            })
            .collect();
        watchdog.until(4, || began.load(Relaxed) > 4);
        thread::sleep(Duration::from_micros(Random::new(round).below(3_000)));
        let deadline = if round % 3 == 0 { Duration::ZERO } else { Duration::from_secs(5) };
        let report = rt.shutdown(deadline);
        if round % 3 != 0 {
            report.unwrap();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
