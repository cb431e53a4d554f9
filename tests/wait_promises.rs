//! The end of the runtime interrupts whatever a lane does; and the tests that hold waiting to its promises are there.

mod common;
use common::{LIMIT, SOON, pairs, within};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use twolane::{Builder, LaneMetrics, Park, PollCx, Poller, Progress, Relief, Runtime, WaitWith, WakeBy, Where};

/// A poller that finds nothing.
struct Quiet {
    wake: Wake,
}

enum Wake {
    Never,
    Ring,
    Fd(UnixStream),
}

impl Poller for Quiet {
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        Progress::Idle
    }
    fn wake_by(&self) -> WakeBy<'_> {
        match &self.wake {
            Wake::Never => WakeBy::Never,
            Wake::Ring => WakeBy::Ring,
            Wake::Fd(stream) => WakeBy::Fd(stream.as_fd()),
        }
    }
}

/// Ends a runtime whose poll lane was seen in a state.
fn ends_from(what: &str, builder: Builder, wake: Wake, seen: fn(&LaneMetrics) -> bool) {
    let rt: Runtime = builder.build().unwrap();
    let poller = rt.spawn_poller(Where::Lane(0), "quiet", Quiet { wake }).unwrap();
    common::until(what, || seen(&rt.metrics().lanes[0]));
    rt.shutdown(SOON).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(poller.join().is_ok(), "{what}");
}

#[test]
fn a_shutdown_ends_whatever_a_lane_does() {
    within(LIMIT, || {
        let ms = Duration::from_millis;
        let minute = Duration::from_secs(60);
        let dozing = || pairs(1).relief(Relief::Always).wait_with(WaitWith::Pause).max_added(ms(10)).mean_added(ms(10));
        ends_from("it polls", pairs(1).relief(Relief::Off), Wake::Never, |lane| lane.passes > 1_000);
        ends_from("it dozes", dozing(), Wake::Never, |lane| lane.dozing > Duration::from_millis(1));
        let armed = dozing().park_after(minute);
        ends_from("it dozes, and could park", armed, Wake::Ring, |lane| lane.dozing > Duration::from_millis(1));
        let parking = || pairs(1).park(Park::WhenArmed).park_after(Duration::from_micros(1));
        ends_from("it is parked", parking(), Wake::Ring, |lane| lane.parks > 0);
        let (near, _far) = UnixStream::pair().unwrap();
        ends_from("it is parked on a descriptor", parking(), Wake::Fd(near), |lane| lane.parks > 0);
        let pausing = pairs(1).relief(Relief::Always).mean_added(Duration::ZERO);
        ends_from("it pauses", pausing, Wake::Never, |lane| lane.dozes > 100);
    });
}

#[test]
fn the_tests_that_the_table_names_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = fs::read_to_string(root.join("src/wait/README.md")).unwrap();
    let mut named = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, _, test, file, _] = cells[..] else { panic!("{row}") };
        let (Some(test), Some(file)) = (quoted(test), quoted(file)) else { continue }; // a heading
        let source = fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(source.contains(&format!("fn {test}(")), "{file} has no {test}");
        named += 1;
    }
    assert!(named > 40, "{named} tests");
    for invariant in 1..=11 {
        assert!(table.contains(&format!("| I{invariant}: ")), "I{invariant}");
    }
}

/// What stands between two backquotes, if that is the whole cell.
fn quoted(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}
