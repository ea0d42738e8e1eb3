//! A page that lists a directory.

use std::fmt::Write;
use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, Dir, FileType, statat};

use crate::http::{Target, encode_segment};

/// Entries that are listed at most, each of which has to be looked at.
const MOST_ENTRIES: usize = 10_000;
/// Bytes of a page behind which no entry is listed.
const MOST_BYTES: usize = 1 << 20;

struct Entry {
    name: Vec<u8>,
    directory: bool,
    size: u64,
}

/// The page, entries sorted: directories first, then by name. It says so if there are more than it has room for.
pub(super) fn page(directory: &File, target: &Target) -> io::Result<Vec<u8>> {
    let (mut entries, mut are_all) = read(directory)?;
    entries.sort_by(|a, b| (!a.directory, &a.name).cmp(&(!b.directory, &b.name)));
    let title = escape(&target.display());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>body{{font:1rem/1.6 system-ui,sans-serif;margin:2rem}}td+td{{padding-left:2rem;\
         text-align:right;font-variant-numeric:tabular-nums}}</style>\n<h1>{title}</h1>\n<table>\n"
    );
    if !target.is_root() {
        page.push_str("<tr><td><a href=\"../\">../</a><td>\n");
    }
    let mut listed = 0;
    for entry in &entries {
        if page.len() >= MOST_BYTES {
            are_all = false;
            break;
        }
        listed += 1;
        let name = escape(&String::from_utf8_lossy(&entry.name));
        let link = encode_segment(&entry.name);
        // The `./` keeps a name with a colon from being read as a scheme.
        let _ = match entry.directory {
            true => writeln!(page, "<tr><td><a href=\"./{link}/\">{name}/</a><td>"),
            false => writeln!(
                page,
                "<tr><td><a href=\"./{link}\">{name}</a><td>{}",
                entry.size
            ),
        };
    }
    page.push_str("</table>\n");
    if !are_all {
        let _ = writeln!(
            page,
            "<p>{listed} entries are listed, and there are more; those can be asked for by name."
        );
    }
    page.push_str("</html>\n");
    Ok(page.into_bytes())
}

/// Files and directories that can be followed, and whether they are all; whatever can't be looked at is left out.
fn read(directory: &File) -> io::Result<(Vec<Entry>, bool)> {
    let mut entries = Vec::new();
    for (nth, entry) in Dir::read_from(directory)?.enumerate() {
        let entry = entry?;
        // The directory itself and the one above it are among them.
        if nth >= MOST_ENTRIES + 2 {
            return Ok((entries, false));
        }
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let Ok(status) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let kind = FileType::from_raw_mode(status.st_mode);
        if matches!(kind, FileType::RegularFile | FileType::Directory) {
            entries.push(Entry {
                name: name.to_bytes().to_vec(),
                directory: kind == FileType::Directory,
                size: status.st_size as u64,
            });
        }
    }
    Ok((entries, true))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
