//! Before a park every poller is armed, in order; one refusal keeps the lane awake, and those armed before are disarmed in reverse.

mod common;
use common::{LIMIT, pairs, parked, within};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use twolane::{PollCx, Poller, Progress, WakeBy, Where};

type Log = Arc<Mutex<Vec<String>>>;

struct Armed {
    name: &'static str,
    agrees: Arc<AtomicBool>,
    log: Log,
    /// What is written is only what happens around parks.
    polled: bool,
}

impl Armed {
    fn say(&self, what: &str) {
        self.log.lock().unwrap().push(format!("{what} {}", self.name));
    }
}

impl Poller for Armed {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        if self.polled {
            self.say("poll");
            self.polled = false;
        }
        if cx.stopping() { Progress::Done } else { Progress::Idle }
    }
    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Ring
    }
    fn before_wait(&mut self) {
        self.say("flush");
    }
    fn arm(&mut self) -> bool {
        self.polled = true;
        self.say("arm");
        self.agrees.load(SeqCst)
    }
    fn disarm(&mut self) {
        self.polled = false;
        self.say("disarm");
    }
}

fn armed(name: &'static str, agrees: &Arc<AtomicBool>, log: &Log) -> Armed {
    Armed { name, agrees: Arc::clone(agrees), log: Arc::clone(log), polled: false }
}

/// The part of the log from the last `flush a` on.
fn last_park(log: &Log) -> Vec<String> {
    let log = log.lock().unwrap();
    let at = log.iter().rposition(|line| line == "flush a").unwrap();
    log[at..].to_vec()
}

#[test]
fn the_story_of_a_park() {
    within(LIMIT, || {
        let rt = pairs(1).park_after(Duration::from_millis(5)).build().unwrap();
        let (yes, log) = (Arc::new(AtomicBool::new(true)), Log::default());
        let handles = ["a", "b", "c"].map(|name| rt.spawn_poller(Where::Any, name, armed(name, &yes, &log)).unwrap());
        common::until("all are adopted", || handles.iter().all(|handle| handle.stats().calls > 0));
        parked(&rt, 0);
        let before = ["flush a", "flush b", "flush c", "arm a", "arm b", "arm c"];
        let one_full_pass = ["poll a", "poll b", "poll c"];
        assert_eq!(last_park(&log), [&before[..], &one_full_pass[..]].concat(), "then it blocks");
        let parks = rt.metrics().lanes[0].parks;
        log.lock().unwrap().clear();
        handles[1].ring();
        common::until("it woke up", || rt.metrics().lanes[0].parks > parks && log.lock().unwrap().len() >= 3);
        assert_eq!(log.lock().unwrap()[..3], ["disarm c", "disarm b", "disarm a"]);
    });
}

#[test]
fn a_refusal_keeps_the_lane_awake_and_disarms_in_reverse() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (yes, no, log) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)), Log::default());
        let handles = [("a", &yes), ("b", &yes), ("refuses", &no), ("d", &yes)]
            .map(|(name, agrees)| rt.spawn_poller(Where::Any, name, armed(name, agrees, &log)).unwrap());
        common::until("all are adopted", || handles.iter().all(|handle| handle.stats().calls > 0));
        let parks = rt.metrics().lanes[0].parks;
        let refusals = rt.metrics().lanes[0].park_refusals;
        common::until("parks are refused", || rt.metrics().lanes[0].park_refusals >= refusals + 3);
        assert_eq!(rt.metrics().lanes[0].parks, parks, "it parked against a refusal");
        let story = {
            let log = log.lock().unwrap();
            let at = log.iter().rposition(|line| line == "arm refuses").unwrap();
            let at = log[..at].iter().rposition(|line| line == "arm refuses").unwrap_or(at); // a whole one
            log[at - 2..at + 3].to_vec()
        };
        assert_eq!(story, ["arm a", "arm b", "arm refuses", "disarm b", "disarm a"]);
        assert!(!log.lock().unwrap().contains(&"arm d".into()), "nobody is armed after a refusal");

        no.store(true, SeqCst);
        parked(&rt, 0);
    });
}
