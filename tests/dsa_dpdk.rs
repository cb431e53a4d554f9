//! Debian's DPDK, its PMD `dma_idxd` as it is, on the device model: contents, order and statuses, judged by C programs that know nothing of the model.
//!
//! Needs `libdpdk-dev`, `pkg-config` and a C compiler; without them it is skipped and says so, unless `REQUIRE_DPDK=1`. `dmadev_autotest` needs the package `dpdk-dev` as well.
#![cfg(all(feature = "cli", feature = "sim", target_arch = "x86_64"))]

mod box_run;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use box_run::{Said, compile, dsa_box, ended, library, run};
use serde_json::Value;

const BATCH: u8 = 0x01;
const MEMMOVE: u8 = 0x03;
const MEMFILL: u8 = 0x04;
const SUCCESS: u8 = 0x01;

/// One cpu, no hardware, 64 MiB of ordinary memory, no files of its own.
const EAL: [&str; 9] = ["--no-pci", "--no-huge", "-m", "64", "--no-telemetry", "--no-shconf", "-l", "0", "--"];

/// The program of `tests/dpdk`. `None`: it cannot be made here, which has been told.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let flags = Command::new("pkg-config")
            .args(["--cflags", "--libs", "libdpdk"])
            .output()
            .ok()
            .filter(|output| output.status.success());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dma");
        let made = flags.and_then(|flags| {
            // Everything but the PMD's name is stable; submitting apart from the last job is marked as new in 22.11.
            let mut more: Vec<String> =
                String::from_utf8(flags.stdout).unwrap().split_whitespace().map(str::to_owned).collect();
            more.push("-DALLOW_EXPERIMENTAL_API".into());
            let sources = ["main.c", "rig.c", "good.c", "bad.c"]
                .map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dpdk").join(name));
            compile(&path, &sources, &more)
        });
        if made.is_none() {
            skip("no DPDK to compile with: apt-get install libdpdk-dev pkg-config gcc");
        }
        made.map(|()| (dir, path))
    });
    made.as_ref().map(|(_, path)| path.as_path())
}

fn skip(why: &str) {
    assert!(std::env::var_os("REQUIRE_DPDK").is_none(), "REQUIRE_DPDK is set, but {why}");
    eprintln!("skipped: {why}");
}

/// Runs a case in the box. `None`: skipped.
fn case(name: &str, options: &[&str]) -> Option<(Said, Value)> {
    let program = program()?;
    let dir = tempfile::tempdir().unwrap();
    let summary = dir.path().join("summary.json");
    let mut command = dsa_box(options);
    command.arg("--library").arg(library()).arg("--summary").arg(&summary).arg("--").arg(program).args(EAL).arg(name);
    let said = run(&mut command);
    assert_eq!(said.code, Some(0), "{name}: {}\n{}", said.out, said.err);
    assert!(said.out.contains(&format!("{name}: ok")), "{said:?}");
    let summary = serde_json::from_str(&fs::read_to_string(summary).unwrap()).unwrap();
    Some((said, summary))
}

#[test]
fn single_copies_of_every_awkward_size() {
    let Some((_, summary)) = case("single", &[]) else { return };
    assert_eq!(ended(&summary, MEMMOVE, SUCCESS), 30, "{summary:#}");
    assert_eq!(summary["all"]["batches"], 0);
}

#[test]
fn batches_of_every_size_and_a_fence() {
    let Some((_, summary)) = case("batch", &[]) else { return };
    assert_eq!((ended(&summary, BATCH, SUCCESS), &summary["all"]["batches"]), (32, &32.into()), "{summary:#}");
    assert_eq!(ended(&summary, MEMMOVE, SUCCESS), (2..=32).sum::<u64>() + 2);
}

#[test]
fn fills() {
    let Some((_, summary)) = case("fill", &[]) else { return };
    assert_eq!(ended(&summary, MEMFILL, SUCCESS), 72, "{summary:#}");
}

#[test]
fn the_ring_and_the_numbers_wrap_around() {
    let Some((_, summary)) = case("wrap", &[]) else { return };
    assert!(ended(&summary, MEMMOVE, SUCCESS) >= 70_000, "{summary:#}");
}

#[test]
fn a_full_queue_refuses_and_loses_nothing() {
    let Some((_, summary)) = case("full", &[]) else { return };
    assert_eq!((&summary["all"]["dropped"], &summary["all"]["lost"]), (&0.into(), &0.into()), "{summary:#}");
}

#[test]
fn two_devices_work_at_once() {
    let Some((_, summary)) = case("two", &["--devices", "2"]) else { return };
    let devices = summary["devices"].as_array().unwrap();
    let names: Vec<_> = devices.iter().map(|device| (&device["device"], &device["accepted"])).collect();
    assert_eq!(names, [(&"dsa0".into(), &200.into()), (&"dsa2".into(), &200.into())], "{summary:#}");
}

#[test]
fn a_device_of_version_2_does_the_same() {
    case("batch", &["--dsa-version", "2"]);
}

/// Alone and in a batch, with and without a fence. DPDK has a word for some statuses only.
#[test]
fn mistakes_are_told_with_the_specified_statuses() {
    let Some((_, summary)) = case("refused", &[]) else { return };
    assert_eq!([0x03, 0x13].map(|status| ended(&summary, MEMMOVE, status)), [4, 2], "{summary:#}");
    assert_eq!(ended(&summary, BATCH, 0x05), 2, "{summary:#}");
}

/// On a device that makes it easy for programs, and on one that takes every freedom but the garbage in statuses.
#[test]
fn injected_faults_are_told_with_the_specified_statuses() {
    for profile in [&[][..], &["--strict", "--tidy"]] {
        for (name, faults, opcode, status) in [
            ("absent-source", "page_absent=1", MEMMOVE, 0x03),
            ("refused-page", "page_refused=1", MEMMOVE, 0x04),
            ("list-fault", "list_fault=1", BATCH, 0x06),
            ("hardware-error", "hardware_error=1", MEMMOVE, 0x20),
        ] {
            let Some((_, summary)) = case(name, &[profile, &["--faults", faults]].concat()) else { return };
            assert_eq!(ended(&summary, opcode, status), 1, "{profile:?}: {summary:#}");
            assert_eq!(ended(&summary, MEMMOVE, SUCCESS), 0, "{profile:?}: {summary:#}");
        }
    }
}

/// Descriptors that come late, out of order between batches: whatever a device may do without failing.
#[test]
fn late_dispatch_changes_nothing() {
    case("batch", &["--faults", "late_dispatch=0.5", "--seed", "7"]);
    case("full", &["--faults", "late_dispatch=0.5", "--seed", "8"]);
}

/// Every freedom that the specification leaves but one: DPDK compares the whole status byte, bits 6 and 7 too, so those are left alone.
#[test]
fn a_strict_device_finds_nothing_to_complain_about() {
    for name in ["single", "batch", "fill", "full"] {
        let Some((_, summary)) = case(name, &["--strict", "--tidy", "--seed", "3"]) else { return };
        assert_eq!(summary["all"]["violations"], 0, "{name}: {summary:#}");
    }
    let Some((_, summary)) = case("refused", &["--strict", "--tidy", "--seed", "3"]) else { return };
    assert_ne!(summary["all"]["violations"], 0, "sizes that no queue takes: {summary:#}");
}

/// DPDK's own test of dmadev drivers. It gives a device a second for each answer, which is a hardware's measure: on a machine that does much else it may
/// fail for that, and is run again. What is wrong with the model fails each time.
#[test]
fn dmadev_autotest_passes() {
    if Command::new("dpdk-test").arg("--version").output().is_err() {
        return skip("no dpdk-test: apt-get install dpdk-dev");
    }
    const TIMES_MAX: u32 = 10;
    let dir = tempfile::tempdir().unwrap();
    let summary = dir.path().join("summary.json");
    let autotest = || {
        let mut command = dsa_box(&["--max-batch", "1024"]);
        command.arg("--library").arg(library()).arg("--summary").arg(&summary).arg("--");
        command.arg("dpdk-test").args(&EAL[..EAL.len() - 1]).env("DPDK_TEST", "dmadev_autotest");
        run(&mut command)
    };
    let mut said = autotest();
    for _ in 1..TIMES_MAX {
        if said.out.contains("Test OK") {
            break;
        }
        eprintln!("dmadev_autotest has failed, perhaps for want of time:\n{}\n{}", said.out, said.err);
        said = autotest();
    }
    assert!(said.out.contains("Test OK"), "{TIMES_MAX} times: {}\n{}", said.out, said.err);
    assert!(said.out.contains("wq0.0"), "it did not pick the device: {}", said.out);
    let summary: Value = serde_json::from_str(&fs::read_to_string(summary).unwrap()).unwrap();
    assert!(ended(&summary, MEMMOVE, SUCCESS) > 1000, "{summary:#}");
}
