//! `twolane doctor` names what is wrong with a machine, and what to type, and exits by severity.
#![cfg(all(feature = "cli", feature = "sim"))]

mod cli_run;

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use cli_run::{assert_refused, command, look, machine, run};
use serde_json::Value;
use tempfile::TempDir;
use twolane::sim::dsa::tree::{Device, DsaTree, Queue};
use twolane::sim::host::{GroupVersion, HostTree};

/// A machine with nothing to complain about: its clock is good, and it waits as it should.
fn healthy(tree: &HostTree, more_flags: &str) -> TempDir {
    let dir = machine(tree);
    let path = dir.path().join("proc/cpuinfo");
    let cpuinfo = fs::read_to_string(&path).unwrap();
    fs::write(path, cpuinfo.replace("fpu", &format!("fpu constant_tsc nonstop_tsc {more_flags}"))).unwrap();
    put(dir.path(), "sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
    dir
}

/// Writes a file with all directories above it.
fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn as_json(dir: &Path) -> (Option<i32>, Value) {
    let said = look("doctor", dir, &["--json"]);
    (said.code, serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}")))
}

fn finding<'a>(report: &'a Value, id: &str) -> Option<&'a Value> {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == id)
}

/// The machine has the finding, of that severity, with a remedy that says `remedy`, in JSON and in print.
#[track_caller]
fn assert_found(dir: &Path, id: &str, severity: &str, remedy: &str) {
    let (code, report) = as_json(dir);
    let found = finding(&report, id).unwrap_or_else(|| panic!("no {id} in {report:#}"));
    assert_eq!(found["severity"], severity, "{found:#}");
    let lines = found["remedy"].as_array().unwrap();
    assert!(lines.iter().any(|line| line.as_str().unwrap().contains(remedy)), "{remedy:?} in {found:#}");
    let worst = report["worst"].as_str().unwrap();
    let wanted = match worst {
        "ok" | "info" => 0,
        "warning" => 1,
        _ => 2,
    };
    assert_eq!((code, &report["exit_code"]), (Some(wanted), &wanted.into()), "by {worst}");
    let printed = look("doctor", dir, &[]);
    assert!(printed.code == code && printed.out.contains(remedy), "{remedy:?} in {printed:?}");
}

#[test]
fn a_healthy_machine_is_0_and_warnings_are_1_and_errors_are_2() {
    let good = healthy(&HostTree::adjacent(4, 2), "");
    let (code, report) = as_json(good.path());
    assert_eq!((code, &report["worst"]), (Some(0), &"info".into()), "{report:#}");

    let hidden = healthy(&HostTree::adjacent(4, 1).hypervisor(), "");
    assert_eq!(as_json(hidden.path()).0, Some(1));

    let nothing = tempfile::tempdir().unwrap();
    assert_found(nothing.path(), "machine.unreadable", "error", "mount -t sysfs");
    assert_eq!(as_json(nothing.path()).0, Some(2));
}

#[test]
fn json_has_the_keys_that_the_help_promises() {
    let dir = healthy(&HostTree::apart(4, 2).isolated("3,7").affinity("0-2,4-6"), "waitpkg");
    let (_, report) = as_json(dir.path());
    assert_eq!(report["format"], 1);
    assert_eq!(report["root"], dir.path().to_str().unwrap());
    let machine = &report["machine"];
    assert_eq!(
        (&machine["online"], &machine["allowed"], &machine["isolated"]),
        (&"0-7".into(), &"0-2,4-6".into(), &"3,7".into())
    );
    assert_eq!(
        (&machine["cores"], &machine["siblings"], &machine["hypervisor"]),
        (&4.into(), &"visible".into(), &false.into())
    );
    assert!(machine["quota"].is_null());
    assert_eq!(report["instructions"]["waitpkg"], true);
    assert_eq!(report["instructions"]["enqcmd"], false);
    assert!(report["waits"].is_null(), "another machine's waits cannot be tried");
    assert_eq!(report["work_queues"], Value::Array(Vec::new()));
    for finding in report["findings"].as_array().unwrap() {
        for key in ["id", "topic", "severity", "what", "why"] {
            assert!(finding[key].is_string(), "{key} of {finding:#}");
        }
        assert!(finding["remedy"].is_array() && finding["seen_on_hardware"].is_boolean(), "{finding:#}");
    }
}

#[test]
fn what_lanes_of_this_machine_would_wait_with_and_what_they_were_told() {
    for (told, id) in [(None, None), (Some("pause"), Some("waits.told")), (Some("light"), Some("waits.told"))] {
        let doctor = |more: &[&str]| {
            let mut command = command(&[&["doctor"], more].concat());
            if let Some(told) = told {
                command.env("TWOLANE_WAIT", told);
            }
            run(&mut command)
        };
        let report: Value = serde_json::from_str(&doctor(&["--json"]).out).unwrap();
        let waits = &report["waits"];
        assert_eq!(waits["wanted"], told.unwrap_or("auto"));
        assert!(waits["cpu"].is_u64() && waits["overshoot_ns"].is_u64(), "{waits:#}");
        // Where it is PAUSE only it says why, and then no store ends a wait either.
        let pause_only = waits["instructions"] == "PAUSE";
        assert_eq!(pause_only, waits["why_pause"].is_string(), "{waits:#}");
        assert!(!pause_only || waits["why_no_monitor"].is_string(), "{waits:#}");
        assert!(told != Some("pause") || pause_only, "{waits:#}");
        assert_eq!(finding(&report, "waits.told").is_some(), id.is_some(), "{report:#}");
        let lanes = finding(&report, "waits.lanes").unwrap();
        assert!(lanes["what"].as_str().unwrap().contains(waits["instructions"].as_str().unwrap()), "{lanes:#}");
        let printed = doctor(&[]).out;
        assert!(printed.contains("Lanes here wait with"), "{printed}");
        assert_eq!(printed.contains("unset TWOLANE_WAIT"), id.is_some(), "{printed}");
    }
    assert_refused(&run(command(&["doctor"]).env("TWOLANE_WAIT", "umwait")), &["TWOLANE_WAIT=umwait", "pause"]);
}

/// A variable that keeps every runtime from being built is no detail, and blanks around a value are none.
#[test]
fn the_environment_is_read_as_a_runtime_reads_it() {
    for (name, value, words) in [
        ("TWOLANE_PAIRS", "many", &["TWOLANE_PAIRS=many", "whole number"][..]),
        ("TWOLANE_PAIR", "1", &["TWOLANE_PAIR=1", "no such variable"]),
        ("TWOLANE_PAIRS", "0", &["`pairs` is 0", "TWOLANE_PAIRS=0"]),
        ("TWOLANE_MEAN_ADDED", "9s", &["mean_added is 9s", "TWOLANE_MEAN_ADDED=9s"]),
    ] {
        assert_refused(&run(command(&["doctor"]).env(name, value)), words);
    }
    let said = run(command(&["doctor", "--json"]).env("TWOLANE_WAIT", " pause "));
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert_eq!(report["waits"]["wanted"], "pause");
}

#[test]
fn hidden_siblings() {
    let dir = healthy(&HostTree::adjacent(4, 1).hypervisor(), "");
    assert_found(dir.path(), "siblings.hidden", "warning", "-smp 4,sockets=1,cores=2,threads=2");
    let (_, report) = as_json(healthy(&HostTree::adjacent(2, 2).hypervisor(), "").path());
    assert!(finding(&report, "siblings.hidden").is_none(), "they are shown");
}

#[test]
fn smt_switched_off() {
    let dir = healthy(&HostTree::apart(4, 2).smt_off(), "");
    assert_found(dir.path(), "siblings.off", "info", "echo on > /sys/devices/system/cpu/smt/control");
}

#[test]
fn a_mask_that_splits_cores() {
    let dir = healthy(&HostTree::apart(4, 2).affinity("0-2,4"), "");
    assert_found(dir.path(), "process.split-cores", "warning", "taskset -c 0-2,4-6 SERVICE");
}

#[test]
fn a_quota_below_the_lanes() {
    for (version, remedy) in [
        (GroupVersion::V1, "echo '200000' > /sys/fs/cgroup/cpu/pod/cpu.cfs_quota_us"),
        (GroupVersion::V2, "echo '200000 100000' > /sys/fs/cgroup/pod/cpu.max"),
    ] {
        let tree = HostTree::adjacent(4, 2).groups(version, "/pod").quota("/pod", 150_000, 100_000);
        assert_found(healthy(&tree, "").path(), "quota.below-lanes", "warning", remedy);
    }
    // Enough for some pairs: worth knowing, and fine.
    let some = HostTree::adjacent(4, 2).groups(GroupVersion::V2, "/pod").quota("/pod", 200_000, 50_000);
    let dir = healthy(&some, "");
    assert_found(dir.path(), "quota.fewer-lanes", "info", "echo '400000 50000' > /sys/fs/cgroup/pod/cpu.max");
    assert_eq!(as_json(dir.path()).0, Some(0));
}

#[test]
fn a_group_that_was_throttled() {
    let tree = HostTree::adjacent(4, 2).groups(GroupVersion::V2, "/pod").quota("/pod", 400_000, 50_000);
    let dir = healthy(&tree, "");
    let stat = "sys/fs/cgroup/pod/cpu.stat";
    put(dir.path(), stat, "usage_usec 5\nnr_periods 90\nnr_throttled 0\n");
    assert_eq!(as_json(dir.path()).0, Some(0));
    put(dir.path(), stat, "usage_usec 5\nnr_periods 90\nnr_throttled 7\n");
    assert_found(dir.path(), "quota.throttled", "warning", "watch -d grep throttled /sys/fs/cgroup/pod/cpu.stat");
}

#[test]
fn a_real_time_class() {
    let dir = healthy(&HostTree::adjacent(4, 2), "");
    let stat = |policy| {
        let zeros = |count| vec!["0"; count].join(" ");
        format!("7 (a) b) R {} {policy} {}\n", zeros(37), zeros(11))
    };
    put(dir.path(), "proc/self/stat", &stat(0));
    assert_eq!(as_json(dir.path()).0, Some(0));
    put(dir.path(), "proc/self/stat", &stat(1));
    assert_found(dir.path(), "process.real-time", "warning", "chrt --other 0");
}

#[test]
fn isolated_cpus() {
    let dir = healthy(&HostTree::adjacent(4, 2).isolated("4-7").affinity("0-3"), "");
    assert_found(dir.path(), "isolation.unused", "info", "TWOLANE_CPUS=4-7");
    assert_found(dir.path(), "isolation.ticks", "info", "nohz_full=4-7 rcu_nocbs=4-7");
    put(dir.path(), "sys/devices/system/cpu/nohz_full", "4-7\n");
    let (_, report) = as_json(dir.path());
    assert!(finding(&report, "isolation.clear").is_some(), "nohz_full brings rcu_nocbs with it: {report:#}");

    let only = healthy(&HostTree::adjacent(4, 2).isolated("4-7").affinity("4-7"), "");
    assert_found(only.path(), "isolation.no-balance", "warning", "taskset -c ORDINARY,4-7");
}

#[test]
fn limits_on_wait_instructions() {
    const MAX_TIME: &str = "sys/devices/system/cpu/umwait_control/max_time";
    const ENABLE_C02: &str = "sys/devices/system/cpu/umwait_control/enable_c02";
    let dir = healthy(&HostTree::adjacent(4, 2), "waitpkg");
    put(dir.path(), ENABLE_C02, "1\n");
    for (max_time, id) in [("100000", "umwait.limit"), ("0", "umwait.unlimited"), ("400", "umwait.short")] {
        put(dir.path(), MAX_TIME, max_time);
        let (_, report) = as_json(dir.path());
        assert_eq!(finding(&report, id).unwrap()["seen_on_hardware"], false);
    }
    put(dir.path(), MAX_TIME, "0\n");
    assert_found(
        dir.path(),
        "umwait.unlimited",
        "warning",
        "echo 100000 > /sys/devices/system/cpu/umwait_control/max_time",
    );
    put(dir.path(), ENABLE_C02, "0\n");
    assert_found(dir.path(), "umwait.no-c02", "warning", "echo 1 > /sys/devices/system/cpu/umwait_control/enable_c02");

    // Without the instructions nobody asks for their limits.
    let without = healthy(&HostTree::adjacent(4, 2), "");
    put(without.path(), MAX_TIME, "0\n");
    assert!(finding(&as_json(without.path()).1, "umwait.unlimited").is_none());
}

#[test]
fn a_clock_that_is_none() {
    let dir = healthy(&HostTree::adjacent(4, 2), "");
    let sources = "sys/devices/system/clocksource/clocksource0";
    put(dir.path(), &format!("{sources}/current_clocksource"), "hpet\n");
    assert_found(dir.path(), "clock.slow-source", "warning", "dmesg");
    put(dir.path(), &format!("{sources}/available_clocksource"), "tsc hpet acpi_pm\n");
    assert_found(dir.path(), "clock.slow-source", "warning", "echo tsc > /sys/devices/system/clocksource");

    let unstated = machine(&HostTree::adjacent(4, 2));
    assert!(finding(&as_json(unstated.path()).1, "clock.not-invariant").is_some());
}

#[test]
fn no_work_queue() {
    let dir = healthy(&HostTree::adjacent(4, 2), "");
    for step in ["intel_iommu=on,sm_on", "modprobe idxd", "accel-config enable-wq dsa0/wq0.0"] {
        assert_found(dir.path(), "queues.none", "info", step);
    }
    put(dir.path(), "proc/cmdline", "quiet intel_iommu=on,sm_on\n");
    assert!(!look("doctor", dir.path(), &[]).out.contains("sm_on"), "what is there need not be typed");
    put(dir.path(), "sys/bus/pci/devices/0000:6a:01.0/vendor", "0x8086\n");
    put(dir.path(), "sys/bus/pci/devices/0000:6a:01.0/device", "0x0b25\n");
    assert_found(dir.path(), "queues.no-driver", "info", "modprobe idxd");
}

#[test]
fn work_queues_one_by_one() {
    let dir = healthy(&HostTree::adjacent(4, 2), "movdir64b enqcmd");
    let root = dir.path();
    let device = Device::v1(2).queue(Queue::shared(16).label("mine").node_mode(0o666));
    let tree = DsaTree::new().device(device).analytics(3).write(root).unwrap();
    let (code, report) = as_json(root);
    assert_eq!((code, finding(&report, "queues.usable").is_some()), (Some(0), true), "{report:#}");
    let queue = &report["work_queues"][0];
    assert_eq!((&queue["name"], &queue["device"], &queue["mode"]), (&"wq2.0".into(), &"dsa2".into(), &"shared".into()));
    assert_eq!((&queue["label"], &queue["size"], &queue["type"]), (&"mine".into(), &16.into(), &"user".into()));
    assert_eq!(
        (&queue["node"]["mode"], &queue["node"]["open_to_us"]),
        (&"666".into(), &Value::Null),
        "nobody in sight"
    );

    let set = |attribute: &str, text: &str| tree.set(attribute, text).unwrap();
    set("dsa2/wq2.0/state", "disabled");
    assert_found(root, "queues.not-enabled", "info", "accel-config enable-wq dsa2/wq2.0");
    set("dsa2/cmd_status", "0x80060000");
    assert_found(root, "queues.not-enabled", "info", "accel-config config-wq dsa2/wq2.0 --threshold=15");
    let what = finding(&as_json(root).1, "queues.not-enabled").unwrap()["what"].to_string();
    assert!(what.contains("the queue is shared and has no threshold"), "{what}");
    set("dsa2/wq2.0/state", "enabled");
    set("dsa2/wq2.0/type", "kernel");
    assert_found(root, "queues.not-for-users", "info", "--type=user --driver-name=user");
    set("dsa2/wq2.0/type", "user");
    set("dsa2/wq2.0/size", "0");
    assert_found(root, "queues.misconfigured", "warning", "--wq-size=16");
    set("dsa2/wq2.0/size", "many");
    assert_found(root, "queues.unreadable", "warning", "by hand");
    set("dsa2/wq2.0/size", "16");
    set("dsa2/wq2.0/ats_disable", "1");
    assert_found(root, "queues.hides-faults", "warning", "echo 0 > /sys/bus/dsa/devices/dsa2/wq2.0/ats_disable");
    set("dsa2/wq2.0/ats_disable", "0");

    // A node of ours, seen by somebody else.
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap();
    let nobody = "Uid:\t9 4000000 9 9\nGid:\t9 4000000 9 9\nCapEff:\t0\n";
    put(root, "proc/self/status", &format!("{status}{nobody}"));
    assert_found(root, "queues.raw-io", "info", "setcap cap_sys_rawio+ep PROGRAM");
    assert_eq!(as_json(root).1["work_queues"][0]["node"]["open_to_us"], true);
    fs::set_permissions(tree.node("wq2.0"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_found(root, "queues.not-permitted", "warning", "chgrp GROUP /dev/dsa/wq2.0");
    fs::remove_file(tree.node("wq2.0")).unwrap();
    assert_found(root, "queues.no-node", "warning", "--device=/dev/dsa/wq2.0");

    set("dsa2/pasid_enabled", "0");
    assert_found(root, "queues.no-pasid", "warning", "intel_iommu=on,sm_on");
    set("dsa2/state", "halted");
    assert_found(root, "queues.device-halted", "warning", "accel-config disable-device dsa2");
    set("dsa2/pasid_enabled", "1");
    set("dsa2/state", "disabled");
    assert_found(root, "queues.device-disabled", "info", "accel-config enable-device dsa2");
    set("dsa2/state", "enabled");
    set("dsa2/wq2.0/type", "none");
    set("dsa2/wq2.0/state", "disabled");
    assert_found(root, "queues.unconfigured", "info", "accel-config enable-wq dsa2/wq2.0");
    let text = look("doctor", root, &[]).out;
    assert!(!text.contains("iax3") && !text.contains("wq2.7"), "what nobody configured is not told: {text}");
}

#[test]
fn queues_whose_instruction_is_missing() {
    let open = |queue: Queue| DsaTree::new().device(Device::v1(0).queue(queue.node_mode(0o666)));
    let dir = healthy(&HostTree::adjacent(4, 2), "movdir64b");
    open(Queue::shared(16)).write(dir.path()).unwrap();
    assert_found(dir.path(), "queues.no-enqcmd", "info", "--mode=dedicated");
    let dir = healthy(&HostTree::adjacent(4, 2), "enqcmd");
    open(Queue::dedicated(16)).write(dir.path()).unwrap();
    let report = as_json(dir.path()).1;
    let why = finding(&report, "queues.no-movdir64b").unwrap()["why"].to_string();
    assert!(why.contains("write(2)"), "{why}");
}

#[test]
fn work_queues_are_where_the_environment_says() {
    let dir = healthy(&HostTree::adjacent(4, 2), "");
    let tree = DsaTree::new().device(Device::v1(4).queue(Queue::dedicated(16))).write(dir.path()).unwrap();
    let said = run(command(&["doctor", "--json"])
        .env("TWOLANE_DSA_SYSFS", tree.places().sysfs)
        .env("TWOLANE_DSA_DEV", tree.places().nodes));
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(report["work_queues"][0]["name"], "wq4.0", "{report:#}");
    let relative = run(command(&["doctor"]).env("TWOLANE_DSA_DEV", "dev/dsa"));
    assert_refused(&relative, &["TWOLANE_DSA_DEV=dev/dsa", "absolute path"]);
}

#[test]
fn what_was_never_seen_is_said_and_what_of_it_is_here() {
    for (dir, here) in [
        (healthy(&HostTree::adjacent(4, 1), ""), "none of these"),
        (healthy(&HostTree::adjacent(4, 2), "waitpkg"), "this machine has: SMT siblings, WAITPKG."),
        (healthy(&HostTree::adjacent(4, 1), "mwaitx"), "this machine has: MWAITX."),
    ] {
        let (_, report) = as_json(dir.path());
        let unseen = finding(&report, "unseen").unwrap();
        let why = unseen["why"].as_str().unwrap();
        for what in ["SMT siblings", "WAITPKG", "MWAITX", "DSA", here] {
            assert!(why.contains(what), "{what:?} in {why:?}");
        }
    }
}

#[test]
fn this_machine() {
    let said = run(&mut command(&["doctor"]));
    assert!(matches!(said.code, Some(0 | 1)), "{said:?}");
    for topic in ["machine", "process", "isolation", "waits", "clock", "work queues", "never seen"] {
        assert!(said.out.lines().any(|line| line == topic), "{topic} in {said:?}");
    }
    let long = |line: &&str| line.chars().count() > 80 && !line.trim_start().starts_with('>');
    assert_eq!(said.out.lines().find(long), None, "fits a terminal, but for commands");
}

#[test]
fn sentences_end_once() {
    let nothing = tempfile::tempdir().unwrap();
    let said = look("doctor", nothing.path(), &[]);
    assert!(said.code == Some(2) && said.out.contains('?') && !said.out.contains("?."), "{said:?}");
    let said = run(&mut command(&["doctor", "--probe-seconds", "1"]));
    assert_refused(&said, &["not provided: --probe"]);
}

#[test]
fn help_is_no_failure() {
    for arguments in [&["--help"][..], &["doctor", "--help"], &["plan", "-h"], &["--version"]] {
        let said = run(&mut command(arguments));
        assert!(said.code == Some(0) && said.out.ends_with('\n') && said.err.is_empty(), "{said:?}");
    }
}

#[test]
fn wrong_options_are_one_line() {
    for (arguments, words) in [
        (&["doctor", "--fast"][..], &["'--fast'"][..]),
        (&["doctor", "--root"], &["--root"]),
        (&["doctor", "--root", "/no/such/place"], &["/no/such/place", "no such directory"]),
        (&["cure"], &["'cure'"]),
        (&[], &["doctor", "plan"]),
    ] {
        assert_refused(&run(&mut command(arguments)), words);
    }
}

#[test]
fn a_probe_measures_pairs_and_changes_nothing_else() {
    let plain = run(&mut command(&["doctor", "--json"]));
    let probed = run(&mut command(&["doctor", "--json", "--probe", "--probe-seconds", "0.1"]));
    assert_eq!(plain.code, probed.code, "a measurement is no finding: {probed:?}");
    let (plain, probed): (Value, Value) =
        (serde_json::from_str(&plain.out).unwrap(), serde_json::from_str(&probed.out).unwrap());
    assert!(plain["probes"].is_null());
    // By name: some tell counters that move.
    let ids = |report: &Value| -> Vec<Value> {
        report["findings"].as_array().unwrap().iter().map(|finding| finding["id"].clone()).collect()
    };
    assert_eq!(ids(&plain), ids(&probed));
    let pairs = probed["probes"].as_array().unwrap();
    for pair in pairs {
        assert_ne!(pair["cpus"][0], pair["cpus"][1], "{pair:#}");
        assert!(["seen", "denied", "unknown"].contains(&pair["stated"].as_str().unwrap()), "{pair:#}");
        let verdict = pair["verdict"].as_str().unwrap();
        assert!(["shared", "separate", "floating", "unclear"].contains(&verdict), "{pair:#}");
        if !pair["error"].is_null() {
            continue; // something of higher priority had a cpu
        }
        assert!(pair["says"].as_str().unwrap().starts_with(verdict), "{pair:#}");
        let count = |of: &str| pair[format!("{of}_windows")].as_u64().unwrap() as usize;
        let windows = pair["windows"].as_array().unwrap();
        assert_eq!(count("shared") + count("separate") + count("unclear"), windows.len(), "{pair:#}");
        for window in windows {
            assert_eq!(window["seen"] == "unclear", window["why"].is_string(), "{window:#}");
        }
        // The bound itself, and what the OS may need to run a thread on a busy machine.
        assert!(pair["took_ms"].as_f64().unwrap() < 100.0 + 500.0, "{pair:#}");
    }

    let told = run(&mut command(&["doctor", "--probe", "--probe-seconds", "0.05"])).out;
    let section = told.split("\nprobe\n").nth(1).unwrap_or_else(|| panic!("{told}"));
    let want = if pairs.is_empty() { "nothing to probe" } else { "not the hardware's word" };
    assert!(section.contains(want), "{section}");
}

#[test]
fn what_cannot_be_probed_is_one_line() {
    let dir = healthy(&HostTree::adjacent(4, 2), "");
    let root = dir.path().to_str().unwrap();
    for (arguments, words) in [
        (&["doctor", "--probe", "0,0"][..], &["--probe 0,0", "two different cpus"][..]),
        (&["doctor", "--probe", "0,65000"], &["cpu 65000", "taskset"]),
        (&["doctor", "--probe", "7"], &["'7'", "such as 2,3"]),
        (&["doctor", "--probe", "--root", root], &["--root names another"]),
        (&["doctor", "--probe", "0,1", "--probe-seconds", "0.01"], &["10ms", "50ms to 60s"]),
        (&["doctor", "--probe", "--probe-seconds=-1"], &["-1", "try 2"]),
        (&["doctor", "--probe-seconds", "1"], &["--probe"]),
    ] {
        assert_refused(&run(&mut command(arguments)), words);
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let dir = healthy(&HostTree::adjacent(4, 2), "");
    let (reader, writer) = UnixStream::pair().unwrap();
    drop(reader);
    let mut doctor = command(&["doctor", "--root", dir.path().to_str().unwrap()]);
    let output = doctor.stdout(OwnedFd::from(writer)).output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn a_full_disk_is_one() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(&["doctor"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot write the output"));
}
