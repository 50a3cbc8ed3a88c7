//! The commands of `docs/howto/backup.md`.

use std::path::Path;
use std::process::Command;

use crate::world::{World, run};

#[test]
fn every_command_of_the_page_works_in_its_order() {
    let world = World::configured("[log]\nsegment_bytes = 1048576\n", &[]);
    assert_eq!(world.post(r#"{"event":"hit"}"#).summary(), "1 accepted");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/howto/backup.md");
    let page = std::fs::read_to_string(page).expect("the page is readable");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    let blocks: Vec<&str> = blocks.collect();
    assert!(blocks.len() >= 4, "{blocks:?}");
    let program =
        Path::new(env!("CARGO_BIN_EXE_playmeter")).parent().expect("a folder").display().to_string();
    let path = format!("{program}:{}", std::env::var("PATH").unwrap_or_default());
    for block in blocks {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", block]).current_dir(world.root()).env("PATH", &path);
        let output = run(&mut shell);
        assert_eq!(output.code, 0, "{block}{output:?}");
    }
    for folder in ["restored", "decrypted"] {
        assert!(world.root().join(folder).join("restored-settings.toml").exists(), "{folder}");
    }
}
