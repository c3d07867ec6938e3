//! The code of `docs/your-policy.md`: these files are the page's, to the letter.

// The files are those of a library.
#![allow(unreachable_pub)]

mod checked;
mod live;
mod longest_queue_first;
mod simulated;

const PAGE: &str = include_str!("../../../docs/your-policy.md");

/// The block of the page that has this file's content.
fn block(file: &str) -> &'static str {
    let fence = format!("```rust file={file}\n");
    let start = PAGE.find(&fence).expect("the page shows each file") + fence.len();
    let len = PAGE[start..].find("```").expect("the block ends");
    &PAGE[start..start + len]
}

#[test]
fn the_page_shows_these_files() {
    assert_eq!(block("src/longest_queue_first.rs"), include_str!("longest_queue_first.rs"));
    assert_eq!(block("src/simulated.rs"), include_str!("simulated.rs"));
    assert_eq!(block("src/checked.rs"), include_str!("checked.rs"));
    assert_eq!(block("src/live.rs"), include_str!("live.rs"));
    let blocks = PAGE.matches("```rust ").count();
    assert_eq!(blocks, 4, "every block is a file of this test");
}

#[test]
fn the_manifest_names_folders_of_the_repository() {
    let fence = "```toml file=Cargo.toml\n";
    let start = PAGE.find(fence).expect("the page shows the manifest") + fence.len();
    let paths = PAGE[start..].split("```").next().unwrap();
    let paths = paths.split("path = \"../psp/").skip(1);
    let repository = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let mut packages = 0;
    for path in paths.map(|rest| rest.split('"').next().unwrap()) {
        let manifest = repository.unwrap().join(path).join("Cargo.toml");
        assert!(manifest.is_file(), "{}", manifest.display());
        packages += 1;
    }
    assert_eq!(packages, 4);
}

#[test]
fn the_policy_has_under_60_lines() {
    let lines = block("src/longest_queue_first.rs").lines().count();
    assert!(lines < 60, "{lines} lines");
}
