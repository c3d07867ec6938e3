//! Finds libdpdk, compiles the shim, and names the libraries to link.
//!
//! The compiler gets all flags of pkg-config: DPDK's headers need `-include rte_config.h` and `-march`,
//! which the pkg-config crate leaves out.

use std::process::{Command, exit};

/// The release that the shim was written for. Patch releases keep its structures and functions.
const RELEASE: &str = "22.11";

const SOURCE: &str = "shim/shim.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    let version = pkg_config(&["--modversion"]);
    let version = version.first().map_or("", String::as_str);
    if !(version == RELEASE || version.starts_with(&format!("{RELEASE}."))) {
        fail(&format!(
            "libdpdk {version} is installed, and dpdk-sys is written for {RELEASE}.x (Debian 12's)"
        ));
    }
    let mut shim = cc::Build::new();
    shim.file(SOURCE).warnings(true).extra_warnings(true);
    for flag in pkg_config(&["--cflags"]) {
        // No warnings about DPDK's own headers.
        match flag.strip_prefix("-I") {
            Some(folder) => shim.flag("-isystem").flag(folder),
            None => shim.flag(flag),
        };
    }
    shim.compile("psp_dpdk_shim");
    for flag in pkg_config(&["--libs"]) {
        if let Some(library) = flag.strip_prefix("-l") {
            println!("cargo::rustc-link-lib={library}");
        } else if let Some(folder) = flag.strip_prefix("-L") {
            println!("cargo::rustc-link-search=native={folder}");
        }
    }
}

/// The words that pkg-config prints about libdpdk.
fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let output = Command::new("pkg-config").args(arguments).arg("libdpdk").output();
    let output = output.unwrap_or_else(|error| fail(&format!("cannot run pkg-config to find libdpdk: {error}")));
    if !output.status.success() {
        let answer = String::from_utf8_lossy(&output.stderr);
        let answer = answer.lines().next().unwrap_or_default();
        fail(&format!("libdpdk is not installed: {answer}"));
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    answer.split_whitespace().map(str::to_owned).collect()
}

fn fail(reason: &str) -> ! {
    println!("cargo::error={reason}");
    println!(
        "cargo::error=on Debian 12: apt-get install -y --no-install-recommends libdpdk-dev gcc pkg-config; \
         only the feature `dpdk` needs libdpdk"
    );
    exit(1)
}
