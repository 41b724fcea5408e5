//! Where Neap is installed, found from where `neap` itself is.
//!
//! Invariant: nothing is asked of the environment, so an installation can be moved as a whole.
//! Called by `run` and `flags`.

use crate::Failure;
use std::path::{Path, PathBuf};

const DROP_IN: &str = "lib/neap/libgc.so.1";

/// An installation, or the folder `build/` of a source tree, which is laid out like one.
#[derive(Debug, PartialEq)]
pub struct Prefix(PathBuf);

impl Prefix {
    /// The one that this `neap` belongs to.
    pub fn find() -> Result<Prefix, Failure> {
        let own = std::env::current_exe()
            .and_then(std::fs::canonicalize)
            .map_err(|error| Failure::usage(format!("where am I? /proc/self/exe: {error}")))?;
        Prefix::of(&own)
    }

    /// The one that the program at `executable` belongs to: `PREFIX/bin/neap`, or
    /// `TREE/target/release/neap` with `TREE/build` as prefix.
    fn of(executable: &Path) -> Result<Prefix, Failure> {
        let folder = executable.parent().unwrap_or(Path::new("/"));
        let installed = folder.parent().map(Path::to_path_buf);
        let is_cargo_folder = folder.ends_with("release") || folder.ends_with("debug");
        let trees = folder.ancestors().filter(|_| is_cargo_folder).map(|tree| tree.join("build"));
        let mut prefixes = installed.clone().into_iter().chain(trees);
        match prefixes.find(|prefix| prefix.join(DROP_IN).is_file()) {
            Some(prefix) => Ok(Prefix(prefix)),
            None => Err(Failure::usage(format!(
                "there is no {DROP_IN} in {}: install with `make install PREFIX={0}`, or in a source \
                 tree run `make build` and use build/bin/neap",
                installed.unwrap_or_default().display()
            ))),
        }
    }

    /// The library that stands in for libgc.
    pub fn drop_in(&self) -> PathBuf {
        self.0.join(DROP_IN)
    }

    /// The folder that holds only that library.
    pub fn drop_in_folder(&self) -> PathBuf {
        self.0.join("lib/neap")
    }

    /// Headers.
    pub fn include(&self) -> PathBuf {
        self.0.join("include")
    }

    /// `libneap.so` and `libneap.a`.
    pub fn libraries(&self) -> PathBuf {
        self.0.join("lib")
    }

    #[cfg(test)]
    pub fn at(path: &str) -> Prefix {
        Prefix(path.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installation_and_a_source_tree_are_found() {
        let folder = tempfile::TempDir::new().unwrap();
        let make = |prefix: &str| {
            let library = folder.path().join(prefix).join(DROP_IN);
            std::fs::create_dir_all(library.parent().unwrap()).unwrap();
            std::fs::write(library, "").unwrap();
        };
        make("usr");
        make("tree/build");
        let of = |executable: &str| Prefix::of(&folder.path().join(executable));
        assert_eq!(of("usr/bin/neap"), Ok(Prefix(folder.path().join("usr"))));
        let build = Ok(Prefix(folder.path().join("tree/build")));
        assert_eq!(of("tree/build/bin/neap"), build);
        assert_eq!(of("tree/target/release/neap"), build);
        assert_eq!(of("tree/target/x86_64-unknown-linux-gnu/debug/neap"), build);
        let message = of("elsewhere/bin/neap").unwrap_err().message;
        assert!(
            message.contains("make install PREFIX=") && message.contains("elsewhere"),
            "{message}"
        );
        assert!(of("tree/other/bin/neap").is_err(), "a source tree is only taken from its target/");
    }
}
