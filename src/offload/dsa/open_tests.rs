//! Queues that answer, refuse and hang: files in place of device nodes, a thread in place of the device.

use super::*;
use crate::offload::dsa::abi::layout;
use crate::offload::dsa::discover::Explicit;
use crate::offload::dsa::portal::open_node;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread::JoinHandle;

/// Answers descriptors: no-ops with success, batches with the status given (and their no-ops, if that is success).
fn answer(bytes: &[u8; 64], batches: Status) {
    let publish = |address: u64, status: Status| {
        // SAFETY: a record of the opening that is being tested, which waits for it (or keeps the memory).
        let slot = unsafe { &*(address as *const CompletionSlot) };
        let record = super::super::abi::CompletionRecord { status_byte: status.code(), ..Default::default() };
        slot.publish(&record);
    };
    let descriptor = Descriptor::from_bytes(bytes);
    let mut status = Status::SUCCESS;
    if descriptor.opcode() == Opcode::BATCH {
        status = batches;
        for n in 0..if status == Status::SUCCESS { descriptor.value(layout::COUNT) } else { 0 } {
            // SAFETY: the batch's list, as above.
            let child = unsafe { *(descriptor.value(layout::LIST) as *const Descriptor).add(n as usize) };
            assert_eq!(child.opcode(), Opcode::NOOP);
            publish(child.completion_address().unwrap(), Status::SUCCESS);
        }
    }
    publish(descriptor.completion_address().unwrap(), status);
}

/// A node in a directory of its own.
struct Device {
    directory: tempfile::TempDir,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Device {
    fn node(&self) -> PathBuf {
        self.directory.path().join("wq0.0")
    }

    /// No node at all.
    fn nowhere() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), stop: Arc::default(), thread: None }
    }

    /// Takes what is written, and never answers.
    fn hung() -> Self {
        let device = Self::nowhere();
        let path = std::ffi::CString::new(device.node().into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: a path that ends with a zero.
        assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        device
    }

    /// Takes descriptors by `write(2)`: a pipe with a name.
    fn by_write(batches: Status) -> Self {
        let mut device = Self::hung();
        let mut pipe = open_node(&device.node()).unwrap();
        let thread = std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while pipe.read_exact(&mut bytes).is_ok() && bytes != [0xff; 64] {
                answer(&bytes, batches);
            }
        });
        device.thread = Some(thread);
        device
    }

    /// Takes descriptors by stores to its page: a file that a thread reads over and over. A place is taken when its record's address is there.
    fn by_page(batches: Status) -> Self {
        let mut device = Self::nowhere();
        fs::write(device.node(), [0; 4096]).unwrap();
        let (file, stop) = (open_node(&device.node()).unwrap(), device.stop.clone());
        let thread = std::thread::spawn(move || {
            while !stop.load(Relaxed) {
                let mut page = [0; 4096];
                file.read_exact_at(&mut page, 0).unwrap();
                // Flags are never zero here.
                for place in (0..page.len()).step_by(64).filter(|place| page[place + 4..place + 8] != [0; 4]) {
                    // The read of the page may have met the store half way; now the store is over.
                    let mut bytes = [0; 64];
                    file.read_exact_at(&mut bytes, place as u64).unwrap();
                    file.write_all_at(&[0; 64], place as u64).unwrap();
                    answer(&bytes, batches);
                }
                std::thread::yield_now();
            }
        });
        device.thread = Some(thread);
        device
    }

    fn queue(&self, mode: Mode) -> WorkQueue {
        let operations = OpCap::of(&[Opcode::NOOP, Opcode::BATCH, Opcode::MEMMOVE]);
        let explicit = Explicit::new(self.node(), mode).size(64).operations(operations).max_batch_size(32);
        explicit.queue().unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Ends the reader of a pipe; in a page nobody looks any more.
            let _ = open_node(&self.node()).and_then(|mut node| node.write_all(&[0xff; 64]));
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking());
        }
    }
}

#[test]
fn a_queue_that_takes_writes_is_opened_and_its_batches_are_tried() {
    let device = Device::by_write(Status::SUCCESS);
    let queue = open(&device.queue(Mode::Shared), Instructions::default(), Wants::default()).unwrap();
    assert_eq!((queue.name(), queue.limits().batch_max), ("wq0.0", 32));
    assert_eq!(queue.limits().in_flight_max, SHARED_IN_FLIGHT_MAX);
    assert_eq!(queue.credits().taken(), 0);
    let device = Device::by_write(Status::BAD_OPCODE);
    let queue = open(&device.queue(Mode::Dedicated), Instructions::default(), Wants::default()).unwrap();
    assert_eq!((queue.limits().batch_max, queue.limits().in_flight_max), (0, 64));
    assert!(!queue.limits().operations.contains(Opcode::BATCH));
}

#[test]
fn a_mapped_page_is_stored_to_where_the_cpu_can() {
    let cpu = Instructions { enqcmd: None, ..Instructions::of(&Capabilities::detect()) };
    if cpu.movdir64b.is_none() {
        return;
    }
    let device = Device::by_page(Status::SUCCESS);
    let mut described = device.queue(Mode::Dedicated);
    let queue = open(&described, cpu, Wants::default()).unwrap();
    assert_eq!(queue.limits().batch_max, 32);
    drop(queue);
    // What sysfs hides is tried on demand.
    described.operations = described.operations.without(Opcode::BATCH);
    for (batch_anyway, batch_max) in [(false, 0), (true, 32)] {
        let queue = open(&described, cpu, Wants { batch_anyway }).unwrap();
        assert_eq!(queue.limits().batch_max, batch_max);
    }
}

#[test]
fn a_queue_that_does_not_answer_is_told_and_left_open() {
    let device = Device::hung();
    let open_files = || {
        let links = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        links.filter(|path| *path == device.node()).count()
    };
    let error = open(&device.queue(Mode::Shared), Instructions::default(), Wants::default()).unwrap_err();
    assert!(matches!(error.why, NotOpened::Silent(None)), "{error}");
    assert!(error.to_string().contains("has not answered for 500 ms"), "{error}");
    assert_eq!(open_files(), 1);
}

#[test]
fn what_cannot_be_opened_says_why_and_what_to_do() {
    let described = |node: &str| Explicit::new(node, Mode::Shared).queue().unwrap();
    let error = |queue: &WorkQueue, cpu| open(queue, cpu, Wants::default()).unwrap_err().to_string();
    let none = Instructions::default();
    for (node, says) in [
        ("/nonexistent/wq0.0", "enable-wq"),
        // A file whose write says EINVAL to what is no number: as a kernel's whose queues take no writes.
        ("/proc/self/oom_score_adj", "takes no write(2)"),
    ] {
        let found = error(&described(node), none);
        assert!(found.contains(says) && found.contains(node), "{found}");
    }
    let cpu = Instructions { enqcmd: Capabilities::default().with_emulated_enqcmd().enqcmd, ..none };
    let found = error(&described("/dev/null"), cpu);
    assert!(found.contains("cannot be mapped"), "{found}");
}

#[test]
fn a_queue_that_is_disabled_is_not_even_opened() {
    let device = Device::nowhere();
    let sysfs = device.directory.path().join("dsa0/wq0.0");
    fs::create_dir_all(&sysfs).unwrap();
    let queue = WorkQueue { sysfs: Some(sysfs.clone()), ..device.queue(Mode::Shared) };
    let why = || open(&queue, Instructions::default(), Wants::default()).unwrap_err().why;
    assert!(matches!(why(), NotOpened::State(_)));
    fs::write(sysfs.join("state"), "disabled\n").unwrap();
    fs::write(sysfs.join("../state"), "enabled\n").unwrap();
    assert!(matches!(why(), NotOpened::Dead(Death::Disabled)));
    fs::write(sysfs.join("state"), "enabled\n").unwrap();
    assert!(matches!(why(), NotOpened::Node(_)));
}

#[test]
fn the_way_is_by_mode_cpu_and_what_the_kernel_grants() {
    let cpu = Capabilities::default().with_emulated_enqcmd();
    let (movdir64b, enqcmd) = (cpu.movdir64b.unwrap(), cpu.enqcmd.unwrap());
    let both = Instructions { movdir64b: Some(movdir64b), enqcmd: Some(enqcmd) };
    let none = Instructions::default();
    let errno = |errno| move || Err::<u8, _>(NotMapped::Mapped(io::Error::from_raw_os_error(errno)));
    assert_eq!(way(Mode::Dedicated, both, || Ok(1)).unwrap(), Way::Movdir64b(1, movdir64b));
    assert_eq!(way(Mode::Shared, both, || Ok(1)).unwrap(), Way::Enqcmd(1, enqcmd));
    for mode in [Mode::Dedicated, Mode::Shared] {
        assert_eq!(way(mode, both, errno(libc::EPERM)).unwrap(), Way::Write);
        assert_eq!(way(mode, none, || -> Result<u8, NotMapped> { panic!("nothing to map for") }).unwrap(), Way::Write);
        let Err(NotMapped::Mapped(error)) = way(mode, both, errno(libc::ENODEV)) else { panic!("it is no node") };
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        let gone = || Err::<u8, _>(NotMapped::Opened(io::Error::from_raw_os_error(libc::EPERM)));
        assert!(matches!(way(mode, both, gone), Err(NotMapped::Opened(_))), "which is not about mapping");
    }
    // The other mode's instruction is no way.
    let only = Instructions { enqcmd: None, ..both };
    assert_eq!(way(Mode::Shared, only, || Ok(1)).unwrap(), Way::Write);
}
