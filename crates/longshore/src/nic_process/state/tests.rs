//! What others have made first is not used, and nothing of theirs is touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::State;

/// A directory of this test's, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("longshore-state-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> anyhow::Result<State> {
    State::open(path.to_owned(), Duration::ZERO)
}

fn refusal(path: &Path) -> String {
    let error = format!("{:#}", open(path).unwrap_err());
    assert!(error.contains("--state"), "{error}");
    error
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_state_directory_has_one_owner_and_remembers_what_was_made() {
    let scratch = Scratch::new("one");
    let directory = scratch.path("a/b");
    let state = open(&directory).unwrap();
    assert_eq!(mode(&directory), 0o700);
    let error = refusal(&directory);
    assert!(
        error.contains(&format!("process {}", std::process::id())),
        "{error}"
    );
    state.note_made("ls0").unwrap();
    drop(state);
    let state = open(&directory).unwrap();
    assert!(state.has_made("ls0"));
    assert!(!state.has_made("ls1"));
    state.note_made("ls1").unwrap();
    assert_eq!(state.made(), ["ls0", "ls1"]);
    state.forget("ls1");
    state.forget("ls0");
    assert!(!state.has_made("ls0"));
    assert_eq!(state.address("ls0"), None);
    state.note_address("ls0", [2, 0, 0, 0, 0, 7]).unwrap();
    assert_eq!(state.address("ls0"), Some([2, 0, 0, 0, 0, 7]));
    state.connections("ls0").unwrap();
    for file in ["lock", "address-ls0", "connections-ls0"] {
        assert_eq!(mode(&directory.join(file)), 0o600, "{file}");
    }
}

#[test]
fn the_next_worker_waits_for_the_one_that_is_about_to_end() {
    let scratch = Scratch::new("patience");
    let directory = scratch.path("state");
    let former = open(&directory).unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(former);
    });
    let before = Instant::now();
    State::open(directory.clone(), Duration::from_secs(20)).unwrap();
    assert!(before.elapsed() >= Duration::from_millis(150));
    ends.join().unwrap();
    let held = open(&directory).unwrap();
    let before = Instant::now();
    State::open(directory, Duration::from_millis(100)).unwrap_err();
    assert!(before.elapsed() >= Duration::from_millis(100));
    drop(held);
}

#[test]
fn a_lock_that_was_passed_on_holds_when_its_first_owner_has_ended() {
    let scratch = Scratch::new("inherited");
    let directory = scratch.path("state");
    let first = open(&directory).unwrap();
    let lock = first.lock().try_clone_to_owned().unwrap();
    let second = State::inherited(&directory, lock).unwrap();
    drop(first);
    refusal(&directory);
    second.note_made("ls0").unwrap();
    drop(second);
    assert!(open(&directory).unwrap().has_made("ls0"));
}

#[test]
fn a_path_with_a_symbolic_link_is_refused() {
    let scratch = Scratch::new("link");
    fs::create_dir(scratch.path("real")).unwrap();
    symlink(scratch.path("real"), scratch.path("link")).unwrap();
    for path in ["link", "link/below"] {
        let error = refusal(&scratch.path(path));
        assert!(error.contains("link is a symbolic link"), "{error}");
    }
    assert_eq!(fs::read_dir(scratch.path("real")).unwrap().count(), 0);
}

#[test]
fn a_directory_that_others_can_write_to_is_refused_wherever_it_is() {
    let scratch = Scratch::new("writable");
    let shared = scratch.path("shared");
    fs::create_dir_all(shared.join("below")).unwrap();
    for bits in [0o777, 0o775, 0o1777] {
        set_mode(&shared, bits);
        let error = refusal(&shared);
        assert!(error.contains("others can write"), "{bits:o}: {error}");
    }
    set_mode(&shared, 0o777);
    let error = refusal(&shared.join("below"));
    assert!(error.contains("shared"), "{error}");
    // As in /tmp: nobody else can replace what is in there.
    set_mode(&shared, 0o1777);
    drop(open(&shared.join("below")).unwrap());
    set_mode(&shared.join("below"), 0o1777);
    refusal(&shared.join("below/deep"));
}

#[test]
fn a_directory_of_somebody_elses_is_refused_wherever_it_is() {
    let scratch = Scratch::new("foreign");
    let foreign = scratch.path("foreign");
    fs::create_dir_all(foreign.join("ours")).unwrap();
    if chown(&foreign, Some(12_345), None).is_err() {
        eprintln!("skipped: only root can give a directory away");
        return;
    }
    for path in [foreign.clone(), foreign.join("ours")] {
        let error = refusal(&path);
        assert!(error.contains("belongs to user 12345"), "{error}");
    }
}

#[test]
fn files_that_are_not_ours_alone_are_refused_and_stay_as_they_are() {
    let scratch = Scratch::new("files");
    let (state, theirs) = (scratch.path("state"), scratch.path("theirs"));
    drop(open(&state).unwrap());
    fs::write(&theirs, "precious").unwrap();
    let lock = state.join("lock");
    fs::remove_file(&lock).unwrap();
    symlink(&theirs, &lock).unwrap();
    refusal(&state);
    fs::remove_file(&lock).unwrap();
    fs::hard_link(&theirs, &lock).unwrap();
    let error = refusal(&state);
    assert!(error.contains("2 links"), "{error}");
    fs::remove_file(&lock).unwrap();
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "precious");

    let opened = open(&state).unwrap();
    for name in ["connections-ls0", "made-ls0", "address-ls0"] {
        symlink(&theirs, state.join(name)).unwrap();
    }
    assert!(opened.connections("ls0").is_err());
    assert!(opened.note_made("ls0").is_err());
    assert!(opened.note_address("ls0", [7; 6]).is_err());
    assert!(!opened.has_made("ls0"));
    assert_eq!(opened.address("ls0"), None);
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "precious");
    fs::write(state.join("connections-ls1"), "").unwrap();
    set_mode(&state.join("connections-ls1"), 0o666);
    assert!(opened.connections("ls1").is_err());
    set_mode(&state.join("connections-ls1"), 0o644);
    opened.connections("ls1").unwrap();
    assert_eq!(mode(&state.join("connections-ls1")), 0o600);
}
