//! The migrations are compiled in; a file added to them has to rebuild the crate.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
}
