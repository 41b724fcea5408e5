//! From what the user calls a program to the file that the kernel will load.
//!
//! Invariant: PATH is searched as execvp(3) does it, and scripts are followed through `#!` as
//! execve(2) does it. Reads files only. Called by `run`.

use crate::Failure;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The kernel follows no more scripts than this, one from another.
const MOST_SCRIPTS: usize = 4;

/// The file that `name` means: itself if it has a `/`, else from `search_path`.
pub fn find(name: &OsStr, search_path: &OsStr) -> Result<PathBuf, Failure> {
    let shown = name.display();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match std::fs::metadata(&path) {
            Err(error) => Err(Failure::not_found(format!("{shown}: {error}"))),
            Ok(metadata) if !is_executable(&metadata) => {
                Err(Failure::cannot_run(format!("{shown} is not an executable file")))
            }
            Ok(_) => Ok(path),
        };
    }
    let mut not_executable = None;
    for folder in std::env::split_paths(search_path) {
        // An empty entry of PATH is the current folder; a bare name would be searched for again.
        let here = folder.as_os_str().is_empty();
        let path = if here { Path::new(".").join(name) } else { folder.join(name) };
        match std::fs::metadata(&path) {
            Ok(metadata) if is_executable(&metadata) => return Ok(path),
            Ok(metadata) if metadata.is_file() => not_executable = Some(path),
            _ => {}
        }
    }
    match not_executable {
        Some(path) => {
            let message = format!("{} is not an executable file (chmod +x?)", path.display());
            Err(Failure::cannot_run(message))
        }
        None => Err(Failure::not_found(format!("{shown}: no such program in PATH"))),
    }
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.mode() & 0o111 != 0
}

/// What will be loaded to run `program`: itself, or the interpreter that its `#!` line leads to.
pub fn loaded(program: &Path, search_path: &OsStr) -> Result<PathBuf, Failure> {
    let mut file = program.to_path_buf();
    for _ in 0..=MOST_SCRIPTS {
        let Some(line) = script_line(&file)? else { return Ok(file) };
        let (interpreter, argument) = split(&line);
        if interpreter.is_empty() {
            return Err(Failure::cannot_run(format!("{}: nothing follows #!", file.display())));
        }
        let through_env = Path::new(&interpreter).file_name() == Some(OsStr::new("env"));
        file = match env_target(&argument) {
            Some(target) if through_env => find(target.as_os_str(), search_path)?,
            _ => find(&interpreter, search_path).map_err(|failure| in_script(&file, failure))?,
        };
    }
    Err(Failure::cannot_run(format!("{}: too many scripts, one from another", program.display())))
}

/// A failure of what runs a script names the script as well.
pub fn in_script(script: &Path, failure: Failure) -> Failure {
    Failure { message: format!("{}: #! {}", script.display(), failure.message), ..failure }
}

/// What follows `#!`, if the file is a script.
fn script_line(file: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let cannot_read = |error| Failure::cannot_run(format!("{}: {error}", file.display()));
    let mut start = Vec::new();
    // The kernel looks at 256 bytes.
    let opened = std::fs::File::open(file).map_err(cannot_read)?;
    opened.take(256).read_to_end(&mut start).map_err(cannot_read)?;
    let Some(rest) = start.strip_prefix(b"#!") else { return Ok(None) };
    Ok(rest.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec))
}

/// The interpreter, and all that follows it as one argument.
fn split(line: &[u8]) -> (OsString, Vec<u8>) {
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (interpreter, argument) = line.split_at(end);
    (OsStr::from_bytes(interpreter).to_owned(), argument.trim_ascii().to_vec())
}

/// Options of env(1) that take the next word, if none is behind them, as their value.
const ENV_SHORT: &[u8] = b"uCa";
const ENV_LONG: [&[u8]; 3] = [b"--unset", b"--chdir", b"--argv0"];

/// The program that env(1) would run: the first word that is no option, no option's value and no
/// assignment.
fn env_target(argument: &[u8]) -> Option<PathBuf> {
    let mut words = argument.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut folder = PathBuf::new();
    while let Some(mut word) = words.next() {
        // All that follows is split into words, beginning behind the letter.
        if let Some(at) = short_option(word, b"S") {
            word = &word[at + 1..];
        }
        let long = ENV_LONG.into_iter().find_map(|name| Some((name, word.strip_prefix(name)?)));
        let value = if let Some((name, rest)) = long {
            let value = if rest.is_empty() { words.next() } else { rest.strip_prefix(b"=") };
            value.map(|value| (name[2], value))
        } else if let Some(at) = short_option(word, ENV_SHORT) {
            let rest = &word[at + 1..];
            let value = if rest.is_empty() { words.next() } else { Some(rest) };
            value.map(|value| (word[at], value))
        } else if word.is_empty() || word[0] == b'-' || word.contains(&b'=') {
            None
        } else {
            // A bare name is searched for in PATH, wherever that is done.
            let target = Path::new(OsStr::from_bytes(word));
            return Some(if word.contains(&b'/') { folder.join(target) } else { target.into() });
        };
        if let Some((b'C' | b'c', value)) = value {
            folder = PathBuf::from(OsStr::from_bytes(value));
        }
    }
    None
}

/// Where one of these letters is among a word's options, of which those before it take no value.
fn short_option(word: &[u8], letters: &[u8]) -> Option<usize> {
    let options = word.strip_prefix(b"-").filter(|options| !options.starts_with(b"-"))?;
    let found =
        options.iter().position(|letter| letters.contains(letter) || !b"iv0".contains(letter))?;
    letters.contains(&options[found]).then_some(found + 1)
}

/// Whether the kernel starts this file with more rights than the caller has; the loader then
/// ignores LD_LIBRARY_PATH and LD_PRELOAD.
pub fn gains_rights(file: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(file) else { return false };
    let user = rustix::process::getuid();
    let other_user = metadata.mode() & 0o4000 != 0 && metadata.uid() != user.as_raw();
    let group = rustix::process::getgid().as_raw();
    let other_group = metadata.mode() & 0o2010 == 0o2010 && metadata.gid() != group;
    let mut value = [0u8; 64];
    let capabilities = rustix::fs::getxattr(file, c"security.capability", &mut value);
    other_user || other_group || (capabilities.is_ok() && !user.is_root())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
            let path = self.0.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        }
    }

    fn folder() -> Folder {
        Folder(tempfile::TempDir::new().unwrap())
    }

    #[test]
    fn the_search_is_that_of_a_shell() {
        let (first, second) = (folder(), folder());
        first.write("tool", "", 0o644);
        let tool = second.write("tool", "", 0o755);
        first.write("plain", "", 0o644);
        let path = std::env::join_paths([first.0.path(), second.0.path()]).unwrap();
        assert_eq!(find(OsStr::new("tool"), &path), Ok(tool.clone()));
        assert_eq!(find(tool.as_os_str(), OsStr::new("")), Ok(tool));
        assert_eq!(find(OsStr::new("plain"), &path).unwrap_err().status, 126);
        assert_eq!(find(OsStr::new("absent"), &path).unwrap_err().status, 127);
        assert_eq!(find(OsStr::new("/absent/file"), &path).unwrap_err().status, 127);
        assert_eq!(find(OsStr::new("/etc"), &path).unwrap_err().status, 126);
    }

    #[test]
    fn scripts_lead_to_their_interpreter() {
        let folder = folder();
        let path = folder.0.path().as_os_str().to_owned();
        let elf = folder.write("elf", "\x7fELF", 0o755);
        let direct = format!("#!{} --flag\n", elf.display());
        let shown = folder.0.path().display();
        for (name, text) in [
            ("elf2", "\x7fELF"),
            ("direct", direct.as_str()),
            ("spaced", &format!("#!  {}  \n", elf.display())),
            ("env", "#!/usr/bin/env elf\n"),
            ("env_split", "#!/usr/bin/env -S A=b elf --flag\n"),
            ("env_glued", "#!/usr/bin/env -Self --flag\n"),
            ("env_clustered", "#!/usr/bin/env -vSelf --flag\n"),
            ("env_unset", "#!/usr/bin/env -S -u FOO elf\n"),
            ("env_unset_glued", "#!/usr/bin/env -S -uFOO -iu FOO elf -u BAR\n"),
            ("env_unset_long", "#!/usr/bin/env -S --unset FOO --unset=BAR - elf\n"),
            ("env_folder", &format!("#!/usr/bin/env -S -C {shown} ./elf\n")),
            ("env_folder_long", &format!("#!/usr/bin/env -S --chdir={shown} ./elf\n")),
            ("env_folder_bare", "#!/usr/bin/env -S --chdir / -a name elf\n"),
            ("twice", &format!("#!{}/direct\n", folder.0.path().display())),
        ] {
            let script = folder.write(name, text, 0o755);
            let wanted = if name == "elf2" { script.clone() } else { elf.clone() };
            assert_eq!(loaded(&script, &path), Ok(wanted), "{name}");
        }
    }

    #[test]
    fn broken_scripts_fail_as_their_kind() {
        let folder = folder();
        let path = OsStr::new("");
        let script = folder.write("a", "#!/absent/interpreter\n", 0o755);
        let failure = loaded(&script, path).unwrap_err();
        assert_eq!(failure.status, 127);
        assert!(failure.message.contains("#! /absent/interpreter"), "{failure}");
        let script = folder.write("b", "#!\n", 0o755);
        assert_eq!(loaded(&script, path).unwrap_err().status, 126);
        let circle = folder.0.path().join("c");
        folder.write("c", &format!("#!{}\n", circle.display()), 0o755);
        assert_eq!(loaded(&circle, path).unwrap_err().status, 126);
    }

    #[test]
    fn only_foreign_rights_count() {
        let folder = folder();
        assert!(!gains_rights(&folder.write("plain", "", 0o755)));
        assert!(!gains_rights(&folder.write("own", "", 0o4755)), "set-user-id to oneself");
        assert!(!gains_rights(Path::new("/absent")));
    }
}
