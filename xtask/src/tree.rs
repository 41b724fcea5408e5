//! The source tree as the checks see it: which files are ours, their text, and what a check
//! returns.
//!
//! Invariant: paths are relative to the top, with `/`, and come in sorted order, so that findings
//! and generated documents do not depend on the machine. Called by every check.

use std::fmt;
use std::path::PathBuf;
use walkdir::WalkDir;

/// Folders that hold nothing written by hand, by name wherever they are.
const SKIPPED: [&str; 4] = ["target", "build", ".git", "results"];

/// A source tree on disk.
pub struct Tree {
    root: PathBuf,
}

/// One file with its text.
pub struct SourceFile {
    /// From the top of the tree.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// What is wrong, where, and what to do.
#[derive(Debug)]
pub struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
}

/// Nothing found: passed. An error: the check could not be made.
pub type Outcome = Result<Vec<Finding>, String>;

impl Finding {
    /// A finding about a whole file.
    pub fn file(path: &str, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: None, message: message.into() }
    }

    /// A finding about a line, counted from 1.
    pub fn line(path: &str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: path.into(), line: Some(line), message: message.into() }
    }
}

impl From<String> for Finding {
    fn from(message: String) -> Finding {
        Finding { path: String::new(), line: None, message }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.is_empty(), self.line) {
            (true, _) => write!(out, "{}", self.message),
            (false, None) => write!(out, "{}: {}", self.path, self.message),
            (false, Some(line)) => write!(out, "{}:{line}: {}", self.path, self.message),
        }
    }
}

impl Tree {
    /// The tree under `root`.
    pub fn new(root: PathBuf) -> Tree {
        Tree { root }
    }

    /// Where `path` is on disk.
    pub fn locate(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The text of one file.
    pub fn read(&self, path: &str) -> Result<String, String> {
        std::fs::read_to_string(self.locate(path)).map_err(|error| format!("{path}: {error}"))
    }

    /// The text of a file that need not be there; empty then.
    pub fn read_if_any(&self, path: &str) -> Result<String, String> {
        if self.locate(path).exists() { self.read(path) } else { Ok(String::new()) }
    }

    /// All files under a folder (`""`: the tree) whose names end in one of `endings`, sorted.
    pub fn files(&self, folder: &str, endings: &[&str]) -> Result<Vec<SourceFile>, String> {
        let top = self.locate(folder);
        if !top.exists() {
            return Ok(Vec::new());
        }
        let walk = WalkDir::new(&top).sort_by_file_name().into_iter().filter_entry(|entry| {
            let name = entry.file_name().to_string_lossy();
            !(entry.depth() > 0 && entry.file_type().is_dir() && SKIPPED.contains(&name.as_ref()))
        });
        let mut files = Vec::new();
        for entry in walk {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry.file_name().to_string_lossy();
            if !entry.file_type().is_file() || !endings.iter().any(|ending| name.ends_with(ending))
            {
                continue;
            }
            let path = entry.path().strip_prefix(&self.root).map_err(|error| error.to_string())?;
            let path = path.to_string_lossy().into_owned();
            let text = self.read(&path)?;
            files.push(SourceFile { path, text });
        }
        files.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(files)
    }
}

#[cfg(test)]
pub mod testing {
    //! Trees made for one test, so that each check can be seen failing.
    use super::*;
    use tempfile::TempDir;

    /// A tree in a folder that goes away with it.
    pub struct Sample {
        pub tree: Tree,
        _folder: TempDir,
    }

    /// A tree of the given files.
    pub fn sample(files: &[(&str, &str)]) -> Sample {
        let folder = TempDir::new().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Sample { tree: Tree::new(folder.path().to_path_buf()), _folder: folder }
    }

    /// What a check says about the given files, one text per finding.
    pub fn findings(check: fn(&Tree) -> Outcome, files: &[(&str, &str)]) -> Vec<String> {
        let sample = sample(files);
        check(&sample.tree).unwrap().iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::sample;

    #[test]
    fn built_and_hidden_folders_are_left_out_and_the_order_is_fixed() {
        let sample = sample(&[
            ("b/z.rs", ""),
            ("b.rs", ""),
            ("b/a.rs", ""),
            ("target/x.rs", ""),
            ("b/build/x.rs", ""),
            ("b/x.txt", ""),
        ]);
        let paths = |folder| -> Vec<String> {
            sample.tree.files(folder, &[".rs"]).unwrap().into_iter().map(|file| file.path).collect()
        };
        assert_eq!(paths(""), ["b.rs", "b/a.rs", "b/z.rs"]);
        assert_eq!(paths("b"), ["b/a.rs", "b/z.rs"]);
        assert_eq!(paths("missing"), [""; 0]);
    }
}
