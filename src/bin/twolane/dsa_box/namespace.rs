//! The tree in place of the kernel's: a mount namespace that the program alone sees, and that goes with it.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether this process may mount without further ado.
pub fn is_privileged() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where the driver's directories are, below the tree and on the machine.
const IN_PLACE: [(&str, &str); 3] = [("/sys/bus", "dsa"), ("/sys/module", "idxd"), ("/dev", "dsa")];

/// Has a program's process enter a namespace of its own with the tree in place, before it becomes the program. Starting it fails if that is not allowed.
pub fn enter_before_exec(command: &mut Command, tree: &Path) -> Result<(), String> {
    fs::create_dir_all(tree.join("sys/module/idxd")).map_err(|error| format!("{}: {error}", tree.display()))?;
    // Hidden by nothing that is mounted below, and on the program's side of the namespace only.
    let staging = tree.join("staging");
    fs::create_dir_all(&staging).map_err(|error| format!("{}: {error}", staging.display()))?;
    let tree = tree.to_owned();
    // SAFETY: runs between fork and exec. This program has one thread, so there is no lock that somebody else holds: it may allocate and open files.
    unsafe { command.pre_exec(move || enter(&tree, &staging)) };
    Ok(())
}

fn enter(tree: &Path, staging: &Path) -> io::Result<()> {
    if is_privileged() {
        unshare(libc::CLONE_NEWNS)?;
    } else {
        let ids = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{ids} {ids} 1"))?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    }
    // What is mounted from here on is seen by nobody else.
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)?;
    mount(Some(Path::new("tmpfs")), staging, Some(c"tmpfs"), 0)?;
    // The links of the bus lead out of it: to the devices.
    let devices: Vec<PathBuf> = fs::read_dir(tree.join("sys/devices"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    for device in devices {
        put(&device, Path::new("/sys/devices"), device.file_name().unwrap_or_default(), staging)?;
    }
    for (dir, name) in IN_PLACE {
        let from = tree.join(dir.trim_start_matches('/')).join(name);
        put(&from, Path::new(dir), OsStr::new(name), staging)?;
    }
    Ok(())
}

/// Makes `dir/name` be `from`. A name that is there is covered; else the whole directory is, by one with everything in it and the name: the kernel's file systems let nobody make directories, and
/// nothing is to be left in `/dev`.
fn put(from: &Path, dir: &Path, name: &OsStr, staging: &Path) -> io::Result<()> {
    let target = dir.join(name);
    if !target.exists() {
        let copy = staging.join(dir.as_os_str().to_string_lossy().replace('/', "-"));
        fs::create_dir(&copy)?;
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let (there, here) = (entry.path(), copy.join(entry.file_name()));
            let kind = entry.file_type()?;
            if kind.is_symlink() {
                symlink(fs::read_link(&there)?, &here)?;
                continue;
            }
            if kind.is_dir() {
                fs::create_dir(&here)?;
            } else if kind.is_file()
                || kind.is_char_device()
                || kind.is_block_device()
                || kind.is_fifo()
                || kind.is_socket()
            {
                fs::write(&here, "")?;
            }
            mount(Some(&there), &here, None, libc::MS_BIND | libc::MS_REC)?;
        }
        fs::create_dir(copy.join(name))?;
        mount(Some(&copy), dir, None, libc::MS_BIND | libc::MS_REC)?;
    }
    mount(Some(from), &target, None, libc::MS_BIND | libc::MS_REC)
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: changes which mounts this process sees; it has one thread.
    check(unsafe { libc::unshare(flags) })
}

fn mount(from: Option<&Path>, at: &Path, kind: Option<&std::ffi::CStr>, flags: libc::c_ulong) -> io::Result<()> {
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
    let (from, at) = (from.map(path).transpose()?, path(at)?);
    let or_null = |text: Option<&std::ffi::CStr>| text.map_or(std::ptr::null(), std::ffi::CStr::as_ptr);
    // SAFETY: strings that end with a zero, or null where the call takes null.
    check(unsafe { libc::mount(or_null(from.as_deref()), at.as_ptr(), or_null(kind), flags, std::ptr::null()) })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
