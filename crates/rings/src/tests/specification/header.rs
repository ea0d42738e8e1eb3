//! The C header.

use std::fmt::Write;

use nic::Features;
use nic::ring::layout::{Field, Kind, Layout, constants, layouts};

use crate::message::{IDENTITY, REFUSALS, REQUESTS, SET_UP_WORDS};
use crate::{Refusal, VERSION};

pub(super) fn text() -> String {
    let mut text = String::from(BEGINNING);
    number(&mut text, "VERSION", VERSION);
    for (name, bit) in Features::NAMES {
        writeln!(
            text,
            "#define LONGSHORE_FEATURE_{} {:#x}u",
            upper(name),
            bit.bits()
        )
        .unwrap();
    }
    messages(&mut text);
    let [parts, send, receive, image] = layouts();
    for (comment, group) in [
        ("What slots consist of.", parts),
        ("Slots of the send and command ring.", send),
        ("Slots of the receive ring.", receive),
        ("What commands name in memory.", image),
    ] {
        writeln!(text, "\n/* {comment} */").unwrap();
        for layout in &group {
            structure(&mut text, layout);
        }
    }
    for (group, names) in constants() {
        text.push('\n');
        for (name, value) in names {
            number(
                &mut text,
                &format!("{}_{}", upper(group), upper(&name)),
                value.into(),
            );
        }
    }
    text + "\n#endif\n"
}

const BEGINNING: &str = "\
/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface between host and NIC, as docs/device.md specifies it. A test of the project keeps this file as the code is.
 * Numbers are in the byte order of the machine, but for those of packed structs, which are little endian.
 */
#ifndef LONGSHORE_H
#define LONGSHORE_H

#ifdef __KERNEL__
#include <linux/stddef.h>
#include <linux/types.h>
#else
#include <stddef.h>
#include <stdint.h>
#endif

/* A ring in the block: indices, then slots; each index and the slots begin a line of their own. */
#define LONGSHORE_LINE 128
#define LONGSHORE_RING_TAIL 0
#define LONGSHORE_RING_HEAD 128
#define LONGSHORE_RING_ASLEEP 256
#define LONGSHORE_RING_SLOTS 384
#define LONGSHORE_SEND_SLOT 192
#define LONGSHORE_RECEIVE_SLOT 64
#define LONGSHORE_FILL_SLOT 16

/* No context. */
#define LONGSHORE_NO_CONTEXT 0xffffffffu
/* Continuation slots that may follow a descriptor. */
#define LONGSHORE_MAX_CONTINUATIONS 3

/* Messages: what word 0 has in its upper half, and the version in its lower; bytes of a request and of an answer. */
#define LONGSHORE_MAGIC 0x6c6e7372u
#define LONGSHORE_REQUEST_BYTES 128
#define LONGSHORE_ANSWER_BYTES 32
";

/// Words of messages, and the numbers in them.
fn messages(text: &mut String) {
    for (group, names, first) in [
        ("REQUEST", &REQUESTS[..], 1),
        ("SET_UP", &SET_UP_WORDS[..], 2),
        ("IDENTITY", &IDENTITY[..], 0),
        ("REFUSED", &REFUSALS[..], 1),
    ] {
        text.push('\n');
        for (at, name) in (first..).zip(names) {
            number(text, &format!("{group}_{}", upper(name)), at);
        }
    }
    assert_eq!(REFUSALS.len(), Refusal::ALL.len());
}

fn number(text: &mut String, name: &str, value: u32) {
    writeln!(text, "#define LONGSHORE_{name} {value}").unwrap();
}

fn structure(text: &mut String, layout: &Layout) {
    let name = lower(layout.name);
    writeln!(text, "\n/* {} */", layout.about.trim()).unwrap();
    if layout.opcode != 0 {
        number(
            text,
            &format!("OPCODE_{}", upper(layout.name)),
            layout.opcode.into(),
        );
    }
    for flag in layout.flags {
        number(
            text,
            &format!("{}_{}", upper(layout.name), flag.name),
            flag.value.into(),
        );
    }
    writeln!(text, "struct longshore_{name} {{").unwrap();
    for field in layout.fields {
        declaration(text, field);
    }
    let packed = match is_aligned(layout) {
        true => "",
        false => " __attribute__((packed))",
    };
    writeln!(text, "}}{packed};").unwrap();
    writeln!(
        text,
        "_Static_assert(sizeof(struct longshore_{name}) == {}, \"size\");",
        layout.size
    )
    .unwrap();
    for field in layout.fields.iter().filter(|field| !field.is_reserved()) {
        writeln!(
            text,
            "_Static_assert(offsetof(struct longshore_{name}, {}) == {}, \"{}\");",
            field.name, field.offset, field.name
        )
        .unwrap();
    }
}

fn declaration(text: &mut String, field: &Field) {
    let kind = match field.kind {
        Kind::Number(bytes) => format!("uint{}_t", bytes * 8),
        Kind::Struct(layout) => format!("struct longshore_{}", lower(layout.name)),
    };
    let name = match field.is_reserved() {
        true => format!("reserved{}", &field.name[1..]),
        false => field.name.to_owned(),
    };
    let count = field
        .count
        .map_or(String::new(), |count| format!("[{count}]"));
    write!(text, "    {kind} {name}{count};").unwrap();
    match field.about.trim() {
        "" => text.push('\n'),
        about => writeln!(text, " /* {about} */").unwrap(),
    }
}

/// Whether a compiler puts the fields where they are by itself.
fn is_aligned(layout: &Layout) -> bool {
    let most = layout.fields.iter().map(alignment).max().unwrap_or(1);
    let mut fields = layout.fields.iter();
    fields.all(|field| field.offset.is_multiple_of(alignment(field)))
        && layout.size.is_multiple_of(most)
}

fn alignment(field: &Field) -> usize {
    match field.kind {
        Kind::Number(bytes) => bytes,
        Kind::Struct(layout) => layout.fields.iter().map(alignment).max().unwrap_or(1),
    }
}

fn upper(name: &str) -> String {
    lower(name).to_uppercase()
}

/// `CreateContext` as `create_context`.
fn lower(name: &str) -> String {
    let mut lower = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if letter.is_uppercase() && was_lower {
            lower.push('_');
        }
        was_lower = letter.is_lowercase() || letter.is_ascii_digit();
        lower.extend(letter.to_lowercase());
    }
    lower
}
