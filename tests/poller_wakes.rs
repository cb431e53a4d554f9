//! A lane whose pollers can all be woken parks, uses no cpu, and comes back for a ring, a descriptor, a stop or a deadline.

mod common;
use common::{Gate, LIMIT, os, pairs, parked, within};
use std::io::Write;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};
use twolane::{PollCx, Poller, PollerError, Progress, WakeBy, Where, poll_fn};

#[test]
fn a_ring_wakes_it_every_time() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mail, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (look, tell) = (Arc::clone(&mail), Arc::clone(&seen));
        let poller = rt
            .spawn_poller(
                Where::Any,
                "rung",
                poll_fn(move |_| match look.swap(0, SeqCst) {
                    0 => Progress::Idle,
                    n => {
                        tell.fetch_add(n, SeqCst);
                        Progress::Busy(n)
                    }
                })
                .ring(),
            )
            .unwrap();
        for n in 1..=20 {
            parked(&rt, 0);
            mail.store(1, SeqCst);
            poller.ring();
            common::until("the ring was heard", || seen.load(SeqCst) == n);
        }
        let lane = &rt.metrics().lanes[0];
        assert!(lane.parks >= 20 && lane.wakes >= 20, "{lane:?}");
    });
}

#[test]
fn a_descriptor_wakes_it_every_time() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(LIMIT)).unwrap();
        let echo = poll_fn({
            let server = server.try_clone().unwrap();
            move |_| {
                let mut packet = [0; 64];
                match server.recv_from(&mut packet) {
                    Ok((length, from)) => {
                        server.send_to(&packet[..length], from).unwrap();
                        Progress::Busy(1)
                    }
                    Err(_) => Progress::Idle,
                }
            }
        });
        let poller = rt.spawn_poller(Where::Any, "echo", echo.fd(&server).unwrap()).unwrap();
        for n in 0..20_u8 {
            parked(&rt, 0);
            client.send(&[n]).unwrap();
            let mut back = [0xff];
            assert_eq!((client.recv(&mut back).unwrap(), back[0]), (1, n));
        }
        common::until("all are counted", || poller.stats().events == 20);
        assert_eq!(rt.metrics().lanes[0].wakes, rt.metrics().lanes[0].wakes.min(1), "the kernel woke it, nobody rang");
        poller.ring(); // and a ring gets through epoll, too
        poller.stop();
        assert!(poller.join().is_ok());
    });
}

#[test]
fn rings_and_descriptors_wake_the_same_lane() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mut write, read) = UnixStream::pair().unwrap();
        read.set_nonblocking(true).unwrap();
        let by_fd = poll_fn({
            let read = read.try_clone().unwrap();
            move |_| match std::io::Read::read(&mut &read, &mut [0; 8]) {
                Ok(_) => Progress::Busy(1),
                Err(_) => Progress::Idle,
            }
        });
        let by_fd = rt.spawn_poller(Where::Any, "fd", by_fd.fd(read).unwrap()).unwrap();
        let mail = Arc::new(AtomicU32::new(0));
        let look = Arc::clone(&mail);
        let by_ring = poll_fn(move |_| if look.swap(0, SeqCst) > 0 { Progress::Busy(1) } else { Progress::Idle });
        let by_ring = rt.spawn_poller(Where::Any, "ring", by_ring.ring()).unwrap();
        for n in 1..=5 {
            parked(&rt, 0);
            mail.store(1, SeqCst);
            by_ring.ring();
            common::until("the ring was heard", || by_ring.stats().events == n);
            parked(&rt, 0);
            write.write_all(&[1]).unwrap();
            common::until("the byte was read", || by_fd.stats().events == n);
        }
        // A descriptor that leaves with its poller wakes nobody any more.
        by_fd.stop();
        drop(by_fd.join());
        parked(&rt, 0);
        let parks = rt.metrics().lanes[0].parks;
        let _ = write.write_all(&[1]);
        parked(&rt, 0);
        assert_eq!(rt.metrics().lanes[0].parks, parks);
    });
}

#[test]
fn it_uses_no_cpu_while_it_is_parked() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("idle").build().unwrap();
        let _poller = common::keep_for_polling(&rt, 0);
        parked(&rt, 0);
        parked(&rt, 1);
        let lanes = rt.metrics().lanes;
        let used = || -> Duration { os::named("idle-").iter().map(|thread| os::cpu_time(thread.tid)).sum() };
        let (before, began) = (used(), Instant::now());
        std::thread::sleep(Duration::from_millis(300)); // the idleness that is measured
        let spent = used() - before;
        let now = rt.metrics().lanes;
        assert!(now[0].passes == lanes[0].passes && now[1].parks == lanes[1].parks, "somebody woke up");
        assert!(spent * 1_000 <= began.elapsed(), "{spent:?} of cpu time in {:?}", began.elapsed());
    });
}

#[test]
fn a_poller_that_cannot_be_woken_keeps_the_lane_awake() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let poller = rt.spawn_poller(Where::Any, "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        let _other = rt.spawn_poller(Where::Any, "would park", common::quiet()).unwrap();
        common::until("it is called very often", || poller.stats().calls > 200_000);
        assert_eq!(rt.metrics().lanes[0].parks, rt.metrics().lanes[0].parks.min(1), "only before they came");
    });
}

#[test]
fn call_after_is_kept_by_a_parked_lane() {
    const DELAY: Duration = Duration::from_millis(30);
    for with_fd in [false, true] {
        within(LIMIT, move || {
            let rt = pairs(1).build().unwrap();
            let (asked, called) = (Gate::default(), Gate::default());
            let (ask, tell) = (asked.clone(), called.clone());
            let mut due: Option<Duration> = None;
            let timed = poll_fn(move |cx: &mut PollCx<'_>| match due {
                _ if called_early(cx, due) => Progress::Idle,
                None => {
                    due = Some(cx.now() + DELAY);
                    cx.call_after(DELAY * 100);
                    cx.call_after(DELAY); // the earliest counts
                    ask.open();
                    Progress::Idle
                }
                Some(_) => {
                    tell.open();
                    Progress::Done
                }
            });
            let (_write, read) = UnixStream::pair().unwrap();
            let timed = if with_fd { timed.fd(read).unwrap() } else { timed.ring() };
            let poller = rt.spawn_poller(Where::Any, "timed", timed).unwrap();
            asked.wait();
            called.wait();
            assert!(poller.join().is_ok());
            let lane = &rt.metrics().lanes[0];
            assert!(lane.parked >= DELAY / 3, "it was awake all the time: {lane:?}");
        });
    }

    /// Calls before the time come of the lane's own accord and change nothing, except that a request holds for one call.
    fn called_early(cx: &mut PollCx<'_>, due: Option<Duration>) -> bool {
        let early = due.is_some_and(|due| cx.now() < due);
        if early {
            cx.call_after(due.unwrap() - cx.now());
        }
        early
    }
}

#[test]
fn a_regular_file_is_no_way_to_be_woken() {
    struct File(OwnedFd);
    impl Poller for File {
        fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
            unreachable!("it was not adopted")
        }
        fn wake_by(&self) -> WakeBy<'_> {
            WakeBy::Fd(std::os::fd::AsFd::as_fd(&self.0))
        }
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let file = File(tempfile::tempfile().unwrap().into());
        let error = rt.spawn_poller(Where::Any, "file", file).unwrap().join().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("give one that can be polled, such as a socket"), "{error}");
        let PollerError::Unwakeable(_) = error else { panic!("{error}") };
        assert_eq!(rt.metrics().live_pollers, 0);
        assert_eq!(rt.metrics().lanes[0].panics, 0);
        let _poller = common::keep_for_polling(&rt, 0);
    });
}
