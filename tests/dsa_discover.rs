//! Finding DSA work queues on trees such as the kernel shows: whole ones, and each thing that can be wrong with them.

#![cfg(feature = "sim")]
#![allow(unsafe_code)] // a thread gives up root's rights

#[path = "topology_scratch/mod.rs"]
mod scratch;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use scratch::scratch;
use tempfile::TempDir;
use twolane::offload::dsa::abi::{GenCap, OpCap, Opcode, SwErrorCode, Version};
use twolane::offload::dsa::discover::{
    CommandStatus, Found, Health, HealthFile, Mode, NoWorkQueue, Places, Skipped, Why, Wish, WorkQueue, choose, find,
};
use twolane::sim::dsa::tree::{Device, DsaTree, Kernel, Queue, WrittenTree};

fn written(tree: DsaTree) -> (TempDir, WrittenTree) {
    let dir = scratch();
    let tree = tree.write(dir.path()).expect("a tree");
    (dir, tree)
}

/// Two queues on one device: `dsa0/wq0.0` shared, `dsa0/wq0.1` dedicated.
fn usual() -> (TempDir, WrittenTree) {
    written(DsaTree::new().device(Device::v1(0).queue(Queue::shared(16).threshold(12)).queue(Queue::dedicated(32))))
}

fn names(queues: &[WorkQueue]) -> Vec<&str> {
    queues.iter().map(|queue| queue.name.as_str()).collect()
}

/// What was skipped, as the end of its path and why.
fn skipped(found: &Found) -> Vec<(String, Why)> {
    let told = |skipped: &Skipped| {
        let last = skipped.path.file_name().unwrap().to_string_lossy().into_owned();
        (last, skipped.why.clone())
    };
    found.skipped.iter().map(told).collect()
}

#[test]
fn a_machine_as_it_should_be() {
    let device = Device::v2(2)
        .numa_node(1)
        .engines(3)
        .queue(Queue::dedicated(32).label("fast").block_on_fault().clients(1))
        .queue(Queue::shared(64).threshold(48).max_transfer_size(1 << 20).max_batch_size(8));
    let (_dir, tree) = written(DsaTree::new().device(Device::v1(0).queue(Queue::shared(16))).device(device));
    let found = find(&tree.places());
    assert_eq!(found.skipped, []);
    assert_eq!(names(&found.queues), ["wq0.0", "wq2.0", "wq2.1"]);
    let [old, fast, shared] = &found.queues[..] else { unreachable!() };

    assert_eq!((old.version, old.numa_node, old.depth()), (Version::V1_0, Some(0), 16));
    assert!(old.takes(Opcode::BATCH) && old.takes(Opcode::CR_DELTA) && !old.takes(Opcode::TRANSL_FETCH));
    assert_eq!((old.batch_max(), old.batch_min()), (32, 2));

    assert_eq!((fast.label.as_str(), fast.device.as_str(), fast.mode), ("fast", "dsa2", Mode::Dedicated));
    assert_eq!((fast.size, fast.threshold, fast.engines, fast.clients), (32, None, Some(3), Some(1)));
    assert!(fast.block_on_fault && fast.page_requests && fast.takes(Opcode::DIX_GEN));
    assert!(fast.capabilities.contains(GenCap::FILL_16));
    assert_eq!(fast.node, tree.node("wq2.0"));

    assert_eq!((shared.depth(), shared.size, shared.write_retries), (48, 64, Some(32)));
    assert_eq!((shared.max_transfer_size, shared.batch_max(), shared.block_on_fault), (1 << 20, 8, false));
    assert_eq!(shared.to_string(), "dsa2/wq2.1 (shared, 48 entries, NUMA node 1)");
}

#[test]
fn kernels_of_both_ages() {
    let device = || Device::v1(0).queue(Queue::shared(16));
    let (_new, new) = written(DsaTree::new().device(device()));
    let (_old, old) = written(DsaTree::new().device(device()).kernel(Kernel::Linux5));
    let (new, old) = (find(&new.places()), find(&old.places()));
    assert_eq!(new.queues[0].operations, old.queues[0].operations);
    assert!(new.queues[0].takes(Opcode::CFLUSH));
    assert_eq!((new.skipped.len(), old.skipped.len()), (0, 0));
}

#[test]
fn batches_are_believed_only_where_they_are_shown() {
    let (_dir, tree) = written(DsaTree::new().device(Device::v1(0).without_batches().queue(Queue::shared(16))));
    let queue = &find(&tree.places()).queues[0];
    assert_eq!((queue.batch_max(), queue.max_batch_size, queue.takes(Opcode::MEMMOVE)), (0, 32, true));

    // The queue may be configured for less than the device can do, never for more.
    let few = OpCap::of(&[Opcode::MEMMOVE, Opcode::SCATTER_COPY]);
    let device = Device::v2(0).queue(Queue::shared(16).operations(few)).queue(Queue::shared(16));
    let (_dir, tree) = written(DsaTree::new().device(device));
    let found = find(&tree.places());
    assert_eq!(found.queues[0].operations, OpCap::of(&[Opcode::MEMMOVE]));
    assert!(found.queues[1].takes(Opcode::BATCH));
    tree.remove("dsa0/wq0.0/op_config").unwrap();
    assert!(find(&tree.places()).queues[0].takes(Opcode::BATCH), "op_cap has the word");
    tree.set("dsa0/op_cap", &few.to_string()).unwrap();
    assert_eq!(find(&tree.places()).queues[1].operations, OpCap::of(&[Opcode::MEMMOVE]));
}

#[test]
fn what_is_wrong_with_a_queue_is_named_and_others_are_used() {
    let nonsense = |file, text: &str| Why::Nonsense { file, text: text.into() };
    let unreadable = |tree: &WrittenTree, file: &'static str| {
        tree.make_unreadable(&format!("dsa0/wq0.0/{file}")).unwrap();
        Why::Unreadable { file, error: "Is a directory (os error 21)".into() }
    };
    type Break<'a> = (&'a str, &'a dyn Fn(&WrittenTree) -> Why);
    let set = |tree: &WrittenTree, file: &str, text: &str| tree.set(&format!("dsa0/wq0.0/{file}"), text).unwrap();
    let remove = |tree: &WrittenTree, file: &str| tree.remove(&format!("dsa0/wq0.0/{file}")).unwrap();
    let not_enabled = |state: &str| Why::NotEnabled { state: state.into(), command: Some(CommandStatus(0)) };
    let cases: [Break<'_>; 17] = [
        ("disabled", &|tree| {
            set(tree, "state", "disabled");
            not_enabled("disabled")
        }),
        ("in a state of the future", &|tree| {
            set(tree, "state", "locked");
            not_enabled("locked")
        }),
        ("the kernel's", &|tree| {
            set(tree, "type", "kernel");
            Why::NotForUsers { kind: "kernel".into(), driver: "user".into() }
        }),
        ("another driver's", &|tree| {
            set(tree, "driver_name", "mdev");
            Why::NotForUsers { kind: "user".into(), driver: "mdev".into() }
        }),
        ("without entries", &|tree| {
            set(tree, "size", "0");
            Why::NoSize
        }),
        ("without a threshold", &|tree| {
            set(tree, "threshold", "0");
            Why::NoThreshold
        }),
        ("without transfers", &|tree| {
            set(tree, "max_transfer_size", "0");
            Why::NoTransfer
        }),
        ("that hides faults", &|tree| {
            set(tree, "ats_disable", "1");
            Why::HidesFaults
        }),
        ("without a size", &|tree| {
            remove(tree, "size");
            Why::Missing { file: "size" }
        }),
        ("without a mode", &|tree| {
            remove(tree, "mode");
            Why::Missing { file: "mode" }
        }),
        ("of a mode of the future", &|tree| {
            set(tree, "mode", "exclusive");
            nonsense("mode", "exclusive")
        }),
        ("of a negative batch", &|tree| {
            set(tree, "max_batch_size", "-2");
            nonsense("max_batch_size", "-2")
        }),
        ("of an endless nonsense size", &|tree| {
            set(tree, "size", &"9".repeat(10_000));
            nonsense("size", &"9".repeat(40))
        }),
        ("of bytes that are no text", &|tree| {
            tree.set_raw("dsa0/wq0.0/block_on_fault", b"\xff\xfe\x00").unwrap();
            nonsense("block_on_fault", "\u{fffd}\u{fffd}\0")
        }),
        ("with an empty file", &|tree| {
            tree.set_raw("dsa0/wq0.0/threshold", b"").unwrap();
            nonsense("threshold", "")
        }),
        ("with an unreadable mode", &|tree| unreadable(tree, "mode")),
        ("with an unreadable state", &|tree| unreadable(tree, "state")),
    ];
    for (what, breaks) in cases {
        let (_dir, tree) = usual();
        let why = breaks(&tree);
        let found = find(&tree.places());
        assert_eq!(skipped(&found), [("wq0.0".to_owned(), why)], "a queue {what}");
        assert_eq!(names(&found.queues), ["wq0.1"], "beside a queue {what}");
        let skipped = &found.skipped[0];
        assert!(!skipped.remedy.is_empty() && skipped.to_string().contains(&skipped.remedy[0]), "{skipped}");
    }
}

#[test]
fn what_is_wrong_with_a_device_is_named_once() {
    let with = |device: Device| written(DsaTree::new().device(device.queue(Queue::shared(16))));
    let command = Some(CommandStatus(0x8011_0000));
    for (device, why) in [
        (Device::v1(0).state("halted"), Why::DeviceHalted),
        (Device::v1(0).without_pasid(), Why::NoPasid),
        (
            Device::v1(0).state("disabled").command_status(0x8011_0000),
            Why::DeviceNotEnabled { state: "disabled".into(), command },
        ),
    ] {
        let (_dir, tree) = with(device);
        let found = find(&tree.places());
        assert_eq!((found.queues.len(), skipped(&found)), (0, vec![("dsa0".to_owned(), why)]));
    }
    let (_dir, unconfigured) = written(DsaTree::new().device(Device::v1(0)));
    assert_eq!(skipped(&find(&unconfigured.places())), [("dsa0".to_owned(), Why::NoQueue)]);

    for (file, text) in [("gen_cap", "0xg"), ("op_cap", "1,2,3,4,5,6,7,8,9"), ("version", "-1"), ("pasid_enabled", "y")]
    {
        let (_dir, tree) = with(Device::v1(0));
        tree.set(&format!("dsa0/{file}"), text).unwrap();
        let why = Why::Nonsense { file, text: text.into() };
        assert_eq!(skipped(&find(&tree.places())), [("dsa0".to_owned(), why)]);
    }
    for file in ["gen_cap", "op_cap", "state"] {
        let (_dir, tree) = with(Device::v1(0));
        tree.remove(&format!("dsa0/{file}")).unwrap();
        assert_eq!(skipped(&find(&tree.places())), [("dsa0".to_owned(), Why::Missing { file })]);
    }
}

#[test]
fn what_kernels_do_not_all_tell_is_not_needed() {
    let (_dir, tree) = usual();
    for file in ["version", "pasid_enabled", "numa_node", "cmd_status", "cdev_major", "clients"] {
        tree.remove(&format!("dsa0/{file}")).unwrap();
    }
    for file in ["driver_name", "threshold", "block_on_fault", "ats_disable", "max_batch_size", "name", "group_id"] {
        tree.remove(&format!("dsa0/wq0.0/{file}")).unwrap();
    }
    let found = find(&tree.places());
    assert_eq!((found.skipped.len(), names(&found.queues)), (0, vec!["wq0.0", "wq0.1"]));
    assert_eq!((found.queues[0].depth(), found.queues[0].numa_node), (16, None));
}

#[test]
fn texts_without_a_newline_and_hints_without_sense_do_no_harm() {
    let (_dir, tree) = usual();
    for (attribute, text) in [
        ("dsa0/state", "enabled"),
        ("dsa0/gen_cap", "0x40915f0107"),
        ("dsa0/wq0.0/mode", "shared"),
        ("dsa0/wq0.0/size", "16"),
        ("dsa0/wq0.0/type", "  user\n\n"),
        ("dsa0/numa_node", "-1\n"),
        ("dsa0/wq0.0/clients", "many"),
        ("dsa0/wq0.0/group_id", ""),
    ] {
        tree.set_raw(attribute, text.as_bytes()).unwrap();
    }
    let found = find(&tree.places());
    assert_eq!((found.skipped.len(), found.queues.len()), (0, 2));
    assert_eq!((found.queues[0].numa_node, found.queues[0].engines), (None, None), "-1 is not known");
    assert!(found.queues[0].is_near(Some(3)));
}

#[test]
fn analytics_accelerators_are_left_alone() {
    let (_dir, tree) = written(DsaTree::new().device(Device::v1(0).queue(Queue::shared(16))).analytics(1));
    let found = find(&tree.places());
    assert_eq!(names(&found.queues), ["wq0.0"]);
    assert_eq!(skipped(&found), [("iax1".to_owned(), Why::Analytics)]);
}

#[test]
fn nodes_are_where_they_are() {
    let (dir, tree) = usual();
    // udev has not made the name yet, or makes another one.
    tree.files().remove("dev/dsa/wq0.0").unwrap();
    fs::remove_file(dir.path().join("dev/char/235:0")).unwrap();
    fs::write(dir.path().join("dev/char/235:0"), "").unwrap();
    assert_eq!(find(&tree.places()).queues[0].node, dir.path().join("dev/char/235:0"));

    tree.files().remove("dev/char/235:0").unwrap();
    let why = Why::NoNode { node: tree.node("wq0.0") };
    assert_eq!(skipped(&find(&tree.places())), [("wq0.0".to_owned(), why)]);

    // A container with the nodes and without /sys.
    let bare = Places { sysfs: dir.path().join("nothing"), ..tree.places() };
    let found = find(&bare);
    assert_eq!((found.queues.len(), skipped(&found)), (0, vec![("wq0.1".to_owned(), Why::Undescribed)]));
    assert!(found.skipped[0].to_string().contains("by hand"));

    // A dangling link on the bus, and entries that are no queues.
    symlink("nowhere", tree.places().sysfs.join("dsa8")).unwrap();
    for odd in ["dsa01", "dsa+1", "dsa", "dsa-1", "dsa0.1", "dsa99999999999"] {
        fs::create_dir(tree.places().sysfs.join(odd)).unwrap();
    }
    fs::write(tree.places().nodes.join("wq.0"), "").unwrap();
    assert_eq!(find(&tree.places()).skipped.len(), 1);
}

#[test]
fn nobody_is_let_in_by_a_closed_node() {
    // Root may open everything: the question is asked as somebody else, in a child process.
    let (_dir, tree) = usual();
    fs::set_permissions(_dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(tree.node("wq0.1"), fs::Permissions::from_mode(0o666)).unwrap();
    let places = tree.places();
    let seen = as_nobody(move || {
        let found = find(&places);
        let Some((name, Why::NotPermitted { mode, .. })) = skipped(&found).into_iter().next() else { return false };
        (name, mode, names(&found.queues)) == ("wq0.0".into(), 0o600, vec!["wq0.1"])
    });
    assert!(seen, "wq0.0 is closed, wq0.1 is open");
}

/// Runs it on a thread without root's rights: credentials are a thread's own in the kernel.
fn as_nobody(look: impl FnOnce() -> bool + Send + 'static) -> bool {
    const NOBODY: libc::uid_t = 65_534;
    let thread = std::thread::spawn(move || {
        // SAFETY: the plain system call changes the calling thread alone, and takes no pointer.
        if unsafe { libc::geteuid() } == 0 {
            // SAFETY: as above.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
            assert_eq!(result, 0);
        }
        look()
    });
    thread.join().unwrap()
}

#[test]
fn the_state_can_be_asked_again() {
    let (_dir, tree) = usual();
    let queue = find(&tree.places()).queues.remove(0);
    let health = HealthFile::open(&queue).unwrap().unwrap();
    assert_eq!(health.read(), Health::Enabled);
    tree.set("dsa0/wq0.0/state", "disabled").unwrap();
    assert_eq!(health.read(), Health::Disabled);
    tree.set("dsa0/state", "halted").unwrap();
    assert_eq!(health.read(), Health::Halted);
    tree.set("dsa0/state", "enabled").unwrap();
    tree.set("dsa0/wq0.0/state", "enabled").unwrap();
    assert_eq!(health.read(), Health::Enabled);
    tree.remove("dsa0/wq0.0/state").unwrap();
    assert!(HealthFile::open(&queue).unwrap().is_err(), "gone");
}

#[test]
fn errors_that_no_record_told_can_be_asked_for() {
    let (_dir, tree) = usual();
    let queue = find(&tree.places()).queues.remove(1);
    assert_eq!(queue.device_error(), None);
    // An overflow of queue 1, as a kernel of either age prints it.
    for text in [
        "00000000,00000000,00000000,00000000,00000000,00000000,00000000,00015309",
        "0x0000000000015309 0x0000000000000000 0x0000000000000000 0x0000000000000000",
    ] {
        tree.set("dsa0/errors", text).unwrap();
        let error = queue.device_error().unwrap();
        assert_eq!((error.code(), error.queue()), (SwErrorCode::QUEUE_OVERFLOW, Some(1)));
    }
    tree.set("dsa0/errors", "none").unwrap();
    assert_eq!(queue.device_error(), None);
}

#[test]
fn devices_of_two_sockets_are_chosen_from() {
    let device = |number, node| Device::v1(number).numa_node(node).queue(Queue::shared(16)).queue(Queue::dedicated(32));
    let devices = [device(0, 0), device(2, 0), device(4, 1), device(6, 1)];
    let tree = devices.into_iter().fold(DsaTree::new(), DsaTree::device);
    let (_dir, tree) = written(tree);
    let queues = find(&tree.places()).queues;
    let order = |wish: &Wish| {
        let shares = choose(&queues, wish);
        shares.iter().map(|share| (share.of(&queues).unwrap().name.clone(), share.weight)).collect::<Vec<_>>()
    };
    let wish = Wish { node: Some(1), spread: 1, ..Wish::default() };
    let order = order(&wish);
    let first: Vec<(&str, u32)> = order[..4].iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
    assert_eq!(first, [("wq6.1", 682), ("wq4.1", 682), ("wq6.0", 341), ("wq4.0", 341)]);
    assert!(order[4..].iter().all(|(_, weight)| *weight == 0) && order.len() == 8);
}

#[test]
fn the_error_says_everything_that_was_found_and_what_to_type() {
    let (_dir, tree) = usual();
    tree.set("dsa0/wq0.0/state", "disabled").unwrap();
    tree.set("dsa0/cmd_status", "0x80060000").unwrap();
    let wish = Wish { operations: OpCap::of(&[Opcode::SCATTER_COPY]), ..Wish::default() };
    let found = find(&tree.places());
    assert!(choose(&found.queues, &wish).is_empty());
    let error = NoWorkQueue::after(tree.places(), found, Some(wish.to_string()));
    let text = twolane::Error::from(error).to_string();
    for words in [
        "none has SCATTER_COPY",
        "dsa0/wq0.1 (dedicated, 32 entries, NUMA node 0)",
        "dsa0/wq0.0: the queue is disabled (cmd_status 0x80060000: the queue is shared and has no threshold)",
        "> accel-config config-wq dsa0/wq0.0 --threshold=15",
        "> accel-config enable-wq dsa0/wq0.0",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let (_dir, empty) = written(DsaTree::new());
    let text = NoWorkQueue::after(empty.places(), find(&empty.places()), None).to_string();
    for words in
        ["sys/bus/dsa/devices shows no device", "intel_iommu=on,sm_on", "modprobe idxd", "accel-config enable-wq"]
    {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    let (_dir, closed) = usual();
    closed.files().remove("dev/dsa/wq0.0").unwrap();
    closed.files().remove("dev/char/235:0").unwrap();
    let text = NoWorkQueue::after(closed.places(), find(&closed.places()), None).to_string();
    assert!(text.contains("there is no device node") && text.contains("docker run --device="), "{text}");
}

/// Bytes of all kinds in every file, one after the other and many at once: never a panic, never a hang, and what is left is sane.
#[test]
fn no_tree_makes_it_panic() {
    let attributes: Vec<String> = {
        let files = |dir: &str, names: &[&str]| names.iter().map(|name| format!("{dir}/{name}")).collect::<Vec<_>>();
        let device =
            ["version", "state", "gen_cap", "op_cap", "pasid_enabled", "numa_node", "cdev_major", "cmd_status"];
        let queue = [
            "state",
            "type",
            "driver_name",
            "mode",
            "size",
            "threshold",
            "max_transfer_size",
            "max_batch_size",
            "block_on_fault",
            "prs_disable",
            "ats_disable",
            "op_config",
            "cdev_minor",
            "name",
            "group_id",
            "clients",
            "occupancy",
            "enqcmds_retries",
        ];
        [files("dsa0", &device), files("dsa0/wq0.0", &queue), files("dsa0/engine0.0", &["group_id"])].concat()
    };
    let (_dir, tree) = written(DsaTree::new().device(Device::v2(0).queue(Queue::shared(16)).queue(Queue::shared(8))));
    let originals: Vec<Vec<u8>> = attributes
        .iter()
        .map(|attribute| fs::read(tree.places().sysfs.join(attribute)).expect("each is there: else it proves nothing"))
        .collect();
    let mut random = 7_u64;
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let plausible: &[&[u8]] = &[
        b"enabled\n",
        b"0\n",
        b"-1\n",
        b"18446744073709551615\n",
        b"18446744073709551616\n",
        b"0xffffffffffffffff\n",
        b"4294967295\n",
        b"dedicated\n",
        b"user\n",
        b"ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff,ffffffff\n",
        b"",
        b"\n",
    ];
    let (mut usable, mut refused) = (0, 0);
    for _ in 0..1_500 {
        let broken: Vec<usize> = (0..1 + next() % 3).map(|_| next() as usize % attributes.len()).collect();
        for n in &broken {
            let random: Vec<u8> = (0..next() % 40).map(|_| next() as u8).collect();
            let pick = next() as usize % (2 * plausible.len());
            tree.set_raw(&attributes[*n], plausible.get(pick).copied().unwrap_or(&random)).unwrap();
        }
        let found = find(&tree.places());
        for queue in &found.queues {
            assert!(queue.depth() > 0 && queue.max_transfer_size > 0, "{queue:?}");
            assert!(queue.max_transfer_size <= 1 << 31 && queue.batch_max() <= 1 << 15, "{queue:?}");
        }
        let _ = (format!("{found:?}"), choose(&found.queues, &Wish::default()));
        usable += found.queues.len();
        refused += found.skipped.iter().map(|skipped| skipped.to_string().len()).filter(|length| *length > 0).count();
        for n in broken {
            tree.set_raw(&attributes[n], &originals[n]).unwrap();
        }
    }
    assert!(usable > 500 && refused > 500, "both happen: {usable}, {refused}");
    assert_eq!(find(&tree.places()).queues.len(), 2);
}

/// A pipe in the place of a file must not hang the search.
#[test]
fn a_pipe_does_not_hang_it() {
    let (dir, tree) = usual();
    let path = tree.places().sysfs.join("dsa0/wq0.0/size");
    fs::remove_file(&path).unwrap();
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let found = find(&tree.places());
    assert_eq!(skipped(&found), [("wq0.0".to_owned(), Why::Nonsense { file: "size", text: String::new() })]);
    drop(dir);
}
