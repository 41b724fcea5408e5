//! The memory limits of the control groups that the process is in, versions 1 and 2.
//!
//! Assumes: `/proc/self/cgroup` and `/proc/self/mountinfo` as proc(5) describes them;
//! `memory.limit_in_bytes`, `memory.soft_limit_in_bytes`, `memory.usage_in_bytes` and `total_…`
//! lines of `memory.stat` (version 1), `memory.max`, `memory.high`, `memory.current` and
//! `memory.stat` (version 2). What cannot be read counts as no limit. Files are opened for each
//! reading: a program may close every descriptor that it does not know. No allocation but the one
//! mapping of a [`Reader`]. Called from any thread, outside stops, by one at a time.
//!
//! # Safety
//!
//! Takes fresh zeroed memory for a structure: it is large enough and aligned, and the fields for
//! which zero is no value are written before anybody sees it.

#![allow(unsafe_code)]

use crate::addr::PAGE_BYTES;
use crate::sys::files::descriptor::Descriptor;
use crate::sys::files::small_file;
use crate::sys::map;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Which files a hierarchy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    One,
    Two,
}

/// What one level of the hierarchy allows; `usize::MAX` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Beyond this the kernel ends a process.
    pub hard_bytes: usize,
    /// Beyond this the kernel slows the processes down, or takes memory from them first.
    pub soft_bytes: usize,
    /// Bytes that are charged to the level and that the kernel cannot take back: usage without
    /// cached files.
    pub used_bytes: usize,
}

/// A text in a fixed buffer; what does not fit makes it invalid, and the level is left out.
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    fn get(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn set(&mut self, text: &[u8]) -> bool {
        self.length = 0;
        self.append(text)
    }

    fn append(&mut self, text: &[u8]) -> bool {
        let Some(room) = self.bytes.get_mut(self.length..self.length + text.len()) else {
            return false;
        };
        room.copy_from_slice(text);
        self.length += text.len();
        true
    }

    /// Appends with mountinfo's octal escapes (`\040` for a space) resolved.
    fn append_unescaped(&mut self, mut text: &[u8]) -> bool {
        while let [first, rest @ ..] = text {
            let (byte, used) = match (first, rest) {
                (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                    (((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'), 4)
                }
                _ => (*first, 1),
            };
            if !self.append(&[byte]) {
                return false;
            }
            text = &text[used..];
        }
        true
    }
}

/// A path may be that long.
const PATH_BYTES: usize = 4096;
/// `memory.stat` has about 5 KiB at most today.
const TEXT_BYTES: usize = 16 << 10;

/// Knows where the hierarchy is mounted, and has room to read its files.
pub struct Reader {
    /// `/proc/self`, or what a test puts in its place.
    process: &'static str,
    version: Version,
    /// Where the hierarchy is mounted.
    mount: Text<PATH_BYTES>,
    /// Which group of the hierarchy is mounted there.
    root: Text<PATH_BYTES>,
    /// The directory of the level being read, without the slash at its end.
    directory: Text<PATH_BYTES>,
    text: [u8; TEXT_BYTES],
}

impl Reader {
    /// Finds the memory controller; None where the process is under none. `process` is
    /// `/proc/self`.
    #[allow(clippy::mut_from_ref, reason = "what it gives lies in a mapping of its own")]
    pub fn open(process: &'static str) -> Option<&'static mut Reader> {
        let bytes = size_of::<Reader>().next_multiple_of(PAGE_BYTES);
        let memory = map::allocate(bytes).ok()?;
        // SAFETY: fresh zeroed memory, large enough and aligned; zero is a valid value of every
        // field once the three that have no zero are set.
        let reader = unsafe {
            let reader = memory.pointer::<Reader>();
            (&raw mut (*reader).process).write(process);
            (&raw mut (*reader).version).write(Version::Two);
            &mut *reader
        };
        if !reader.find() {
            map::release(memory, bytes);
            return None;
        }
        Some(reader)
    }

    fn find(&mut self) -> bool {
        let mut file = Text::<64> { bytes: [0; 64], length: 0 };
        let mut version = None;
        self.name(&mut file, b"/cgroup");
        each_line(file.get(), &mut self.text, |line| match group_of(line) {
            Some((Version::One, _)) => version = Some(Version::One),
            Some((Version::Two, _)) if version.is_none() => version = Some(Version::Two),
            _ => {}
        });
        let Some(version) = version else { return false };
        self.version = version;
        let mut found = false;
        self.name(&mut file, b"/mountinfo");
        let Self { mount, root, text, .. } = self;
        each_line(file.get(), text, |line| {
            if let Some((its_root, its_mount)) = mount_of(line, version).filter(|_| !found) {
                (mount.length, root.length) = (0, 0);
                found = mount.append_unescaped(its_mount) && root.append_unescaped(its_root);
            }
        });
        found
    }

    fn name(&self, file: &mut Text<64>, name: &[u8]) {
        let _ = file.set(self.process.as_bytes()) && file.append(name);
    }

    /// Calls `each` with every level that has a limit, from the process's own group up to the
    /// mounted one. False if the groups can no longer be read.
    pub fn for_each_level(&mut self, mut each: impl FnMut(Level)) -> bool {
        if !self.enter() {
            return false;
        }
        loop {
            if let Some(level) = self.level() {
                each(level);
            }
            if self.directory.length <= self.mount.length {
                return true;
            }
            let path = self.directory.get();
            let parent = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
            self.directory.length = parent.max(self.mount.length);
        }
    }

    /// Room that holds nothing between two readings.
    pub fn scratch(&mut self) -> &mut [u8] {
        &mut self.text
    }

    /// Sets `directory` to that of the process's group: it may have been moved.
    fn enter(&mut self) -> bool {
        let mut file = Text::<64> { bytes: [0; 64], length: 0 };
        self.name(&mut file, b"/cgroup");
        let Self { version, mount, root, directory, text, .. } = self;
        let mut entered = false;
        each_line(file.get(), text, |line| {
            let Some((_, group)) = group_of(line).filter(|(its, _)| its == version) else { return };
            let inside = match root.get() {
                b"/" => group,
                // In a container the mounted group is the container's own, while the path may be
                // seen from outside.
                root => group.strip_prefix(root).unwrap_or(b""),
            };
            let outside = inside.starts_with(b"/..");
            let inside = inside.strip_suffix(b"/").unwrap_or(inside);
            entered = directory.set(mount.get())
                && (outside
                    || !(inside.is_empty() || inside.starts_with(b"/"))
                    || directory.append(inside));
        });
        entered
    }

    /// The limits of the group in `directory`, if it has any.
    fn level(&mut self) -> Option<Level> {
        let (hard, soft, usage): (&[u8], &[u8], &[u8]) = match self.version {
            Version::One => {
                (b"memory.limit_in_bytes", b"memory.soft_limit_in_bytes", b"memory.usage_in_bytes")
            }
            Version::Two => (b"memory.max", b"memory.high", b"memory.current"),
        };
        let hard_bytes = self.limit(hard);
        let soft_bytes = self.limit(soft);
        if hard_bytes == usize::MAX && soft_bytes == usize::MAX {
            return None;
        }
        let usage_bytes = number(self.read(usage)?)?;
        let version = self.version;
        let cached = cached_bytes(self.read(b"memory.stat").unwrap_or(b""), version);
        Some(Level { hard_bytes, soft_bytes, used_bytes: usage_bytes.saturating_sub(cached) })
    }

    fn limit(&mut self, name: &[u8]) -> usize {
        // Version 1 writes the largest multiple of a page for none, version 2 "max".
        const NONE: usize = 1 << 60;
        self.read(name).and_then(number).filter(|bytes| *bytes < NONE).unwrap_or(usize::MAX)
    }

    fn read(&mut self, name: &[u8]) -> Option<&[u8]> {
        let Self { directory, text, .. } = self;
        let length = directory.length;
        let named = directory.append(b"/") && directory.append(name);
        let read =
            if named { small_file::read(directory.get(), text) } else { Err(Errno::NAMETOOLONG) };
        directory.length = length;
        read.ok().map(|read| &text[..read])
    }
}

/// Calls `each` with every line of a file of any length; a line that does not fit `text` is left
/// out.
fn each_line(path: &[u8], text: &mut [u8], mut each: impl FnMut(&[u8])) {
    let Ok(file) = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
        return;
    };
    let file = Descriptor::new(file);
    let (mut length, mut skip) = (0, false);
    loop {
        let read = match rustix::io::read(&file, &mut text[length..]) {
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(_) => return,
        };
        length += read;
        let mut start = 0;
        while let Some(line) = text[start..length].iter().position(|byte| *byte == b'\n') {
            if !core::mem::take(&mut skip) {
                each(&text[start..start + line]);
            }
            start += line + 1;
        }
        if read == 0 {
            if start < length && !skip {
                each(&text[start..length]);
            }
            return;
        }
        text.copy_within(start..length, 0);
        length -= start;
        if length == text.len() {
            (length, skip) = (0, true);
        }
    }
}

/// The group that a line of `/proc/self/cgroup` names for the memory controller: `4:memory:/path`,
/// or `0::/path` of version 2.
pub(super) fn group_of(line: &[u8]) -> Option<(Version, &[u8])> {
    let mut parts = line.splitn(3, |byte| *byte == b':');
    let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    if number == b"0" && controllers.is_empty() {
        return Some((Version::Two, path));
    }
    controllers
        .split(|byte| *byte == b',')
        .any(|name| name == b"memory")
        .then_some((Version::One, path))
}

/// Root and mount point of a line of `/proc/self/mountinfo` that mounts the hierarchy.
pub(super) fn mount_of(line: &[u8], version: Version) -> Option<(&[u8], &[u8])> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (root, mount) = (fields.nth(3)?, fields.next()?);
    let mut behind = fields.skip_while(|field| *field != b"-").skip(1);
    let kind = behind.next()?;
    let options = behind.nth(1)?;
    let is_it = match version {
        Version::Two => kind == b"cgroup2",
        Version::One => {
            kind == b"cgroup" && options.split(|byte| *byte == b',').any(|name| name == b"memory")
        }
    };
    is_it.then_some((root, mount))
}

/// The number that a text begins with.
fn number(text: &[u8]) -> Option<usize> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    core::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

/// Bytes of cached files in a `memory.stat`, which the kernel takes back before it refuses memory.
pub(super) fn cached_bytes(stat: &[u8], version: Version) -> usize {
    let wanted: &[&[u8]] = match version {
        Version::One => &[b"total_inactive_file ", b"total_active_file "],
        Version::Two => &[b"inactive_file ", b"active_file ", b"slab_reclaimable "],
    };
    stat.split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let name = wanted.iter().find(|name| line.starts_with(name))?;
            number(&line[name.len()..])
        })
        .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;
    use std::sync::Mutex;

    /// A directory with files as the kernel would show them.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("neap-cgroup-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) -> &Self {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            self
        }

        fn reader(&self) -> Option<&'static mut Reader> {
            // Reachable for as long as the reader, which is for ever: no leak.
            static PATHS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
            let path = self.path().to_owned().leak();
            PATHS.lock().unwrap().push(path);
            Reader::open(path)
        }

        fn path(&self) -> &str {
            self.0.to_str().unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn levels(reader: &mut Reader) -> Vec<(usize, usize, usize)> {
        let mut seen = Vec::new();
        assert!(reader.for_each_level(|level| {
            seen.push((level.hard_bytes, level.soft_bytes, level.used_bytes));
        }));
        seen
    }

    const NONE: usize = usize::MAX;

    #[test]
    fn version_2_from_the_leaf_up_and_read_again() {
        let place = Place::new("two");
        let mount = place.path().replace('e', "\\145");
        place
            .file("cgroup", "0::/app/worker\n")
            .file(
                "mountinfo",
                &format!(
                    "24 1 0:22 / /proc rw - proc proc rw\n30 24 0:26 / {mount}/fs rw,nosuid \
                    shared:4 - cgroup2 cgroup2 rw\n"
                ),
            )
            .file("fs/app/memory.max", "100000\n")
            .file("fs/app/memory.high", "max\n")
            .file("fs/app/memory.current", "5000\n")
            .file(
                "fs/app/memory.stat",
                "anon 1\ninactive_file 1000\nactive_file 200\n\
                 slab_reclaimable 30\ninactive_file_x 7\n",
            )
            .file("fs/app/worker/memory.max", "max\n")
            .file("fs/app/worker/memory.high", "80000\n")
            .file("fs/app/worker/memory.current", "400\n");
        let reader = place.reader().unwrap();
        assert_eq!(levels(reader), [(NONE, 80000, 400), (100_000, NONE, 3770)]);
        place.file("fs/app/worker/memory.max", "60000\n");
        assert_eq!(levels(reader)[0], (60000, 80000, 400));
        place.file("cgroup", "0::/elsewhere\n");
        assert_eq!(levels(reader), [], "a group that has no files has no limits");
    }

    #[test]
    fn version_1_beside_an_empty_version_2() {
        let place = Place::new("one");
        place
            .file("cgroup", "9:name=systemd:/\n4:cpu,memory:/docker/abc/inner\n0::/\n")
            .file(
                "mountinfo",
                &format!(
                    "41 31 0:38 / {0}/unified rw - cgroup2 cgroup2 rw\n33 31 0:30 / {0}/cpu rw - \
                     cgroup cgroup rw,cpu\n35 31 0:32 /docker/abc {0}/memory rw - cgroup cgroup \
                     rw,memory\n",
                    place.path()
                ),
            )
            .file("memory/memory.limit_in_bytes", "67108864\n")
            .file("memory/memory.soft_limit_in_bytes", "9223372036854771712\n")
            .file("memory/memory.usage_in_bytes", "8192\n")
            .file(
                "memory/memory.stat",
                "inactive_file 1\ntotal_inactive_file 4096\n\
                 total_active_file 96\n",
            )
            .file("memory/inner/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(levels(place.reader().unwrap()), [(67_108_864, NONE, 4000)]);
        // Seen from outside of the namespace: only the mounted group is known.
        place.file("cgroup", "4:memory:/../other\n");
        assert_eq!(levels(place.reader().unwrap()), [(67_108_864, NONE, 4000)]);
    }

    #[test]
    fn no_controller_no_reader_and_long_files_are_read_in_pieces() {
        let place = Place::new("none");
        place.file("cgroup", "9:name=systemd:/\n");
        assert!(place.reader().is_none());
        let other = "30 24 0:26 / /some/mount rw - ext4 /dev/vda rw\n".repeat(2000);
        let long = "x".repeat(TEXT_BYTES * 2);
        place.file("cgroup", "0::/").file(
            "mountinfo",
            &format!("{other}{long}\n1 2 0:3 / {}/fs rw - cgroup2 none rw", place.path()),
        );
        place.file("fs/memory.max", "4096\n").file("fs/memory.current", "1\n");
        assert_eq!(levels(place.reader().unwrap()), [(4096, NONE, 1)]);
    }

    #[test]
    fn what_this_machine_has_can_be_read() {
        if let Some(reader) = Reader::open("/proc/self") {
            assert!(reader.for_each_level(|level| assert!(level.used_bytes > 0)));
        }
    }
}
