//! `twolane dsa-box` runs a program with modelled devices, tells what became of its descriptors whatever it died of, and leaves nothing behind.
#![cfg(all(feature = "cli", feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // between fork and exec

mod box_run;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use box_run::{Said, compile, dsa_box, ended, library, run};
use serde_json::Value;

const MEMMOVE: u8 = 0x03;
const SUCCESS: u8 = 0x01;

/// The C program of `tests/box`, which knows nothing of the model. `None`: no compiler, which has been told.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<(tempfile::TempDir, PathBuf)>> = OnceLock::new();
    let made = PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("queue");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/box_run/queue.c");
        let made = compile(&path, &[source], &[]);
        if made.is_none() {
            eprintln!("skipped: no C compiler");
        }
        made.map(|()| (dir, path))
    });
    made.as_ref().map(|(_, path)| path.as_path())
}

/// A box in a directory for temporary files of its own, which has to be empty afterwards.
struct Boxed {
    dir: tempfile::TempDir,
}

impl Boxed {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = dsa_box(options);
        command
            .arg("--library")
            .arg(library())
            .arg("--summary")
            .arg(self.summary_path())
            .env("TMPDIR", self.temporary());
        command
    }

    fn temporary(&self) -> PathBuf {
        let path = self.dir.path().join("tmp");
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn summary_path(&self) -> PathBuf {
        self.dir.path().join("summary.json")
    }

    fn summary(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(self.summary_path()).unwrap()).unwrap()
    }

    #[track_caller]
    fn assert_nothing_is_left(&self) {
        let left: Vec<_> = fs::read_dir(self.temporary()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains("twolane-dsa-box"), "{mounts}");
    }
}

/// Runs a case of the C program. `None`: skipped.
fn case(options: &[&str], case: &[&str]) -> Option<(Said, Value)> {
    let program = program()?;
    let boxed = Boxed::new();
    let said = run(boxed.command(options).arg("--").arg(program).args(case));
    boxed.assert_nothing_is_left();
    Some((said, boxed.summary()))
}

#[track_caller]
fn assert_ok(said: &Said) {
    assert_eq!((said.code, said.out.lines().last()), (Some(0), Some("ok")), "{}\n{}", said.out, said.err);
}

#[test]
fn every_way_to_find_the_devices_finds_them() {
    for paths in ["auto", "redirect"] {
        let Some((said, summary)) = case(&["--paths", paths], &["write", "/dev/dsa/wq0.0"]) else { return };
        assert_ok(&said);
        assert_eq!(ended(&summary, MEMMOVE, SUCCESS), 1, "{paths}: {summary:#}");
        assert!(said.err.contains("MEMMOVE") && said.err.contains("SUCCESS"), "{said:?}");
    }
    let Some((said, _)) = case(&["--paths", "none"], &["write", "/dev/dsa/wq0.0"]) else { return };
    assert_ne!(said.code, Some(0), "the path is fixed: {said:?}");
    let Some((said, _)) = case(&["--paths", "none"], &["write", "$DSA_DEV_PATH/wq0.0"]) else { return };
    assert_ok(&said);
}

#[test]
fn a_namespace_shows_what_no_interposer_could() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let boxed = Boxed::new();
    // Builtins of a shell and a program that is started without the library.
    let script = "cat /sys/bus/dsa/devices/dsa0/version && env -u LD_PRELOAD ls /dev/dsa && test -c /dev/null && ls -d /sys/bus/pci";
    let said = run(boxed.command(&["--paths", "namespace"]).args(["--", "sh", "-c", script]));
    if said.code == Some(2) && said.err.contains("cannot be started") {
        return eprintln!("skipped: no right to a mount namespace: {}", said.err);
    }
    assert_eq!((said.code, &*said.out), (Some(0), "0x100\nwq0.0\nwq0.1\n/sys/bus/pci\n"), "{said:?}");
    assert!(!Path::new("/dev/dsa/wq0.0").exists() || Path::new("/dev/dsa").is_dir());
    boxed.assert_nothing_is_left();
}

#[test]
fn portals_writes_and_the_kernels_rules() {
    for name in ["write", "portal", "shared", "rules", "many"] {
        let node = if name == "shared" { "/dev/dsa/wq0.1" } else { "/dev/dsa/wq0.0" };
        let Some((said, _)) = case(&[], &[name, node]) else { return };
        assert_ok(&said);
    }
    let Some((said, summary)) = case(&["--unprivileged"], &["unprivileged", "/dev/dsa/wq0.0"]) else { return };
    assert_ok(&said);
    assert!(ended(&summary, MEMMOVE, SUCCESS) > 0, "{summary:#}");
}

#[test]
fn a_program_may_handle_and_block_the_signals_of_the_traps() {
    let Some((said, summary)) = case(&[], &["signals", "/dev/dsa/wq0.0"]) else { return };
    assert_ok(&said);
    assert_eq!(ended(&summary, MEMMOVE, SUCCESS), 1 + 3 + 1 + 1 + 10, "{summary:#}");
}

#[test]
fn a_child_has_no_portal_of_its_parents_and_gets_devices_of_its_own() {
    let Some((said, summary)) = case(&[], &["fork", "/dev/dsa/wq0.0"]) else { return };
    assert_ok(&said);
    let submitted: Vec<_> = summary["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["accepted"].as_u64().unwrap())
        .filter(|n| *n > 0)
        .collect();
    assert_eq!(submitted, [2, 2], "parent and child, each on a device of its own: {summary:#}");
}

#[test]
fn a_queue_of_another_process_is_busy() {
    let Some((said, _)) = case(&[], &["busy", "/dev/dsa/wq0.0"]) else { return };
    assert_ok(&said);
}

#[test]
fn a_crash_is_told_with_all_that_went_before() {
    let Some((said, summary)) = case(&[], &["crash", "/dev/dsa/wq0.0"]) else { return };
    assert_eq!((said.code, &summary["signal"]), (Some(128 + 11), &11.into()), "{said:?}");
    assert_eq!(ended(&summary, MEMMOVE, SUCCESS), 5, "{summary:#}");
    assert!(said.err.contains("killed by signal 11"), "{said:?}");
}

#[test]
fn the_exit_code_is_the_programs() {
    let boxed = Boxed::new();
    assert_eq!(run(boxed.command(&[]).args(["--", "sh", "-c", "exit 7"])).code, Some(7));
    boxed.assert_nothing_is_left();
}

#[test]
fn faults_come_as_often_as_asked_and_alike_for_a_seed() {
    let faults = |seed: &str| case(&["--faults", "page_absent=0.5", "--seed", seed], &["faults", "/dev/dsa/wq0.0"]);
    let Some((said, first)) = faults("1") else { return };
    assert_ok(&said);
    let absent = ended(&first, MEMMOVE, 0x03);
    assert!((20..80).contains(&absent), "{first:#}");
    let (Some((_, again)), Some((_, other))) = (faults("1"), faults("2")) else { return };
    assert_eq!(ended(&again, MEMMOVE, 0x03), absent);
    assert_ne!(other["all"]["bytes_written"], first["all"]["bytes_written"]);
}

#[test]
fn the_trace_has_a_line_for_each_descriptor() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.txt");
    let Some((said, _)) = case(&["--trace", trace.to_str().unwrap()], &["crash", "/dev/dsa/wq0.0"]) else { return };
    assert_eq!(said.code, Some(139));
    let trace = fs::read_to_string(trace).unwrap();
    let moves =
        trace.lines().filter(|line| line.contains("dsa0/wq0.0") && line.to_uppercase().contains("MEMMOVE")).count();
    assert_eq!(moves, 5, "{trace}");
}

/// An interrupt goes to the program, as from a terminal; the box stays, tells and tidies up.
#[test]
fn signals_reach_the_program_and_nothing_is_left() {
    let Some(program) = program() else { return };
    for signal in ["-INT", "-TERM", "-USR1", "-ALRM"] {
        let boxed = Boxed::new();
        let mut command = boxed.command(&[]);
        command.arg("--").arg(program).args(["hang", "/dev/dsa/wq0.0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, as a shell gives a job: the terminal's interrupt goes to all of it.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        // Whoever runs the tests in the background may ignore it, and what is ignored stays so for programs in a box.
        // SAFETY: between fork and exec, a system call.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut running = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(running.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "waiting\n");
        let to = if signal == "-INT" { format!("-{}", running.id()) } else { running.id().to_string() };
        assert!(Command::new("kill").args([signal, "--", &to]).status().unwrap().success());
        let until = Instant::now() + Duration::from_secs(60);
        while running.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "it hangs");
            std::thread::sleep(Duration::from_millis(10));
        }
        // A box that dies of the signal itself leaves its program, which would keep the pipes open.
        let _ =
            Command::new("kill").args(["-KILL", "--", &format!("-{}", running.id())]).stderr(Stdio::null()).status();
        let output = running.wait_with_output().unwrap();
        let wanted = match signal {
            "-INT" => 128 + libc::SIGINT,
            "-TERM" => 128 + libc::SIGTERM,
            "-USR1" => 128 + libc::SIGUSR1,
            _ => 128 + libc::SIGALRM,
        };
        assert_eq!(output.status.code(), Some(wanted), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(ended(&boxed.summary(), MEMMOVE, SUCCESS), 1);
        boxed.assert_nothing_is_left();
    }
}

/// A box that is killed cannot pass that on; the kernel tells the program.
#[test]
fn a_program_does_not_outlive_its_box() {
    let Some(program) = program() else { return };
    let boxed = Boxed::new();
    let mut command = boxed.command(&[]);
    command.arg("--").arg(program).args(["hang", "/dev/dsa/wq0.0"]).stdout(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let mut out = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "waiting\n");
    running.kill().unwrap();
    running.wait().unwrap();
    // The program holds the other end of the pipe as long as it lives.
    let (ended, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || ended.send(std::io::copy(&mut out, &mut std::io::sink()).is_ok()));
    assert_eq!(wait.recv_timeout(Duration::from_secs(60)), Ok(true), "it runs on");
}

/// Refuses with one line that holds all of `words`, runs nothing and leaves nothing.
#[track_caller]
fn assert_refused(command: &mut Command, words: &[&str]) {
    let said = run(command);
    assert_eq!((said.code, &*said.out), (Some(2), ""), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "one line: {said:?}");
    words.iter().for_each(|word| assert!(said.err.contains(word), "{word:?} in {said:?}"));
}

#[test]
fn wrong_options_are_named_with_what_there_is() {
    for (options, words) in [
        (&[][..], &["PROGRAM"][..]),
        (&["--queue", "exclusive:3", "--", "true"], &["exclusive:3", "dedicated or shared"]),
        (&["--queue", "shared:129", "--", "true"], &["1 to 128"]),
        (&["--queue", "shared:100", "--queue", "shared:100", "--", "true"], &["200 entries", "128"]),
        (&["--devices", "9", "--", "true"], &["--devices", "1..=8"]),
        (&["--faults", "page_absnt=1", "--", "true"], &["page_absnt", "page_absent"]),
        (&["--faults", "retry=7", "--", "true"], &["retry=7", "0 to 1"]),
        (&["--kernel", "5.4", "--", "true"], &["5.4", "6.12"]),
        (&["--dsa-version", "3", "--", "true"], &["--dsa-version", "1..=2"]),
        (&["--paths", "magic", "--", "true"], &["magic", "redirect"]),
        (&["--tree", "/proc/x", "--", "true"], &["--tree"]),
        // What is no option is not taken for a program.
        (&["--device", "2", "--", "true"], &["--device: no such option", "--help"]),
    ] {
        assert_refused(&mut dsa_box(options), words);
    }
}

#[test]
fn programs_that_cannot_be_boxed_are_refused_with_what_to_do() {
    let boxed = Boxed::new();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8], mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (program, words) in [
        ("no-such-program-here".to_owned(), &["no such program in PATH"][..]),
        ("/no/such/file".to_owned(), &["no such file"]),
        (dir.path().to_str().unwrap().to_owned(), &["a directory"]),
        (file("plain", b"x", 0o644), &["not executable", "chmod"]),
        (file("words", b"echo hello\n", 0o755), &["neither an ELF program nor a script", "sh "]),
        (file("script", b"#!/no/such/sh\n", 0o755), &["is a script", "/no/such/sh"]),
        (file("arm", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0", 0o755), &["not a 64-bit x86 program"]),
    ] {
        assert_refused(boxed.command(&[]).arg("--").arg(program), words);
    }
    let static_program = dir.path().join("static");
    let source = dir.path().join("static.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let made = Command::new("cc").arg("-static").arg("-o").arg(&static_program).arg(&source).output();
    if made.is_ok_and(|output| output.status.success()) {
        assert_refused(boxed.command(&[]).arg("--").arg(&static_program), &["linked statically", "without -static"]);
    } else {
        eprintln!("skipped in part: no C compiler, or no static libc");
    }
    // A script with a dynamic interpreter is as good as a program.
    let script = file("good", b"#!/bin/sh\nexit 3\n", 0o755);
    assert_eq!(run(boxed.command(&[]).arg("--").arg(script)).code, Some(3));
    boxed.assert_nothing_is_left();
}

#[test]
fn a_library_that_is_not_there_is_told_with_how_to_build_it() {
    let words = &["libdsa.so", "cargo build", "--example dsa_preload"];
    assert_refused(dsa_box(&["--library", "/no/libdsa.so"]).args(["--", "true"]), words);
    assert_refused(dsa_box(&[]).env("DSA_MODEL_LIBRARY", "/no/libdsa.so").args(["--", "true"]), words);
}

/// The loader would pass over it, and the program would run and find nothing.
#[test]
fn a_library_that_the_loader_would_pass_over_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let real = fs::read(library()).unwrap();
    for (path, words) in [
        (
            file("words.so", b"a text that is longer than the head of a library"),
            &["not a shared library", "cargo build"][..],
        ),
        (file("short.so", b"\x7fELF"), &["not a shared library"]),
        (file("a blank.so", &real), &["colons and blanks"]),
        (file("a:colon.so", &real), &["colons and blanks"]),
    ] {
        assert_refused(dsa_box(&["--library"]).arg(&path).args(["--", "true"]), words);
        assert_refused(dsa_box(&[]).env("DSA_MODEL_LIBRARY", &path).args(["--", "true"]), words);
    }
}

#[test]
fn variables_of_a_tree_survive_a_shell_whatever_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("it's $(a) tree; really");
    let said = run(dsa_box(&["--tree"]).arg(&root));
    assert_eq!(said.code, Some(0), "{said:?}");
    let shell = run(Command::new("sh").args(["-ec", &format!("{}\nprintf %s \"$TWOLANE_DSA_DEV\"", said.out)]));
    assert_eq!((shell.code, shell.out), (Some(0), format!("{}/dev/dsa", root.display())), "{}", shell.err);
}

#[test]
fn a_tree_alone_is_written_with_the_variables_to_set() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("t");
    let said = run(&mut dsa_box(&["--devices", "2", "--tree", root.to_str().unwrap()]));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(root.join("dev/dsa/wq2.1").exists() && root.join("sys/bus/dsa/devices/dsa2/wq2.1/size").exists());
    let Some(program) = program() else { return };
    // What it prints is all that is needed to do the same by hand.
    let script = format!(
        "{}\nLD_PRELOAD={} exec {} write '$DSA_DEV_PATH/wq2.0'",
        said.out,
        library().display(),
        program.display()
    );
    let by_hand = run(Command::new("sh").args(["-c", &script]));
    assert_ok(&by_hand);
    // Not over a tree that is there.
    assert_refused(&mut dsa_box(&["--tree", root.to_str().unwrap()]), &["there is a tree already"]);
}

/// The variables by hand: what is wrong with them ends the program before it begins.
#[test]
fn wrong_variables_end_the_program_with_a_line() {
    let run_with = |name: &str, value: &str| {
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", library()).env("DSA_MODEL_TREE", "/no/tree").env(name, value);
        run(&mut command)
    };
    for (name, value, word) in [
        ("DSA_MODEL", "lax", "strict"),
        ("DSA_MODEL_TREE", "tree", "absolute"),
        ("DSA_MODEL_TRACE", "trace", "absolute"),
        ("DSA_MODEL_REDIRECT", "yes", "use 1 or 0"),
    ] {
        let said = run_with(name, value);
        assert_eq!(said.code, Some(126), "{name}: {said:?}");
        assert!(said.err.contains(name) && said.err.contains(word) && said.err.lines().count() == 1, "{said:?}");
    }
    assert_eq!(run_with("DSA_MODEL", "strict").code, Some(0), "a program that opens no queue needs no tree");
}

/// The real accel-config, on the tree that the box puts in place.
#[test]
fn accel_config_lists_and_configures() {
    if Command::new("accel-config").arg("--version").output().is_err() {
        return eprintln!("skipped: no accel-config");
    }
    let boxed = Boxed::new();
    let listed = run(boxed.command(&["--devices", "2"]).args(["--", "accel-config", "list"]));
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|device| &device["dev"]).collect();
    assert_eq!(names, ["dsa0", "dsa2"], "{listed:#}");
    // A queue that nobody has configured: the tool writes what it is told.
    let script = "accel-config config-wq dsa0/wq0.5 --mode=dedicated --wq-size=8 --group-id=0 --priority=5 --type=user --name=mine --driver-name=user && \
                  cat /sys/bus/dsa/devices/dsa0/wq0.5/size /sys/bus/dsa/devices/dsa0/wq0.5/name";
    let configured = run(boxed.command(&[]).args(["--", "sh", "-c", script]));
    assert_eq!((configured.code, configured.out.trim()), (Some(0), "8\nmine"), "{configured:?}");
    boxed.assert_nothing_is_left();
}
