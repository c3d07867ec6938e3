//! Builds the Lua of psp-redis: 5.1.5, which has no maintainer any more, with the faults mended that were found since.
//!
//! mlua builds Lua by the crate `lua-src`. The workspace puts this package in its place (`[patch.crates-io]`). Each
//! change of the sources in `src/` is between `psp:` comments; `docs/security.md` lists them with the tests that show
//! them.

use std::env;
use std::path::{Path, PathBuf};

/// The version to build. mlua names it; there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Lua 5.1.
    Lua51,
}
pub use Version::Lua51;

/// The build, as mlua asks for it.
#[derive(Debug, Default)]
pub struct Build;

/// What was built.
#[derive(Debug)]
pub struct Artifacts {
    lib_dir: PathBuf,
}

impl Build {
    /// A build in the folder of the build script that calls it.
    #[must_use]
    pub fn new() -> Self {
        Self
    }

    /// Compiles the library.
    ///
    /// # Panics
    /// Outside of a build script, and if the compiler fails.
    #[must_use]
    pub fn build(&self, _version: Version) -> Artifacts {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let out_dir = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts");
        let lib_dir = Path::new(&out_dir).join("lib");
        let mut compiler = cc::Build::new();
        for entry in sources.read_dir().expect("the sources are in the package") {
            let path = entry.expect("the folder can be read").path();
            println!("cargo:rerun-if-changed={}", path.display());
            if path.extension().is_some_and(|extension| extension == "c") {
                compiler.file(path);
            }
        }
        compiler
            .warnings(false)
            .cargo_metadata(false)
            .define("LUA_USE_LINUX", None)
            // A sum that overflows wraps, and stays what the checks behind it take it for.
            .flag_if_supported("-fwrapv")
            .flag_if_supported("-fno-common")
            .include(&sources)
            .out_dir(&lib_dir)
            .compile("lua5.1");
        Artifacts { lib_dir }
    }
}

impl Artifacts {
    /// Tells cargo what to link.
    pub fn print_cargo_metadata(&self) {
        println!("cargo:rustc-link-search=native={}", self.lib_dir.display());
        println!("cargo:rustc-link-lib=static:-bundle=lua5.1");
    }
}
