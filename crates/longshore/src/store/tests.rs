use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path =
            std::env::temp_dir().join(format!("longshore-store-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root/sub")).unwrap();
        fs::create_dir_all(path.join("root/indexed")).unwrap();
        fs::write(path.join("secret"), "secret").unwrap();
        fs::write(path.join("root/a b<.txt"), "hello").unwrap();
        fs::write(path.join("root/sub/page.html"), "<p>").unwrap();
        fs::write(path.join("root/indexed/index.html"), "index").unwrap();
        symlink("sub/page.html", path.join("root/inside")).unwrap();
        symlink("../secret", path.join("root/outside")).unwrap();
        symlink("/etc/passwd", path.join("root/absolute")).unwrap();
        symlink("..", path.join("root/up")).unwrap();
        Scratch(path)
    }

    fn store(&self) -> Store {
        Store::open(&self.0.join("root")).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn find(store: &Store, path: &str) -> Result<Found, Status> {
    store.find(&Target::parse(path).expect("a target"))
}

#[test]
fn files_directories_and_indexes_are_found() {
    let scratch = Scratch::new("found");
    let store = scratch.store();
    let Ok(Found::File(file)) = find(&store, "/a%20b%3C.txt") else {
        panic!("no file")
    };
    assert_eq!(file.content.size, 5);
    assert_eq!(file.content.media_type, "text/plain; charset=utf-8");
    let Ok(Found::File(index)) = find(&store, "/indexed/") else {
        panic!("no index")
    };
    assert_eq!(index.content.media_type, "text/html; charset=utf-8");
    assert!(matches!(find(&store, "/sub"), Ok(Found::Redirect(to)) if to == "/sub/"));
    let Ok(Found::Listing(page)) = find(&store, "/") else {
        panic!("no listing")
    };
    let page = String::from_utf8(page).unwrap();
    assert!(page.contains("<a href=\"./a%20b%3C.txt\">a b&lt;.txt</a><td>5"));
    assert!(page.contains("<a href=\"./sub/\">sub/</a>"));
    assert!(!page.contains("outside"));
}

/// A page is made at once, and waits in memory.
#[test]
fn a_listing_is_bounded_and_says_so() {
    let scratch = Scratch::new("many");
    let listed = |count: usize, name: &dyn Fn(usize) -> String| {
        let directory = scratch.0.join("root/many");
        fs::create_dir(&directory).unwrap();
        for nth in 0..count {
            fs::write(directory.join(name(nth)), "").unwrap();
        }
        let Ok(Found::Listing(page)) = find(&scratch.store(), "/many/") else {
            panic!("no listing")
        };
        fs::remove_dir_all(&directory).unwrap();
        let page = String::from_utf8(page).unwrap();
        let rows = page.matches("<tr>").count() - 1;
        let more = format!("<p>{rows} entries are listed, and there are more");
        (rows, page.contains(&more), page.len())
    };
    let short = |nth: usize| nth.to_string();
    let (rows, are_more, _) = listed(10_000, &short);
    assert_eq!((rows, are_more), (10_000, false));
    let (rows, are_more, _) = listed(10_100, &short);
    assert_eq!((rows, are_more), (10_000, true));
    // Each is `&quot;` on the page, and `%22` in the link.
    let long = |nth: usize| format!("{nth:04}{}", "\"".repeat(240));
    let (rows, are_more, len) = listed(1000, &long);
    assert!(are_more && rows < 1000 && len < 1_100_000, "{rows}, {len}");
}

#[test]
fn what_is_not_there_is_not_found() {
    let scratch = Scratch::new("missing");
    let store = scratch.store();
    for path in ["/none", "/a%20b%3C.txt/", "/a%20b%3C.txt/x", "/sub/none"] {
        assert_eq!(find(&store, path).unwrap_err(), Status::NOT_FOUND, "{path}");
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        scratch.0.join("root/fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert_eq!(find(&store, "/fifo").unwrap_err(), Status::NOT_FOUND);
}

#[test]
fn links_lead_nowhere_outside() {
    let scratch = Scratch::new("links");
    let store = scratch.store();
    for path in [
        "/outside",
        "/absolute",
        "/up/secret",
        "/up/root/a%20b%3C.txt",
    ] {
        assert_eq!(find(&store, path).unwrap_err(), Status::NOT_FOUND, "{path}");
    }
    let careful = Store {
        opener: open::Opener::NoLinks,
        ..scratch.store()
    };
    for path in ["/outside", "/absolute", "/up/secret", "/inside"] {
        assert_eq!(
            find(&careful, path).unwrap_err(),
            Status::NOT_FOUND,
            "{path}"
        );
    }
    assert!(matches!(
        find(&careful, "/sub/page.html"),
        Ok(Found::File(_))
    ));
    if store.opener == open::Opener::Beneath {
        assert!(matches!(find(&store, "/inside"), Ok(Found::File(_))));
    }
}

#[test]
fn a_missing_root_is_an_error() {
    assert!(Store::open(Path::new("/nonexistent/root")).is_err());
}

#[test]
fn a_changed_file_has_another_tag() {
    let scratch = Scratch::new("tags");
    let store = scratch.store();
    let tag = |path| match find(&store, path) {
        Ok(Found::File(file)) => file.content.validators.tag,
        other => panic!("{other:?}"),
    };
    let before = tag("/sub/page.html");
    assert_eq!(before, tag("/sub/page.html"));
    fs::write(scratch.0.join("root/sub/page.html"), "<p>more").unwrap();
    assert_ne!(before, tag("/sub/page.html"));
}
