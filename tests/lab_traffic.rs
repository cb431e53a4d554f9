//! Traffic: generated from a seed, or read from a file that may be wrong.
#![cfg(feature = "sim")]

use std::io::Write;
use twolane::sim::lab::Traffic;

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().prefix("trace").suffix(".txt").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

#[test]
fn equal_seeds_give_equal_traffic() {
    let make = |seed| Traffic::pareto(1_000, seed).arrivals().to_vec();
    assert_eq!(make(1), make(1));
    assert_ne!(make(1), make(2));
}

#[test]
fn rates_are_as_named() {
    const EVENTS: usize = 50_000;
    for (traffic, gap_ns) in [
        (Traffic::poisson(20_000, EVENTS, 1), 50_000.0),
        (Traffic::bursts(EVENTS, 1), 1e6 / 32.0 + 500.0 * 31.0 / 32.0),
        (Traffic::periodic(EVENTS, 1), 100_000.0),
        (Traffic::phase_locked(EVENTS, 1), 60_000.0),
        // On for a fifth of the time, with 5 us between events.
        (Traffic::on_off(EVENTS, 1), 25_000.0),
    ] {
        let got = *traffic.arrivals().last().unwrap() as f64 / EVENTS as f64;
        assert!((got / gap_ns - 1.0).abs() < 0.1, "{}: {got} ns apart, not {gap_ns}", traffic.name());
        assert!(traffic.arrivals().is_sorted());
    }
}

#[test]
fn a_recorded_trace_counts_from_its_first_arrival() {
    let trace = file("# captured\n5000000\n\n5000100\n 5000100\n5002000\n");
    let traffic = Traffic::replay(trace.path()).unwrap();
    let first = traffic.arrivals()[0];
    let offsets: Vec<u64> = traffic.arrivals().iter().map(|time| time - first).collect();
    assert_eq!(offsets, [0, 100, 100, 2_000]);
    assert!(traffic.name().starts_with("trace"), "{}", traffic.name());
}

#[test]
fn a_wrong_trace_is_an_error_that_names_the_line() {
    for (text, wanted) in [
        ("1\n2\n1.5\n", ":3: `1.5` is no whole number of nanoseconds"),
        ("10\n# then\n9\n", ":3: 9 is earlier than the line before; sort the file"),
        ("-1\n", ":1: `-1` is no whole number of nanoseconds"),
        ("# nothing\n", ": no arrival in it"),
    ] {
        let trace = file(text);
        let error = Traffic::replay(trace.path()).unwrap_err().to_string();
        assert_eq!(error, format!("{}{wanted}", trace.path().display()));
    }
    let missing = Traffic::replay("/nowhere/trace.txt".as_ref()).unwrap_err().to_string();
    assert!(missing.starts_with("/nowhere/trace.txt: "), "{missing}");
}
